//! Which calls in a reply are quotations. The prompt contains texts of others (answers, results, files), which may
//! contain calls; a model that quotes such a text does not make these calls.

use super::prompt::ENDINGS;
use althing_protocol::{Message, ModelRequest};
use althing_text::{closed_marker, comparable, next_marker};
use serde_json::{Map, Value};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

const MAX_MARKER_BYTES: usize = 400;

const MAX_PARTS: usize = 8;

/// The parts of a reply between marker lines, or from an opening marker line to the end of the reply.
pub(super) fn marked_ranges(text: &str) -> Vec<Range<usize>> {
    let closings = closing_markers(text);
    let mut ranges = Vec::new();
    let mut from = 0;
    while let Some(marker) = next_marker(text, from) {
        let Range { start, end: after } = marker.range;
        if marker.closes().is_some() {
            from = after;
            continue;
        }
        let ends = closings.get(marker.inside).map(Vec::as_slice).unwrap_or_default();
        let next = ends.get(ends.partition_point(|end| end.start < after));
        from = next.map_or(text.len(), |end| end.end);
        ranges.push(start..from);
    }
    ranges
}

/// All closing markers by the `NAME CODE` that they close, each in order. They are collected once, because a search for
/// the end of each marked text would read a hostile reply again and again.
fn closing_markers(text: &str) -> HashMap<&str, Vec<Range<usize>>> {
    let mut found: HashMap<&str, Vec<Range<usize>>> = HashMap::new();
    for (start, _) in text.match_indices('<') {
        let begin = text.get(start + 1..).unwrap_or_default();
        let Some(rest) = closed_marker(begin) else { continue };
        let rest_len = rest.len();
        let rest = rest.get(..rest.floor_char_boundary(MAX_MARKER_BYTES)).unwrap_or_default();
        if let Some((inside, _)) = rest.split_once('>') {
            let end = text.len() - rest_len + inside.len() + 1;
            found.entry(inside).or_default().push(start..end);
        }
    }
    found
}

/// The texts of a conversation from which a model may quote: what others wrote, the system prompt, and its own earlier
/// messages, which may be quotations themselves. A call that the model made is no text of the conversation.
pub(super) struct Material {
    of_others: Vec<String>,
    own: Vec<String>,
}

impl Material {
    pub(super) fn of(request: &ModelRequest) -> Self {
        let mut material = Self { of_others: vec![comparable(&request.system)], own: Vec::new() };
        for message in &request.messages {
            match message {
                Message::User(text) | Message::Tool { content: text, .. } => {
                    material.of_others.push(comparable(text));
                }
                Message::Assistant { text, .. } => material.own.push(comparable(text)),
            }
        }
        material
    }

    /// Whether the call stands in a text of others, in whatever layout. A model may repeat its own answer or vote, and
    /// parts of it may stand anywhere in the conversation. Other calls are also quoted if the name and all arguments stand
    /// together, in any order.
    pub(super) fn contains(&self, written: &str, calls: &[(String, Map<String, Value>)]) -> bool {
        let written = comparable(written);
        let others = || calls.iter().filter(|(name, _)| !ENDINGS.contains(&name.as_str()));
        let own = self.own.iter().filter(|_| others().next().is_some());
        self.of_others.iter().chain(own).any(|text| text.contains(&written))
            || others().any(|(name, arguments)| self.has_parts_of(name, arguments, written.len()))
    }

    fn has_parts_of(&self, name: &str, arguments: &Map<String, Value>, reach: usize) -> bool {
        let mut parts = Vec::new();
        arguments.iter().for_each(|(key, value)| add_parts(Some(key), value, &mut parts));
        if parts.is_empty() {
            return false;
        }
        // The longest ones say the most, and a few searches are enough.
        parts.sort_by_key(|part| Reverse(part.len()));
        parts.truncate(MAX_PARTS);
        parts.push(comparable(&format!("{name}\"")));
        self.of_others.iter().chain(&self.own).any(|text| are_within(text, &parts, reach))
    }
}

/// The values of an argument, each with its key.
fn add_parts(key: Option<&str>, value: &Value, parts: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| add_parts(Some(key), value, parts)),
        Value::Array(items) => items.iter().for_each(|item| add_parts(None, item, parts)),
        _ => {
            let key = key.map(|key| format!("{}:", Value::from(key))).unwrap_or_default();
            parts.push(comparable(&format!("{key}{value}")));
        }
    }
}

fn are_within(text: &str, parts: &[String], reach: usize) -> bool {
    let mut places = Vec::with_capacity(parts.len());
    for part in parts {
        let found: Vec<usize> = text.match_indices(part.as_str()).map(|(at, _)| at).collect();
        if found.is_empty() {
            return false;
        }
        places.push(found);
    }
    let is_near = |found: &Vec<usize>, at: usize| {
        let next = found.get(found.partition_point(|place| *place < at.saturating_sub(reach)));
        next.is_some_and(|place| *place <= at + reach)
    };
    let rarest = places.iter().min_by_key(|found| found.len());
    rarest.is_some_and(|rarest| rarest.iter().any(|at| places.iter().all(|found| is_near(found, *at))))
}

#[cfg(test)]
mod tests {
    use super::super::parse::written_calls;
    use super::*;
    use althing_protocol::{ToolCall, ToolSpec};
    use serde_json::json;

    fn marked(text: &str) -> Vec<&str> {
        marked_ranges(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn a_marked_text_ends_at_its_own_closing_marker_in_either_spelling() {
        let small = "<a 0123abcd>\nx <b 0123abcd> <end of b 0123abcd> y\n<end of a 0123abcd>";
        let large = "<Ä b 0123abcd>\nx\n<END OF Ä b 0123abcd>";
        let nearest = "<a 00000000><END OF a 00000000>";
        let text = format!("{small}\n<end of a 0123abcd> {large} <c> {nearest}<end of a 00000000>");
        assert_eq!(marked(&text), [small, large, nearest]);
        let open = "<a 0123abcd>\nx <end of a 0123abce> <end of a 0123abcd";
        assert_eq!(marked(&format!("so: {open}")), [open], "without its end, all of the rest is marked");
    }

    #[test]
    fn a_reply_of_very_many_marked_texts_is_read() {
        let count = 200_000;
        let text = "<a 01234567>x<end of a 01234567>".repeat(count);
        assert_eq!(marked_ranges(&text).len(), count);
    }

    /// A reply with text around each of the calls makes these calls.
    fn calls_beside(conversation: &ModelRequest, calls: &[&str]) -> Vec<String> {
        let write = json!({"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}, "required": ["path", "content"]});
        let list = json!({"type": "object", "properties": {}});
        let tool = |name: &str, parameters: Value| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters,
        };
        let tools = vec![
            tool("write_file", write),
            tool("list_directory", list),
            tool("new_answer", json!({"type": "object", "properties": {"content": {"type": "string"}}})),
            tool(
                "vote",
                json!({"type": "object", "properties": {"agent_id": {"type": "string"}, "reason": {"type": "string"}}}),
            ),
        ];
        let reply = format!("It says:\n\n{}\n\nOdd.", calls.join("\n\nand\n\n"));
        let found = written_calls(&reply, &ModelRequest { tools, ..conversation.clone() });
        found.into_iter().flat_map(|reply| reply.calls).map(|call| call.arguments).collect()
    }

    #[test]
    fn a_call_that_is_quoted_from_any_text_of_others_is_not_made() {
        let call = r#"{"name": "write_file", "arguments": {"path": "a/b.txt", "content": "C:\\new \"é\"\nline 2\n"}}"#;
        let loose = call.replace(", ", ",\n    ").replace(": {", ": {\n    ").replace("}}", "\n  }\n}");
        let raw = loose.replace(r"\n", "\n");
        let other_order = r#"{"arguments": {"content": "C:\\new \"\u00e9\"\nline 2\n", "path": "a/b.txt"}, "name": "write_file"}"#;
        let user =
            |text: &str| ModelRequest { messages: vec![Message::User(text.into())], ..Default::default() };
        let said = |text: &str| ModelRequest {
            messages: vec![
                Message::Assistant { text: text.into(), tool_calls: Vec::new() },
                Message::User("so?".into()),
            ],
            ..Default::default()
        };
        let result = |content: String| ModelRequest {
            messages: vec![Message::Tool { call: "1".into(), content, is_error: false }],
            ..Default::default()
        };
        let system = |text: &str| ModelRequest { system: text.into(), ..Default::default() };
        let as_json = |text: &str| json!({ "final_answer": format!("Look:\n\n{text}\n\nSo.") }).to_string();
        let lines = |text: &str| {
            (8..).zip(text.lines()).map(|(n, line)| format!("{n:>6}\t{line}")).collect::<Vec<_>>().join("\n")
        };
        let found = |text: &str| {
            (8..)
                .zip(text.lines())
                .map(|(n, line)| format!("a-b.md:{n}: {line}"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        let added = |text: &str| text.lines().map(|line| format!("+{line}")).collect::<Vec<_>>().join("\n");
        for written in [call, &loose, &raw, other_order] {
            for quoted in [call, &loose, &raw, other_order] {
                let conversations = [
                    user(written),
                    said(&format!("The run answered:\n{written}")),
                    system(&format!("# Rules\n\n{written}\n")),
                    result(as_json(written)),
                    result(as_json(&as_json(written))),
                    result(lines(written)),
                    result(found(written)),
                    result(added(written)),
                    result(as_json(&lines(written))),
                    result(lines(&as_json(written))),
                ];
                for conversation in conversations {
                    assert_eq!(calls_beside(&conversation, &[quoted]), [""; 0], "{quoted}\n{conversation:?}");
                }
            }
        }
    }

    #[test]
    fn a_call_of_the_model_itself_is_made_although_parts_of_it_are_in_the_conversation() {
        let write = |path: &str| {
            format!(r#"{{"name": "write_file", "arguments": {{"path": "{path}", "content": "x"}}}}"#)
        };
        let answer = r#"{"name": "new_answer", "arguments": {"content": "Use write_file with path a.txt and content x."}}"#;
        let vote = r#"{"name": "vote", "arguments": {"agent_id": "agent1", "reason": "x"}}"#;
        let list = r#"{"name": "list_directory", "arguments": {}}"#;
        let result = format!(
            r#"{{"writes": [{{"path": "a.txt"}}], "content": "x", "tool": "vote", "agent_id": "agent1", "reason": "x"}} {}"#,
            write("other.txt")
        );
        let messages = vec![
            Message::User(
                "Use write_file with path a.txt and content x. Call list_directory, then vote for agent1."
                    .into(),
            ),
            Message::Assistant {
                text: format!("So:\n{answer}\n{vote}"),
                tool_calls: vec![ToolCall {
                    id: "1".into(),
                    name: "write_file".into(),
                    arguments: r#"{"path": "a.txt", "content": "x"}"#.into(),
                }],
            },
            Message::Tool { call: "1".into(), content: result, is_error: false },
        ];
        let conversation = ModelRequest { messages, ..Default::default() };
        for own in [&write("a.txt"), answer, vote, list] {
            assert_eq!(calls_beside(&conversation, &[own]).len(), 1, "{own}");
        }
        let made = calls_beside(&conversation, &[&write("other.txt"), &write("mine.txt")]);
        assert_eq!(made, [r#"{"path":"mine.txt","content":"x"}"#]);
    }
}
