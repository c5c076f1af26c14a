//! The supervisor: the only impure part of the engine.
//!
//! One thread owns a session (`session.rs`). It takes ops and doers' reports, turns them into facts, lets the deciders say
//! what follows, writes everything to the journal in one batch, publishes it, and only then starts or stops doers
//! (`reconcile.rs`). So nothing is shown or begun that a crash could make unsaid, and everything that arrives while the
//! disk is busy goes into the next batch.

mod effects;
mod envs;
mod feed;
mod program_reports;
mod progress;
mod reconcile;
mod session;
mod timers;

use althing_protocol::{
    AgentEnvs, AgentId, Backend, Clock, Engine, Event, EventStream, Interest, Journal, JournalError,
    JournalReader, Plans, ProgramReport, Programs, RunResult, Screen, Seq, SessionId, SessionOpened,
    Submission, TaskId,
};
use effects::{EffectId, EffectOutcome};
pub use feed::{Feed, Subscription};
use session::Session;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// The agents' backends, by agent.
pub type Backends = HashMap<AgentId, Arc<dyn Backend>>;
/// Told of every fact once it is on disk, before it is shown and before anything is begun because of it.
pub type Observer = Box<dyn FnMut(&Event) + Send>;
/// Takes secrets out of what is written or shown.
pub trait Mask: Send + Sync {
    /// An event without them.
    fn event(&self, event: Event) -> Event;

    /// A text without them.
    fn text(&self, text: &str) -> String;

    /// How many bytes at the end of a text may be the beginning of one.
    fn unfinished(&self, text: &str) -> usize;
}

/// Everything a session needs from outside.
pub struct SessionDeps {
    /// Which session.
    pub session: SessionId,
    /// Its log, for writing.
    pub journal: Box<dyn Journal>,
    /// Its log, for reading.
    pub reader: Arc<dyn JournalReader>,
    /// What the log holds already; empty for a new session.
    pub history: Vec<Arc<Event>>,
    /// The agents' backends.
    pub backends: Backends,
    /// Where agents with hands work; None where nobody has any.
    pub agent_envs: Option<Arc<dyn AgentEnvs>>,
    /// What runs programs; None where nothing does.
    pub programs: Option<Arc<dyn Programs>>,
    /// Stores plans; None where nothing does.
    pub plans: Option<Arc<dyn Plans>>,
    /// Keeps what outlives the session; None where nothing does.
    pub observer: Option<Observer>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Takes out secrets.
    pub mask: Arc<dyn Mask>,
    /// Where a task's files are, as its result names it.
    pub task_dir: Box<dyn Fn(&TaskId) -> String + Send>,
    /// Where doers run.
    pub runtime: tokio::runtime::Handle,
    /// How long a disk that takes nothing is waited for before the session stops.
    pub journal_retry_timeout: Duration,
}

/// Why a session's thread ended.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionEnd {
    /// What it was opened for is done.
    Finished,
    /// It was asked to stop; it can be resumed. With it, what its runs had so far.
    Halted(Vec<RunResult>),
    /// The disk took nothing more; what was shown is safe.
    Disk(JournalError),
}

/// The session's thread is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended")]
pub struct SubmitError;

pub(crate) enum Input {
    Op(Submission),
    ProgramReported { id: EffectId, report: ProgramReport },
    EffectEnded { id: EffectId, outcome: EffectOutcome },
}

/// A session under supervision: the handle that front ends hold.
pub struct Orchestrator {
    inbox: Sender<Input>,
    feed: Feed,
    programs: Option<Arc<dyn Programs>>,
    thread: JoinHandle<SessionEnd>,
}

/// A cheap handle that only submits ops.
#[derive(Clone)]
pub struct Submitter(Sender<Input>);

impl Submitter {
    /// Asks for something; the answer comes as events.
    pub fn submit(&self, submission: Submission) -> Result<(), SubmitError> {
        self.0.send(Input::Op(submission)).map_err(|_| SubmitError)
    }
}

/// Ends the stream of events however its session ends: after a panic, nobody may wait for what will never come.
struct CloseFeedOnDrop(Feed);

impl Drop for CloseFeedOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Orchestrator {
    /// Takes over a session: a new one with its opening, or one with a history.
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

    /// The stream of events.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// The session as front ends see it. While such a handle lives, the session waits for what is asked of it.
    pub fn engine_handle(&self) -> EngineHandle {
        EngineHandle { submitter: self.submitter(), feed: self.feed.clone(), programs: self.programs.clone() }
    }

    /// Waits for the session's end.
    pub fn join(self) -> std::thread::Result<SessionEnd> {
        drop(self.inbox);
        self.thread.join()
    }
}

/// What a front end holds of a session.
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
