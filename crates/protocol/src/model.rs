//! Model requests and replies, independent of any provider's wire format.

use crate::{Grant, Millis, Notice, TaskId, Usage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// A tool that is offered to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name by which the model calls the tool.
    pub name: String,
    /// A text for the model: what the tool does and when to use it.
    pub description: String,
    /// JSON Schema of the tool's arguments.
    pub parameters: serde_json::Value,
}

/// A tool call by a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's id for the call, unique within one reply.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments as the model wrote them: should be a JSON object, but may be invalid.
    pub arguments: String,
}

/// One message of the conversation in a model request.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A message of the user, or of Althing on the user's behalf.
    User(String),
    /// An earlier reply of the model.
    Assistant {
        /// The reply's text; may be empty if the model only called tools.
        text: String,
        /// The reply's tool calls.
        tool_calls: Vec<ToolCall>,
    },
    /// The result of one of the model's tool calls.
    Tool {
        /// The id of the call.
        call: String,
        /// The result's text.
        content: String,
        /// Whether the call failed or was refused.
        is_error: bool,
    },
}

impl Message {
    /// Everything in the message that somebody wrote. The code of marker lines around the message must occur in none of
    /// these texts.
    pub fn texts(&self) -> Vec<&str> {
        match self {
            Self::User(text) | Self::Tool { content: text, .. } => vec![text],
            Self::Assistant { text, tool_calls } => {
                let calls = tool_calls.iter().flat_map(|call| [call.name.as_str(), call.arguments.as_str()]);
                std::iter::once(text.as_str()).chain(calls).collect()
            }
        }
    }
}

/// The input of one model call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// The system prompt.
    pub system: Arc<str>,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools on offer.
    pub tools: Vec<ToolSpec>,
    /// The context of the call, for backends that are CLI agents.
    pub call_context: Option<CallContext>,
}

/// The context of a model call: what a CLI agent needs beyond the messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallContext {
    /// The task that the call belongs to.
    pub work: TaskId,
    /// The attempt that the call belongs to.
    pub attempt: u32,
    /// The id of the CLI agent's own conversation to resume. It already contains everything up to the last assistant
    /// message.
    pub native: Option<String>,
    /// The working directory of a CLI agent: its workspace, or a directory of the user.
    pub workspace: Option<String>,
    /// What the agent may access during this call.
    pub grant: Grant,
    /// Receives notices for the user about a call that gives no reply, even after the call was cancelled.
    pub late_notices: LateNotices,
}

/// Receives notices about a call that gives no reply. The call has ended only when all copies are dropped, so a backend
/// whose processes outlive a cancelled call keeps a copy until they are gone.
#[derive(Clone, Default)]
pub struct LateNotices(Option<Arc<dyn Fn(Notice) + Send + Sync>>);

impl LateNotices {
    /// Passes notices on to a callback, which must not block.
    pub fn new(receive: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(receive)))
    }

    /// Adds a notice.
    pub fn add(&self, notice: Notice) {
        if let Some(receive) = &self.0 {
            receive(notice);
        }
    }
}

impl std::fmt::Debug for LateNotices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LateNotices")
    }
}

/// All values are equal, so that requests can be equal although their notices go to different receivers.
impl PartialEq for LateNotices {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for LateNotices {}

/// What a session records about a model call, with its reply or its failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// SHA-256 of system prompt, messages and tools, with secrets masked. Shows whether a request that is rebuilt from
    /// the log is the one that was sent.
    pub digest: String,
    /// The time from the start of the call, including failed tries, until the first piece of the reply; None if there
    /// were no pieces.
    #[serde(default, rename = "first_token_ms", skip_serializing_if = "Option::is_none")]
    pub first_token: Option<Millis>,
    /// The duration of the call, including retries and waits for rate limits.
    #[serde(rename = "duration_ms")]
    pub duration: Millis,
}

/// What an agent's environment adds to each request of the agent. It depends on files and MCP servers, not on the log,
/// so it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Briefing {
    /// The text that is added to the system prompt.
    pub system: String,
    /// The tools that are added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Paths that are replaced in user messages: workspaces of other agents, and where this agent sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced_paths: Vec<(String, String)>,
}

impl Briefing {
    /// Adds the briefing to a request.
    pub fn add_to(&self, request: &mut ModelRequest) {
        request.system = format!("{}\n\n{}", request.system, self.system).into();
        request.tools.extend(self.tools.iter().cloned());
        for (path, seen) in &self.replaced_paths {
            for message in &mut request.messages {
                if let Message::User(text) = message
                    && text.contains(path)
                {
                    *text = text.replace(path, seen);
                }
            }
        }
    }
}

/// A complete reply of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The text of the reply.
    pub text: String,
    /// The model's reasoning, if the provider returns it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The tool calls, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Where the tool calls come from, if the model wrote them in its text; None otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_from: Option<CallsFrom>,
    /// The id of the backend's own conversation, if the backend keeps one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<String>,
    /// Whether the token limit cut the reply short.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Tokens and cost of the call. Its failed attempts before this reply are included.
    pub usage: Usage,
    /// The record of the call, which the session fills in. None in logs of 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallRecord>,
    /// What the user must know about the call. Each notice is recorded as a fact of its own, not in the reply.
    #[serde(skip)]
    pub notices: Vec<Notice>,
}

/// Where the tool calls of a reply come from, if the provider did not return them as tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallsFrom {
    /// The request contained a JSON schema of the possible calls, and the reply follows the schema.
    Schema,
    /// The model wrote the calls into its text.
    Text,
}

/// A piece of a streaming reply, borrowed to avoid allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta<'a> {
    /// More text.
    Text(&'a str),
    /// More reasoning.
    Reasoning(&'a str),
    /// The name of a tool that the model begins to call.
    ToolCall(&'a str),
    /// More of the arguments of the call that began last, as JSON.
    Arguments(&'a str),
    /// The model call failed and is retried; everything that streamed so far is void.
    Retry {
        /// The number of the retry, counted from 1.
        attempt: u32,
        /// The delay before the retry.
        after: Duration,
        /// Why the call failed.
        reason: &'a str,
    },
    /// The provider's rate limit was reached, and the call waits; everything that streamed so far is void.
    RateLimited {
        /// The wait.
        after: Duration,
        /// What the provider said.
        reason: &'a str,
    },
    /// The call waits for a local server: for a free slot, the loading of the model, or the reading of the prompt.
    Waiting {
        /// What the call waits for.
        reason: &'a str,
    },
}

/// The identity of a backend, for people and for the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendInfo {
    /// The config's `backend.type`.
    pub kind: String,
    /// The model's name.
    pub model: String,
    /// Whether the backend is the built-in offline model, which is not an AI and must be labeled as such.
    pub offline: bool,
}

/// Why a model call failed, after all retries.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct BackendError {
    /// The kind of failure.
    pub kind: BackendErrorKind,
    /// A message for people: the provider, the model, and what happened.
    pub message: String,
    /// A hint for people: how to fix the problem.
    pub hint: Option<String>,
    /// Tokens and cost of all attempts at the call.
    pub usage: Usage,
}

/// The kinds of failure of a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendErrorKind {
    /// The provider rejected the API key, or a CLI agent is not signed in.
    Auth,
    /// The model does not exist, the URL is wrong, or a CLI agent cannot be started.
    NotFound,
    /// The provider rejected the request or withheld the reply.
    BadRequest,
    /// The provider's rate limit was reached.
    RateLimited,
    /// The provider had an internal error, or a CLI agent failed for a reason that is not known.
    Server,
    /// The connection could not be established.
    Connect,
    /// The connection broke, or the stream ended before the reply was complete.
    Cut,
    /// A time limit passed.
    Timeout,
    /// The response does not follow the provider's protocol.
    Protocol,
    /// The reply exceeded a size limit.
    TooLarge,
    /// The reply was empty.
    Empty,
    /// The call was not made, because it would have exceeded the cost limit of its run.
    CostLimit,
}

impl BackendErrorKind {
    /// Whether the same call may succeed when it is retried.
    pub fn retryable(self) -> bool {
        match self {
            Self::RateLimited
            | Self::Server
            | Self::Connect
            | Self::Cut
            | Self::Timeout
            | Self::Protocol
            | Self::Empty => true,
            Self::Auth | Self::NotFound | Self::BadRequest | Self::TooLarge | Self::CostLimit => false,
        }
    }
}
