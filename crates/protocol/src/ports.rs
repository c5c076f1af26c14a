//! The ports: traits through which one crate uses what another implements, without depending on it. The app passes the
//! implementations in.

use crate::{
    AnswerLabel, BackendError, BackendInfo, ChatSpec, Delta, EditPreview, Event, FeedItem, FileWrite, Grant,
    ModelRequest, PlanDraft, PlanRef, PlanRun, Reply, RunSpec, Screen, Seq, Submission, TaskId, Timestamp,
    ToolCall, ToolSpec,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A boxed future: the return type of the ports' asynchronous methods.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Receives a reply's pieces as they stream; must not block.
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
    /// The agent may only read the context paths.
    ReadOnly,
    /// The agent may write to the writable context paths: the presenter, the agent of a quick run with one agent, and
    /// the chat agent.
    Writable,
}

/// The result of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOutcome {
    /// The text for the model; a long text is already truncated, with a note on where the rest is.
    pub content: String,
    /// Whether the call was refused or failed.
    pub is_error: bool,
}

/// The tools of one agent: file tools, commands, MCP servers. The agent's grant is fixed when the host is created.
pub trait ToolHost: Send + Sync {
    /// The tools that the host offers under this access.
    fn tools(&self, access: ContextAccess) -> Vec<ToolSpec>;

    /// Executes a call to one of the host's tools. Failures are results for the model. Dropping the future cancels the
    /// call and ends every process that it started.
    fn call<'a>(&'a self, call: &'a ToolCall, access: ContextAccess) -> BoxFuture<'a, ToolOutcome>;

    /// What a call would change in files, without changing anything; or the refusal, if the call would be refused. The
    /// preview of a tool that is not a file tool has no files.
    fn preview<'a>(
        &'a self,
        call: &'a ToolCall,
        access: ContextAccess,
    ) -> BoxFuture<'a, Result<EditPreview, ToolOutcome>> {
        let _ = (call, access);
        Box::pin(async { Ok(EditPreview::default()) })
    }

    /// Executes a call if it would still change exactly what its preview with this digest showed; otherwise refuses it.
    fn call_previewed<'a>(
        &'a self,
        call: &'a ToolCall,
        access: ContextAccess,
        digest: &'a str,
    ) -> BoxFuture<'a, ToolOutcome> {
        let _ = digest;
        self.call(call, access)
    }
}

/// The environment of a member of a run or of the chat agent: its workspace, its views of other members' snapshots, its
/// tools.
pub trait AgentEnv: Send + Sync {
    /// The agent's working directory, as the agent and the run's result name it.
    fn path(&self) -> &str;

    /// The agent's tools.
    fn tool_host(&self) -> &dyn ToolHost;

    /// What the agent may access. CLI agents bring their own tools; all other tools are confined by the same grant.
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

    /// The directory that shows the snapshot of another member; `agent` is its anonymous number.
    fn view_of(&self, agent: u32) -> String;

    /// Copies another directory of the session into the workspace under `name`, replacing what is there.
    fn import_dir<'a>(&'a self, from: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), String>>;

    /// Records the state of the writable context paths, so that changes can be listed and undone, and makes them
    /// writable.
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

    /// Opens the environment of the chat agent, whose files are in `dir`; None if the conversation has no chat agent,
    /// or if this implementation gives the chat agent neither files nor tools.
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
    /// Stores the plan of a planning run, or returns why the answer contains none. Idempotent per run, because it is
    /// called again after a crash.
    fn store(&self, draft: &PlanDraft) -> Result<PlanRef, String>;

    /// Reads the stored plan that a run is about to execute and marks it approved. The result may differ from `plan`,
    /// because people may have edited the stored plan.
    fn open(&self, plan: &PlanRun) -> Result<PlanRun, String>;
}

/// The session's log and files, for their single writer.
pub trait Journal: Send {
    /// Writes these events and returns once they are durable: all of them, or none and an error. After an error they
    /// may be appended again.
    fn append(&mut self, events: &[Arc<Event>]) -> Result<(), JournalError>;

    /// Writes a file of a task for people to read. The log stays the source of truth.
    fn write_file(&mut self, task: &TaskId, name: &str, text: &str) -> Result<(), JournalError>;
}

/// The session's log, for readers.
pub trait JournalReader: Send + Sync {
    /// The durable events after `after`, at most up to and including `up_to`. Inside a Tokio runtime, the read does not
    /// block the thread that polls the future.
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
    /// Nothing was recorded that could be resumed, for example because the process was killed right after it had created
    /// the session.
    Blank,
    /// The stored data is damaged, or was written by a newer version.
    Unreadable,
    /// The disk is full, or the storage refuses writes for another reason that may pass.
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
    /// Submits an op. Returns false if the session has ended.
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
