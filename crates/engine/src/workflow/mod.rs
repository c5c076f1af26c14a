//! The decider of a workflow: stages run in order, the tasks of a stage run in parallel, and all of them end before
//! the next stage begins.
//!
//! Pure: no clock, no I/O, no `async`. This file folds facts into the state; `rules.rs` derives the facts that follow,
//! `template.rs` expands prompts, `report.rs` builds the report.

mod decide;
mod report;
mod rules;
mod template;

pub use report::{StageReport, TaskReport, WorkflowReport};

use crate::decider::{Consequence, ProgramAnswer, ProgramKey};
use althing_protocol::{
    Ask, AttemptOutcome, Decision, Event, Fact, Interaction, InteractionId, InteractionKind, Item, Millis,
    Op, Phase, ProgramSpec, RunEnd, TaskId, TaskSpec, TaskStatus, Timer, Timestamp, Verdict, WorkflowSpec,
};
use std::collections::BTreeMap;

/// The decider of one workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowExecutor {
    pub(crate) task: TaskId,
    spec: WorkflowSpec,
    status: TaskStatus,
    /// The current stage, once the first has begun.
    stage: Option<u32>,
    tasks: BTreeMap<TaskId, StageTaskState>,
    cancelled: bool,
    halted: bool,
    /// The active time: the time between facts, without downtime before a resume.
    active: Millis,
    last_at: Option<Timestamp>,
}

/// The state of a task that has been created.
#[derive(Clone, Debug, PartialEq)]
struct StageTaskState {
    /// The program to run; None for a run, which has its own decider.
    program: Option<ProgramSpec>,
    status: TaskStatus,
    /// The number of the newest attempt.
    attempts: u32,
    /// Whether the newest attempt is running.
    running: bool,
    /// Whether a crash interrupted the attempt; its `AttemptEnded` is not recorded yet.
    interrupted: bool,
    /// Whether the last attempt was interrupted and it is undecided how to continue.
    suspended: bool,
    /// Whether a person approved starting the task again.
    restart_approved: bool,
    /// Whether the task's time limit passed.
    expired: bool,
    cancelled: bool,
    /// The id of the program's own conversation, if the program keeps one.
    conversation: Option<String>,
    /// How the last attempt ended.
    end: Option<TaskEnd>,
    /// The open question to a person.
    question: Option<Interaction>,
    /// The number of questions so far.
    question_count: u32,
}

/// How a task ended, for later stages and for the report.
#[derive(Clone, Debug, Default, PartialEq)]
struct TaskEnd {
    ok: bool,
    exit_code: Option<i32>,
    output: String,
    error: Option<String>,
}

impl StageTaskState {
    fn new(program: Option<ProgramSpec>) -> Self {
        Self {
            program,
            status: TaskStatus::Pending,
            attempts: 0,
            running: false,
            interrupted: false,
            suspended: false,
            restart_approved: false,
            expired: false,
            cancelled: false,
            conversation: None,
            end: None,
            question: None,
            question_count: 0,
        }
    }
}

impl WorkflowExecutor {
    /// Creates the decider from the data of the workflow's `TaskCreated`.
    pub fn new(task: TaskId, spec: WorkflowSpec) -> Self {
        Self {
            task,
            spec,
            status: TaskStatus::Pending,
            stage: None,
            tasks: BTreeMap::new(),
            cancelled: false,
            halted: false,
            active: Millis(0),
            last_at: None,
        }
    }

    /// Whether the workflow has ended.
    pub fn is_over(&self) -> bool {
        self.status.is_final()
    }

    /// The spec of a program's attempt, and the program's own conversation to resume, if any.
    pub fn program(&self, key: &ProgramKey) -> Option<(&ProgramSpec, Option<&str>)> {
        let state = self.tasks.get(&key.task)?;
        let spec = state.program.as_ref()?;
        // The conversation is resumed unless the user configured a restart.
        let restart = spec.on_interrupt == Some(althing_protocol::OnInterrupt::Restart);
        Some((spec, state.conversation.as_deref().filter(|_| !restart)))
    }

    /// Folds one event into the state. Events of unrelated tasks are ignored.
    pub fn apply(&mut self, event: &Event) {
        self.count_time(event);
        match (&event.fact, &event.task) {
            (Fact::OpAccepted { op, .. }, _) => self.accept(op),
            (Fact::TaskCreated { id, parent: Some(parent), spec }, _) if *parent == self.task => {
                let program = match spec {
                    TaskSpec::Program(spec) => Some((**spec).clone()),
                    _ => None,
                };
                self.tasks.insert(id.clone(), StageTaskState::new(program));
            }
            (fact, Some(task)) if *task == self.task => self.apply_to_workflow(fact),
            (fact, Some(task)) => {
                if let Some(state) = self.tasks.get_mut(task) {
                    state.apply(fact);
                }
            }
            _ => {}
        }
    }

    fn count_time(&mut self, event: &Event) {
        let resumed = matches!(event.fact, Fact::OpAccepted { op: Op::Resume, .. });
        if let Some(last) = self.last_at.filter(|_| !resumed) {
            self.active.0 += event.at.since(last).0;
        }
        self.last_at = Some(event.at);
    }

    fn accept(&mut self, op: &Op) {
        match op {
            Op::Cancel { task } if *task == self.task => self.cancelled = true,
            Op::Cancel { task } => {
                if let Some(state) = self.tasks.get_mut(task) {
                    state.cancelled = true;
                }
            }
            Op::Shutdown => self.halted = true,
            Op::Resume => {
                self.halted = false;
                for state in self.tasks.values_mut().filter(|state| state.running) {
                    state.interrupted = true;
                }
            }
            _ => {}
        }
    }

    fn apply_to_workflow(&mut self, fact: &Fact) {
        match fact {
            Fact::StatusChanged { status, .. } => self.status = *status,
            Fact::PhaseChanged { phase: Phase::Stage(stage) } => self.stage = Some(*stage),
            _ => {}
        }
    }

    /// The facts that follow when a program asks a person; none if the question is open already or the program's
    /// attempt is over.
    pub fn question_asked(&self, key: &ProgramKey, ask: Ask) -> Vec<Consequence> {
        let Some(state) = self.tasks.get(&key.task).filter(|state| state.is_current(key)) else {
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

    /// The facts that follow when a program continued without an answer.
    pub fn moved_on(&self, key: &ProgramKey) -> Vec<Consequence> {
        let Some(state) = self.tasks.get(&key.task).filter(|state| state.is_current(key)) else {
            return Vec::new();
        };
        state.close(&key.task, Decision::MovedOn)
    }

    /// Checks a person's answer to a task's question. Returns the facts that follow and the answer for the program, or
    /// why the answer is rejected.
    pub fn answer(
        &self,
        interaction: &InteractionId,
        decision: &Decision,
    ) -> Result<(Vec<Consequence>, Option<ProgramAnswer>), String> {
        let asks =
            |state: &StageTaskState| state.question.as_ref().is_some_and(|open| open.id == *interaction);
        let Some((task, state)) = self.tasks.iter().find(|(_, state)| asks(state)) else {
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

impl StageTaskState {
    fn is_current(&self, key: &ProgramKey) -> bool {
        self.running && self.attempts == key.attempt
    }

    fn close(&self, task: &TaskId, decision: Decision) -> Vec<Consequence> {
        let closed = |open: &Interaction| Fact::InteractionClosed { id: open.id.clone(), decision };
        self.question.as_ref().map(closed).map(|fact| (task.clone(), fact)).into_iter().collect()
    }

    fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::StatusChanged { status, .. } => self.status = *status,
            Fact::AttemptStarted { attempt, .. } => {
                self.attempts = *attempt;
                self.running = true;
                self.interrupted = false;
                self.suspended = false;
                self.restart_approved = false;
                self.expired = false;
            }
            Fact::AttemptEnded { attempt, outcome, .. } if *attempt == self.attempts => self.ended(outcome),
            Fact::ItemAdded { item: Item::Conversation { id }, .. } => self.conversation = Some(id.clone()),
            Fact::InteractionOpened(interaction) => {
                self.question_count += 1;
                self.question = Some(interaction.clone());
            }
            Fact::InteractionClosed { decision, .. } => self.answered(decision),
            Fact::TimerFired(Timer::Task { attempt, .. }) if *attempt == self.attempts => self.expired = true,
            Fact::Decided(Verdict::Finished { end, result }) => {
                self.end = Some(TaskEnd {
                    ok: *end == RunEnd::Answered,
                    exit_code: None,
                    output: result.final_answer.clone().unwrap_or_default(),
                    error: result.error.clone(),
                });
            }
            _ => {}
        }
    }

    fn answered(&mut self, decision: &Decision) {
        let open = self.question.take();
        if open.is_none_or(|open| open.kind != InteractionKind::Interrupted) {
            return;
        }
        self.restart_approved = matches!(decision, Decision::Approve { .. });
        if !self.restart_approved {
            let error = Some("it was interrupted, and a person decided not to start it again".to_owned());
            self.suspended = false;
            self.end = Some(TaskEnd { error, ..TaskEnd::default() });
        }
    }

    fn ended(&mut self, outcome: &AttemptOutcome) {
        self.running = false;
        self.interrupted = false;
        let failed = |error: &str| Some(TaskEnd { error: Some(error.to_owned()), ..TaskEnd::default() });
        self.end = match outcome {
            AttemptOutcome::Exited { ok, exit_code, output, error, .. } => {
                Some(TaskEnd { ok: *ok, exit_code: *exit_code, output: output.clone(), error: error.clone() })
            }
            AttemptOutcome::Interrupted => {
                self.suspended = true;
                None
            }
            AttemptOutcome::TimedOut => failed("its time limit passed"),
            AttemptOutcome::Cancelled => failed("it was cancelled"),
            AttemptOutcome::Failed { error, .. } => failed(error),
            AttemptOutcome::GaveUp { reason } => failed(reason),
            AttemptOutcome::Answered
            | AttemptOutcome::Voted
            | AttemptOutcome::Evaluated { .. }
            | AttemptOutcome::Said
            | AttemptOutcome::Paused => Some(TaskEnd { ok: true, ..TaskEnd::default() }),
            AttemptOutcome::Presented { text } => {
                Some(TaskEnd { ok: true, output: text.clone(), ..TaskEnd::default() })
            }
        };
    }
}

#[cfg(test)]
mod tests;
