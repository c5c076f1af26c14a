//! The checkpoint of a session (`session.json`): a pure fold over the session's events. The log is the source of truth.

use althing_protocol::{
    AttemptOutcome, ChatState, Checkpoint, CheckpointStage, CheckpointTask, Event, Fact, InteractionId, Item,
    Op, Phase, Reply, SessionKind, SessionOpened, SessionState, StageSpec, TaskId, TaskSpec, TaskStatus,
    Timestamp, Verdict, WorkflowSpec,
};
use althing_protocol::{RunResult, Seq};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The checkpoint after these events, the first events of a log; `None` if none of them is `SessionOpened`.
pub fn rebuild_checkpoint(events: &[Arc<Event>]) -> Option<Checkpoint> {
    let mut fold = CheckpointFold::default();
    for event in events {
        fold.apply(event);
    }
    fold.checkpoint()
}

/// The maximum length of a conversation's goal in characters; the goal is the first line of the first message.
const GOAL_CHARS: usize = 200;

/// The fold of [`rebuild_checkpoint`], for a caller that follows the log.
#[derive(Clone, Debug, Default)]
pub struct CheckpointFold {
    head: Option<(Box<SessionOpened>, Timestamp)>,
    seq: Seq,
    updated: Timestamp,
    tasks: Vec<CheckpointTask>,
    task_indexes: HashMap<TaskId, usize>,
    /// The task whose status decides the state of a session that is not a conversation: the workflow, or else the
    /// newest run that is not a subagent run.
    head_task: Option<TaskId>,
    /// The name and the task ids of each stage; empty if the session has no workflow.
    stages: Vec<(String, Vec<TaskId>)>,
    stage: u32,
    chat: Option<ChatState>,
    open: BTreeSet<InteractionId>,
    /// The result of a subagent goes to the run that started it, not to the history.
    subagent_runs: BTreeSet<TaskId>,
    history: Vec<Item>,
    closed: bool,
}

impl CheckpointFold {
    /// Folds the next event.
    pub fn apply(&mut self, event: &Event) {
        self.seq = event.seq;
        self.updated = event.at;
        match &event.fact {
            Fact::SessionOpened(head) => self.head = Some((head.clone(), event.at)),
            Fact::SessionClosed {} => self.closed = true,
            Fact::TaskCreated { id, parent: _, spec } => self.created(id, spec),
            Fact::StatusChanged { status, why } => self.status(event.task.as_ref(), *status, why.as_deref()),
            Fact::AttemptStarted { attempt, .. } => {
                if let Some(task) = self.task(event.task.as_ref()) {
                    task.attempts = task.attempts.max(*attempt);
                }
            }
            Fact::AttemptEnded { outcome, .. } => {
                if let Some(task) = self.task(event.task.as_ref()) {
                    task.error = failure(outcome);
                    if let AttemptOutcome::Exited { exit_code, .. } = outcome {
                        task.exit_code = *exit_code;
                    }
                }
            }
            Fact::PhaseChanged { phase: Phase::Stage(index) } => self.stage = *index,
            Fact::PhaseChanged { phase: Phase::Chat(state) } => self.chat = Some(*state),
            Fact::OpAccepted { op: Op::SendMessage { text, .. }, .. } => {
                self.history.push(Item::PromptSent { text: text.clone(), error: None });
            }
            Fact::ItemAdded { item, .. } => self.add_message(event.task.as_ref(), item),
            Fact::InteractionOpened(interaction) => {
                self.open.insert(interaction.id.clone());
            }
            Fact::InteractionClosed { id, .. } => {
                self.open.remove(id);
            }
            Fact::Decided(Verdict::Finished { result, .. }) => {
                if event.task.as_ref().is_none_or(|task| !self.subagent_runs.contains(task)) {
                    self.finished(result);
                }
            }
            Fact::OpAccepted { op: Op::Retry { .. }, .. } => self.closed = false,
            Fact::OpAccepted { .. }
            | Fact::PhaseChanged { .. }
            | Fact::Decided(
                Verdict::Winner { .. }
                | Verdict::Override { .. }
                | Verdict::Restarted { .. }
                | Verdict::Compacted { .. },
            )
            | Fact::Notice(_)
            | Fact::TimerFired(_) => {}
        }
    }

    /// The checkpoint as of the last event; `None` before the session was opened.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        let (head, created_at) = self.head.as_ref()?;
        Some(Checkpoint {
            id: head.session.clone(),
            kind: head.kind,
            goal: self.goal(head),
            cwd: head.cwd.clone(),
            state: self.state(),
            current_stage_index: self.stage,
            stages: self.stages(),
            history: self.history.clone(),
            seq: self.seq,
            created_at: *created_at,
            updated_at: self.updated,
        })
    }

    /// For a conversation, the goal is the first line with text of the first message that is not blank.
    fn goal(&self, head: &SessionOpened) -> String {
        let first = self.history.iter().find_map(|item| match item {
            Item::PromptSent { text, .. } if head.kind == SessionKind::Chat => text.trim().lines().next(),
            _ => None,
        });
        first.map_or_else(|| head.goal.clone(), |line| line.chars().take(GOAL_CHARS).collect())
    }

    fn created(&mut self, id: &TaskId, spec: &TaskSpec) {
        match spec {
            TaskSpec::Workflow(spec) => {
                self.head_task = Some(id.clone());
                self.stages = stages(id, spec);
            }
            // Subagent runs and runs in a workflow never become the head task.
            TaskSpec::Run(spec) if spec.subagent_of.is_some() => {
                self.subagent_runs.insert(id.clone());
            }
            TaskSpec::Run(_) if self.stages.is_empty() => self.head_task = Some(id.clone()),
            TaskSpec::Run(_) | TaskSpec::Program(_) | TaskSpec::Chat(_) | TaskSpec::Work { .. } => {}
        }
        self.task_indexes.insert(id.clone(), self.tasks.len());
        // The newest try of a run stands for the run of the workflow file.
        self.task_indexes.insert(id.without_retry(), self.tasks.len());
        self.tasks.push(pending(id));
    }

    /// The stages; a session without a workflow has one unnamed stage.
    fn stages(&self) -> Vec<CheckpointStage> {
        if self.stages.is_empty() {
            return vec![CheckpointStage { name: String::new(), tasks: self.tasks.clone() }];
        }
        let workflow = self.head_task.as_ref().map(|id| format!("{id}.")).unwrap_or_default();
        let task = |id: &TaskId| {
            let name = TaskId::from(id.as_str().strip_prefix(&workflow).unwrap_or(id.as_str()));
            let known = self.task_indexes.get(id).and_then(|at| self.tasks.get(*at)).cloned();
            CheckpointTask { id: name, ..known.unwrap_or_else(|| pending(id)) }
        };
        let stage = |(name, tasks): &(String, Vec<TaskId>)| CheckpointStage {
            name: name.clone(),
            tasks: tasks.iter().map(task).collect(),
        };
        self.stages.iter().map(stage).collect()
    }

    /// Adds messages to and from CLI agents, and replies of the chat agent. `apply` adds the messages to the chat
    /// agent.
    fn add_message(&mut self, task: Option<&TaskId>, item: &Item) {
        let conversing = self.chat.is_some() && task == Some(&TaskId::chat());
        match item {
            Item::PromptSent { .. } | Item::Said { .. } => self.history.push(item.clone()),
            Item::Reply(reply) if conversing && !reply.text.is_empty() => {
                self.history.push(Item::Said { text: reply.text.clone() });
            }
            _ => {}
        }
    }

    fn task(&mut self, id: Option<&TaskId>) -> Option<&mut CheckpointTask> {
        let index = *self.task_indexes.get(id?)?;
        self.tasks.get_mut(index)
    }

    fn status(&mut self, id: Option<&TaskId>, status: TaskStatus, why: Option<&str>) {
        let Some(task) = self.task(id) else { return };
        task.status = status;
        match status {
            // A status change without a reason keeps the error of the last attempt.
            TaskStatus::Failed => task.error = why.map(str::to_owned).or_else(|| task.error.take()),
            TaskStatus::Done => task.error = None,
            TaskStatus::Pending
            | TaskStatus::Running
            | TaskStatus::WaitingForUser
            | TaskStatus::Cancelled
            | TaskStatus::Interrupted => {}
        }
    }

    fn finished(&mut self, result: &RunResult) {
        if let Some(text) = &result.final_answer {
            let reply = Reply { text: text.clone(), usage: result.usage, ..Reply::default() };
            self.history.push(Item::Reply(reply));
        }
    }

    fn state(&self) -> SessionState {
        let waits = self.tasks.iter().any(|task| task.status == TaskStatus::WaitingForUser);
        if self.head.as_ref().is_some_and(|(head, _)| head.kind == SessionKind::Chat) {
            return match self.chat.unwrap_or_default() {
                ChatState::Idle => SessionState::Idle,
                ChatState::Chatting => SessionState::Chatting,
                ChatState::AwaitingApproval => SessionState::AwaitingApproval,
                // A run of the conversation may wait for a person, for example to override its winner.
                ChatState::Running if waits => SessionState::AwaitingInteraction,
                ChatState::Running => SessionState::Running,
                ChatState::ProcessingResults => SessionState::ProcessingResults,
                ChatState::ProcessingPartial => SessionState::ProcessingPartial,
                ChatState::ProcessingCancelled => SessionState::ProcessingCancelled,
            };
        }
        let run = self
            .head_task
            .as_ref()
            .and_then(|id| self.task_indexes.get(id))
            .and_then(|at| self.tasks.get(*at));
        match run.map(|task| task.status) {
            None if self.closed => SessionState::Done,
            None => SessionState::Idle,
            Some(TaskStatus::Done) => SessionState::Done,
            Some(TaskStatus::Failed) => SessionState::Failed,
            Some(TaskStatus::Cancelled) => SessionState::Cancelled,
            Some(TaskStatus::WaitingForUser) => SessionState::AwaitingInteraction,
            Some(TaskStatus::Pending | TaskStatus::Running | TaskStatus::Interrupted) => {
                if self.open.is_empty() && !waits {
                    SessionState::Running
                } else {
                    SessionState::AwaitingInteraction
                }
            }
        }
    }
}

fn stages(workflow: &TaskId, spec: &WorkflowSpec) -> Vec<(String, Vec<TaskId>)> {
    let tasks = |stage: &StageSpec| stage.tasks.iter().map(|task| workflow.stage_task(&task.id)).collect();
    spec.stages.iter().map(|stage| (stage.name.clone(), tasks(stage))).collect()
}

fn pending(id: &TaskId) -> CheckpointTask {
    CheckpointTask { id: id.clone(), status: TaskStatus::Pending, attempts: 0, exit_code: None, error: None }
}

fn failure(outcome: &AttemptOutcome) -> Option<String> {
    match outcome {
        AttemptOutcome::Failed { error, .. } => Some(error.clone()),
        AttemptOutcome::GaveUp { reason } => Some(reason.clone()),
        AttemptOutcome::TimedOut => Some("it timed out".to_owned()),
        AttemptOutcome::Exited { error, .. } => error.clone(),
        AttemptOutcome::Answered
        | AttemptOutcome::Voted
        | AttemptOutcome::Abstained
        | AttemptOutcome::Said
        | AttemptOutcome::Paused
        | AttemptOutcome::Presented { .. }
        | AttemptOutcome::Evaluated { .. }
        | AttemptOutcome::Cancelled
        | AttemptOutcome::Interrupted => None,
    }
}
