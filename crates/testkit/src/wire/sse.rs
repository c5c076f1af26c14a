//! Helpers for wire formats with named events.

use bytes::Bytes;
use serde_json::Value;

use super::{Frame, Part};

/// An event with its name, as OpenAI's Responses and Anthropic send it.
pub(super) fn named(event: &str, data: &str) -> Bytes {
    Bytes::from(format!("event: {event}\ndata: {data}\n\n"))
}

/// Collects events whose name is the `type` in their data.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) frames: Vec<Frame>,
}

impl Events {
    pub(super) fn push(&mut self, part: Part, data: &Value) {
        let event = data["type"].as_str().unwrap_or_default();
        self.frames.push(Frame { part, bytes: named(event, &data.to_string()) });
    }
}
