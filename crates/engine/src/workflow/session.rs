//! The state of a workflow, folded from the log: its goal, its stages, its status, and its tasks. Pure; `rules.rs`
//! decides what follows.

use crate::decider::{Consequence, ProgramKey};
use althing_protocol::{
    AskKind, AttemptOutcome, Decision, Event, ExecutionMode, Fact, Interaction, InteractionKind, Item,
    Millis, Notice, NoticeLevel, OnInterrupt, Op, Phase, ProgramSpec, ResumedConversation, RunEnd, StageTask,
    TaskId, TaskSpec, TaskStatus, Timer, Timestamp, TurnProgress, Verdict, WorkflowSpec,
};
use std::collections::BTreeMap;

/// The state of one workflow; when the session is resumed, it is folded again from the log.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowSession {
    pub(crate) task: TaskId,
    pub(super) spec: WorkflowSpec,
    pub(super) status: TaskStatus,
    /// The current stage; None until the first stage begins.
    pub(super) stage: Option<u32>,
    pub(super) tasks: BTreeMap<TaskId, StageTaskState>,
    /// The number of retries of each run, by the run's first task. A program is retried in the same task.
    pub(super) run_retries: BTreeMap<TaskId, u32>,
    pub(super) cancelled: bool,
    pub(super) halted: bool,
    /// The time between facts, without downtime before a resume.
    pub(super) active: Millis,
    pub(super) last_at: Option<Timestamp>,
    /// What the tasks that have ended cost, in US dollars.
    pub(super) spent_usd: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct StageTaskState {
    /// The program to run; None for a run, which has its own decider.
    pub(super) program: Option<ProgramSpec>,
    pub(super) status: TaskStatus,
    pub(super) attempts: u32,
    pub(super) running: bool,
    /// Whether the attempt was running when the session was resumed; its `AttemptEnded` is not recorded yet.
    pub(super) interrupted: bool,
    /// Whether the last attempt was interrupted. Reset when the task starts again, or when a person decides that it
    /// must not.
    pub(super) suspended: bool,
    /// A person approved starting the task again after an interruption.
    pub(super) restart_approved: bool,
    pub(super) expired: bool,
    /// The last warning about the newest attempt, for example that its program cannot reach its model.
    pub(super) warning: Option<String>,
    pub(super) cancelled: bool,
    /// The id of the program's own conversation, if the program keeps one.
    pub(super) conversation: Option<String>,
    pub(super) turn: TurnProgress,
    /// How the last attempt or, for a run, the run ended. None before that, and after an interruption.
    pub(super) end: Option<TaskEnd>,
    pub(super) question: Option<Interaction>,
    pub(super) question_count: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TaskEnd {
    pub(super) ok: bool,
    pub(super) exit_code: Option<i32>,
    pub(super) output: String,
    pub(super) error: Option<String>,
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
            warning: None,
            cancelled: false,
            conversation: None,
            turn: TurnProgress::NotBegun,
            end: None,
            question: None,
            question_count: 0,
        }
    }
}

fn is_your_turn(interaction: &Interaction) -> bool {
    matches!(&interaction.kind, InteractionKind::Program(ask) if ask.about == AskKind::YourTurn)
}

impl WorkflowSession {
    /// Creates the state from the data of the workflow's `TaskCreated`.
    pub fn new(task: TaskId, spec: WorkflowSpec) -> Self {
        Self {
            task,
            spec,
            status: TaskStatus::Pending,
            stage: None,
            tasks: BTreeMap::new(),
            run_retries: BTreeMap::new(),
            cancelled: false,
            halted: false,
            active: Millis(0),
            last_at: None,
            spent_usd: 0.0,
        }
    }

    /// Whether the workflow has ended.
    pub fn is_over(&self) -> bool {
        self.status.is_final()
    }

    /// The spec of a program, and the program's own conversation to resume, if any. None if the task is unknown or runs
    /// no program.
    pub fn program(&self, key: &ProgramKey) -> Option<(&ProgramSpec, Option<ResumedConversation>)> {
        let state = self.tasks.get(&key.task)?;
        let spec = state.program.as_ref()?;
        let restart = spec.on_interrupt == Some(OnInterrupt::Restart);
        // A conversation in a terminal begins with the prompt. If the prompt was not sent, the program therefore starts
        // without its conversation. Without a prompt, a person uses the program, and the conversation is resumed.
        let in_terminal = spec.mode == ExecutionMode::Interactive && !spec.prompt.trim().is_empty();
        let restart = restart || (in_terminal && state.turn == TurnProgress::NotBegun);
        let resume = |id: &String| ResumedConversation { id: id.clone(), turn: state.turn };
        Some((spec, state.conversation.as_ref().filter(|_| !restart).map(resume)))
    }

    /// Folds an event into the state. Events of unrelated tasks only add to the active time.
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
                    self.spent_usd += state.cost(fact);
                    state.apply(fact);
                }
            }
            _ => {}
        }
    }

    /// What may still be spent, in millionths of a US dollar; None without a limit.
    pub(super) fn left_micro_usd(&self) -> Option<u64> {
        let spent = (self.spent_usd * 1e6).ceil() as u64;
        self.spec.cost_micro_usd.map(|limit| limit.saturating_sub(spent))
    }

    /// Why no further task may start: the ended tasks have reached the cost limit (`--max-cost`). None: they may start.
    pub(super) fn cost_problem(&self) -> Option<String> {
        let limit = self.spec.cost_micro_usd.filter(|_| self.left_micro_usd() == Some(0))?;
        Some(format!(
            "the workflow has reached its cost limit (`--max-cost`): its tasks cost ${:.4} of ${:.4}",
            self.spent_usd,
            limit as f64 / 1e6
        ))
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
            Op::Retry { task } => self.retry(task),
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

    /// The goal in the user's words.
    pub fn goal(&self) -> &str {
        &self.spec.goal
    }

    pub(super) fn status_of(&self, task: &StageTask) -> TaskStatus {
        self.tasks.get(&self.current_task(&task.id)).map_or(TaskStatus::Pending, |state| state.status)
    }

    pub(super) fn stage_task(&self, id: &TaskId) -> Option<&StageTask> {
        let mut all = self.spec.stages.iter().flat_map(|stage| &stage.tasks);
        all.find(|task| self.task.stage_task(&task.id) == *id)
    }

    /// The output of a task without trailing line breaks, like command substitution in a shell.
    pub(super) fn output_of(&self, name: &str) -> Option<String> {
        let end = self.end_of(name)?;
        Some(end.output.trim_end_matches(['\n', '\r']).to_owned())
    }

    /// How a task ended; for a planning run whose plan was executed, how the execution ended.
    pub(super) fn end_of(&self, name: &str) -> Option<&TaskEnd> {
        let task = self.current_task(name);
        let state = self.tasks.get(&task.execution()).or_else(|| self.tasks.get(&task))?;
        state.end.as_ref()
    }
}

impl StageTaskState {
    pub(super) fn is_current(&self, key: &ProgramKey) -> bool {
        self.running && self.attempts == key.attempt
    }

    pub(super) fn close(&self, task: &TaskId, decision: Decision) -> Vec<Consequence> {
        let closed = |open: &Interaction| Fact::InteractionClosed { id: open.id.clone(), decision };
        self.question.as_ref().map(closed).map(|fact| (task.clone(), fact)).into_iter().collect()
    }

    /// What a fact adds to the cost, in US dollars. The cost of a run is known at its end.
    fn cost(&self, fact: &Fact) -> f64 {
        let cost = match fact {
            Fact::AttemptEnded { usage, .. } if self.program.is_some() => usage.cost_usd,
            Fact::Decided(Verdict::Finished { result, .. }) => result.usage.cost_usd,
            _ => 0.0,
        };
        // A CLI agent could report anything.
        if cost.is_finite() { cost.max(0.0) } else { 0.0 }
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
                self.warning = None;
            }
            Fact::Notice(Notice { level: NoticeLevel::Warning, text, .. }) if self.running => {
                self.warning = Some(text.clone());
            }
            Fact::AttemptEnded { attempt, outcome, .. } if *attempt == self.attempts => self.ended(outcome),
            Fact::ItemAdded { item: Item::Conversation { id }, .. } => self.conversation = Some(id.clone()),
            Fact::ItemAdded { item: Item::PromptSent { error: None, .. }, .. } => {
                self.turn = TurnProgress::Begun;
            }
            Fact::InteractionOpened(interaction) => {
                if is_your_turn(interaction) {
                    self.turn = TurnProgress::Finished;
                }
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
        // The program begins the next turn, unless an interruption or a person ends it.
        if open.as_ref().is_some_and(is_your_turn) && !self.interrupted && *decision == Decision::MovedOn {
            self.turn = TurnProgress::Begun;
        }
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
            AttemptOutcome::TimedOut => {
                let warning = self.warning.take().map(|text| format!("; the last warning: {text}"));
                failed(&format!("its time limit passed{}", warning.unwrap_or_default()))
            }
            AttemptOutcome::Cancelled => failed("it was cancelled"),
            AttemptOutcome::Failed { error, .. } => failed(error),
            AttemptOutcome::GaveUp { reason } => failed(reason),
            AttemptOutcome::Answered
            | AttemptOutcome::Voted
            | AttemptOutcome::Abstained
            | AttemptOutcome::Evaluated { .. }
            | AttemptOutcome::Said
            | AttemptOutcome::Paused => Some(TaskEnd { ok: true, ..TaskEnd::default() }),
            AttemptOutcome::Presented { text, .. } => {
                Some(TaskEnd { ok: true, output: text.clone(), ..TaskEnd::default() })
            }
        };
    }
}
