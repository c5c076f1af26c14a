//! Adjustments that the wire formats make to the conversation history.

use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::fmt::Write;

const BROKEN_ARGUMENTS_CHARS: usize = 2000;

/// For a format without an error flag: without the prefix `Error: `, a model would take the error for the result.
pub(crate) fn marked(content: &str, is_error: bool) -> Cow<'_, str> {
    let says_so = content.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    if is_error && !says_so { Cow::Owned(format!("Error: {content}")) } else { Cow::Borrowed(content) }
}

/// Arguments that are not a JSON object are wrapped into one: several servers parse the history and reject the whole
/// conversation for one invalid call.
pub(crate) fn arguments_text(arguments: &str) -> Cow<'_, str> {
    let trimmed = arguments.trim();
    let whole = trimmed.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(trimmed).is_ok();
    if whole {
        return Cow::Borrowed(arguments);
    }
    Cow::Owned(Value::Object(arguments_object(arguments)).to_string())
}

pub(crate) fn arguments_object(arguments: &str) -> Map<String, Value> {
    let trimmed = arguments.trim();
    if trimmed.is_empty() {
        return Map::new();
    }
    if let Ok(Value::Object(object)) = serde_json::from_str(trimmed) {
        return object;
    }
    let mut text: String = trimmed.chars().take(BROKEN_ARGUMENTS_CHARS).collect();
    if text.len() < trimmed.len() {
        let _ =
            write!(text, " [{} of {} bytes are left out here]", trimmed.len() - text.len(), trimmed.len());
    }
    Map::from_iter([("invalid_arguments".to_owned(), json!(text))])
}

#[cfg(test)]
mod tests {
    use super::arguments_object;

    #[test]
    fn broken_arguments_that_are_too_long_say_how_much_of_them_is_left_out() {
        let shown = arguments_object(&"x".repeat(5000));
        let text = shown["invalid_arguments"].as_str().unwrap();
        assert!(text.ends_with("xx [3000 of 5000 bytes are left out here]"), "{text}");
        assert_eq!(arguments_object("{broken")["invalid_arguments"], "{broken");
    }
}
