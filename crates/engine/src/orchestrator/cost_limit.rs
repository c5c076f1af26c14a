//! The cost limit of a run, counted before a model call is made: a call whose input alone would exceed the limit is not
//! made.
//!
//! Before a call, only its least cost is known: that of its input, without a discount for cached input. The least costs
//! of the calls that are still running count too, because their replies will cost at least as much. What cannot be known
//! before a call (the cost of a CLI agent, or of a model without a price) is counted after the call.

use super::effects::EffectId;
use super::session::Session;
use althing_protocol::{Backend, BackendError, BackendErrorKind, ModelRequest, TaskId, Usage};
use std::collections::HashMap;

/// The least costs of the running calls, in US dollars.
#[derive(Default)]
pub(super) struct ReservedCosts(HashMap<EffectId, f64>);

impl ReservedCosts {
    /// The sum over the calls of a task that are still running.
    fn of(&self, owner: &TaskId, is_running: impl Fn(&EffectId) -> bool) -> f64 {
        let running = self.0.iter().filter(|(id, _)| id.owner == *owner && is_running(id));
        running.map(|(_, cost)| cost).sum()
    }
}

impl Session {
    /// Reserves the least cost of a call. If it exceeds what is left of the task's cost limit, returns the error with
    /// which the call ends instead of being made.
    pub(super) fn reserve_cost(
        &mut self,
        id: &EffectId,
        backend: &dyn Backend,
        request: &ModelRequest,
    ) -> Result<(), BackendError> {
        let Some(left) = self.deciders.get(&id.owner).and_then(|decider| decider.cost_left_usd()) else {
            return Ok(());
        };
        let Some(least) = backend.least_cost_usd(request).filter(|least| *least > 0.0) else { return Ok(()) };
        let effects = &self.effects;
        self.reserved.0.retain(|id, _| effects.is_running(id));
        let reserved = self.reserved.of(&id.owner, |id| effects.is_running(id));
        if reserved + least > left {
            return Err(refusal(&backend.info().model, least, (left - reserved).max(0.0)));
        }
        self.reserved.0.insert(id.clone(), least);
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
