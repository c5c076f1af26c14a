//! Plans: a planning run stores its plan before it ends. A run that executes a plan reads the stored plan before it
//! begins, because people may have edited it, and records the progress of each task in the log.

use super::Coordination;
use super::state::{MemberAttempt, MemberState, RunState};
use crate::tools;
use althing_protocol::{Fact, Item, PlanDraft, PlanProgress, PlanRun, PlanStatus, Purpose, ToolCall};
use std::sync::Arc;

impl RunState {
    pub(crate) fn carries_out_plan(&self, purpose: Purpose) -> bool {
        let works = match purpose {
            Purpose::Answer | Purpose::Present { .. } | Purpose::Judge { may_answer: true, .. } => true,
            Purpose::Judge { .. } | Purpose::Evaluate => false,
            Purpose::Carry | Purpose::Converse | Purpose::Compact => false,
        };
        works && self.spec.plan.is_some()
    }

    /// `plan` is None if the stored plan could not be read; then the plan of the spec is used.
    pub(super) fn open_plan(&mut self, plan: Option<&PlanRun>) {
        self.plan_opened = true;
        let Some(plan) = plan else { return };
        Arc::make_mut(&mut self.spec).plan = Some(plan.clone());
        self.plan.clone_from(&plan.progress);
        for member in &mut self.members {
            member.plan.clone_from(&plan.progress);
        }
    }

    pub(super) fn update_plan(
        &self,
        member: &MemberState,
        attempt: &MemberAttempt,
        call: &ToolCall,
    ) -> Vec<Fact> {
        let fact = |item| Fact::ItemAdded { attempt: attempt.number, item };
        let result =
            |content: String, is_error| fact(Item::ToolResult { call: call.id.clone(), content, is_error });
        let tasks = self.spec.plan.as_ref().map(|plan| plan.tasks.as_slice()).unwrap_or_default();
        let progress = match tools::plan_progress(call, tasks) {
            Ok(progress) => progress,
            Err(problem) => return vec![result(problem, true)],
        };
        let mut plan = member.plan.clone();
        update_progress(&mut plan, &progress);
        let done = tasks.iter().filter(|task| is_completed(&plan, &task.id)).count();
        let reply = format!("Noted. {done} of {} tasks are completed.", tasks.len());
        vec![fact(Item::PlanProgress(progress)), result(reply, false)]
    }
}

pub(super) fn update_progress(plan: &mut Vec<PlanProgress>, progress: &PlanProgress) {
    match plan.iter_mut().find(|known| known.task == progress.task) {
        Some(known) => known.clone_from(progress),
        None => plan.push(progress.clone()),
    }
}

fn is_completed(plan: &[PlanProgress], task: &str) -> bool {
    plan.iter().any(|known| known.task == task && known.status == PlanStatus::Completed)
}

impl Coordination {
    /// The plan of a subagent is not stored: the calling agent gets it as the subagent's answer.
    pub(super) fn must_store_plan(&self) -> bool {
        let spec = &self.state.spec;
        let plans = spec.modes.planning && spec.subagent_of.is_none();
        plans && self.state.stored_plan.is_none() && self.final_answer().is_some()
    }

    /// The stored plan is read once, before any agent begins.
    pub(super) fn must_open_plan(&self) -> bool {
        let begun = self.state.members.iter().any(|member| member.attempts > 0);
        self.state.spec.plan.is_some() && !self.state.plan_opened && !begun
    }

    /// What storing the plan needs; None if the run has no answer or has not begun.
    pub fn plan_draft(&self) -> Option<PlanDraft> {
        Some(PlanDraft {
            run_id: self.run_id(),
            started_at: self.began?,
            task: self.state.spec.task.clone(),
            answer: self.final_answer()?,
        })
    }

    /// The progress of the plan's tasks; tasks that are not listed have not begun.
    pub fn plan_progress(&self) -> &[PlanProgress] {
        &self.state.plan
    }
}
