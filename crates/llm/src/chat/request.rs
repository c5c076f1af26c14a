//! Writes the body of a chat-completions request. Only listed parameters are sent, because a provider rejects a whole
//! request for one unknown key; anything else can be sent through `extra_body`.

use crate::history::{arguments_text, marked};
use crate::local::RequestShape;
use crate::params::{Section, ToolChoice};
use crate::providers::{OutputLimit, Provider, Reasoning};
use althing_protocol::{Message, ModelRequest, ToolCall, ToolSpec};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Parameters that are copied from the config. `max_completion_tokens` may be renamed; `tool_choice` and
/// `parallel_tool_calls` are sent only with tools.
pub(crate) const SENT: &[&str] = &[
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "top_a",
    "seed",
    "stop",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "logit_bias",
    "max_completion_tokens",
    "reasoning_effort",
    "verbosity",
    "thinking",
    "enable_thinking",
    "thinking_budget",
    "chat_template_kwargs",
    "response_format",
    "service_tier",
    "parallel_tool_calls",
    "tool_choice",
    "provider",
    "models",
    "transforms",
    "route",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "store",
    "metadata",
    "search_parameters",
    "web_search_options",
];

pub(crate) const KNOWN: &[&str] = &["max_tokens", "max_output_tokens", "reasoning", "text", "api_version"];

pub(crate) const OPENROUTER: &[&str] = &["enable_web_search", "engine", "max_results", "search_prompt"];
const WEB_PLUGIN: &[&str] = &["engine", "max_results", "search_prompt"];

const ONLY_WITH_TOOLS: &[&str] = &["parallel_tool_calls", "tool_choice"];

/// `extra_body` cannot set these. `n` must keep its default of 1.
const RESERVED: &[&str] = &["model", "messages", "tools", "stream", "stream_options", "n"];

/// How a provider differs from the default format, learned from its rejections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) stream_options: bool,
    pub(crate) output_limit: OutputLimit,
}

impl Dialect {
    /// `None` if the rejection names nothing that can be expressed differently.
    pub(crate) fn learn(self, refusal: &str) -> Option<Self> {
        if self.stream_options && (refusal.contains("stream_options") || refusal.contains("include_usage")) {
            return Some(Self { stream_options: false, ..self });
        }
        let other = match self.output_limit {
            OutputLimit::MaxTokens if refusal.contains("max_completion_tokens") => {
                OutputLimit::MaxCompletionTokens
            }
            OutputLimit::MaxCompletionTokens if refusal.contains("max_completion_tokens") => {
                OutputLimit::MaxTokens
            }
            OutputLimit::MaxTokens | OutputLimit::MaxCompletionTokens => return None,
        };
        Some(Self { output_limit: other, ..self })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChatParams {
    sent: Map<String, Value>,
    /// The value is stored separately, because its name depends on the dialect.
    max_tokens: Option<Value>,
}

impl ChatParams {
    pub(crate) fn new(params: &Map<String, Value>, provider: &Provider) -> Self {
        let mut sent = Map::new();
        for key in SENT {
            if let Some(value) = params.get(*key).filter(|value| !value.is_null()) {
                sent.insert((*key).to_owned(), value.clone());
            }
        }
        if let Some(reasoning) = params.get("reasoning") {
            match provider.reasoning {
                Reasoning::Object => {
                    sent.insert("reasoning".to_owned(), reasoning.clone());
                }
                Reasoning::Effort => insert_new(&mut sent, "reasoning_effort", reasoning.get("effort")),
            }
        }
        if provider.kind == "openrouter" && params.get("enable_web_search").is_some_and(|on| *on == true) {
            let mut plugin = Map::from_iter([("id".to_owned(), json!("web"))]);
            for key in WEB_PLUGIN {
                insert_new(&mut plugin, key, params.get(*key));
            }
            sent.insert("plugins".to_owned(), json!([plugin]));
        }
        insert_new(&mut sent, "verbosity", params.get("text").and_then(|text| text.get("verbosity")));
        if let Some(Value::Object(extra)) = params.get("extra_body") {
            for (key, value) in extra.iter().filter(|(key, _)| !RESERVED.contains(&key.as_str())) {
                sent.insert(key.clone(), value.clone());
            }
        }
        let max_tokens = sent
            .shift_remove("max_tokens")
            .or_else(|| sent.shift_remove("max_completion_tokens"))
            .or_else(|| set(params, "max_tokens"))
            .or_else(|| set(params, "max_output_tokens"));
        Self { sent, max_tokens }
    }
}

fn set(params: &Map<String, Value>, key: &str) -> Option<Value> {
    params.get(key).filter(|value| !value.is_null()).cloned()
}

fn insert_new(sent: &mut Map<String, Value>, key: &str, value: Option<&Value>) {
    if let Some(value) = value.filter(|value| !value.is_null())
        && !sent.contains_key(key)
    {
        sent.insert(key.to_owned(), value.clone());
    }
}

pub(crate) struct Body<'a> {
    pub(crate) model: &'a str,
    pub(crate) request: &'a ModelRequest,
    pub(crate) params: &'a ChatParams,
    pub(crate) dialect: Dialect,
    pub(crate) shape: &'a RequestShape,
}

impl Body<'_> {
    fn sends(&self, key: &str, value: &Value) -> bool {
        if key == "response_format" && self.shape.response_format.is_some() {
            return false;
        }
        if key == "tool_choice" && self.shape.no_required_call {
            let choice = Map::from_iter([(key.to_owned(), value.clone())]);
            return Section(&choice).tool_choice() != Some(ToolChoice::Any);
        }
        true
    }
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_map(None)?;
        body.serialize_entry("model", self.model)?;
        body.serialize_entry("messages", &Messages(self.request))?;
        let tools = &self.request.tools;
        if !tools.is_empty() {
            body.serialize_entry("tools", &Tools(tools))?;
        }
        body.serialize_entry("stream", &true)?;
        if self.dialect.stream_options {
            body.serialize_entry("stream_options", &json!({"include_usage": true}))?;
        }
        let own_limit = self.shape.max_tokens.map(Value::from);
        if let Some(limit) = self.params.max_tokens.as_ref().or(own_limit.as_ref()) {
            let name = match self.dialect.output_limit {
                OutputLimit::MaxTokens => "max_tokens",
                OutputLimit::MaxCompletionTokens => "max_completion_tokens",
            };
            body.serialize_entry(name, limit)?;
        }
        for (key, value) in &self.params.sent {
            let fits = !tools.is_empty() || !ONLY_WITH_TOOLS.contains(&key.as_str());
            if fits && self.sends(key, value) {
                body.serialize_entry(key, value)?;
            }
        }
        if let Some(format) = &self.shape.response_format {
            body.serialize_entry("response_format", format)?;
        }
        if self.shape.prompt_progress {
            body.serialize_entry("return_progress", &true)?;
        }
        body.end()
    }
}

struct Messages<'a>(&'a ModelRequest);

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut messages = serializer.serialize_seq(None)?;
        if !self.0.system.is_empty() {
            messages.serialize_element(&Wire {
                role: "system",
                content: Some(&self.0.system),
                ..Wire::EMPTY
            })?;
        }
        for message in &self.0.messages {
            match message {
                Message::User(text) => {
                    messages.serialize_element(&Wire { role: "user", content: Some(text), ..Wire::EMPTY })?;
                }
                Message::Assistant { text, tool_calls } => {
                    let content = (!text.is_empty() || tool_calls.is_empty()).then_some(text.as_str());
                    let calls = (!tool_calls.is_empty()).then_some(Calls(tool_calls));
                    messages.serialize_element(&Wire {
                        role: "assistant",
                        content,
                        tool_calls: calls,
                        ..Wire::EMPTY
                    })?;
                }
                Message::Tool { call, content, is_error } => {
                    let marked = marked(content, *is_error);
                    let content = Some(marked.as_ref());
                    let tool_call_id = Some(call.as_str());
                    messages.serialize_element(&Wire {
                        role: "tool",
                        content,
                        tool_call_id,
                        ..Wire::EMPTY
                    })?;
                }
            }
        }
        messages.end()
    }
}

#[derive(Serialize)]
struct Wire<'a> {
    role: &'static str,
    /// The content is null rather than absent if an assistant message contains only tool calls, because some servers
    /// require the key.
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Calls<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

impl Wire<'_> {
    const EMPTY: Self = Self { role: "", content: None, tool_calls: None, tool_call_id: None };
}

struct Calls<'a>(&'a [ToolCall]);

impl Serialize for Calls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: Cow<'a, str>,
        }
        #[derive(Serialize)]
        struct Call<'a> {
            id: &'a str,
            r#type: &'static str,
            function: Function<'a>,
        }
        serializer.collect_seq(self.0.iter().map(|call| {
            let arguments = arguments_text(&call.arguments);
            Call { id: &call.id, r#type: "function", function: Function { name: &call.name, arguments } }
        }))
    }
}

struct Tools<'a>(&'a [ToolSpec]);

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Tool<'a> {
            r#type: &'static str,
            /// `ToolSpec` already serializes to the format's field names.
            function: &'a ToolSpec,
        }
        serializer.collect_seq(self.0.iter().map(|function| Tool { r#type: "function", function }))
    }
}
