//! The orchestrator: the only impure part of the engine. One thread owns a session: it records facts, writes them to
//! the journal in one batch, publishes the batch, and only then starts or stops effects. So a crash cannot undo a fact
//! that was shown or that started an effect.

mod answer_reader;
mod call_record;
mod cost_account;
mod cost_limit;
mod effects;
mod ending;
mod envs;
mod feed;
mod outcomes;
mod program_reports;
mod progress;
mod reconcile;
mod requests;
mod result_files;
mod session;
mod silence;
mod timers;

use althing_protocol::{
    AgentEnvs, AgentId, Backend, Clock, Engine, Event, EventStream, Interest, Journal, JournalError,
    JournalReader, Notice, Op, Plans, ProgramReport, Programs, RunResult, Screen, Seq, SessionId,
    SessionOpened, Submission, TaskId,
};
pub use cost_account::{CostAccount, OnRefusal};
use effects::{EffectId, EffectOutcome};
pub use feed::{Feed, Subscription};
pub use requests::{CallEnd, Fidelity, ModelCall, model_calls};
pub use result_files::{REPORT, ResultFile, result_files};
use session::Session;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// The backends by agent.
pub type Backends = HashMap<AgentId, Arc<dyn Backend>>;
/// A callback for every fact, called once the fact is durable, before it is published and before effects start.
pub type Observer = Box<dyn FnMut(&Event) + Send>;
/// Renders the reports of tasks that have ended: for each task, the text of its report.
pub type Reporter = Box<dyn FnMut(&[TaskId]) -> Vec<(TaskId, String)> + Send>;
/// Masks secrets in everything that is written or shown.
pub trait EventMasker: Send + Sync {
    /// Masks the secrets in an event. The masked event is the one that is acted upon, so nothing but the user's own secrets
    /// may be masked outside of free text.
    fn event(&self, event: Event) -> Event;

    /// The place in an op where a secret is a part of a command, path or the like. Such an op is refused, because it would
    /// be acted upon with a mask in place of the secret.
    fn secret_place(&self, op: &Op) -> Option<String>;

    /// Masks the secrets in a text.
    fn text(&self, text: &str) -> String;

    /// The number of bytes at the end of a text that may be the beginning of a secret.
    fn unfinished(&self, text: &str) -> usize;
}

/// The dependencies of a session.
pub struct SessionDeps {
    /// The id of the session.
    pub session: SessionId,
    /// The writer of the session's log.
    pub journal: Box<dyn Journal>,
    /// The reader of the session's log.
    pub reader: Arc<dyn JournalReader>,
    /// The events that the log already contains; empty for a new session.
    pub history: Vec<Arc<Event>>,
    /// The backends by agent.
    pub backends: Backends,
    /// Opens the environments of agents with tools; None if no agent has tools.
    pub agent_envs: Option<Arc<dyn AgentEnvs>>,
    /// Runs programs; None if the session cannot run programs.
    pub programs: Option<Arc<dyn Programs>>,
    /// Stores and reads plans; None if the session can do neither.
    pub plans: Option<Arc<dyn Plans>>,
    /// Records what outlives the session, such as project files.
    pub observer: Option<Observer>,
    /// Renders reports; None if no reports are written.
    pub reporter: Option<Reporter>,
    /// The cost limit that this session shares with others; None if it shares none.
    pub account: Option<Arc<CostAccount>>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Masks secrets.
    pub mask: Arc<dyn EventMasker>,
    /// The directory of a task's files, as in the task's result.
    pub task_dir: Box<dyn Fn(&TaskId) -> String + Send>,
    /// The async runtime on which effects run.
    pub runtime: tokio::runtime::Handle,
    /// How long writes to an unavailable journal are retried before the session stops.
    pub journal_retry_timeout: Duration,
}

/// Why a session's thread ended.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionEnd {
    /// Everything that was requested is done.
    Finished,
    /// The session was asked to stop and can be resumed. Contains the partial results of its runs without a parent.
    Halted(Vec<RunResult>),
    /// The journal could not be written. Everything that was published is durable.
    Disk(JournalError),
}

/// The session has ended, so the op was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended")]
pub struct SubmitError;

pub(crate) enum Input {
    Op(Submission),
    ProgramReported {
        id: EffectId,
        report: ProgramReport,
    },
    EffectEnded {
        id: EffectId,
        outcome: EffectOutcome,
    },
    /// A notice about an effect counts even if the effect was aborted.
    Noticed {
        id: EffectId,
        notice: Notice,
    },
    /// An aborted effect has ended, with everything that it started.
    EffectGone {
        serial: u64,
    },
}

/// Runs a session on its own thread.
pub struct Orchestrator {
    inbox: Sender<Input>,
    feed: Feed,
    programs: Option<Arc<dyn Programs>>,
    thread: JoinHandle<SessionEnd>,
}

/// Submits ops; cheap to clone.
#[derive(Clone)]
pub struct Submitter(Sender<Input>);

impl Submitter {
    /// Delivers an op to the session's thread. If the session rejects the op, it records a notice.
    pub fn submit(&self, submission: Submission) -> Result<(), SubmitError> {
        self.0.send(Input::Op(submission)).map_err(|_| SubmitError)
    }
}

/// Closes the feed, so that subscribers do not wait forever after the session's thread panicked.
struct CloseFeedOnDrop(Feed);

impl Drop for CloseFeedOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Orchestrator {
    /// Starts the thread of a session: a new one with its opening fact, or one that is resumed from its history.
    pub fn open(deps: SessionDeps, opening: Option<SessionOpened>) -> std::io::Result<Self> {
        let (inbox, received) = mpsc::channel();
        let last = deps.history.last().map_or(Seq(0), |event| event.seq);
        let feed = Feed::new(deps.reader.clone(), last);
        let programs = deps.programs.clone();
        let session = Session::new(deps, opening, feed.clone(), inbox.clone());
        let close_feed = CloseFeedOnDrop(feed.clone());
        let thread = std::thread::Builder::new().name("session".into()).spawn(move || {
            let _close_feed = close_feed;
            session.run(&received)
        })?;
        Ok(Self { inbox, feed, programs, thread })
    }

    /// A handle that submits ops.
    pub fn submitter(&self) -> Submitter {
        Submitter(self.inbox.clone())
    }

    /// The event feed.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// A handle with which front ends submit ops, subscribe to the feed, and read the screens of programs.
    pub fn engine_handle(&self) -> EngineHandle {
        EngineHandle { submitter: self.submitter(), feed: self.feed.clone(), programs: self.programs.clone() }
    }

    /// Waits for the session's end.
    pub fn join(self) -> std::thread::Result<SessionEnd> {
        drop(self.inbox);
        self.thread.join()
    }
}

/// A front end's handle of a session.
#[derive(Clone)]
pub struct EngineHandle {
    submitter: Submitter,
    feed: Feed,
    programs: Option<Arc<dyn Programs>>,
}

impl Engine for EngineHandle {
    fn submit(&self, submission: Submission) -> bool {
        self.submitter.submit(submission).is_ok()
    }

    fn subscribe(&self, from: Seq, interest: Interest) -> Box<dyn EventStream> {
        Box::new(self.feed.subscribe(from, interest))
    }

    fn screen(&self, task: &TaskId) -> Option<Screen> {
        self.programs.as_ref().and_then(|programs| programs.screen(task))
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
