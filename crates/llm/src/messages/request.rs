//! Writes the body of an Anthropic Messages request.

use super::model::{Claude, Thinking};
use crate::BuildError;
use crate::history::arguments_object;
use crate::params::{Section, ToolChoice, put};
use crate::provider_state::ProviderStates;
use althing_protocol::{BackendConfig, Message, ModelRequest, ToolCall, ToolSpec};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

pub(crate) const KNOWN: &[&str] = &[
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "stop",
    "reasoning",
    "reasoning_effort",
    "thinking",
    "enable_thinking",
    "thinking_budget",
    "tool_choice",
    "parallel_tool_calls",
    "service_tier",
    "user",
    "response_format",
    "betas",
    "enable_web_search",
    "enable_code_execution",
];

/// `extra_body` cannot change these.
const RESERVED: &[&str] = &["model", "messages", "system", "tools", "stream"];

#[derive(Clone, Debug)]
pub(crate) struct MessagesParams {
    always: Map<String, Value>,
    /// With thinking, the API accepts only the defaults of these parameters.
    unless_thinking: Map<String, Value>,
    tool_choice: Option<Value>,
    /// Tools that the provider runs.
    hosted: Vec<Value>,
    pub(crate) thinking: Thinking,
}

impl MessagesParams {
    pub(crate) fn new(config: &BackendConfig) -> Result<Self, BuildError> {
        let section = Section(&config.params);
        let claude = Claude::from_name(config.model.as_deref().unwrap_or_default());
        let thinking = claude.thinking(section);
        let limit = section.output_limit().and_then(Value::as_u64);
        if let (Thinking::Budget(budget), Some(limit)) = (thinking, limit)
            && budget >= limit
        {
            let expected = "more than the thinking budget, which counts toward it";
            return Err(BuildError::BadParam { name: "max_tokens", expected });
        }
        let mut always = Map::new();
        let limit = limit.unwrap_or_else(|| claude.output_limit(thinking));
        always.insert("max_tokens".to_owned(), json!(limit));
        let mut add =
            |key: &str, value: Option<Value>| always.extend(value.map(|value| (key.to_owned(), value)));
        add("stop_sequences", section.stops());
        add("service_tier", section.get("service_tier").cloned());
        add("metadata", section.get("user").map(|user| json!({"user_id": user})));
        let mut output = Map::new();
        output.extend(claude.effort(section).map(|effort| ("effort".to_owned(), json!(effort))));
        let format =
            section.reply_schema().map(|(_, schema)| json!({"type": "json_schema", "schema": schema}));
        output.extend(format.map(|format| ("format".to_owned(), format)));
        add("output_config", (!output.is_empty()).then_some(Value::Object(output)));
        section.add_extra(&mut always, RESERVED);
        Ok(Self {
            always,
            unless_thinking: if claude.accepts_sampling() { sampling(section) } else { Map::new() },
            tool_choice: tool_choice(section),
            hosted: hosted(section),
            thinking,
        })
    }

    pub(crate) fn body(
        &self,
        model: &str,
        request: &ModelRequest,
        thinking: Thinking,
        states: &ProviderStates,
    ) -> Map<String, Value> {
        let thinking = match thinking {
            Thinking::Budget(_) if must_open_with_lost_thoughts(request, states) => Thinking::Unset,
            thinking => thinking,
        };
        let mut body = Map::from_iter([("model".to_owned(), json!(model))]);
        if !request.system.trim().is_empty() {
            // Everything up to this cache mark, including the tools, is usually the same in the agent's next calls.
            let system = json!([{"type": "text", "text": &*request.system, "cache_control": cache_mark()}]);
            body.insert("system".to_owned(), system);
        }
        body.insert("messages".to_owned(), Value::Array(messages(request, states)));
        let tools: Vec<Value> = request.tools.iter().map(tool).chain(self.hosted.iter().cloned()).collect();
        if !tools.is_empty() {
            body.insert("tools".to_owned(), Value::Array(tools));
        }
        body.insert("stream".to_owned(), json!(true));
        body.extend(self.always.clone());
        if let Some(field) = thinking.field() {
            body.insert("thinking".to_owned(), field);
        }
        if !thinking.is_on() {
            body.extend(self.unless_thinking.clone());
        }
        if let Some(choice) = self.tool_choice.clone().filter(|_| !request.tools.is_empty()) {
            // The API does not allow forcing a tool while thinking.
            let forced = matches!(choice.get("type").and_then(Value::as_str), Some("any" | "tool"));
            let choice = if forced && thinking.is_on() { json!({"type": "auto"}) } else { choice };
            body.insert("tool_choice".to_owned(), choice);
        }
        body
    }
}

/// Marks the end of a prefix that the provider caches for five minutes.
fn cache_mark() -> Value {
    json!({"type": "ephemeral"})
}

fn sampling(section: Section<'_>) -> Map<String, Value> {
    let mut sampling = Map::new();
    // This API's highest temperature is 1.
    let temperature = section.get("temperature").and_then(Value::as_f64).map(|value| json!(value.min(1.0)));
    sampling.extend(temperature.map(|value| ("temperature".to_owned(), value)));
    for key in ["top_p", "top_k"] {
        sampling.extend(section.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    sampling
}

fn tool_choice(section: Section<'_>) -> Option<Value> {
    let alone = section.get("parallel_tool_calls").is_some_and(|value| *value == false);
    let mut choice = match section.tool_choice() {
        None if !alone => return None,
        None | Some(ToolChoice::Auto) => json!({"type": "auto"}),
        Some(ToolChoice::None) => return Some(json!({"type": "none"})),
        Some(ToolChoice::Any) => json!({"type": "any"}),
        Some(ToolChoice::Tool(name)) => json!({"type": "tool", "name": name}),
    };
    if alone {
        put(&mut choice, "disable_parallel_tool_use", json!(true));
    }
    Some(choice)
}

fn hosted(section: Section<'_>) -> Vec<Value> {
    let mut tools = Vec::new();
    if section.is_on("enable_web_search") {
        tools.push(json!({"type": "web_search_20250305", "name": "web_search"}));
    }
    if section.is_on("enable_code_execution") {
        tools.push(json!({"type": "code_execution_20250825", "name": "code_execution"}));
    }
    tools
}

fn tool(tool: &ToolSpec) -> Value {
    let mut schema = tool.parameters.clone();
    if !schema.is_object() {
        schema = json!({});
    }
    if schema.get("type").is_none() {
        put(&mut schema, "type", json!("object"));
    }
    json!({"name": tool.name, "description": tool.description, "input_schema": schema})
}

/// Consecutive messages of one side form one turn, with tool results before the user's text.
fn messages(request: &ModelRequest, states: &ProviderStates) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &request.messages {
        let (role, blocks) = match message {
            Message::User(text) => ("user", text_block(text).into_iter().collect()),
            Message::Assistant { text, tool_calls } => ("assistant", assistant(text, tool_calls, states)),
            Message::Tool { call, content, is_error } => {
                let mut result =
                    json!({"type": "tool_result", "tool_use_id": fit_id(call), "content": content});
                if *is_error {
                    put(&mut result, "is_error", json!(true));
                }
                ("user", vec![result])
            }
        };
        match turns.last_mut() {
            Some((last, all)) if *last == role => all.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    turns.retain(|(_, blocks)| !blocks.is_empty());
    for (_, blocks) in turns.iter_mut().filter(|(role, _)| *role == "user") {
        blocks.sort_by_key(|block| block.get("type").is_some_and(|kind| kind == "text"));
    }
    if !request.tools.is_empty() && turns.last().is_some_and(|(role, _)| *role == "user") {
        // An agent with tools sends all of these messages again in its next call. The last two user turns are marked:
        // the last one for the next call, and the one before it, which was the last one of the previous call, because
        // the provider looks for a cached prefix only at a mark and in the 20 blocks before it.
        let of_user = turns.iter_mut().rev().filter(|(role, _)| *role == "user").take(2);
        for block in of_user.filter_map(|(_, blocks)| blocks.last_mut()) {
            put(block, "cache_control", cache_mark());
        }
    }
    turns.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

/// The API rejects blank text.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn assistant(text: &str, calls: &[ToolCall], states: &ProviderStates) -> Vec<Value> {
    let mut blocks = match states.find(calls) {
        Some(Value::Array(thoughts)) => thoughts,
        _ => Vec::new(),
    };
    blocks.extend(text_block(text));
    blocks.extend(calls.iter().map(|call| {
        let input = arguments_object(&call.arguments);
        json!({"type": "tool_use", "id": fit_id(&call.id), "name": call.name, "input": input})
    }));
    blocks
}

/// The id may come from another provider, whose ids this API may reject.
fn fit_id(id: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.chars().all(fits) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(id.chars().map(|c| if fits(c) { c } else { '_' }).collect())
}

/// With a thinking budget, the API requires the thoughts before the tool calls that a request answers.
fn must_open_with_lost_thoughts(request: &ModelRequest, states: &ProviderStates) -> bool {
    let mut answers_calls = false;
    for message in request.messages.iter().rev() {
        match message {
            Message::Tool { .. } => answers_calls = true,
            Message::User(_) => {}
            Message::Assistant { tool_calls, .. } => {
                return answers_calls && states.find(tool_calls).is_none();
            }
        }
    }
    false
}
