//! The traits that join the crates. Whoever fills a port never knows who else does.

use crate::{
    AnswerLabel, BackendError, BackendInfo, ChatSpec, Delta, Event, FeedItem, FileWrite, Grant, ModelRequest,
    PlanDraft, PlanRef, PlanRun, Reply, RunSpec, Screen, Seq, Submission, TaskId, Timestamp, ToolCall,
    ToolSpec,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A future behind a port.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where a backend puts what streams. Called on the hot path: it must not block.
pub type DeltaSink<'a> = &'a mut (dyn FnMut(Delta<'_>) + Send);

/// Something that answers a model call: a provider's API, or the offline model.
pub trait Backend: Send + Sync {
    /// What it is.
    fn info(&self) -> &BackendInfo;

    /// Makes one call: streams into `on_delta`, retries what is worth it, gives the whole reply or a typed failure
    /// within its limits. Dropping the future cancels the call.
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        on_delta: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Reply, BackendError>>;
}

/// What an agent may do to the context paths that its run may write to at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContextAccess {
    /// Read them. So it is while agents work in parallel.
    ReadOnly,
    /// Write to those that are configured as writable. So it is for the presenter, and for a quick single agent.
    Writable,
}

/// What a tool call gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOutcome {
    /// What the model is told; already cut to what it should see, with a note where the rest is.
    pub content: String,
    /// Whether the call was refused or failed.
    pub is_error: bool,
}

/// Tools that one agent can use: its files, its commands, its MCP servers. One host serves one agent, so that what the
/// agent may touch is settled when the host is made.
pub trait ToolHost: Send + Sync {
    /// The tools it offers under this access.
    fn tools(&self, access: ContextAccess) -> Vec<ToolSpec>;

    /// Carries out a call of one of them. Never fails as such: a refusal or a failure is told to the model. Dropping the
    /// future cancels the call and whatever it started.
    fn call<'a>(&'a self, call: &'a ToolCall, access: ContextAccess) -> BoxFuture<'a, ToolOutcome>;
}

/// The place where one agent of one run works: its workspace, its view of the others' work, its tools.
pub trait AgentEnv: Send + Sync {
    /// The directory that the agent works in, as the agent and the result name it.
    fn path(&self) -> &str;

    /// Its tools.
    fn tool_host(&self) -> &dyn ToolHost;

    /// What the agent may touch under this access, for CLI agents, which bring tools of their own. The file tools, commands
    /// and MCP servers of this place are confined by the same grant.
    fn grant(&self, access: ContextAccess) -> Grant {
        let _ = access;
        Grant::default()
    }

    /// What the agent should know of its place: paths, instructions found in them.
    fn briefing(&self, access: ContextAccess) -> String;

    /// Keeps the workspace as it is now, under the name of the answer that goes with it.
    fn snapshot(&self, label: AnswerLabel) -> BoxFuture<'_, Result<(), String>>;

    /// Lets the agent see what was kept with these answers of others, read-only, in place of what it saw before.
    fn show_snapshots(&self, labels: Vec<AnswerLabel>) -> BoxFuture<'_, Result<(), String>>;

    /// Where the agent sees what was kept with another's answers.
    fn view_of(&self, agent: u32) -> String;

    /// Puts what is in another directory of the session into the workspace, under this name, in place of what is there.
    fn import_dir<'a>(&'a self, from: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), String>>;

    /// Remembers the writable context paths as they are, and opens them to the agent.
    fn open_context(&self) -> BoxFuture<'_, Result<(), String>>;

    /// Closes them again and says what changed.
    fn close_context(&self) -> BoxFuture<'_, Result<Vec<FileWrite>, String>>;
}

/// Makes the places where agents work.
pub trait AgentEnvs: Send + Sync {
    /// The place of one member of a run whose files are in `run_dir`; made anew or found again.
    fn open<'a>(
        &'a self,
        run: &'a TaskId,
        run_dir: &'a str,
        spec: &'a RunSpec,
        seat: usize,
    ) -> BoxFuture<'a, Result<Arc<dyn AgentEnv>, String>>;

    /// The place of a conversation's own agent, whose files are in `dir`; None where it has neither files nor tools.
    fn open_chat<'a>(
        &'a self,
        dir: &'a str,
        spec: &'a ChatSpec,
    ) -> BoxFuture<'a, Result<Option<Arc<dyn AgentEnv>>, String>> {
        let _ = (dir, spec);
        Box::pin(async { Ok(None) })
    }
}

/// Stores plans, which outlive the session that made them. Its methods may block.
pub trait Plans: Send + Sync {
    /// Stores the plan of a planning run, or says why there is none. The plan of the same run is stored once, however often
    /// this is called: after a crash nobody knows whether it was stored.
    fn store(&self, draft: &PlanDraft) -> Result<PlanRef, String>;

    /// The plan that a run is to carry out as it is stored now, approved; or why it cannot be read.
    fn open(&self, plan: &PlanRun) -> Result<PlanRun, String>;
}

/// The session's log and files, for the one who writes them.
pub trait Journal: Send {
    /// Writes these events and returns once they are durable: all of them, or none and an error. After an error the
    /// same events may be appended again.
    fn append(&mut self, events: &[Arc<Event>]) -> Result<(), JournalError>;

    /// Keeps a file of a task for people to read; the log stays the truth.
    fn write_file(&mut self, task: &TaskId, name: &str, text: &str) -> Result<(), JournalError>;
}

/// The session's log, for those who only read it.
pub trait JournalReader: Send + Sync {
    /// The events after `after`, up to and including `up_to`, in order. Never blocks the thread that polls it.
    fn read(&self, after: Seq, up_to: Seq) -> BoxFuture<'_, Result<Vec<Arc<Event>>, JournalError>>;
}

/// Why sessions could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JournalError {
    /// What kind of failure it is: callers decide by this.
    pub kind: JournalErrorKind,
    /// For people: which file, what happened.
    pub message: String,
    /// What a person can do about it.
    pub hint: Option<String>,
}

/// Kinds of failures of a journal or a session store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalErrorKind {
    /// There is no such session.
    NotFound,
    /// There is a session of that id already.
    Exists,
    /// Another writer owns the session: it was taken, or taken over.
    OwnedElsewhere,
    /// What is stored cannot be read, or not by this version.
    Unreadable,
    /// The storage takes nothing for now. Waiting can help: a full disk is freed, a server comes back.
    Unavailable,
    /// Anything else; trying again does not help.
    Failed,
}

impl JournalError {
    /// Whether the failure may pass, so that trying the same again makes sense.
    pub fn is_retryable(&self) -> bool {
        self.kind == JournalErrorKind::Unavailable
    }
}

/// A running session, as front ends see it: they fold its events and send ops, and know nothing else of it.
pub trait Engine: Send + Sync {
    /// Asks for something; the answer comes as events. False when the session has ended.
    fn submit(&self, submission: Submission) -> bool;

    /// Everything after `from`: history first, then live, without a gap or a repeat.
    fn subscribe(&self, from: Seq, interest: Interest) -> Box<dyn EventStream>;

    /// The screen of a program that has one.
    fn screen(&self, task: &TaskId) -> Option<Screen>;
}

/// What somebody who follows a session wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Facts, and what one must know to follow them.
    Facts,
    /// Passing progress too.
    Everything,
}

/// What a front end reads.
pub trait EventStream: Send {
    /// The next item; None at the session's end.
    fn next(&mut self) -> BoxFuture<'_, Option<Result<FeedItem, JournalError>>>;
}

/// The time. Deciders never see it.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}
