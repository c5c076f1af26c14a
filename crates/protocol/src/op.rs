//! Ops: the requests of front ends to the engine, as plain data.

use crate::{ChatSpec, Decision, InteractionId, ModeChoice, PathGrant, RunSpec, Seq, TaskId, WorkflowSpec};
use serde::{Deserialize, Serialize};

/// A request to the engine, which accepts it, or rejects it with a notice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Start a run.
    StartRun {
        /// The resolved spec of the run.
        spec: Box<RunSpec>,
    },
    /// Start a workflow.
    StartWorkflow {
        /// The resolved spec of the workflow.
        spec: Box<WorkflowSpec>,
    },
    /// Start a conversation.
    StartChat {
        /// The resolved spec of the conversation.
        spec: Box<ChatSpec>,
    },
    /// Send a message to the conversation. The message is queued while a turn is in progress.
    SendMessage {
        /// The text of the message.
        text: String,
        /// The user's mode choices for this message; others are taken from the conversation.
        #[serde(default)]
        modes: ModeChoice,
        /// Paths that the user grants to the runs of this message. Only a front end in which a person typed `@path` or
        /// `@path:w` sets this; the text of the message grants nothing.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        grants: Vec<PathGrant>,
    },
    /// Withdraw a queued message.
    Unqueue {
        /// The number of the fact `OpAccepted` that contains the message.
        message: Seq,
    },
    /// Preserve a message verbatim when the conversation is compacted.
    Pin {
        /// The number of the fact that contains the message or the reply; None: the newest message.
        message: Option<Seq>,
    },
    /// Compact the conversation now.
    Compact,
    /// Change the mode choices.
    SetModes {
        /// The new mode choices.
        modes: ModeChoice,
    },
    /// Type into a program's terminal. Never recorded, because the input may be a password.
    Input {
        /// The task that the program belongs to.
        task: TaskId,
        /// The input.
        bytes: Vec<u8>,
    },
    /// Resize a program's terminal. Never recorded.
    Resize {
        /// The task that the program belongs to.
        task: TaskId,
        /// The new number of columns.
        cols: u16,
        /// The new number of rows.
        rows: u16,
    },
    /// Answer an open interaction.
    Answer {
        /// The id of the interaction.
        interaction: InteractionId,
        /// The person's answer.
        decision: Decision,
    },
    /// Start a failed or cancelled task of a workflow again. If the workflow has ended, it continues.
    Retry {
        /// The task to start again.
        task: TaskId,
    },
    /// Pause the countdown of an open interaction, or let it continue. Ignored if the interaction is not open or has no
    /// countdown. A resume of the session starts the countdown again.
    PauseCountdown {
        /// The id of the interaction.
        interaction: InteractionId,
        /// Whether the countdown is paused.
        paused: bool,
    },
    /// Stop a task and its descendants, or the current turn of a conversation; partial results are kept.
    Cancel {
        /// The task to stop.
        task: TaskId,
    },
    /// Stop the reply of the chat agent, but never a run: rejected while a run is active or an interaction is open.
    StopReply,
    /// Resume an interrupted session.
    Resume,
    /// Stop the session so that it can be resumed.
    Shutdown,
}

/// An idempotency key for an op, unique within a session: once an op was accepted, another delivery under the same id
/// is ignored.
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
    /// The requested op.
    pub op: Op,
    /// Who submitted the op.
    pub by: Origin,
    /// The sender's id for the op, if any.
    pub id: Option<OpId>,
}

impl Submission {
    /// A submission without an id: if it is delivered twice, both deliveries are handled.
    pub fn new(op: Op, by: Origin) -> Self {
        Self { op, by, id: None }
    }
}

/// Who submitted an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person at the terminal, or their script.
    User,
    /// An MCP client.
    Client,
    /// A signal from the operating system.
    Signal,
    /// Althing itself.
    System,
}
