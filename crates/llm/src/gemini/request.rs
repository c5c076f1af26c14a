//! Writes the body of Gemini's `streamGenerateContent` request.

use super::schema;
use crate::history::arguments_object;
use crate::params::{Section, ToolChoice, put};
use crate::provider_state::ProviderStates;
use althing_protocol::{BackendConfig, Message, ModelRequest, ToolCall, ToolSpec};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

pub(crate) const KNOWN: &[&str] = &[
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "seed",
    "stop",
    "frequency_penalty",
    "presence_penalty",
    "reasoning",
    "reasoning_effort",
    "thinking",
    "enable_thinking",
    "thinking_budget",
    "response_format",
    "tool_choice",
    "enable_web_search",
    "enable_code_execution",
];

/// Althing's name and the API's name.
const SENT: &[(&str, &str)] = &[
    ("temperature", "temperature"),
    ("top_p", "topP"),
    ("top_k", "topK"),
    ("seed", "seed"),
    ("frequency_penalty", "frequencyPenalty"),
    ("presence_penalty", "presencePenalty"),
];

/// Thinking budgets in tokens, for Gemini 2.5.
const EFFORT_BUDGETS: &[(&str, i64)] = &[
    ("none", 0),
    ("minimal", 512),
    ("low", 1024),
    ("medium", 8192),
    ("high", 24_576),
    ("xhigh", 24_576),
    ("max", 24_576),
];

/// `extra_body` cannot change these.
const RESERVED: &[&str] = &["contents", "systemInstruction", "tools"];

/// Google's documented placeholder for a thought signature that is not available.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

#[derive(Clone, Debug)]
pub(crate) struct GeminiParams {
    always: Map<String, Value>,
    calling: Option<Value>,
    /// Tools that the provider runs.
    hosted: Vec<Value>,
    /// Whether the model is Gemini 3 or later, or its name contains no version. Gemini 3 signs its thoughts, has
    /// thinking levels, and accepts provider tools together with Althing's.
    is_gen3: bool,
}

impl GeminiParams {
    pub(crate) fn new(config: &BackendConfig) -> Self {
        let section = Section(&config.params);
        let is_gen3 =
            major_version(config.model.as_deref().unwrap_or_default()).is_none_or(|major| major >= 3);
        let mut generation = Map::new();
        for (ours, theirs) in SENT {
            generation.extend(section.get(ours).map(|value| ((*theirs).to_owned(), value.clone())));
        }
        let mut add = |key: &str, value: Option<Value>| {
            generation.extend(value.map(|value| (key.to_owned(), value)));
        };
        add("maxOutputTokens", section.output_limit().cloned());
        add("stopSequences", section.stops());
        add("thinkingConfig", thinking(section, is_gen3));
        if let Some((_, schema)) = section.reply_schema() {
            add("responseMimeType", Some(json!("application/json")));
            add("responseJsonSchema", Some(schema.clone()));
        } else if section.field("response_format", "type").is_some_and(|kind| kind == "json_object") {
            add("responseMimeType", Some(json!("application/json")));
        }
        let mut always = Map::new();
        if !generation.is_empty() {
            always.insert("generationConfig".to_owned(), Value::Object(generation));
        }
        section.add_extra(&mut always, RESERVED);
        let calling = section.tool_choice().map(|choice| match choice {
            ToolChoice::Auto => json!({"mode": "AUTO"}),
            ToolChoice::None => json!({"mode": "NONE"}),
            ToolChoice::Any => json!({"mode": "ANY"}),
            ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
        });
        let mut hosted = Vec::new();
        if section.is_on("enable_web_search") {
            hosted.push(json!({"googleSearch": {}}));
        }
        if section.is_on("enable_code_execution") {
            hosted.push(json!({"codeExecution": {}}));
        }
        Self { always, calling, hosted, is_gen3 }
    }

    pub(crate) fn body(&self, request: &ModelRequest, states: &ProviderStates) -> Map<String, Value> {
        let mut body = self.always.clone();
        if !request.system.trim().is_empty() {
            body.insert("systemInstruction".to_owned(), json!({"parts": [{"text": &*request.system}]}));
        }
        body.insert("contents".to_owned(), Value::Array(self.contents(request, states)));
        let mut tools = Vec::new();
        if !request.tools.is_empty() {
            let functions: Vec<Value> = request.tools.iter().map(function).collect();
            tools.push(json!({"functionDeclarations": functions}));
        }
        // Before Gemini 3, a request cannot have both provider tools and functions, and the run needs its functions.
        let both = !self.hosted.is_empty() && !request.tools.is_empty();
        if !both || self.is_gen3 {
            tools.extend(self.hosted.iter().cloned());
        }
        if !tools.is_empty() {
            body.insert("tools".to_owned(), Value::Array(tools));
        }
        let mut config = Map::new();
        let calling = self.calling.clone().filter(|_| !request.tools.is_empty());
        config.extend(calling.map(|calling| ("functionCallingConfig".to_owned(), calling)));
        if both && self.is_gen3 {
            config.insert("includeServerSideToolInvocations".to_owned(), json!(true));
        }
        if !config.is_empty() {
            body.insert("toolConfig".to_owned(), Value::Object(config));
        }
        body
    }

    /// Consecutive messages of one side form one turn.
    fn contents(&self, request: &ModelRequest, states: &ProviderStates) -> Vec<Value> {
        let mut names: HashMap<&str, &str> = HashMap::new();
        let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
        for message in &request.messages {
            let (role, parts) = match message {
                Message::User(text) => ("user", vec![json!({"text": text})]),
                Message::Assistant { text, tool_calls } => {
                    names.extend(tool_calls.iter().map(|call| (call.id.as_str(), call.name.as_str())));
                    ("model", self.model_parts(text, tool_calls, states))
                }
                Message::Tool { call, content, is_error } => {
                    let name = names.get(call.as_str()).copied().unwrap_or("unknown");
                    let key = if *is_error { "error" } else { "output" };
                    let mut response = json!({"name": name, "response": {key: content}});
                    if let Some(id) = provider_id(call) {
                        put(&mut response, "id", json!(id));
                    }
                    ("user", vec![json!({"functionResponse": response})])
                }
            };
            match turns.last_mut() {
                Some((last, all)) if *last == role => all.extend(parts),
                _ => turns.push((role, parts)),
            }
        }
        turns.retain(|(_, parts)| !parts.is_empty());
        turns.into_iter().map(|(role, parts)| json!({"role": role, "parts": parts})).collect()
    }

    fn model_parts(&self, text: &str, calls: &[ToolCall], states: &ProviderStates) -> Vec<Value> {
        if let Some(Value::Array(parts)) = states.find(calls) {
            return parts;
        }
        let mut parts = Vec::new();
        if !text.is_empty() {
            parts.push(json!({"text": text}));
        }
        for (n, call) in calls.iter().enumerate() {
            let mut function = json!({"name": call.name, "args": arguments_object(&call.arguments)});
            if let Some(id) = provider_id(&call.id) {
                put(&mut function, "id", json!(id));
            }
            let mut part = json!({"functionCall": function});
            if self.is_gen3 && n == 0 {
                put(&mut part, "thoughtSignature", json!(NO_SIGNATURE));
            }
            parts.push(part);
        }
        parts
    }
}

/// Ids that Althing assigned mean nothing to the provider.
fn provider_id(id: &str) -> Option<&str> {
    (!id.starts_with(super::read::OUR_ID)).then_some(id)
}

fn function(tool: &ToolSpec) -> Value {
    let mut function = json!({"name": tool.name, "description": tool.description});
    if let Some(parameters) = schema::parameters(&tool.parameters) {
        put(&mut function, "parameters", parameters);
    }
    function
}

fn thinking(section: Section<'_>, is_gen3: bool) -> Option<Value> {
    let effort = section.effort();
    let budget = section.thinking_budget();
    let off = section.get("enable_thinking").is_some_and(|value| *value == false);
    let summary = section.summary();
    let on = section.is_on("enable_thinking") || section.is_on("thinking");
    if effort.is_none() && budget.is_none() && summary.is_none() && !on && !off {
        return None;
    }
    let shown = summary != Some("none") && !off && effort != Some("none");
    let mut config = json!({"includeThoughts": shown});
    if is_gen3 && budget.is_none() {
        let level = match (effort, off) {
            (_, true) | (Some("none" | "minimal"), _) => Some("MINIMAL"),
            (Some("low"), _) => Some("LOW"),
            (Some("medium"), _) => Some("MEDIUM"),
            (Some("high" | "xhigh" | "max"), _) => Some("HIGH"),
            _ => None,
        };
        if let Some(level) = level {
            put(&mut config, "thinkingLevel", json!(level));
        }
    } else {
        let by_effort = EFFORT_BUDGETS.iter().find(|(word, _)| Some(*word) == effort).map(|(_, n)| *n);
        if let Some(tokens) = budget.or(by_effort).or(off.then_some(0)) {
            put(&mut config, "thinkingBudget", json!(tokens));
        }
    }
    Some(config)
}

fn major_version(name: &str) -> Option<u32> {
    let (_, rest) = name.rsplit_once("gemini-")?;
    rest.split(['.', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generation_gets_its_own_thinking_parameters() {
        let say = |is_gen3, params: &Value| thinking(Section(params.as_object().unwrap()), is_gen3);
        let effort = json!({"reasoning": {"effort": "low"}});
        assert_eq!(say(true, &effort), Some(json!({"includeThoughts": true, "thinkingLevel": "LOW"})));
        assert_eq!(say(false, &effort), Some(json!({"includeThoughts": true, "thinkingBudget": 1024})));
        assert_eq!(say(true, &json!({})), None);
        let budget = json!({"thinking_budget": 77, "reasoning": {"summary": "none"}});
        assert_eq!(say(true, &budget), Some(json!({"includeThoughts": false, "thinkingBudget": 77})));
        let off = json!({"enable_thinking": false});
        assert_eq!(say(false, &off), Some(json!({"includeThoughts": false, "thinkingBudget": 0})));
    }

    #[test]
    fn the_generation_is_in_the_name_or_unknown() {
        assert_eq!(major_version("gemini-2.5-flash-lite"), Some(2));
        assert_eq!(major_version("models/gemini-3-pro-preview"), Some(3));
        assert_eq!(major_version("gemini-flash-latest"), None);
    }
}
