//! The run that carries out the plan of a planning run. The planning run starts it, exactly once, and its task is over
//! when that run is.

use super::{Consequence, Coordination};
use crate::launch;
use althing_protocol::{Fact, RunResult, RunStatus, TaskSpec, Verdict};

/// How far the run is that carries out the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Execution {
    /// It has not been started.
    Due,
    /// It is under way.
    Running,
    /// It has ended.
    Ended(RunStatus),
}

impl Execution {
    /// Folds a fact of that run.
    pub(super) fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::TaskCreated { .. } => *self = Self::Running,
            Fact::Decided(Verdict::Finished { result, .. }) => *self = Self::Ended(result.status),
            _ => {}
        }
    }
}

impl Coordination {
    /// The id of the run that is to carry out the plan, as results name it; None where there is no plan or nobody asked.
    pub(super) fn follow_up(&self, status: RunStatus) -> Option<String> {
        let asked = self.state.spec.execution.is_some() && status == RunStatus::Completed;
        asked.then(|| format!("{}.{}", self.session, self.task.execution()))
    }

    /// The fact that starts the run that carries out the plan, where that is due.
    pub(super) fn start_execution(&self, planned: &RunResult) -> Option<Consequence> {
        let is_due = planned.follow_up.is_some() && self.state.execution == Execution::Due;
        if !is_due || self.state.cancelled || self.state.halted {
            return None;
        }
        let execution = (**self.state.spec.execution.as_ref()?).clone();
        let mut execution = launch::execution_run(execution, planned);
        // Both runs together may cost what one may.
        let spent = (self.state.usage.cost_usd * 1e6).ceil() as u64;
        let left = self.state.spec.rules.limits.cost_micro_usd.map(|most| most.saturating_sub(spent));
        let limits = &mut execution.rules.limits;
        limits.cost_micro_usd = limits.cost_micro_usd.into_iter().chain(left).min();
        let (id, spec) = (self.task.execution(), TaskSpec::Run(Box::new(execution)));
        Some((id.clone(), Fact::TaskCreated { id, parent: self.parent.clone(), spec }))
    }

    /// How the whole ended: the planning run, or the run that carried out its plan. None while that is under way.
    pub(super) fn overall_status(&self, planned: &RunResult) -> Option<RunStatus> {
        match self.state.execution {
            _ if planned.follow_up.is_none() => Some(planned.status),
            Execution::Ended(status) => Some(status),
            Execution::Due if self.state.cancelled => Some(RunStatus::Cancelled),
            Execution::Due | Execution::Running => None,
        }
    }

    /// Whether nothing more will happen: the run has its result, and so has the run that carries out its plan.
    pub fn is_over(&self) -> bool {
        self.result().is_some_and(|result| self.overall_status(result).is_some())
    }
}
