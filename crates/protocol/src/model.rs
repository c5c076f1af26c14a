//! What goes to a model and what comes back, in no provider's dialect.

use crate::{Grant, TaskId, Usage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// A tool as a model is offered it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name the model calls.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: serde_json::Value,
}

/// A tool call as a model made it. The arguments stay as the model wrote them: they may not even be JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's id for this call; unique within one reply.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as text, supposed to be a JSON object.
    pub arguments: String,
}

/// One message of the conversation that a model is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// From the user, or from Althing on the user's behalf.
    User(String),
    /// What the model itself said before.
    Assistant {
        /// Its text; may be empty when it only called tools.
        text: String,
        /// The tools it called.
        tool_calls: Vec<ToolCall>,
    },
    /// The result of one of its tool calls.
    Tool {
        /// The call this answers.
        call: String,
        /// The result.
        content: String,
        /// Whether it is an error.
        is_error: bool,
    },
}

/// One model call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// The system prompt.
    pub system: Arc<str>,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools offered; none means that a plain reply is wanted.
    pub tools: Vec<ToolSpec>,
    /// Where the call is made from, for backends that are programs with conversations of their own.
    pub call_context: Option<CallContext>,
}

/// Where a model call is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallContext {
    /// The work it is part of.
    pub work: TaskId,
    /// Which attempt.
    pub attempt: u32,
    /// The backend's own conversation to go on with, as its last reply named it; what follows the last message of the
    /// assistant is new to it.
    pub native: Option<String>,
    /// The directory that a CLI agent works in, where the call has one: its workspace, or a directory of the user's.
    pub workspace: Option<String>,
    /// What the agent may touch during this call.
    pub grant: Grant,
}

/// One whole reply of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The text.
    pub text: String,
    /// The reasoning, where the provider shows it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The tools it called, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The backend's own conversation, where it keeps one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<String>,
    /// Whether the model's token limit ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// What it cost, retries included.
    pub usage: Usage,
}

/// A piece of a reply as it streams. Borrowed: the hot path allocates only where someone listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta<'a> {
    /// More text.
    Text(&'a str),
    /// More reasoning.
    Reasoning(&'a str),
    /// A tool call is being written: its name.
    ToolCall(&'a str),
    /// The call failed and is tried again; what streamed before is void.
    Retry {
        /// Which retry this will be, counted from 1.
        attempt: u32,
        /// How long it waits first.
        after: Duration,
        /// What went wrong.
        reason: &'a str,
    },
}

/// What a backend is, for people and for the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendInfo {
    /// The config's `backend.type`.
    pub kind: String,
    /// The model's name.
    pub model: String,
    /// True for the built-in offline model, which is not an AI and must be labelled so wherever it shows.
    pub offline: bool,
}

/// Why a model call gave no reply, after whatever retries were worth it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct BackendError {
    /// What kind of failure it was.
    pub kind: BackendErrorKind,
    /// For people: provider, model, what happened.
    pub message: String,
    /// What a person can do about it.
    pub hint: Option<String>,
    /// What the failed calls cost all the same.
    pub usage: Usage,
}

/// The kinds of failure of a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendErrorKind {
    /// The key was refused.
    Auth,
    /// The provider does not know the model, or the address is wrong.
    NotFound,
    /// The provider refused the request as such.
    BadRequest,
    /// Too many requests.
    RateLimited,
    /// The provider failed.
    Server,
    /// No connection could be made.
    Connect,
    /// The connection broke, or the stream ended before the reply did.
    Cut,
    /// A time limit passed.
    Timeout,
    /// What came back does not speak the provider's protocol.
    Protocol,
    /// The reply was larger than we take.
    TooLarge,
    /// The reply held nothing at all.
    Empty,
}

impl BackendErrorKind {
    /// Whether the same call may succeed when it is made again.
    pub fn retryable(self) -> bool {
        match self {
            Self::RateLimited
            | Self::Server
            | Self::Connect
            | Self::Cut
            | Self::Timeout
            | Self::Protocol
            | Self::Empty => true,
            Self::Auth | Self::NotFound | Self::BadRequest | Self::TooLarge => false,
        }
    }
}
