//! The ports: traits through which one crate uses what another crate implements, without depending on that crate. The
//! app passes the implementations in. Further ports are in `program.rs` and `store.rs`.

use crate::{
    AnswerLabel, BackendError, BackendInfo, ChatSpec, Delta, Event, FeedItem, FileWrite, Grant, ModelRequest,
    PlanDraft, PlanRef, PlanRun, Reply, RunSpec, Screen, Seq, Submission, TaskId, Timestamp, ToolCall,
    ToolSpec,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A boxed future: the return type of the ports' asynchronous methods.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A callback that receives a reply's pieces as they stream. It is called on the hot path, so it must not
/// block.
pub type DeltaSink<'a> = &'a mut (dyn FnMut(Delta<'_>) + Send);

/// Answers model calls: a provider's API, a CLI agent, or the offline model.
pub trait Backend: Send + Sync {
    /// The backend's type and model.
    fn info(&self) -> &BackendInfo;

    /// The cost of a call's input in US dollars, estimated before the call is made and without a discount for cached
    /// input: the call costs at least this much. None if it is not known.
    fn least_cost_usd(&self, request: &ModelRequest) -> Option<f64> {
        let _ = request;
        None
    }

    /// Makes one call: streams into `on_delta`, and returns the whole reply or a typed error within the backend's time
    /// limits. A backend may retry a failed call before it returns. Dropping the future cancels the call.
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        on_delta: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Reply, BackendError>>;
}

/// An agent's access to the writable context paths of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContextAccess {
    /// The agent may only read the context paths. This is the access of every agent that does not have `Writable`.
    ReadOnly,
    /// The agent may write to the context paths that are configured as writable. This is the access of the presenter,
    /// of the agent of a run that has only one agent and neither refinement nor votes, and of the chat agent.
    Writable,
}

/// The result of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOutcome {
    /// The text for the model. If it was too long, it is already truncated, with a note on where the rest is.
    pub content: String,
    /// Whether the call was refused or failed.
    pub is_error: bool,
}

/// The tools of one agent: file tools, commands, MCP servers. A host serves a single agent, so that the agent's grant
/// is fixed when the host is created.
pub trait ToolHost: Send + Sync {
    /// The tools that the host offers under this access.
    fn tools(&self, access: ContextAccess) -> Vec<ToolSpec>;

    /// Executes a call to one of the host's tools. Refusals and failures are results for the model, not errors.
    /// Dropping the future cancels the call and ends every process that the call started.
    fn call<'a>(&'a self, call: &'a ToolCall, access: ContextAccess) -> BoxFuture<'a, ToolOutcome>;
}

/// The environment of a member of a run: its workspace, its views of the other members' snapshots, its tools. The chat
/// agent has an environment, too.
pub trait AgentEnv: Send + Sync {
    /// The agent's working directory, as the agent and the run's result name it.
    fn path(&self) -> &str;

    /// The agent's tools.
    fn tool_host(&self) -> &dyn ToolHost;

    /// What the agent may access, for CLI agents, which bring their own tools. The environment's file tools, commands
    /// and MCP servers are confined by the same grant.
    fn grant(&self, access: ContextAccess) -> Grant {
        let _ = access;
        Grant::default()
    }

    /// The part of the system prompt that describes the environment: paths, and project instructions found in them.
    fn briefing(&self, access: ContextAccess) -> String;

    /// Takes a snapshot of the workspace, named after the answer that it belongs to.
    fn snapshot(&self, label: AnswerLabel) -> BoxFuture<'_, Result<(), String>>;

    /// Shows the agent read-only views of the snapshots of these answers, replacing the views from before.
    fn show_snapshots(&self, labels: Vec<AnswerLabel>) -> BoxFuture<'_, Result<(), String>>;

    /// The directory of the view that shows another member's snapshot; `agent` is that member's anonymous number.
    fn view_of(&self, agent: u32) -> String;

    /// Copies another directory of the session into the workspace under `name`, replacing what is there.
    fn import_dir<'a>(&'a self, from: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), String>>;

    /// Records the state of the context paths that are configured as writable, so that changes can be listed and
    /// undone, and makes these paths writable for the agent.
    fn open_context(&self) -> BoxFuture<'_, Result<(), String>>;

    /// Makes the context paths read-only again and lists what the agent changed.
    fn close_context(&self) -> BoxFuture<'_, Result<Vec<FileWrite>, String>>;
}

/// Opens the environments of agents.
pub trait AgentEnvs: Send + Sync {
    /// Opens the environment of one member of a run whose files are in `run_dir`. An existing workspace is reused.
    fn open<'a>(
        &'a self,
        run: &'a TaskId,
        run_dir: &'a str,
        spec: &'a RunSpec,
        member_index: usize,
    ) -> BoxFuture<'a, Result<Arc<dyn AgentEnv>, String>>;

    /// Opens the environment of a conversation's chat agent, whose files are in `dir`; None if the chat agent has
    /// neither files nor tools.
    fn open_chat<'a>(
        &'a self,
        dir: &'a str,
        spec: &'a ChatSpec,
    ) -> BoxFuture<'a, Result<Option<Arc<dyn AgentEnv>>, String>> {
        let _ = (dir, spec);
        Box::pin(async { Ok(None) })
    }
}

/// Stores plans, which outlive the session that made them. The methods may block.
pub trait Plans: Send + Sync {
    /// Stores the plan of a planning run, or returns why the answer contains none. Idempotent per run: after a crash
    /// the caller cannot know whether the plan was stored, and calls this again.
    fn store(&self, draft: &PlanDraft) -> Result<PlanRef, String>;

    /// Reads the stored plan that a run is about to execute and marks the plan approved. The result may differ from
    /// `plan`, because people may have changed the stored plan. If the plan cannot be read, returns why.
    fn open(&self, plan: &PlanRun) -> Result<PlanRun, String>;
}

/// The session's log and files, for their single writer.
pub trait Journal: Send {
    /// Writes these events and returns once they are durable: either all of them, or none and an error. After an error
    /// the same events may be appended again.
    fn append(&mut self, events: &[Arc<Event>]) -> Result<(), JournalError>;

    /// Writes a file of a task for people to read. The log stays the source of truth.
    fn write_file(&mut self, task: &TaskId, name: &str, text: &str) -> Result<(), JournalError>;
}

/// The session's log, for readers.
pub trait JournalReader: Send + Sync {
    /// The events after `after`, up to and including `up_to`, in order. Never blocks the thread that polls the future.
    fn read(&self, after: Seq, up_to: Seq) -> BoxFuture<'_, Result<Vec<Arc<Event>>, JournalError>>;
}

/// Why a session could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JournalError {
    /// The kind of failure, for callers that handle kinds differently.
    pub kind: JournalErrorKind,
    /// A message for people: which file, and what happened.
    pub message: String,
    /// A hint for people: how to fix the problem.
    pub hint: Option<String>,
}

/// The kinds of failure of a journal or a session store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalErrorKind {
    /// The session does not exist.
    NotFound,
    /// A session with that id already exists.
    Exists,
    /// Another writer owns the session, or has taken it over.
    OwnedElsewhere,
    /// The stored data is damaged, or was written by a newer version.
    Unreadable,
    /// The disk is full, or the storage refuses writes for another reason that may pass. The session retries.
    Unavailable,
    /// Any other failure; retrying does not help.
    Failed,
}

impl JournalError {
    /// Whether the same operation may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.kind == JournalErrorKind::Unavailable
    }
}

/// A running session, as front ends see it: they fold its events and submit ops.
pub trait Engine: Send + Sync {
    /// Submits an op, whose effects become visible as events. Returns false if the session has ended.
    fn submit(&self, submission: Submission) -> bool;

    /// Streams everything after `from`: first history, then live events, without gaps or repeats.
    fn subscribe(&self, from: Seq, interest: Interest) -> Box<dyn EventStream>;

    /// The screen of the task's program; None if the program has no terminal.
    fn screen(&self, task: &TaskId) -> Option<Screen>;
}

/// Which items a subscriber wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Facts, and the progress items that a reader of facts needs: gaps, stalls, retries.
    Facts,
    /// Facts and all progress items.
    Everything,
}

/// The feed that a front end reads: a session's events and progress.
pub trait EventStream: Send {
    /// The next item; None after the session's end.
    fn next(&mut self) -> BoxFuture<'_, Option<Result<FeedItem, JournalError>>>;
}

/// The wall clock. Deciders never read it.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}
