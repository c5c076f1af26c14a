//! A cost limit that several sessions share: all runs of an evaluation, or all runs that an MCP server starts. Each
//! session reports what it has spent and what its running calls cost at least, and asks before each further call.

use althing_protocol::SessionId;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a session does with a call that the common limit does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRefusal {
    /// The run ends with what it has, as at its own limit.
    EndRun,
    /// The session stops once its running calls have ended. It can be resumed.
    StopSession,
}

/// The costs of a session, in US dollars.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SessionCosts {
    pub(super) spent: f64,
    /// The least costs of the running calls.
    pub(super) reserved: f64,
}

/// The common account of several sessions. Amounts are in US dollars.
#[derive(Debug)]
pub struct CostAccount {
    limit: f64,
    on_refusal: OnRefusal,
    state: Mutex<AccountState>,
}

#[derive(Debug, Default)]
struct AccountState {
    sessions: BTreeMap<SessionId, SessionCosts>,
    has_refused: bool,
}

impl AccountState {
    fn sum(&self, part: impl Fn(&SessionCosts) -> f64) -> f64 {
        self.sessions.values().map(part).sum()
    }
}

impl CostAccount {
    /// An account from which nothing has been spent.
    pub fn new(limit_usd: f64, on_refusal: OnRefusal) -> Self {
        Self { limit: limit_usd, on_refusal, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, AccountState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit of all sessions together.
    pub fn limit_usd(&self) -> f64 {
        self.limit
    }

    /// What a session does with a call that the limit does not allow.
    pub fn on_refusal(&self) -> OnRefusal {
        self.on_refusal
    }

    /// Adds the recorded costs of a session that may not be opened again. A session that is opened reports its costs
    /// itself.
    pub fn add_recorded(&self, session: &SessionId, spent_usd: f64) {
        self.update(session, SessionCosts { spent: amount(spent_usd), reserved: 0.0 });
    }

    /// What all sessions have spent.
    pub fn spent_usd(&self) -> f64 {
        self.state().sum(|session| session.spent)
    }

    /// What a session has spent.
    pub fn spent_by(&self, session: &SessionId) -> f64 {
        self.state().sessions.get(session).map_or(0.0, |session| session.spent)
    }

    /// Whether the sessions have spent all that they may.
    pub fn is_used_up(&self) -> bool {
        self.spent_usd() >= self.limit
    }

    /// Whether a call was not made because of the limit.
    pub fn has_refused(&self) -> bool {
        self.state().has_refused
    }

    pub(super) fn update(&self, session: &SessionId, costs: SessionCosts) {
        self.state().sessions.insert(session.clone(), costs);
    }

    /// Reserves the least cost of a call. If the limit does not allow it, returns what is left.
    pub(super) fn reserve(&self, session: &SessionId, costs: SessionCosts, least: f64) -> Result<(), f64> {
        let mut state = self.state();
        state.sessions.insert(session.clone(), costs);
        let left = self.limit - state.sum(|session| session.spent + session.reserved);
        // A call whose cost is not known in advance is made as long as anything is left.
        if least > left || left <= 0.0 {
            state.has_refused = true;
            return Err(left.max(0.0));
        }
        let reserved = costs.reserved + least;
        state.sessions.insert(session.clone(), SessionCosts { reserved, ..costs });
        Ok(())
    }
}

/// A CLI agent could report any number as its cost.
pub(super) fn amount(cost_usd: f64) -> f64 {
    if cost_usd.is_finite() { cost_usd.max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    //! Tests of the common account.

    use super::{CostAccount, OnRefusal, SessionCosts};
    use althing_protocol::SessionId;

    fn micro(usd: f64) -> u64 {
        (usd * 1e6).round() as u64
    }

    #[test]
    fn what_other_sessions_spend_and_reserve_counts_before_a_call() {
        let account = CostAccount::new(5.0, OnRefusal::StopSession);
        let (one, other) = (SessionId::new("s1"), SessionId::new("s2"));
        account.add_recorded(&one, 2.0);
        let nothing = SessionCosts::default();
        assert_eq!(account.reserve(&other, nothing, 2.0), Ok(()));
        let first = SessionCosts { spent: 2.0, reserved: 0.0 };
        assert_eq!(account.reserve(&one, first, 1.5), Err(1.0));
        assert!(account.has_refused() && !account.is_used_up());
        assert_eq!(account.reserve(&one, first, 1.0), Ok(()));
        assert_eq!(account.reserve(&one, SessionCosts { spent: 3.0, ..nothing }, 0.0), Err(0.0));
        // A reservation that ended cheaper than expected leaves room again.
        account.update(&other, SessionCosts { spent: 1.5, reserved: 0.0 });
        assert_eq!(account.reserve(&one, SessionCosts { spent: 3.0, ..nothing }, 0.5), Ok(()));
        assert_eq!((micro(account.spent_usd()), micro(account.spent_by(&one))), (4_500_000, 3_000_000));
    }

    #[test]
    fn costs_that_are_no_numbers_count_as_nothing() {
        let account = CostAccount::new(1.0, OnRefusal::EndRun);
        for (session, cost) in [("a", f64::NAN), ("b", f64::INFINITY), ("c", -3.0), ("d", 0.25)] {
            account.add_recorded(&SessionId::new(session), cost);
        }
        assert_eq!(micro(account.spent_usd()), 250_000);
    }
}
