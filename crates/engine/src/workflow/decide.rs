//! A workflow's decider as the session holds it.

use super::WorkflowExecutor;
use crate::decider::{Answered, Consequence, Decider, Job, Order, ProgramKey, Wanted};
use althing_protocol::{Decision, Event, InteractionId, ProgramReport, TaskId};

impl Decider for WorkflowExecutor {
    fn apply(&mut self, event: &Event) {
        self.apply(event);
    }

    fn consequences(&self) -> Vec<Consequence> {
        self.consequences()
    }

    fn wanted(&self) -> Wanted {
        self.wanted()
    }

    fn is_over(&self) -> bool {
        self.is_over()
    }

    fn order(&self, job: &Job) -> Option<Order> {
        let Job::Program(program) = job else { return None };
        let (spec, resume) = self.program(program)?;
        Some(Order::Program { spec: Box::new(spec.clone()), resume: resume.map(str::to_owned) })
    }

    fn task_of(&self, job: &Job) -> TaskId {
        match job {
            Job::Program(program) => program.task.clone(),
            Job::Call(_) | Job::Chore(_) => self.task.clone(),
        }
    }

    fn reported(&self, program: &ProgramKey, report: ProgramReport) -> Vec<Consequence> {
        match report {
            ProgramReport::Waiting(ask) => self.waits(program, ask),
            ProgramReport::MovedOn => self.moved_on(program),
            _ => Vec::new(),
        }
    }

    fn answered(&self, interaction: &InteractionId, decision: &Decision) -> Option<Result<Answered, String>> {
        let mut open = self.tasks.values().filter_map(|leaf| leaf.asks.as_ref());
        open.any(|open| open.id == *interaction).then(|| self.answer(interaction, decision))
    }

    fn files(&self) -> Result<Vec<(&'static str, String)>, serde_json::Error> {
        if !self.is_over() {
            return Ok(Vec::new());
        }
        Ok(vec![("result.json", serde_json::to_string_pretty(&self.report())?)])
    }
}
