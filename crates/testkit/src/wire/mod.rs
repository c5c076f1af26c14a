//! The wires the server speaks. A wire turns a [`Reply`] into frames and bodies; it knows nothing of sockets or faults.

mod chat;

use bytes::Bytes;

use crate::reply::Reply;

/// A way of saying a reply over HTTP, recognised by the path of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// OpenAI's chat completions.
    Chat,
}

/// What part of a reply a frame carries: faults and gates choose their places by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Opens the stream; no content.
    Start,
    Reasoning,
    Text,
    Tool,
    /// Says why the model stopped.
    End,
    /// What still follows that: usage, end mark.
    Tail,
}

/// One server-sent event, complete with its blank line.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) part: Part,
    pub(crate) bytes: Bytes,
}

/// What a wire needs to know of the request to answer it.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) seq: usize,
    pub(crate) model: String,
    /// `stream_options.include_usage`: without it OpenAI's wire reports none in a stream.
    pub(crate) include_usage: bool,
    /// The field for reasoning text, which differs between compatible providers.
    pub(crate) reasoning_field: &'static str,
}

impl Wire {
    /// The wire spoken at this path, if it is one of ours.
    pub(crate) fn at(method: &str, path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        (method == "POST" && path.ends_with("/chat/completions")).then_some(Self::Chat)
    }

    /// The reply as a stream.
    pub(crate) fn frames(self, reply: &Reply, context: &Context) -> Vec<Frame> {
        match self {
            Self::Chat => chat::frames(reply, context),
        }
    }

    /// The reply as one JSON body, for a request that did not ask for a stream.
    pub(crate) fn whole(self, reply: &Reply, context: &Context) -> String {
        match self {
            Self::Chat => chat::whole(reply, context),
        }
    }

    /// The body of a response with an error status.
    pub(crate) fn error_body(self, status: u16, context: &Context) -> String {
        match self {
            Self::Chat => chat::error_body(status, context),
        }
    }

    /// The same error inside a stream that began well.
    pub(crate) fn error_frame(self, status: u16, context: &Context) -> Frame {
        Frame {
            part: Part::End,
            bytes: match self {
                Self::Chat => chat::data(&chat::error_body(status, context)),
            },
        }
    }

    /// A frame whose data is cut in the middle of its JSON.
    pub(crate) fn malformed_frame(self, context: &Context) -> Frame {
        Frame {
            part: Part::Text,
            bytes: match self {
                Self::Chat => chat::malformed(context),
            },
        }
    }
}
