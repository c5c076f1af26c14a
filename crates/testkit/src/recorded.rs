//! What the server remembers of each request, so that a test can ask what was really sent.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde_json::Value;

/// One request as it arrived. Clones share the body.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub(crate) call: Arc<Call>,
    pub(crate) outcome: Outcome,
    pub(crate) ended: Option<Instant>,
}

/// The parts of a request that never change once it has been read.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) seq: usize,
    pub(crate) nth_of_model: usize,
    pub(crate) connection: usize,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) raw: Bytes,
    pub(crate) body: Value,
    pub(crate) arrived: Instant,
}

/// How the exchange ended, seen from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The response is not finished yet.
    Underway,
    /// The whole response was written.
    Served,
    /// The script broke it off (reset, cut).
    BrokenOff,
    /// The client closed the connection before the end.
    HungUp,
}

impl Recorded {
    /// The number of this request on this server, from 0.
    pub fn seq(&self) -> usize {
        self.call.seq
    }

    /// How many requests for the same model came before.
    pub fn nth_of_model(&self) -> usize {
        self.call.nth_of_model
    }

    /// The number of the connection it came on, from 0.
    pub fn connection(&self) -> usize {
        self.call.connection
    }

    /// `POST` or `GET`.
    pub fn method(&self) -> &str {
        &self.call.method
    }

    /// The path with its query.
    pub fn path(&self) -> &str {
        &self.call.path
    }

    /// All headers, names in lower case, in the order they came.
    pub fn headers(&self) -> &[(String, String)] {
        &self.call.headers
    }

    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The JSON body; `Null` when there was none.
    pub fn body(&self) -> &Value {
        &self.call.body
    }

    /// The body's bytes as sent.
    pub fn raw_body(&self) -> &Bytes {
        &self.call.raw
    }

    /// When it had been read in full.
    pub fn arrived(&self) -> Instant {
        self.call.arrived
    }

    /// When the exchange ended.
    pub fn ended(&self) -> Option<Instant> {
        self.ended
    }

    /// How the exchange ended, as far as known when this record was taken.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether the client closed the connection before the response was complete.
    pub fn hung_up(&self) -> bool {
        self.outcome == Outcome::HungUp
    }

    /// The model asked for; empty when the body names none.
    pub fn model(&self) -> &str {
        self.body()["model"].as_str().unwrap_or_default()
    }

    /// Whether a stream was asked for.
    pub fn wants_stream(&self) -> bool {
        self.body()["stream"].as_bool().unwrap_or(false)
    }

    /// The conversation sent along.
    pub fn messages(&self) -> &[Value] {
        self.body()["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The names of the tools offered.
    pub fn tool_names(&self) -> Vec<&str> {
        self.tools().iter().filter_map(|tool| tool["function"]["name"].as_str()).collect()
    }

    /// The JSON schema of an offered tool's parameters.
    pub fn tool_parameters(&self, name: &str) -> Option<&Value> {
        self.tools()
            .iter()
            .map(|tool| &tool["function"])
            .find(|function| function["name"] == name)
            .map(|function| &function["parameters"])
    }

    /// The text of all system (or developer) messages.
    pub fn system_text(&self) -> String {
        let texts: Vec<String> = self
            .messages()
            .iter()
            .filter(|message| message["role"] == "system" || message["role"] == "developer")
            .map(message_text)
            .collect();
        texts.join("\n")
    }

    /// The text of the last user message; empty when there is none.
    pub fn last_user_text(&self) -> String {
        self.messages()
            .iter()
            .rfind(|message| message["role"] == "user")
            .map(message_text)
            .unwrap_or_default()
    }

    fn tools(&self) -> &[Value] {
        self.body()["tools"].as_array().map_or(&[], Vec::as_slice)
    }
}

/// A message's text, whether its content is a string or a list of parts.
fn message_text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}
