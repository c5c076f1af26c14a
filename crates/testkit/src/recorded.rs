//! Recorded requests, so that a test can check what was sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde_json::Value;

use crate::wire::{Wire, bare, model_in};

/// One received request. Clones share the body.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    pub(crate) call: Arc<RequestData>,
    pub(crate) outcome: RequestOutcome,
    pub(crate) ended: Option<Instant>,
}

/// The parts of a request that never change after it has been read.
#[derive(Debug)]
pub(crate) struct RequestData {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    Underway,
    Served,
    /// The script aborted the response (reset, cut).
    BrokenOff,
    /// The client closed the connection before the end.
    HungUp,
}

impl RecordedRequest {
    /// The index of this request among the server's model calls, from 0. Other requests are counted separately.
    pub fn seq(&self) -> usize {
        self.call.seq
    }

    pub fn nth_of_model(&self) -> usize {
        self.call.nth_of_model
    }

    pub fn connection(&self) -> usize {
        self.call.connection
    }

    pub fn method(&self) -> &str {
        &self.call.method
    }

    pub fn path(&self) -> &str {
        &self.call.path
    }

    /// All headers in order, with lower-case names.
    pub fn headers(&self) -> &[(String, String)] {
        &self.call.headers
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The JSON body. `Null` if there was none, or if it was not JSON.
    pub fn body(&self) -> &Value {
        &self.call.body
    }

    pub fn raw_body(&self) -> &Bytes {
        &self.call.raw
    }

    pub fn arrived(&self) -> Instant {
        self.call.arrived
    }

    pub fn ended(&self) -> Option<Instant> {
        self.ended
    }

    pub fn outcome(&self) -> RequestOutcome {
        self.outcome
    }

    pub fn hung_up(&self) -> bool {
        self.outcome == RequestOutcome::HungUp
    }

    /// The requested model, from the body or the path; empty if there is none.
    pub fn model(&self) -> &str {
        self.body()["model"].as_str().or_else(|| model_in(self.path())).unwrap_or_default()
    }

    pub fn wants_stream(&self) -> bool {
        match Wire::at(self.method(), self.path()) {
            Some(Wire::Gemini) => bare(self.path()).ends_with(":streamGenerateContent"),
            _ => self.body()["stream"].as_bool().unwrap_or(false),
        }
    }

    pub fn messages(&self) -> &[Value] {
        ["messages", "input", "contents"]
            .iter()
            .find_map(|field| self.body()[*field].as_array())
            .map_or(&[], Vec::as_slice)
    }

    /// The names of the offered tools, without provider-run tools.
    pub fn tool_names(&self) -> Vec<&str> {
        self.functions().iter().filter_map(|function| function["name"].as_str()).collect()
    }

    pub(crate) fn namespaces(&self) -> HashMap<String, String> {
        let tools = self.body()["tools"].as_array().map_or(&[][..], Vec::as_slice);
        let spaces = tools.iter().filter(|tool| tool["type"] == "namespace");
        let named = spaces.flat_map(|space| {
            let inside = space["tools"].as_array().into_iter().flatten();
            inside.filter_map(|tool| {
                Some((tool["name"].as_str()?.to_owned(), space["name"].as_str()?.to_owned()))
            })
        });
        named.collect()
    }

    pub fn tool_parameters(&self, name: &str) -> Option<&Value> {
        let function = self.functions().into_iter().find(|function| function["name"] == name)?;
        ["parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema"]
            .iter()
            .find_map(|field| function.get(*field))
    }

    /// The agents that the tool `vote` accepts, in the order in which it lists them.
    pub fn votable(&self) -> Vec<&str> {
        let pointers = ["/properties/ranking/items/enum", "/properties/agent_id/enum"];
        let names = self
            .tool_parameters("vote")
            .and_then(|parameters| pointers.iter().find_map(|at| parameters.pointer(at)?.as_array()));
        names.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    pub fn system_text(&self) -> String {
        let body = self.body();
        let own = [&body["instructions"], &body["system"], &body["systemInstruction"]["parts"]];
        let mut texts: Vec<String> =
            own.into_iter().map(content_text).filter(|text| !text.is_empty()).collect();
        texts.extend(
            self.messages()
                .iter()
                .filter(|message| message["role"] == "system" || message["role"] == "developer")
                .map(message_text),
        );
        texts.join("\n")
    }

    /// The last message that the user wrote; empty if there is none. Excludes tool results, which some wire formats
    /// send with the user role.
    pub fn last_user_text(&self) -> String {
        if let Some(text) = self.body()["input"].as_str() {
            return text.to_owned();
        }
        let of_user = self.messages().iter().filter(|message| message["role"] == "user");
        of_user.map(message_text).rfind(|text| !text.is_empty()).unwrap_or_default()
    }

    pub fn wanted_schema(&self) -> Option<&Value> {
        let body = self.body();
        let google = &body["generationConfig"];
        let found = [
            &google["responseJsonSchema"],
            &google["responseSchema"],
            &body["text"]["format"]["schema"],
            &body["response_format"]["json_schema"]["schema"],
            &body["output_config"]["format"]["schema"],
        ];
        found.into_iter().find(|schema| schema.is_object())
    }

    fn functions(&self) -> Vec<&Value> {
        let tools = self.body()["tools"].as_array().map_or(&[][..], Vec::as_slice);
        let mut found = Vec::new();
        for tool in tools {
            let inner = ["functionDeclarations", "function_declarations", "tools"];
            if tool["function"].is_object() {
                found.push(&tool["function"]);
            } else if let Some(list) = inner.iter().find_map(|field| tool[*field].as_array()) {
                found.extend(list);
            } else if tool.get("input_schema").is_some()
                || tool["type"] == "function"
                || tool["type"] == "custom"
            {
                found.push(tool);
            }
        }
        found
    }
}

fn message_text(message: &Value) -> String {
    match message.get("parts") {
        Some(parts) => content_text(parts),
        None => content_text(&message["content"]),
    }
}

fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}
