//! The session in brief, as a pure fold over its facts.
//!
//! The log is the truth, so the checkpoint must follow from the log alone: no clock, no disk, nothing remembered from
//! elsewhere. Whoever folds the same events gets the same checkpoint.

use althing_protocol::{
    AttemptOutcome, Checkpoint, CheckpointStage, CheckpointTask, Event, Fact, InteractionId, Item, Reply,
    SessionOpened, SessionState, TaskId, TaskSpec, TaskStatus, Timestamp, Verdict,
};
use althing_protocol::{RunResult, Seq};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The checkpoint of these events, from the first; None if they do not begin with a session.
pub fn rebuild_checkpoint(events: &[Arc<Event>]) -> Option<Checkpoint> {
    let mut fold = CheckpointFold::default();
    for event in events {
        fold.apply(event);
    }
    fold.checkpoint()
}

/// The same fold, event by event, for one who follows the log.
#[derive(Clone, Debug, Default)]
pub struct CheckpointFold {
    head: Option<(Box<SessionOpened>, Timestamp)>,
    seq: Seq,
    updated: Timestamp,
    tasks: Vec<CheckpointTask>,
    /// Where each task is in `tasks`.
    places: HashMap<TaskId, usize>,
    /// The newest run: its status is the session's.
    run: Option<TaskId>,
    open: BTreeSet<InteractionId>,
    history: Vec<Item>,
    closed: bool,
}

impl CheckpointFold {
    /// Takes the next event in.
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
                }
            }
            Fact::InteractionOpened(interaction) => {
                self.open.insert(interaction.id.clone());
            }
            Fact::InteractionClosed { id, .. } => {
                self.open.remove(id);
            }
            Fact::Decided(Verdict::Finished { result, .. }) => self.finished(result),
            Fact::OpAccepted { .. }
            | Fact::ItemAdded { .. }
            | Fact::PhaseChanged { .. }
            | Fact::Decided(Verdict::Winner { .. } | Verdict::Override { .. })
            | Fact::Notice(_)
            | Fact::TimerFired(_) => {}
        }
    }

    /// The checkpoint as of the last event; None before the session was opened.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        let (head, created_at) = self.head.as_ref()?;
        Some(Checkpoint {
            id: head.session.clone(),
            kind: head.kind,
            goal: head.goal.clone(),
            state: self.state(),
            current_stage_index: 0,
            stages: vec![CheckpointStage { tasks: self.tasks.clone() }],
            history: self.history.clone(),
            seq: self.seq,
            created_at: *created_at,
            updated_at: self.updated,
        })
    }

    fn created(&mut self, id: &TaskId, spec: &TaskSpec) {
        if let TaskSpec::Run(_) = spec {
            self.run = Some(id.clone());
        }
        self.places.insert(id.clone(), self.tasks.len());
        self.tasks.push(CheckpointTask {
            id: id.clone(),
            status: TaskStatus::Pending,
            attempts: 0,
            exit_code: None,
            error: None,
        });
    }

    fn task(&mut self, id: Option<&TaskId>) -> Option<&mut CheckpointTask> {
        let place = *self.places.get(id?)?;
        self.tasks.get_mut(place)
    }

    fn status(&mut self, id: Option<&TaskId>, status: TaskStatus, why: Option<&str>) {
        let Some(task) = self.task(id) else { return };
        task.status = status;
        match status {
            // The attempt that failed last often said it better than the change of status does.
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
        let run = self.run.as_ref().and_then(|id| self.places.get(id)).and_then(|at| self.tasks.get(*at));
        match run.map(|task| task.status) {
            None if self.closed => SessionState::Done,
            None => SessionState::Idle,
            Some(TaskStatus::Done) => SessionState::Done,
            Some(TaskStatus::Failed) => SessionState::Failed,
            Some(TaskStatus::Cancelled) => SessionState::Cancelled,
            Some(TaskStatus::WaitingForUser) => SessionState::AwaitingInteraction,
            Some(TaskStatus::Pending | TaskStatus::Running | TaskStatus::Interrupted) => {
                if self.open.is_empty() { SessionState::Running } else { SessionState::AwaitingInteraction }
            }
        }
    }
}

/// Why an attempt came to nothing, in a line.
fn failure(outcome: &AttemptOutcome) -> Option<String> {
    match outcome {
        AttemptOutcome::Failed { error, .. } => Some(error.clone()),
        AttemptOutcome::GaveUp { reason } => Some(reason.clone()),
        AttemptOutcome::TimedOut => Some("its time was up".to_owned()),
        AttemptOutcome::Answered
        | AttemptOutcome::Voted
        | AttemptOutcome::Presented { .. }
        | AttemptOutcome::Cancelled
        | AttemptOutcome::Interrupted => None,
    }
}
