//! The decider of a workflow: stages run in order, the tasks of a stage run in parallel, and all of them end before the
//! next stage begins. Pure: no clock, no I/O, no `async`.

mod decide;
mod report;
mod retry;
mod rules;
mod session;
mod template;

pub use report::{StageReport, TaskReport, WorkflowReport};
pub use session::WorkflowSession;

use crate::decider::{Consequence, ProgramAnswer, ProgramKey};
use althing_protocol::{
    Ask, Decision, Event, Fact, Interaction, InteractionId, InteractionKind, ProgramSpec,
    ResumedConversation, TaskId, WorkflowSpec,
};
use session::StageTaskState;

/// The decider of one workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowExecutor {
    session: WorkflowSession,
}

impl WorkflowExecutor {
    /// Creates the decider from the data of the workflow's `TaskCreated`.
    pub fn new(task: TaskId, spec: WorkflowSpec) -> Self {
        Self { session: WorkflowSession::new(task, spec) }
    }

    /// The state of the workflow.
    pub fn session(&self) -> &WorkflowSession {
        &self.session
    }

    /// Whether the workflow has ended.
    pub fn is_over(&self) -> bool {
        self.session.is_over()
    }

    /// The spec of a program's attempt, and the program's own conversation to resume, if any.
    pub fn program(&self, key: &ProgramKey) -> Option<(&ProgramSpec, Option<ResumedConversation>)> {
        self.session.program(key)
    }

    /// Folds an event into the state. Events of unrelated tasks only add to the active time.
    pub fn apply(&mut self, event: &Event) {
        self.session.apply(event);
    }

    /// The facts that follow when a program asks a person; none if the question is open already or the attempt is over.
    pub fn question_asked(&self, key: &ProgramKey, ask: Ask) -> Vec<Consequence> {
        let Some(state) = self.session.tasks.get(&key.task).filter(|state| state.is_current(key)) else {
            return Vec::new();
        };
        if state.question.as_ref().is_some_and(|open| open.kind == InteractionKind::Program(ask.clone())) {
            return Vec::new();
        }
        let mut facts = state.close(&key.task, Decision::MovedOn);
        let id = InteractionId::new(format!("{}.i{}", key.task, state.question_count + 1));
        let opened = Interaction { id, kind: InteractionKind::Program(ask), countdown: None };
        facts.push((key.task.clone(), Fact::InteractionOpened(opened)));
        facts
    }

    /// The facts that follow when a program continued without an answer; none if it has no open question.
    pub fn moved_on(&self, key: &ProgramKey) -> Vec<Consequence> {
        let Some(state) = self.session.tasks.get(&key.task).filter(|state| state.is_current(key)) else {
            return Vec::new();
        };
        state.close(&key.task, Decision::MovedOn)
    }

    /// Checks a person's answer to a task's question; returns the facts that follow and the answer for the program, or
    /// why the answer is rejected.
    pub fn answer(
        &self,
        interaction: &InteractionId,
        decision: &Decision,
    ) -> Result<(Vec<Consequence>, Option<ProgramAnswer>), String> {
        let asks =
            |state: &StageTaskState| state.question.as_ref().is_some_and(|open| open.id == *interaction);
        let Some((task, state)) = self.session.tasks.iter().find(|(_, state)| asks(state)) else {
            return Err(format!("the interaction {interaction} is not open"));
        };
        let program_answer = match (state.question.as_ref().map(|open| &open.kind), decision) {
            (Some(InteractionKind::Program(ask)), Decision::Choose { option }) => {
                if !ask.options.iter().any(|known| known.id == *option) {
                    let known: Vec<&str> = ask.options.iter().map(|known| known.id.as_str()).collect();
                    let known = if known.is_empty() {
                        "attach to the task and type the answer".to_owned()
                    } else {
                        format!("possible answers: {}", known.join(", "))
                    };
                    return Err(format!("`{option}` is not an answer to the question of {task}; {known}"));
                }
                let answer = |native| ProgramAnswer { task: task.clone(), native, option: option.clone() };
                ask.native.clone().map(answer)
            }
            (Some(InteractionKind::Program(_)), _) => {
                return Err(format!(
                    "the question of {task} must be answered with one of its options, or in the task's terminal"
                ));
            }
            (Some(InteractionKind::Interrupted), Decision::Approve { .. } | Decision::Reject { .. }) => None,
            _ => return Err(format!("the question of {task} accepts only approve or reject")),
        };
        Ok((state.close(task, decision.clone()), program_answer))
    }
}

#[cfg(test)]
mod tests;
