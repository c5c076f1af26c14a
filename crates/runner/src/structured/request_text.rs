//! The text of a CLI agent's request for permission. Nothing that would be permitted is left out: a person who allows
//! a call allows all of its input.

use super::{list, text};
use althing_text::sanitize::visible_line;
use serde_json::Value;

const FIRST_KEYS: [&str; 6] = ["command", "file_path", "path", "url", "pattern", "description"];

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The further lines of a value are indented, so that none looks like a line of ours or the beginning of another value.
pub(super) fn indented(value: &str) -> String {
    value.replace('\n', "\n  ")
}

/// `key: value`. The key is one line, and nothing in it is hidden: agents choose the keys of some inputs, too.
pub(super) fn field(key: &str, value: &str) -> String {
    format!("{}: {}", visible_line(key), indented(value))
}

/// A tool's whole input: first its command, path, URL or the like, then a line for each other key. Input without any
/// of [`FIRST_KEYS`] is shown as JSON.
pub(super) fn whole_input(input: &Value) -> String {
    let Some(fields) = input.as_object() else { return plain(input) };
    let Some(first) = FIRST_KEYS.into_iter().find(|key| !text(input, &format!("/{key}")).is_empty()) else {
        return input.to_string();
    };
    let others = fields.iter().filter(|(key, _)| *key != first);
    let others = others.map(|(key, value)| format!("\n{}", field(key, &plain(value))));
    [indented(text(input, &format!("/{first}")))].into_iter().chain(others).collect()
}

/// The title of a tool call over ACP, and what its content and its input add to the title.
pub(super) fn acp_call(call: &Value) -> String {
    let title = text(call, "/title");
    let mut lines = vec![indented(if title.is_empty() { "The agent wants to use a tool." } else { title })];
    let mut add = |key: &str, value: &str| {
        if !value.is_empty() {
            lines.push(field(key, value));
        }
    };
    for content in list(call, "/content") {
        match text(content, "/type") {
            "diff" => add("changed file", &diff(content)),
            _ => add("text", text(content, "/content/text")),
        }
    }
    for location in list(call, "/locations") {
        add("location", &visible_line(text(location, "/path")));
    }
    let fields = call.pointer("/rawInput").and_then(Value::as_object);
    for (key, value) in fields.into_iter().flatten().map(|(key, value)| (key, plain(value))) {
        if value != title {
            add(key, &value);
        }
    }
    lines.join("\n")
}

fn diff(content: &Value) -> String {
    let marked = |mark: &str, pointer: &str| {
        let lines = text(content, pointer).lines().map(|line| format!("\n{mark}{line}"));
        lines.collect::<String>()
    };
    format!("{}{}{}", visible_line(text(content, "/path")), marked("-", "/oldText"), marked("+", "/newText"))
}

pub(super) fn codex_changes(item: &Value) -> String {
    let change = |change: &Value| {
        let kind = change.pointer("/kind/type").or_else(|| change.pointer("/kind"));
        let kind = kind.map(plain).unwrap_or_default();
        let what = format!("{} {}", visible_line(&kind), visible_line(text(change, "/path")));
        indented(format!("{what}\n{}", text(change, "/diff")).trim())
    };
    list(item, "/changes").map(change).collect::<Vec<_>>().join("\n")
}

/// What a Codex request says besides what is permitted: ids, times, `what` and the reason in other forms, and what the
/// options permit.
const CODEX_OTHER_KEYS: [&str; 12] = [
    "kind",
    "threadId",
    "turnId",
    "itemId",
    "approvalId",
    "startedAtMs",
    "command",
    "commandActions",
    "reason",
    "proposedExecpolicyAmendment",
    "proposedNetworkPolicyAmendments",
    "availableDecisions",
];

/// What is permitted comes first, then where, if that is not the task's directory `cwd`, and every further condition.
/// The reason is the model's own text: it stands at the end, in lines of its own.
pub(super) fn codex_request(params: &Value, what: &str, cwd: &str) -> String {
    let mut request = what.to_owned();
    let expected = [("cwd", cwd), ("environmentId", "local")];
    for (key, value) in params.as_object().into_iter().flatten() {
        let is_expected = value.is_null() || expected.contains(&(key, value.as_str().unwrap_or_default()));
        if !is_expected && !CODEX_OTHER_KEYS.contains(&key.as_str()) {
            let label = if key == "cwd" { "in the directory" } else { key };
            request = format!("{request}\n{}", field(label, &plain(value)));
        }
    }
    match text(params, "/reason") {
        "" => request,
        reason => format!("{request}\n{}", field("The agent's reason", reason)),
    }
}
