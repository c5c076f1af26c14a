//! Writes the body of an OpenAI Responses request.

use crate::history::{arguments_text, marked};
use crate::params::{Section, ToolChoice, put};
use althing_protocol::{BackendConfig, Message, ModelRequest, ToolSpec};
use serde_json::{Map, Value, json};

pub(crate) const KNOWN: &[&str] = &[
    "temperature",
    "top_p",
    "max_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "reasoning",
    "reasoning_effort",
    "text",
    "verbosity",
    "response_format",
    "tool_choice",
    "parallel_tool_calls",
    "service_tier",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "store",
    "metadata",
    "enable_web_search",
    "enable_x_search",
    "search_context_size",
    "enable_code_interpreter",
    "enable_code_execution",
];

const SENT: &[&str] = &[
    "temperature",
    "top_p",
    "service_tier",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "store",
    "metadata",
];

/// `extra_body` cannot change these.
const RESERVED: &[&str] = &["model", "instructions", "input", "tools", "stream"];

#[derive(Clone, Debug)]
pub(crate) struct ResponsesParams {
    always: Map<String, Value>,
    with_tools: Map<String, Value>,
    /// Tools that the provider runs.
    hosted: Vec<Value>,
    /// xAI has no `instructions` field, so the system prompt is sent as the first message.
    system_in_input: bool,
}

impl ResponsesParams {
    pub(crate) fn new(config: &BackendConfig) -> Self {
        let section = Section(&config.params);
        let mut always = Map::from_iter([("store".to_owned(), json!(false))]);
        for key in SENT {
            always.extend(section.get(key).map(|value| ((*key).to_owned(), value.clone())));
        }
        always.extend(section.output_limit().map(|limit| ("max_output_tokens".to_owned(), limit.clone())));
        let summary = section.summary().filter(|word| *word != "none");
        // The config's scale has one more level than this API's.
        let effort = section.effort().map(|effort| if effort == "max" { "xhigh" } else { effort });
        let reasoning = object([("effort", effort), ("summary", summary)]);
        always.extend(reasoning.map(|reasoning| ("reasoning".to_owned(), reasoning)));
        always.extend(text(section).map(|text| ("text".to_owned(), text)));
        let choice = section.tool_choice().map(|choice| match choice {
            ToolChoice::Auto => json!("auto"),
            ToolChoice::None => json!("none"),
            ToolChoice::Any => json!("required"),
            ToolChoice::Tool(name) => json!({"type": "function", "name": name}),
        });
        let mut with_tools = Map::new();
        with_tools.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
        let parallel = section.get("parallel_tool_calls").cloned();
        with_tools.extend(parallel.map(|value| ("parallel_tool_calls".to_owned(), value)));
        section.add_extra(&mut always, RESERVED);
        Self { always, with_tools, hosted: hosted(section), system_in_input: config.kind == "grok" }
    }

    pub(crate) fn body(&self, model: &str, request: &ModelRequest) -> Map<String, Value> {
        let mut body = Map::from_iter([("model".to_owned(), json!(model))]);
        let mut input = Vec::new();
        if self.system_in_input && !request.system.is_empty() {
            input.push(json!({"role": "system", "content": &*request.system}));
        } else if !request.system.is_empty() {
            body.insert("instructions".to_owned(), json!(&*request.system));
        }
        request.messages.iter().for_each(|message| add_items(&mut input, message));
        body.insert("input".to_owned(), Value::Array(input));
        let tools: Vec<Value> =
            request.tools.iter().map(function).chain(self.hosted.iter().cloned()).collect();
        if !tools.is_empty() {
            body.insert("tools".to_owned(), Value::Array(tools));
        }
        body.insert("stream".to_owned(), json!(true));
        body.extend(self.always.clone());
        if !request.tools.is_empty() {
            body.extend(self.with_tools.clone());
        }
        body
    }
}

fn object<'a>(fields: impl IntoIterator<Item = (&'static str, Option<&'a str>)>) -> Option<Value> {
    let object: Map<String, Value> =
        fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), json!(value?)))).collect();
    (!object.is_empty()).then_some(Value::Object(object))
}

fn text(section: Section<'_>) -> Option<Value> {
    let mut text = Map::new();
    text.extend(section.verbosity().map(|value| ("verbosity".to_owned(), value.clone())));
    let format = match section.reply_schema() {
        Some((name, schema)) => {
            let name = if name.is_null() { json!("reply") } else { name.clone() };
            Some(json!({"type": "json_schema", "name": name, "schema": schema}))
        }
        None => section.get("response_format").or_else(|| section.field("text", "format")).cloned(),
    };
    text.extend(format.map(|format| ("format".to_owned(), format)));
    (!text.is_empty()).then_some(Value::Object(text))
}

fn hosted(section: Section<'_>) -> Vec<Value> {
    let mut tools = Vec::new();
    if section.is_on("enable_web_search") {
        let mut search = json!({"type": "web_search"});
        if let Some(size) = section.get("search_context_size") {
            put(&mut search, "search_context_size", size.clone());
        }
        tools.push(search);
    }
    if section.is_on("enable_x_search") {
        tools.push(json!({"type": "x_search"}));
    }
    if section.is_on("enable_code_interpreter") || section.is_on("enable_code_execution") {
        tools.push(json!({"type": "code_interpreter", "container": {"type": "auto"}}));
    }
    tools
}

/// Strict checking is on by default and would reject most schemas.
fn function(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": false,
    })
}

fn add_items(input: &mut Vec<Value>, message: &Message) {
    match message {
        Message::User(text) => input.push(json!({"role": "user", "content": text})),
        Message::Assistant { text, tool_calls } => {
            if !text.is_empty() || tool_calls.is_empty() {
                input.push(json!({"role": "assistant", "content": text}));
            }
            input.extend(tool_calls.iter().map(|call| {
                let arguments = arguments_text(&call.arguments);
                json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments})
            }));
        }
        Message::Tool { call, content, is_error } => input.push(json!({
            "type": "function_call_output",
            "call_id": call,
            "output": marked(content, *is_error),
        })),
    }
}
