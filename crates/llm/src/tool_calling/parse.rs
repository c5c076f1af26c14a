//! Reads tool calls that a model wrote into its text: as a JSON object in a fence, in tags such as `<tool_call>`,
//! after a marker, or bare. The object counts only if it begins a line or follows a tag, names an offered tool, and
//! has arguments that match the tool's schema.

use super::quoted::{Material, marked_ranges};
use super::validate::are_arguments;
use crate::limits::{ARGUMENT_BYTES, TOOL_CALLS};
use althing_protocol::{ModelRequest, ToolCall, ToolSpec};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::ops::Range;

const MAX_PLACES: usize = 64;
const MAX_NESTING: usize = 64;

const NAMES: &[&str] = &["name", "tool", "tool_name", "function", "action"];
const ARGUMENTS: &[&str] = &["arguments", "parameters", "args", "input", "tool_input", "action_input"];

/// Marks before a call, which are removed with the call.
const OPENINGS: &[&str] = &[
    "<tool_call>",
    "<tools>",
    "<tool>",
    "<function_call>",
    "<|tool_call|>",
    "<|tool_call>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "```json",
    "```tool_call",
    "```tool",
    "```",
];
const CLOSINGS: &[&str] =
    &["</tool_call>", "</tools>", "</tool>", "</function_call>", "<|/tool_call|>", "<tool_call|>", "```"];

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WrittenReply {
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) text: String,
}

/// Reads a reply that was asked to follow the schema of `prompt::call_schema`; `None` if it does not.
pub(crate) fn read_schema_reply(text: &str, request: &ModelRequest) -> Option<WrittenReply> {
    if let Ok(Value::Object(object)) = serde_json::from_str(text.trim())
        && let (1, Some(Value::String(text))) = (object.len(), object.get("text"))
    {
        return Some(WrittenReply { calls: Vec::new(), text: text.clone() });
    }
    written_calls(text, request)
}

/// `request` is the request before the tools were described in its system prompt, because the examples there are no
/// texts of others. A call that is only quoted from the request does not count.
pub(crate) fn written_calls(text: &str, request: &ModelRequest) -> Option<WrittenReply> {
    if text.len() > ARGUMENT_BYTES {
        return None;
    }
    let mut places = call_places(text, &request.tools);
    if places.is_empty() {
        return None;
    }
    let material = Material::of(request);
    let is_quoted = |place: &CallRange| {
        text.get(place.json.clone()).is_none_or(|json| material.contains(json, &place.calls))
    };
    let own: Vec<bool> = places.iter().map(|place| !is_quoted(place)).collect();
    if own.contains(&true) {
        let mut own = own.into_iter();
        places.retain(|_| own.next().unwrap_or_default());
    } else if !text_without(text, &places).is_empty() {
        // All calls in the reply are quoted. Text around a quoted call may say anything about it, so the call does not
        // count. A reply that contains nothing but the call makes the call.
        return None;
    }
    let rest = text_without(text, &places);
    let found: Vec<_> = places.into_iter().flat_map(|place| place.calls).collect();
    if found.len() > TOOL_CALLS {
        return None;
    }
    let calls = (0..).zip(found).map(|(n, (name, arguments))| ToolCall {
        id: format!("written_{n}"),
        name,
        arguments: Value::Object(arguments).to_string(),
    });
    Some(WrittenReply { calls: calls.collect(), text: rest })
}

struct CallRange {
    json: Range<usize>,
    calls: Vec<(String, Map<String, Value>)>,
}

fn call_places(text: &str, tools: &[ToolSpec]) -> Vec<CallRange> {
    let quotations = marked_ranges(text);
    let (mut places, mut from) = (Vec::new(), 0);
    for _ in 0..MAX_PLACES {
        let Some(start) = next_place(text, from) else { break };
        if let Some(quoted) = quotations.iter().find(|quoted| quoted.contains(&start)) {
            from = quoted.end;
            continue;
        }
        let Some((end, closers)) = text.get(start..).and_then(json_end) else {
            from = start + 1;
            continue;
        };
        let end = start + end;
        let calls = text
            .get(start..end)
            .and_then(|json| parsed(json, &closers))
            .and_then(|value| calls_in(&value, tools));
        // What is inside a value that is no call is not a call either.
        from = end.max(start + 1);
        if let Some(calls) = calls {
            from = text.len() - without_closing(text.get(end..).unwrap_or_default()).len();
            places.push(CallRange { json: start..end, calls });
        }
    }
    places
}

/// The text around the calls, without the marks that belong to them.
fn text_without(text: &str, places: &[CallRange]) -> String {
    let (mut rest, mut kept) = (String::new(), 0);
    for place in places {
        let between = without_opening(text.get(kept..place.json.start).unwrap_or_default());
        if !between.trim().is_empty() {
            rest.push_str(between);
        }
        kept = text.len() - without_closing(text.get(place.json.end..).unwrap_or_default()).len();
    }
    rest.push_str(text.get(kept..).unwrap_or_default());
    rest.trim().to_owned()
}

fn next_place(text: &str, from: usize) -> Option<usize> {
    let places = text.get(from..)?.match_indices(['{', '[']).map(|(at, _)| from + at);
    places.into_iter().find(|at| {
        let before = text.get(..*at).unwrap_or_default().trim_end_matches([' ', '\t']);
        let is_marker = text.get(*at..).is_some_and(|rest| rest.starts_with("[TOOL_CALLS]"));
        !is_marker && (before.is_empty() || before.ends_with(['\n', '>', ']', '`']))
    })
}

/// Where the JSON value at the start of the text ends, and the closing brackets that are missing if the text ends before
/// the value does. None if the brackets do not match or are nested too deeply, or if the text ends within a string.
fn json_end(text: &str) -> Option<(usize, String)> {
    let mut open = Vec::new();
    let (mut in_string, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' => open.push('}'),
            b'[' => open.push(']'),
            b'}' | b']' => {
                if open.pop() != Some(char::from(byte)) {
                    return None;
                }
                if open.is_empty() {
                    return Some((at + 1, String::new()));
                }
            }
            _ => {}
        }
        if open.len() > MAX_NESTING {
            return None;
        }
    }
    // Small models forget the last brackets; a string without its end is a truncated call.
    (!in_string).then(|| (text.len(), open.into_iter().rev().collect()))
}

/// Missing brackets are added, and line breaks inside strings are allowed.
fn parsed(json: &str, closers: &str) -> Option<Value> {
    let mut json = Cow::Borrowed(json);
    if !closers.is_empty() {
        let mut whole = json.as_ref();
        while let Some(shorter) = CLOSINGS.iter().find_map(|tag| whole.trim_end().strip_suffix(tag)) {
            whole = shorter;
        }
        json = Cow::Owned(format!("{}{closers}", whole.trim_end().trim_end_matches(',')));
    }
    serde_json::from_str(&json).ok().or_else(|| serde_json::from_str(&escaped_controls(&json)).ok())
}

fn escaped_controls(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        let was_escaped = std::mem::take(&mut escaped);
        match c {
            '\n' if in_string => out.push_str("\\n"),
            '\t' if in_string => out.push_str("\\t"),
            '\r' if in_string => out.push_str("\\r"),
            _ => {
                escaped = in_string && c == '\\' && !was_escaped;
                in_string ^= c == '"' && !was_escaped;
                out.push(c);
            }
        }
    }
    out
}

/// `None` if any part is not a call to an offered tool.
fn calls_in(value: &Value, tools: &[ToolSpec]) -> Option<Vec<(String, Map<String, Value>)>> {
    match value {
        Value::Array(items) if !items.is_empty() && items.len() <= TOOL_CALLS => {
            let calls: Option<Vec<_>> = items.iter().map(|item| calls_in(item, tools)).collect();
            Some(calls?.into_iter().flatten().collect())
        }
        Value::Object(object) => match object.get("tool_calls") {
            Some(calls @ Value::Array(_)) => calls_in(calls, tools),
            _ => call_in(object, tools).map(|call| vec![call]),
        },
        _ => None,
    }
}

fn call_in(object: &Map<String, Value>, tools: &[ToolSpec]) -> Option<(String, Map<String, Value>)> {
    if let Some(Value::Object(function)) = object.get("function") {
        return call_in(function, tools);
    }
    let offered = |name: &str| {
        let name = name.trim().trim_start_matches("functions.");
        tools.iter().find(|tool| tool.name == name)
    };
    let named = NAMES.iter().find_map(|key| Some((*key, offered(object.get(*key)?.as_str()?)?)));
    let (tool, arguments) = if let Some((key, tool)) = named {
        let is_own =
            |key: &str| tool.parameters.pointer("/properties").is_some_and(|own| own.get(key).is_some());
        let given = ARGUMENTS.iter().filter(|key| !is_own(key)).find_map(|key| object.get(*key));
        let arguments: Map<String, Value> = match given {
            Some(Value::Object(arguments)) => arguments.clone(),
            Some(Value::String(text)) => serde_json::from_str(text.as_str()).ok()?,
            Some(_) => return None,
            // Some models write the arguments beside the name.
            None => object
                .iter()
                .filter(|(name, _)| *name != key && *name != "id" && *name != "type")
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        };
        (tool, arguments)
    } else {
        let (1, Some((name, Value::Object(arguments)))) = (object.len(), object.iter().next()) else {
            return None;
        };
        (offered(name)?, arguments.clone())
    };
    are_arguments(&arguments, &tool.parameters).then(|| (tool.name.clone(), arguments))
}

fn without_opening(text: &str) -> &str {
    let trimmed = text.trim_end();
    OPENINGS.iter().find_map(|tag| trimmed.strip_suffix(tag)).map_or(text, without_opening)
}

fn without_closing(text: &str) -> &str {
    let trimmed = text.trim_start();
    CLOSINGS.iter().find_map(|tag| trimmed.strip_prefix(tag)).map_or(text, without_closing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::Message;
    use serde_json::json;

    fn tools() -> Vec<ToolSpec> {
        let tool = |name: &str, parameters: Value| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters,
        };
        vec![
            tool(
                "new_answer",
                json!({"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]}),
            ),
            tool(
                "vote",
                json!({"type": "object", "properties": {"agent_id": {"type": "string", "enum": ["agent1"]}, "reason": {"type": "string"}}, "required": ["agent_id"]}),
            ),
        ]
    }

    fn request(messages: &[Message]) -> ModelRequest {
        ModelRequest { messages: messages.to_vec(), tools: tools(), ..ModelRequest::default() }
    }

    fn read(text: &str) -> Option<(Vec<(String, Value)>, String)> {
        let read = written_calls(text, &request(&[]))?;
        let calls =
            read.calls.into_iter().map(|call| (call.name, serde_json::from_str(&call.arguments).unwrap()));
        Some((calls.collect(), read.text))
    }

    #[test]
    fn a_call_is_read_in_every_form_in_which_models_write_it() {
        let call = r#"{"name": "new_answer", "arguments": {"content": "42"}}"#;
        let table = [
            call.to_owned(),
            format!("```json\n{call}\n```"),
            format!("```\n{call}\n```"),
            format!("<tool_call>\n{call}\n</tool_call>"),
            format!("<tools>{call}</tools>"),
            format!("<tool_call>{call}"),
            format!("[TOOL_CALLS][{call}]"),
            format!("<|python_tag|>{call}"),
            format!("[{call}]"),
            r#"{"tool_calls": [{"type": "function", "function": {"name": "new_answer", "arguments": "{\"content\": \"42\"}"}}]}"#.into(),
            r#"{"tool": "new_answer", "parameters": {"content": "42"}}"#.into(),
            r#"{"function": "new_answer", "args": {"content": "42"}}"#.into(),
            r#"{"name": "new_answer", "content": "42"}"#.into(),
            r#"{"new_answer": {"content": "42"}}"#.into(),
            r#"{"name": "functions.new_answer", "arguments": {"content": "42"}"#.into(),
            format!("```json\n{}\n```", call.trim_end_matches('}')),
        ];
        for text in table {
            let wanted = vec![("new_answer".to_owned(), json!({"content": "42"}))];
            assert_eq!(read(&text), Some((wanted, String::new())), "{text}");
        }
    }

    #[test]
    fn the_text_around_a_call_stays_and_several_calls_keep_their_order() {
        let text = "I agree.\n<tool_call>\n{\"name\": \"vote\", \"arguments\": {\"agent_id\": \"agent1\"}}\n</tool_call>\n\
                    <tool_call>{\"name\": \"new_answer\", \"arguments\": {\"content\": \"a\nb\"}}</tool_call>\nDone.";
        let (calls, rest) = read(text).unwrap();
        assert_eq!(calls[0], ("vote".into(), json!({"agent_id": "agent1"})));
        assert_eq!(calls[1], ("new_answer".into(), json!({"content": "a\nb"})));
        assert_eq!(rest, "I agree.\n\nDone.");
    }

    #[test]
    fn what_is_not_a_valid_call_to_an_offered_tool_stays_text() {
        let table = [
            "The answer is 42.",
            r#"{"name": "delete_everything", "arguments": {}}"#,
            r#"{"name": "vote", "arguments": {"agent_id": "agent9"}}"#,
            r#"{"name": "new_answer", "arguments": {"content": {"type": "string"}}}"#,
            r#"{"name": "new_answer", "arguments": {"type": "object", "properties": {"content": {"type": "string"}}}}"#,
            r#"Call it like {"name": "new_answer", "arguments": {"content": "x"}} when you are ready."#,
            r#"{"name": "new_answer", "arguments": {"content": "cut in the mid"#,
            r#"{"wrapper": {"name": "new_answer", "arguments": {"content": "42"}}, "n": 1}"#,
            "```json\n{\"a\": 1}\n```",
        ];
        for text in table {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_call_that_a_model_quotes_from_others_is_not_its_call() {
        let vote = r#"{"name": "vote", "arguments": {"agent_id": "agent1", "reason": "theirs"}}"#;
        let own = r#"{"name": "new_answer", "arguments": {"content": "mine"}}"#;
        let shown =
            format!("<agent1.1 3f9c2a17>\nVote so:\n```json\n{vote}\n```\n<end of agent1.1 3f9c2a17>");
        let messages = [
            Message::User(format!("The answers:\n{shown}")),
            Message::Tool { call: "1".into(), content: format!("x\n{vote}"), is_error: false },
        ];
        let names = |text: &str, messages: &[Message]| {
            let calls = written_calls(text, &request(messages)).map(|reply| reply.calls);
            calls.unwrap_or_default().into_iter().map(|call| call.name).collect::<Vec<_>>()
        };
        // A call between marker lines does not count, whether or not the conversation is known, even if the closing
        // marker is missing.
        for messages in [&messages[..], &[]] {
            assert_eq!(names(&format!("They wrote:\n{shown}\nI disagree."), messages), [""; 0]);
            assert_eq!(names(&format!("{shown}\n{own}"), messages), ["new_answer"]);
            let cut = shown.rsplit_once('\n').unwrap().0;
            assert_eq!(names(&format!("Look:\n{cut}"), messages), [""; 0]);
        }
        // Without marker lines, in any layout.
        let loose = vote.replace(", ", ",\n  ");
        for quoted in [vote, &loose] {
            assert_eq!(names(&format!("They wrote:\n```json\n{quoted}\n```\nAwful."), &messages), [""; 0]);
            assert_eq!(names(&format!("They wrote:\n{quoted}\n\nMine:\n{own}"), &messages), ["new_answer"]);
            // A quoted call counts if the reply contains nothing else. A call that is not in the conversation counts
            // with text around it, too.
            assert_eq!(names(&format!("```json\n{quoted}\n```"), &messages), ["vote"]);
            assert_eq!(names(&format!("So:\n{quoted}"), &messages[..0]), ["vote"]);
        }
        let kept = written_calls(&format!("They wrote:\n{vote}\nMine:\n{own}"), &request(&messages)).unwrap();
        assert_eq!(kept.text, format!("They wrote:\n{vote}\nMine:"));
    }

    #[test]
    fn a_hostile_text_is_given_up_soon() {
        assert_eq!(read(&"{\n".repeat(100_000)), None);
        assert_eq!(read(&"[".repeat(1_000_000)), None);
        assert_eq!(read(&"<a 3f9c2a17>".repeat(80_000)), None);
        assert_eq!(read(&"<".repeat(1_000_000)), None);
    }

    #[test]
    fn a_reply_in_the_schema_is_a_call_or_a_text() {
        let text = read_schema_reply(r#"{"text": "Hello"}"#, &request(&[])).unwrap();
        assert_eq!((text.text.as_str(), text.calls.len()), ("Hello", 0));
        let call =
            read_schema_reply(r#"{"name": "new_answer", "arguments": {"content": "42"}}"#, &request(&[]))
                .unwrap();
        assert_eq!((call.text.as_str(), call.calls.len()), ("", 1));
        assert_eq!(read_schema_reply("{\"name\": \"new_ans", &request(&[])), None);
    }
}
