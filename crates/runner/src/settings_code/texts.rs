//! Reads settings as texts that may be commands: everything except the values of keys that are known to be data. What
//! belongs together (the command of a server, its arguments and variables) becomes one text.

use crate::adapter::Keys;
use serde_json::Value;
use std::path::Path;

pub(super) fn commands(file: &Path, bytes: &[u8], keys: &Keys) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}');
    let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let texts = match extension {
        "md" => front_matter(text).filter(|text| text.contains("command")).map(plain).into_iter().collect(),
        "toml" => tables(text, keys),
        _ => match serde_json::from_str::<Value>(&without_comments(text)) {
            Ok(value) => in_json(&value, keys),
            Err(_) if text.trim().is_empty() => Vec::new(),
            Err(_) => vec![plain(text)],
        },
    };
    texts.into_iter().map(String::into_bytes).collect()
}

impl Keys {
    fn is_data(&self, key: &str) -> bool {
        matches!(self, Self::AllBut(keys) if keys.contains(&key))
    }
}

fn in_json(value: &Value, keys: &Keys) -> Vec<String> {
    let mut found = Vec::new();
    match (keys, value) {
        (Keys::AllBut(_), Value::Object(fields)) => {
            let fields = fields.iter().filter(|(key, _)| !keys.is_data(key));
            fields.for_each(|(_, value)| add_commands(value, keys, &mut found));
        }
        (Keys::AllBut(_), _) => add_commands(value, keys, &mut found),
        (Keys::Only(names), _) => add_values(value, names, keys, &mut found),
    }
    found
}

fn add_values(value: &Value, names: &[&str], keys: &Keys, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) if fields.keys().any(|key| names.contains(&key.as_str())) => {
            let fields = fields.iter().filter(|(key, _)| names.contains(&key.as_str()));
            let values: Value = fields.map(|(key, value)| (key.clone(), value.clone())).collect();
            add_commands(&values, keys, found);
        }
        Value::Object(fields) => fields.values().for_each(|value| add_values(value, names, keys, found)),
        Value::Array(values) => values.iter().for_each(|value| add_values(value, names, keys, found)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Adds one text for each value that directly contains a text.
fn add_commands(value: &Value, keys: &Keys, found: &mut Vec<String>) {
    let is_text = |value: &Value| match value {
        Value::String(_) => true,
        Value::Array(values) => values.iter().any(Value::is_string),
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
    };
    match value {
        Value::Object(fields) if !fields.iter().any(|(key, value)| is_text(value) && !keys.is_data(key)) => {
            let fields = fields.iter().filter(|(key, _)| !keys.is_data(key));
            fields.for_each(|(_, value)| add_commands(value, keys, found));
        }
        Value::Array(values) if !is_text(value) => {
            for value in values {
                add_commands(value, keys, found);
            }
        }
        Value::String(_) | Value::Object(_) | Value::Array(_) => {
            let mut texts = Vec::new();
            add_texts(value, keys, &mut texts);
            found.push(texts.join("\n"));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn add_texts<'a>(value: &'a Value, keys: &Keys, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(values) => values.iter().for_each(|value| add_texts(value, keys, texts)),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().filter(|(key, _)| !keys.is_data(key)).collect();
            // A program comes before its arguments.
            let place = |key: &str| ["command", "args"].iter().position(|known| *known == key).unwrap_or(2);
            fields.sort_by_key(|(key, _)| place(key));
            for (_, value) in fields {
                add_texts(value, keys, texts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The comments and the commas before closing brackets that many programs accept in JSON.
fn without_comments(text: &str) -> String {
    let (mut clean, mut rest, mut is_text) = (String::with_capacity(text.len()), text, false);
    while let Some(next) = rest.chars().next() {
        let comment_end = match rest.get(..2) {
            Some("//") if !is_text => Some(rest.find('\n').unwrap_or(rest.len())),
            Some("/*") if !is_text => Some(rest.find("*/").map_or(rest.len(), |end| end + 2)),
            _ => None,
        };
        let end = comment_end.unwrap_or(match rest.get(..2) {
            Some("\\\\" | "\\\"") if is_text => 2,
            _ => next.len_utf8(),
        });
        let (part, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        is_text ^= part == "\"";
        if comment_end.is_none() {
            if !is_text && (part == "}" || part == "]") && clean.trim_end().ends_with(',') {
                clean.truncate(clean.trim_end().len() - 1);
            }
            clean.push_str(part);
        }
        rest = after;
    }
    clean
}

/// The tables of a TOML file, except for those whose name begins with a key that is data. The file is not parsed: a
/// line that looks like the start of a table counts as one.
fn tables(text: &str, keys: &Keys) -> Vec<String> {
    let (mut found, mut table, mut is_data) = (Vec::new(), String::new(), false);
    for line in text.lines() {
        let name =
            line.trim_start().strip_prefix('[').map(|name| name.trim_start_matches(['[', ' ', '"', '\'']));
        let is_start = line.split('#').next().unwrap_or_default().trim_end().ends_with(']');
        if let Some(name) = name.filter(|_| is_start) {
            found.push(plain(&std::mem::take(&mut table)));
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').unwrap_or(name.len());
            is_data = name.get(..end).is_some_and(|name| keys.is_data(name));
        }
        if !is_data {
            table.push_str(line);
            table.push('\n');
        }
    }
    found.push(plain(&table));
    found
}

fn front_matter(text: &str) -> Option<&str> {
    let text = text.strip_prefix("---")?;
    text.find("\n---").and_then(|end| text.get(..end))
}

/// Puts each quoted text and each value on a line of its own.
fn plain(text: &str) -> String {
    text.replace(['"', '\'', '='], "\n").replace(": ", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_belong_together_become_one_command_and_data_is_left_out() {
        let keys = Keys::AllBut(&["permissions"]);
        let of = |file: &str, text: &str| {
            let found = commands(Path::new(file), text.as_bytes(), &keys);
            let text = |text| String::from_utf8(text).unwrap();
            let mut found: Vec<String> = found.into_iter().map(text).collect();
            found.sort();
            found
        };
        let json = r#"{"servers": {"a": {"args": ["x", "y"], "command": "z"}, "b": {"command": "w"}},
            "permissions": {"allow": ["src/**"]}, "helper": "h"}"#;
        assert_eq!(of("a.json", json), ["h", "w", "z\nx\ny"]);
        let comments = "{ // it's \"x\"\n \"a\": \"http://x\\\\\", /* b */ \"c\": [\"d\",\n], }";
        assert_eq!(of("a.jsonc", comments), ["d", "http://x\\"]);
        assert_eq!(of("a.json", "{\"a\": x"), ["{\na\n\nx"]);
        let toml = "a = 'b'\n[permissions.x]\nc = 1\n[[t]] # u\nd = [\n  \"e\"]\n";
        assert_eq!(of("a.toml", toml), ["", "[[t]] # u\nd \n [\n  \ne\n]\n", "a \n \nb\n\n"]);
        assert_eq!(of("a.md", "---\ncommand: x\n---\ny"), ["\ncommand\nx"]);
        let only = Keys::Only(&["mcpServers"]);
        let json = br#"{"projects": {"/p": {"history": ["h"], "mcpServers": {"a": {"command": "x"}}}}}"#;
        assert_eq!(commands(Path::new("a.json"), json, &only), [b"x"]);
    }
}
