//! Checks two cost limits before a model call, that of a run (`--max-cost`) and the one that several sessions share: a
//! call whose input alone would exceed a limit is not made. What a run has spent is checked in `coordination::rules`,
//! the budget of a conversation in `interactive::budget`.
//!
//! Before a call, only its least cost is known: that of its input, without a discount for cached input. The least costs
//! of the calls that are still running count too, because their replies will cost at least as much. What cannot be
//! known before a call (the cost of a CLI agent, or of a model without a price) is counted after the call.

use super::cost_account::{OnRefusal, SessionCosts, amount};
use super::effects::EffectId;
use super::session::Session;
use althing_protocol::{Backend, BackendError, BackendErrorKind, Fact, Item, ModelRequest, TaskId, Usage};
use std::collections::HashMap;

/// In US dollars.
#[derive(Default)]
pub(super) struct Costs {
    /// The least costs of the running calls.
    reserved: HashMap<EffectId, f64>,
    spent: f64,
    /// Whether a wanted call was not started, because the limit of several sessions does not allow it.
    pub(super) is_stopped: bool,
}

impl Costs {
    pub(super) fn count(&mut self, fact: &Fact) {
        let usage = match fact {
            Fact::ItemAdded { item: Item::Reply(reply), .. } => &reply.usage,
            Fact::AttemptEnded { outcome, usage, .. } if outcome.has_own_usage() => usage,
            _ => return,
        };
        self.spent += amount(usage.cost_usd);
    }

    fn reserved_by(&self, owner: &TaskId) -> f64 {
        self.reserved.iter().filter(|(id, _)| id.owner == *owner).map(|(_, cost)| cost).sum()
    }

    fn sums(&self) -> SessionCosts {
        SessionCosts { spent: self.spent, reserved: self.reserved.values().sum() }
    }
}

/// What happens instead of a call that is not made.
pub(super) enum Refusal {
    /// The call ends with this error.
    Call(BackendError),
    /// The session stops.
    Session,
}

impl Session {
    /// Must be called before the facts of ended calls are published, so that a reader who sees a result finds its cost
    /// in the account.
    pub(super) fn report_costs(&mut self) {
        let effects = &self.effects;
        self.costs.reserved.retain(|id, _| effects.is_running(id));
        if let Some(account) = &self.deps.account {
            account.update(&self.deps.session, self.costs.sums());
        }
    }

    /// Reserves the least cost of a call. If it exceeds what is left of the task's cost limit or of the account,
    /// returns what happens instead of the call.
    pub(super) fn reserve_cost(
        &mut self,
        id: &EffectId,
        backend: &dyn Backend,
        request: &ModelRequest,
    ) -> Result<(), Refusal> {
        let left = self.deciders.get(&id.owner).and_then(|decider| decider.cost_left_usd());
        if left.is_none() && self.deps.account.is_none() {
            return Ok(());
        }
        let least = backend.least_cost_usd(request).map_or(0.0, |least| least.max(0.0));
        let effects = &self.effects;
        self.costs.reserved.retain(|id, _| effects.is_running(id));
        let refused = |left: f64| Refusal::Call(refusal(&backend.info().model, least, left.max(0.0)));
        let left = left.map(|left| left - self.costs.reserved_by(&id.owner));
        if let Some(left) = left.filter(|left| least > 0.0 && least > *left) {
            return Err(refused(left));
        }
        if let Some(account) = &self.deps.account
            && let Err(left) = account.reserve(&self.deps.session, self.costs.sums(), least)
        {
            return Err(match account.on_refusal() {
                OnRefusal::EndRun => refused(left),
                OnRefusal::StopSession => Refusal::Session,
            });
        }
        if least > 0.0 {
            self.costs.reserved.insert(id.clone(), least);
        }
        Ok(())
    }
}

fn refusal(model: &str, least: f64, left: f64) -> BackendError {
    BackendError {
        kind: BackendErrorKind::CostLimit,
        message: format!(
            "a call of {model} was not made: its input alone costs about ${least:.4}, and ${left:.4} of the cost \
             limit is left"
        ),
        hint: Some("raise the limit: `--max-cost`, or `budget_usd` of a conversation".into()),
        usage: Usage::default(),
    }
}
