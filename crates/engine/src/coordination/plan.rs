//! How far the plan is that a run carries out: told by its agents, task by task, and kept in the log, so that nobody
//! does again what is done.

use super::Coordination;
use super::state::{Attempt, Seat, State};
use crate::tools;
use althing_protocol::{Fact, Item, PlanProgress, PlanStatus, Purpose, ToolCall};

impl State {
    /// Whether an attempt works on the plan.
    pub(crate) fn carries_out_plan(&self, purpose: Purpose) -> bool {
        let works = match purpose {
            Purpose::Answer | Purpose::Present { .. } | Purpose::Judge { may_answer: true, .. } => true,
            Purpose::Judge { .. } | Purpose::Evaluate => false,
            Purpose::Carry | Purpose::Converse | Purpose::Compact => false,
        };
        works && self.spec.plan.is_some()
    }

    /// What follows from an `update_plan_task` call.
    pub(super) fn update_plan(&self, seat: &Seat, attempt: &Attempt, call: &ToolCall) -> Vec<Fact> {
        let fact = |item| Fact::ItemAdded { attempt: attempt.number, item };
        let result =
            |content: String, is_error| fact(Item::ToolResult { call: call.id.clone(), content, is_error });
        let tasks = self.spec.plan.as_ref().map(|plan| plan.tasks.as_slice()).unwrap_or_default();
        let progress = match tools::plan_progress(call, tasks) {
            Ok(progress) => progress,
            Err(problem) => return vec![result(problem, true)],
        };
        let mut plan = seat.plan.clone();
        note(&mut plan, &progress);
        let done = tasks.iter().filter(|task| is_completed(&plan, &task.id)).count();
        let told = format!("Noted. {done} of {} tasks are completed.", tasks.len());
        vec![fact(Item::PlanProgress(progress)), result(told, false)]
    }
}

/// Takes newer progress in, in place of what was known of the same task.
pub(super) fn note(plan: &mut Vec<PlanProgress>, progress: &PlanProgress) {
    match plan.iter_mut().find(|known| known.task == progress.task) {
        Some(known) => known.clone_from(progress),
        None => plan.push(progress.clone()),
    }
}

fn is_completed(plan: &[PlanProgress], task: &str) -> bool {
    plan.iter().any(|known| known.task == task && known.status == PlanStatus::Completed)
}

impl Coordination {
    /// How far the run's plan is, as its agents have told last; tasks that are not named have not begun.
    pub fn plan_progress(&self) -> &[PlanProgress] {
        &self.state.plan
    }
}
