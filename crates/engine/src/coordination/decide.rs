//! The `Decider` implementation of a run.

use super::Coordination;
use crate::decider::{
    AnswerEffects, Consequence, Decider, EffectKey, EffectRequest, EnvOwner, SideTaskKind, Visibility,
    WantedEffects,
};
use althing_protocol::{
    Decision, Event, InteractionId, Item, Notice, NoticeLevel, RunEnd, RunResult, TaskId,
};
use std::fmt::Write;

impl Decider for Coordination {
    fn apply(&mut self, event: &Event) {
        self.apply(event);
    }

    fn consequences(&self) -> Vec<Consequence> {
        self.consequences()
    }

    fn wanted(&self) -> WantedEffects {
        self.wanted()
    }

    fn is_over(&self) -> bool {
        self.is_over()
    }

    fn effect_request(&self, effect: &EffectKey) -> Option<EffectRequest> {
        Some(match effect {
            EffectKey::Call(call) => EffectRequest::Call {
                request: Box::new(self.request(call.member_index)?),
                agent: self.agent(call.member_index).cloned(),
                env: self.env(call.member_index).map(|env| (env, self.visibility(call.member_index))),
            },
            EffectKey::SideTask(side_task) => match &side_task.kind {
                SideTaskKind::StorePlan => EffectRequest::StorePlan(self.plan_draft()?),
                SideTaskKind::OpenPlan => EffectRequest::OpenPlan(self.spec().plan.clone()?),
                kind => EffectRequest::SideTask {
                    kind: kind.clone(),
                    access: self.access(side_task.member_index),
                    env: self.env(side_task.member_index),
                },
            },
            EffectKey::Program(_) => return None,
        })
    }

    fn task_of(&self, effect: &EffectKey) -> TaskId {
        match effect {
            EffectKey::Call(call) => self.work(call.member_index),
            EffectKey::SideTask(side_task) => self.work(side_task.member_index),
            EffectKey::Program(program) => program.task.clone(),
        }
    }

    fn cost_left_usd(&self) -> Option<f64> {
        self.state.cost_left_usd()
    }

    fn side_task_warning(&self, effect: &EffectKey, item: &Item) -> Option<(TaskId, Notice)> {
        let EffectKey::SideTask(side_task) = effect else { return None };
        let (task, text, hint) = match item {
            Item::WorkspaceKept { error: Some(error) } => {
                let agent = self.agent(side_task.member_index)?;
                let text = format!("{agent}'s answer is accepted, but without its files: {error}");
                (self.work(side_task.member_index), text, None)
            }
            Item::ContextClosed { error: Some(error), .. } => (
                self.task.clone(),
                format!("what the run changed in the context paths could not be determined: {error}"),
                Some("look for changes there yourself: they are not listed, and `althing undo` does not undo them".into()),
            ),
            Item::PlanStored { error: Some(error), .. } => {
                let hint =
                    "the run's answer is unchanged; start the planning run again, or write the plan yourself";
                (self.task.clone(), format!("no plan was stored: {error}"), Some(hint.to_owned()))
            }
            Item::PlanOpened { error: Some(error), .. } => (
                self.task.clone(),
                format!("the plan could not be reread ({error}); the run uses the plan it was started with"),
                None,
            ),
            _ => return None,
        };
        Some((task, Notice { level: NoticeLevel::Warning, text, hint }))
    }

    fn answer_question(
        &self,
        interaction: &InteractionId,
        decision: &Decision,
    ) -> Option<Result<AnswerEffects, String>> {
        self.has_open_question(interaction)
            .then(|| self.answer_override(interaction, decision).map(|facts| (facts, None)))
    }

    fn files(&self) -> Result<Vec<(&'static str, String)>, serde_json::Error> {
        let Some(result) = self.result() else { return Ok(Vec::new()) };
        // All answers go into one file, because a run may have hundreds of agents.
        let mut answers = String::new();
        for answer in self.answers() {
            let _ = write!(answers, "# {} ({})\n\n{}\n\n", answer.label, answer.agent, answer.content);
        }
        let mut files = vec![("answers.md", answers)];
        files.extend(result.final_answer.clone().map(|answer| ("final_answer.md", answer)));
        files.push(("result.json", serde_json::to_string_pretty(result)?));
        Ok(files)
    }

    fn result_if_stopped(&self) -> Option<RunResult> {
        Some(self.result_as_of_now(RunEnd::Cancelled))
    }
}

impl Coordination {
    fn env(&self, member_index: usize) -> Option<EnvOwner> {
        self.spec().members.get(member_index).filter(|member| member.has_tools)?;
        Some(EnvOwner::Member { run: self.task.clone(), spec: self.shared_spec(), member_index })
    }

    fn visibility(&self, member_index: usize) -> Visibility {
        let others =
            self.known_to(member_index).into_iter().filter(|label| label.agent as usize != member_index + 1);
        Visibility { access: self.access(member_index), labels: others.collect() }
    }
}
