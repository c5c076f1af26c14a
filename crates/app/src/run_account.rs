//! The common cost limit of all runs that one MCP server starts: without it, a client could launch run after run, each
//! with its own budget. The engine makes no model call that the limit does not allow. Once the limit is reached, no
//! further run is started, and a running run is cancelled if other runs have spent something since it was started.

use althing_engine::{CostAccount, OnRefusal};
use althing_protocol::{EventStream, SessionId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct RunAccount {
    common: Option<Arc<CostAccount>>,
    /// The running runs, and what the other runs had cost in US dollars when each was started; a run's own limit is what
    /// was left then.
    running: Mutex<BTreeMap<SessionId, f64>>,
}

impl RunAccount {
    /// The limit is in millionths of a US dollar.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        let account = |limit: u64| Arc::new(CostAccount::new(limit as f64 / 1e6, OnRefusal::EndRun));
        Self { common: limit.map(account), running: Mutex::default() }
    }

    /// The account from which the sessions of the runs reserve; `None` without a limit.
    pub(crate) fn common(&self) -> Option<Arc<CostAccount>> {
        self.common.clone()
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<SessionId, f64>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the next run may cost, in millionths of a US dollar; `None` without a limit.
    pub(crate) fn left(&self) -> Option<u64> {
        let left =
            |account: &Arc<CostAccount>| ((account.limit_usd() - account.spent_usd()) * 1e6).floor() as u64;
        self.common.as_ref().map(left)
    }

    pub(crate) fn problem(&self) -> Option<String> {
        let account = self.common.as_ref().filter(|_| self.left() == Some(0))?;
        Some(format!(
            "no further run is started: the runs of this server have cost ${:.4}, and the limit for all of them \
             together (`--max-cost` or `budget_usd`) is ${:.4}",
            account.spent_usd(),
            account.limit_usd()
        ))
    }

    /// The running runs that have to be cancelled: the limit is reached, and their own limits are too high, because
    /// other runs have spent something since they were started.
    fn too_expensive(&self) -> Vec<SessionId> {
        let Some(account) = self.common.as_ref().filter(|_| self.left() == Some(0)) else {
            return Vec::new();
        };
        let total = account.spent_usd();
        let by_others = |id: &SessionId, at_start: f64| total - account.spent_by(id) - at_start;
        let is_too_expensive = |(id, at_start): &(&SessionId, &f64)| by_others(id, **at_start) * 1e6 >= 1.0;
        self.running().iter().filter(is_too_expensive).map(|(id, _)| id.clone()).collect()
    }

    /// Must be called when the run has just been started.
    pub(crate) fn add(&self, id: &SessionId) {
        if let Some(account) = &self.common {
            let others = account.spent_usd() - account.spent_by(id);
            self.running().insert(id.clone(), others);
        }
    }

    pub(crate) async fn watch(
        &self,
        id: SessionId,
        mut events: Box<dyn EventStream>,
        cancel: impl Fn(&SessionId) + Send,
    ) {
        while let Some(Ok(_)) = events.next().await {
            self.too_expensive().iter().for_each(&cancel);
        }
        self.running().remove(&id);
    }
}
