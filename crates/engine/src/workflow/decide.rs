//! The `Decider` implementation of a workflow.

use super::WorkflowExecutor;
use crate::decider::{
    AnswerEffects, Consequence, Decider, EffectKey, EffectRequest, ProgramKey, WantedEffects,
};
use althing_protocol::{Decision, Event, InteractionId, Op, ProgramReport, TaskId};

impl Decider for WorkflowExecutor {
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
        let EffectKey::Program(program) = effect else { return None };
        let (spec, resume) = self.program(program)?;
        Some(EffectRequest::Program { spec: Box::new(spec.clone()), resume })
    }

    fn task_of(&self, effect: &EffectKey) -> TaskId {
        match effect {
            EffectKey::Program(program) => program.task.clone(),
            EffectKey::Call(_) | EffectKey::SideTask(_) => self.session.task.clone(),
        }
    }

    fn program_reported(&self, program: &ProgramKey, report: ProgramReport) -> Vec<Consequence> {
        match report {
            ProgramReport::Waiting(ask) => self.question_asked(program, ask),
            ProgramReport::MovedOn => self.moved_on(program),
            _ => Vec::new(),
        }
    }

    fn answer_question(
        &self,
        interaction: &InteractionId,
        decision: &Decision,
    ) -> Option<Result<AnswerEffects, String>> {
        let mut open = self.session.tasks.values().filter_map(|state| state.question.as_ref());
        open.any(|open| open.id == *interaction).then(|| self.answer(interaction, decision))
    }

    fn refusal_of(&self, op: &Op) -> Option<String> {
        self.refusal(op)
    }

    fn files(&self) -> Result<Vec<(&'static str, String)>, serde_json::Error> {
        if !self.is_over() {
            return Ok(Vec::new());
        }
        Ok(vec![("result.json", serde_json::to_string_pretty(&self.report())?)])
    }
}
