//! The wire formats of the server. A wire format turns a [`Reply`] into frames and bodies; it knows nothing about
//! sockets or faults.

mod chat;
mod gemini;
mod messages;
mod responses;
mod sse;

use std::collections::HashMap;

use bytes::Bytes;

use crate::reply::{Reply, ToolCall};

/// Recognized by the path of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Chat,
    Responses,
    Messages,
    Gemini,
}

/// The part of a reply that a frame carries. It decides where faults occur and which chunks a gate holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Opens or closes the stream or a part of it. Adds no text, reasoning or tool call, but may repeat them.
    Frame,
    Reasoning,
    Text,
    Tool,
    /// Carries the finish reason.
    End,
    /// Follows the finish reason; carries the usage or the end marker.
    Tail,
}

#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) part: Part,
    pub(crate) bytes: Bytes,
}

#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) seq: usize,
    pub(crate) model: String,
    /// `stream_options.include_usage`: without it OpenAI reports no usage in a stream.
    pub(crate) include_usage: bool,
    /// The field for reasoning text, which differs between compatible providers.
    pub(crate) reasoning_field: &'static str,
    /// The namespaces of the offered tools, by tool name. A call must repeat its namespace.
    pub(crate) namespaces: HashMap<String, String>,
}

impl Context {
    fn call_id(&self, index: usize, call: &ToolCall) -> String {
        call.id.clone().unwrap_or_else(|| format!("call_{}_{index}", self.seq))
    }
}

impl Wire {
    pub(crate) fn at(method: &str, path: &str) -> Option<Self> {
        let path = bare(path);
        if method != "POST" {
            None
        } else if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else if path.ends_with("/responses") {
            Some(Self::Responses)
        } else if path.ends_with("/messages") {
            Some(Self::Messages)
        } else if path.ends_with(":streamGenerateContent") || path.ends_with(":generateContent") {
            Some(Self::Gemini)
        } else {
            None
        }
    }

    pub(crate) fn frames(self, reply: &Reply, context: &Context) -> Vec<Frame> {
        match self {
            Self::Chat => chat::frames(reply, context),
            Self::Responses => responses::frames(reply, context),
            Self::Messages => messages::frames(reply, context),
            Self::Gemini => gemini::frames(reply, context),
        }
    }

    /// The reply as one JSON body, for a request without streaming.
    pub(crate) fn whole(self, reply: &Reply, context: &Context) -> String {
        match self {
            Self::Chat => chat::whole(reply, context),
            Self::Responses => responses::whole(reply, context),
            Self::Messages => messages::whole(reply, context),
            Self::Gemini => gemini::whole(reply, context),
        }
    }

    pub(crate) fn error_body(self, status: u16, context: &Context) -> String {
        match self {
            Self::Chat | Self::Responses => chat::error_body(status, context),
            Self::Messages => messages::error_body(status, context),
            Self::Gemini => gemini::error_body(status, context),
        }
    }

    /// An error inside a stream that started successfully.
    pub(crate) fn error_frame(self, status: u16, context: &Context) -> Frame {
        let bytes = match self {
            Self::Chat => chat::data(&chat::error_body(status, context)),
            Self::Responses => responses::error(status, context),
            Self::Messages => sse::named("error", &messages::error_body(status, context)),
            Self::Gemini => chat::data(&gemini::error_body(status, context)),
        };
        Frame { part: Part::End, bytes }
    }

    pub(crate) fn malformed_frame(self, context: &Context) -> Frame {
        let bytes = match self {
            Self::Chat => chat::malformed(context),
            Self::Responses => sse::named(
                "response.output_text.delta",
                r#"{"type":"response.output_text.delta","item_id":"msg_1","del"#,
            ),
            Self::Messages => {
                sse::named("content_block_delta", r#"{"type":"content_block_delta","index":0,"del"#)
            }
            Self::Gemini => chat::data(r#"{"candidates":[{"content":{"par"#),
        };
        Frame { part: Part::Text, bytes }
    }
}

pub(crate) fn bare(path: &str) -> &str {
    path.split('?').next().unwrap_or_default()
}

/// The model in a path of Gemini's API.
pub(crate) fn model_in(path: &str) -> Option<&str> {
    let (front, _) = bare(path).rsplit_once(':')?;
    front.rsplit_once("/models/").map(|(_, model)| model)
}
