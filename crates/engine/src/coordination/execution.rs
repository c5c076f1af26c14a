//! The run that executes a planning run's plan, if the planning run's spec has an `execution`. The planning run starts
//! it at most once, and is over only when the executing run has ended or will not start.

use super::{Consequence, Coordination};
use crate::launch;
use althing_protocol::{Fact, RunResult, RunStatus, TaskSpec, Verdict};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Execution {
    /// Not started, or not requested.
    Due,
    Running,
    Ended(RunStatus),
}

impl Execution {
    pub(super) fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::TaskCreated { .. } => *self = Self::Running,
            Fact::Decided(Verdict::Finished { result, .. }) => *self = Self::Ended(result.status),
            _ => {}
        }
    }
}

impl Coordination {
    /// The id of the run that will execute the plan, or None if no execution was requested or the planning run did not
    /// complete.
    pub(super) fn follow_up(&self, status: RunStatus) -> Option<String> {
        let asked = self.state.spec.execution.is_some() && status == RunStatus::Completed;
        asked.then(|| format!("{}.{}", self.session, self.task.execution()))
    }

    pub(super) fn start_execution(&self, planned: &RunResult) -> Option<Consequence> {
        let is_due = planned.follow_up.is_some() && self.state.execution == Execution::Due;
        if !is_due || self.state.cancelled || self.state.halted {
            return None;
        }
        let execution = (**self.state.spec.execution.as_ref()?).clone();
        let mut execution = launch::execution_run(execution, planned);
        // The cost limit applies to both runs together.
        let spent = (self.state.usage.cost_usd * 1e6).ceil() as u64;
        let left = self.state.spec.rules.limits.cost_micro_usd.map(|most| most.saturating_sub(spent));
        let limits = &mut execution.rules.limits;
        limits.cost_micro_usd = limits.cost_micro_usd.into_iter().chain(left).min();
        let (id, spec) = (self.task.execution(), TaskSpec::Run(Box::new(execution)));
        Some((id.clone(), Fact::TaskCreated { id, parent: self.parent.clone(), spec }))
    }

    /// The status of the planning run if no execution follows, else that of the executing run; None until it is known.
    pub(super) fn overall_status(&self, planned: &RunResult) -> Option<RunStatus> {
        match self.state.execution {
            _ if planned.follow_up.is_none() => Some(planned.status),
            Execution::Ended(status) => Some(status),
            Execution::Due if self.state.cancelled => Some(RunStatus::Cancelled),
            Execution::Due | Execution::Running => None,
        }
    }

    /// Whether the run has ended, and the run that executes its plan has ended or will not start.
    pub fn is_over(&self) -> bool {
        self.result().is_some_and(|result| self.overall_status(result).is_some())
    }
}
