//! Retries of failed tasks of a workflow. A program gets another attempt; a run gets a new task, because its files,
//! answers and costs belong to the old one.

use super::WorkflowExecutor;
use super::session::{StageTaskState, WorkflowSession};
use althing_protocol::{Op, TaskId, TaskStatus, TurnProgress};

impl WorkflowSession {
    /// The task that stands for a task of the workflow file: the newest retry, if there is one.
    pub(super) fn current_task(&self, name: &str) -> TaskId {
        let task = self.task.stage_task(name);
        match self.run_retries.get(&task) {
            Some(retries) => task.retry(retries + 1),
            None => task,
        }
    }

    /// Returns the name in the workflow file and the state, or why the task cannot be retried.
    fn retryable(&self, task: &TaskId) -> Result<(&str, &StageTaskState), String> {
        let first = task.without_retry();
        let known = self.spec.stages.iter().flat_map(|stage| &stage.tasks);
        let name = known.map(|task| task.id.as_str()).find(|name| self.task.stage_task(name) == first);
        let Some(name) = name else { return Err(format!("{task} is not a task of the workflow")) };
        match self.tasks.get(&self.current_task(name)) {
            _ if self.cancelled => Err("the workflow was cancelled".to_owned()),
            Some(state) if matches!(state.status, TaskStatus::Failed | TaskStatus::Cancelled) => {
                self.cost_problem().map_or(Ok((name, state)), Err)
            }
            _ => Err(format!("{task} has not failed: only a failed or cancelled task can be retried")),
        }
    }

    /// Folds a retry into the state. If the workflow has ended, it continues.
    pub(super) fn retry(&mut self, task: &TaskId) {
        let Ok((name, state)) = self.retryable(task) else { return };
        let (id, first, is_run) =
            (self.current_task(name), self.task.stage_task(name), state.program.is_none());
        if is_run {
            *self.run_retries.entry(first).or_default() += 1;
        } else if let Some(state) = self.tasks.get_mut(&id) {
            state.start_over();
        }
        self.halted = false;
        if self.status.is_final() {
            self.status = TaskStatus::Interrupted;
        }
    }
}

impl StageTaskState {
    /// Resets the task; its program begins a new conversation.
    fn start_over(&mut self) {
        self.status = TaskStatus::Pending;
        (self.cancelled, self.expired, self.suspended, self.restart_approved) = (false, false, false, false);
        (self.end, self.warning, self.conversation) = (None, None, None);
        self.turn = TurnProgress::NotBegun;
    }
}

impl WorkflowExecutor {
    pub(super) fn refusal(&self, op: &Op) -> Option<String> {
        match op {
            Op::Retry { task } => self.session.retryable(task).err(),
            _ => None,
        }
    }
}
