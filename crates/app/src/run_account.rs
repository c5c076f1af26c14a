//! The common cost limit of all runs that one MCP server starts: without it, a client could launch run after run,
//! each with its own budget.

use althing_protocol::{Event, EventStream, FeedItem, SessionId};
use althing_view::SessionView;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct RunAccount {
    /// In millionths of a US dollar.
    limit: Option<u64>,
    runs: Mutex<BTreeMap<SessionId, RunCost>>,
}

/// Amounts are in US dollars.
#[derive(Clone, Copy, Debug)]
struct RunCost {
    cost: f64,
    /// What the other runs had cost when this run was started; the run's own limit is what was left then.
    others_at_start: f64,
    is_running: bool,
}

fn sum(runs: &BTreeMap<SessionId, RunCost>) -> f64 {
    runs.values().map(|run| run.cost).sum()
}

fn cost_of(view: &SessionView) -> f64 {
    let cost = view.usage().cost_usd;
    // A CLI agent could report anything.
    if cost.is_finite() { cost.max(0.0) } else { 0.0 }
}

impl RunAccount {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { limit, runs: Mutex::default() }
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<SessionId, RunCost>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// What the next run may cost, in millionths of a US dollar; `None` without a limit.
    pub(crate) fn left(&self) -> Option<u64> {
        let spent = (sum(&self.runs()) * 1e6).ceil() as u64;
        self.limit.map(|limit| limit.saturating_sub(spent))
    }

    pub(crate) fn problem(&self) -> Option<String> {
        let limit = self.limit.filter(|_| self.left() == Some(0))?;
        Some(format!(
            "no further run is started: the runs of this server have cost ${:.4}, and the limit for all of them \
             together (`--max-cost` or `budget_usd`) is ${:.4}",
            sum(&self.runs()),
            limit as f64 / 1e6
        ))
    }

    pub(crate) fn add(&self, id: &SessionId) {
        let mut runs = self.runs();
        let run = RunCost { cost: 0.0, others_at_start: sum(&runs), is_running: true };
        runs.insert(id.clone(), run);
    }

    pub(crate) fn running(&self) -> Vec<SessionId> {
        let runs = self.runs();
        runs.iter().filter(|(_, run)| run.is_running).map(|(id, _)| id.clone()).collect()
    }

    pub(crate) fn settle(&self, id: &SessionId, events: &[Arc<Event>]) {
        let mut view = SessionView::without_transcript();
        for event in events {
            view.apply(&FeedItem::Event(event.clone()));
        }
        self.set(id, &view, true);
    }

    fn set(&self, id: &SessionId, view: &SessionView, is_running: bool) {
        if let Some(run) = self.runs().get_mut(id) {
            (run.cost, run.is_running) = (run.cost.max(cost_of(view)), run.is_running && is_running);
        }
    }

    /// The running runs that have to be cancelled: the limit is reached, and their own limits are too high, because
    /// other runs have spent something since they were started.
    fn too_expensive(&self) -> Vec<SessionId> {
        if self.left() != Some(0) {
            return Vec::new();
        }
        let runs = self.runs();
        let total = sum(&runs);
        let is_too_expensive = |run: &RunCost| {
            let by_others = total - run.cost - run.others_at_start;
            run.is_running && by_others * 1e6 >= 1.0
        };
        runs.iter().filter(|(_, run)| is_too_expensive(run)).map(|(id, _)| id.clone()).collect()
    }

    pub(crate) async fn watch(
        &self,
        id: SessionId,
        mut events: Box<dyn EventStream>,
        cancel: impl Fn(&SessionId) + Send,
    ) {
        let mut view = SessionView::without_transcript();
        while let Some(Ok(item)) = events.next().await {
            view.apply(&item);
            self.set(&id, &view, true);
            self.too_expensive().iter().for_each(&cancel);
        }
        self.set(&id, &view, false);
    }
}
