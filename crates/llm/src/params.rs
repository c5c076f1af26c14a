//! Interprets a backend's parameters independently of their names in each API. A parameter that an API does not
//! support is not sent, because a provider rejects a whole request for one unknown key; [`warnings`] names it.

use crate::providers::{Api, provider};
use crate::{chat, gemini, messages, responses};
use althing_protocol::BackendConfig;
use serde_json::{Map, Value};
use std::sync::{Mutex, PoisonError};

/// Althing itself uses these; they are never sent under these names.
const RESERVED: &[&str] = &[
    "connect_timeout_seconds",
    "first_byte_timeout_seconds",
    "idle_timeout_seconds",
    "request_timeout_seconds",
    "max_retries",
    "retry_base_ms",
    "rate_limit_wait_seconds",
    "max_concurrent_requests",
    "requests_per_minute",
    "chunk_delay_ms",
    "extra_body",
    "api",
    "tool_calling",
    "context_length",
    "max_concurrent",
];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildWarning {
    #[error("`{param}` has no effect: {api} has no such parameter")]
    NotSent { param: String, api: &'static str },
}

/// Warns of parameters without effect, except those that are null or false.
pub fn warnings(config: &BackendConfig) -> Vec<BuildWarning> {
    let Some(api) = provider(&config.kind).and_then(|provider| provider.api_for(config).ok()) else {
        return Vec::new();
    };
    let (name, known): (_, &[&[&str]]) = match api {
        Api::Chat if config.kind == "openrouter" => {
            ("OpenRouter's API", &[chat::SENT, chat::KNOWN, chat::OPENROUTER])
        }
        Api::Chat | Api::AzureChat => ("the chat-completions API", &[chat::SENT, chat::KNOWN]),
        Api::Responses => ("the Responses API", &[responses::KNOWN]),
        Api::Messages => ("the Messages API", &[messages::KNOWN]),
        Api::Gemini => ("the Gemini API", &[gemini::KNOWN]),
    };
    let unknown = |key: &&String| {
        let has = |list: &[&str]| list.contains(&key.as_str());
        !has(RESERVED) && !known.iter().any(|list| has(list))
    };
    let says_something = |value: &Value| !value.is_null() && *value != false;
    let set = config.params.iter().filter(|(_, value)| says_something(value)).map(|(key, _)| key);
    set.filter(unknown).map(|key| BuildWarning::NotSent { param: key.clone(), api: name }).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolChoice<'a> {
    Auto,
    None,
    Any,
    Tool(&'a str),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Section<'a>(pub(crate) &'a Map<String, Value>);

impl<'a> Section<'a> {
    pub(crate) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(crate) fn field(self, key: &str, field: &str) -> Option<&'a Value> {
        self.get(key)?.get(field).filter(|value| !value.is_null())
    }

    pub(crate) fn is_on(self, key: &str) -> bool {
        self.get(key).is_some_and(|value| *value == true)
    }

    pub(crate) fn effort(self) -> Option<&'a str> {
        self.field("reasoning", "effort").or_else(|| self.get("reasoning_effort")).and_then(Value::as_str)
    }

    pub(crate) fn summary(self) -> Option<&'a str> {
        self.field("reasoning", "summary").and_then(Value::as_str)
    }

    pub(crate) fn verbosity(self) -> Option<&'a Value> {
        self.field("text", "verbosity").or_else(|| self.get("verbosity"))
    }

    /// The output limit in tokens; for some providers it includes reasoning.
    pub(crate) fn output_limit(self) -> Option<&'a Value> {
        ["max_tokens", "max_output_tokens", "max_completion_tokens"].iter().find_map(|key| self.get(key))
    }

    /// The budget in tokens.
    pub(crate) fn thinking_budget(self) -> Option<i64> {
        self.field("thinking", "budget_tokens")
            .or_else(|| self.get("thinking_budget"))
            .or_else(|| self.field("reasoning", "budget_tokens"))
            .or_else(|| self.field("reasoning", "max_tokens"))
            .and_then(Value::as_i64)
    }

    pub(crate) fn stops(self) -> Option<Value> {
        self.get("stop").map(|stop| match stop {
            Value::Array(_) => stop.clone(),
            one => Value::Array(vec![one.clone()]),
        })
    }

    /// Accepts the notation of any API.
    pub(crate) fn tool_choice(self) -> Option<ToolChoice<'a>> {
        let choice = self.get("tool_choice")?;
        let kind = choice.as_str().or_else(|| choice.get("type").and_then(Value::as_str));
        let name = choice.get("name").or_else(|| choice.get("function")?.get("name")).and_then(Value::as_str);
        match (name, kind?) {
            (Some(name), _) => Some(ToolChoice::Tool(name)),
            (None, "auto") => Some(ToolChoice::Auto),
            (None, "none") => Some(ToolChoice::None),
            (None, "any" | "required") => Some(ToolChoice::Any),
            (None, _) => None,
        }
    }

    /// The schema from `response_format` or `text.format`, in OpenAI's notation. The name may be null.
    pub(crate) fn reply_schema(self) -> Option<(&'a Value, &'a Value)> {
        let format = self.get("response_format").or_else(|| self.field("text", "format"))?;
        let inner = format.get("json_schema").unwrap_or(format);
        Some((inner.get("name").unwrap_or(&Value::Null), inner.get("schema")?))
    }

    /// `extra_body` cannot set the fields in `ours`.
    pub(crate) fn add_extra(self, body: &mut Map<String, Value>, ours: &[&str]) {
        if let Some(Value::Object(extra)) = self.get("extra_body") {
            for (key, value) in extra.iter().filter(|(key, _)| !ours.contains(&key.as_str())) {
                merge(body.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
    }
}

pub(crate) fn put(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => from.clone_into(into),
    }
}

/// Fields that a model does not accept, learned from rejections and omitted from all later requests.
#[derive(Debug, Default)]
pub(crate) struct UnsupportedFields(Mutex<Vec<&'static str>>);

const NOT_TAKEN: &[&str] = &[
    "unsupported parameter",
    "not supported",
    "does not support",
    "unknown parameter",
    "unrecognized",
    "deprecated",
    "not permitted",
    "must be verified",
    "cannot both be specified",
];

impl UnsupportedFields {
    /// Records the first field of `optional` that the rejection names and that is not recorded yet. Child fields must
    /// be listed before their parents. Returns whether a field was recorded.
    pub(crate) fn learn(&self, refusal: &str, optional: &[&'static str]) -> bool {
        let message = refusal.to_ascii_lowercase();
        if !NOT_TAKEN.iter().any(|words| message.contains(words)) {
            return false;
        }
        optional.iter().any(|field| names(&message, field) && self.add(field))
    }

    pub(crate) fn add(&self, field: &'static str) -> bool {
        let mut unsupported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = !unsupported.contains(&field);
        if new {
            unsupported.push(field);
        }
        new
    }

    pub(crate) fn strip(&self, body: &mut Map<String, Value>) {
        for field in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            match field.split_once('.') {
                None => {
                    body.shift_remove(*field);
                }
                Some((parent, child)) => {
                    let inner = body.get_mut(parent).and_then(Value::as_object_mut);
                    let empty = inner.is_some_and(|inner| {
                        inner.shift_remove(child);
                        inner.is_empty()
                    });
                    if empty {
                        body.shift_remove(parent);
                    }
                }
            }
        }
    }
}

fn names(text: &str, field: &str) -> bool {
    text.match_indices(field).any(|(at, _)| {
        let word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        let (before, after) = (text.get(..at), text.get(at + field.len()..));
        !word(before.and_then(|t| t.chars().next_back())) && !word(after.and_then(|t| t.chars().next()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_refused_field_is_left_out_with_its_empty_parent_and_only_where_it_is_named_as_such() {
        let optional = &["reasoning.summary", "reasoning", "top_p"];
        let unsupported = UnsupportedFields::default();
        assert!(!unsupported.learn("Unsupported parameter: 'stop_propagation'", optional));
        assert!(
            !unsupported.learn("top_p must be at most 1", optional),
            "a wrong value must be reported to the user, not omitted"
        );
        assert!(unsupported.learn("Unsupported parameter: 'reasoning.summary' with this model.", optional));
        assert!(!unsupported.learn("Unsupported parameter: 'reasoning.summary' with this.", &optional[..1]));
        let mut body = json!({"reasoning": {"summary": "auto"}, "top_p": 1});
        unsupported.strip(body.as_object_mut().unwrap());
        assert_eq!(body, json!({"top_p": 1}));
    }

    #[test]
    fn a_tool_choice_is_read_in_every_notation() {
        let read = |value: Value| {
            let params = Map::from_iter([("tool_choice".to_owned(), value)]);
            format!("{:?}", Section(&params).tool_choice())
        };
        assert_eq!(read(json!("required")), "Some(Any)");
        assert_eq!(read(json!({"type": "any"})), "Some(Any)");
        assert_eq!(read(json!({"type": "tool", "name": "vote"})), "Some(Tool(\"vote\"))");
        assert_eq!(read(json!({"type": "function", "function": {"name": "vote"}})), "Some(Tool(\"vote\"))");
        assert_eq!(read(json!("none")), "Some(None)");
        assert_eq!(read(json!({"type": "allowed_tools"})), "None");
    }
}
