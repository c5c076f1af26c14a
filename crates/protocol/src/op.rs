//! What front ends ask of the engine. An op is plain data: it can be logged, sent and replayed.

use crate::{ChatSpec, Decision, InteractionId, ModeChoice, PathGrant, RunSpec, Seq, TaskId, WorkflowSpec};
use serde::{Deserialize, Serialize};

/// A request to the engine; the answer to it is an event that names it in `cause`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Start a coordination run.
    StartRun {
        /// Everything the run needs, resolved.
        spec: Box<RunSpec>,
    },
    /// Start a workflow.
    StartWorkflow {
        /// Everything it needs, resolved.
        spec: Box<WorkflowSpec>,
    },
    /// Start a conversation.
    StartChat {
        /// Everything it needs, resolved.
        spec: Box<ChatSpec>,
    },
    /// Say something in the conversation. While a run is under way it is queued.
    SendMessage {
        /// What.
        text: String,
        /// What the user had toggled.
        #[serde(default)]
        modes: ModeChoice,
        /// Paths that the person who wrote the message grants to the runs that it leads to. Only the front end where a person
        /// typed `@path` or `@path:w` fills this in; what the text itself says grants nothing.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        grants: Vec<PathGrant>,
    },
    /// Take back a message that is still queued.
    Unqueue {
        /// The fact that accepted it.
        message: Seq,
    },
    /// Keep a message word for word, however long the conversation gets.
    Pin {
        /// The fact that accepted it, or holds the reply; None: the newest message.
        message: Option<Seq>,
    },
    /// Shorten the conversation now.
    Compact,
    /// Change what is toggled.
    SetModes {
        /// To what.
        modes: ModeChoice,
    },
    /// Type into a program's terminal. Never recorded: it may be a password.
    Input {
        /// Which.
        task: TaskId,
        /// What.
        bytes: Vec<u8>,
    },
    /// A program's terminal has another size. Never recorded.
    Resize {
        /// Which.
        task: TaskId,
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// Answer an open interaction.
    Answer {
        /// Which.
        interaction: InteractionId,
        /// The answer.
        decision: Decision,
    },
    /// Stop a task and everything below it; partial results are kept.
    Cancel {
        /// Which.
        task: TaskId,
    },
    /// Go on with an interrupted session.
    Resume,
    /// Stop everything, keep everything, so that it can be resumed.
    Shutdown,
}

/// The id that a sender gives an op, so that delivering it again does nothing more. Unique within a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpId(String);

impl From<&str> for OpId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

/// An op on its way to a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// What is asked for.
    pub op: Op,
    /// Who asks.
    pub by: Origin,
    /// The sender's own id for it, if it gives one.
    pub id: Option<OpId>,
}

impl Submission {
    /// An op without an id: each delivery counts.
    pub fn new(op: Op, by: Origin) -> Self {
        Self { op, by, id: None }
    }
}

/// Who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person at the terminal, or their script.
    User,
    /// A program that calls us over MCP.
    Client,
    /// A signal from the operating system.
    Signal,
    /// Althing itself.
    System,
}
