//! Custom adapters for CLI agents, in a workflow or in a config: checks and resolves them.

use std::collections::BTreeMap;

use althing_protocol::{AskKind, CustomAdapter, InteractionPattern};

use crate::diagnostic::{Problem, Sink};
use crate::tools::{self, texts};
use crate::tree::{MapEntry, Node, Value};

/// The placeholder in arguments for the id of the CLI agent's conversation.
const SESSION: &str = "{session}";
/// The maximum length of an adapter's name, in bytes.
const MAX_NAME_LENGTH: usize = 64;

fn entries(root: &Node) -> impl Iterator<Item = &MapEntry> {
    let all = root.get("adapters").map(Node::entries).unwrap_or_default();
    all.iter().filter(|entry| matches!(entry.value.value, Value::Map(_)))
}

pub(crate) fn check(root: &Node, built_in: impl Iterator<Item = &'static str>, sink: &mut Sink<'_>) {
    let built_in: Vec<&str> = built_in.collect();
    for entry in entries(root) {
        let (name, node) = (entry.key.as_str(), &entry.value);
        let path = format!("adapters.{name}");
        if !is_name(name) || name.len() > MAX_NAME_LENGTH {
            let problem = Problem::new(format!(
                "an adapter's name may contain only letters, digits, `-` and `_`, at most {MAX_NAME_LENGTH} characters"
            ));
            sink.error(entry.key_span, &path, problem.hint("choose a name such as `aider`"));
        } else if built_in.contains(&name) {
            let problem = Problem::new(format!("`{name}` is a built-in adapter"));
            sink.error(entry.key_span, &path, problem.hint("choose another name"));
        }
        if let Some(program) = node.get("program")
            && program.as_text().is_some_and(|program| program.trim().is_empty())
        {
            let problem = Problem::new("`program` is blank").hint("name the program to start");
            sink.error(program.span, &format!("{path}.program"), problem);
        }
        let names_session = |node: &Node| texts(node).iter().any(|argument| argument.contains(SESSION));
        if let Some(resume) = node.get("resume_args").filter(|resume| names_session(resume))
            && node.get("session").is_none()
        {
            let problem = Problem::new(
                "`{session}` in `resume_args` needs the key `session`, which finds the conversation's id",
            );
            let hint = "add `session: …`, a pattern that matches the output; its first group is the id";
            sink.error(resume.span, &format!("{path}.resume_args"), problem.hint(hint));
        }
        tools::check::environment(node, &path, sink);
    }
}

pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Variables are not substituted yet.
pub(crate) fn resolve(root: &Node) -> Vec<CustomAdapter> {
    let adapter = |entry: &MapEntry| {
        let node = &entry.value;
        let text = |key: &str| node.get(key).and_then(Node::as_text).map(str::to_owned);
        let interactions = node.get("interactions").map(Node::items).unwrap_or_default();
        Some(CustomAdapter {
            name: entry.key.clone(),
            program: text("program")?,
            args: node.get("args").map(texts).unwrap_or_default(),
            headless_args: node.get("headless_args").map(texts),
            resume_args: node.get("resume_args").map(texts),
            session: text("session"),
            ready: text("ready"),
            interactions: interactions.iter().filter_map(interaction).collect(),
            env: environment(node),
        })
    };
    entries(root).filter_map(adapter).collect()
}

pub(super) fn environment(node: &Node) -> BTreeMap<String, String> {
    let entries = node.get("env").map(Node::entries).unwrap_or_default();
    entries.iter().filter_map(|entry| Some((entry.key.clone(), tools::scalar(&entry.value)?))).collect()
}

fn interaction(node: &Node) -> Option<InteractionPattern> {
    let about = match node.get("about").and_then(Node::as_text) {
        Some("permission") => AskKind::Permission,
        Some("question") => AskKind::Question,
        Some("auth") => AskKind::Auth,
        Some("password") => AskKind::Password,
        _ => AskKind::Other,
    };
    Some(InteractionPattern { pattern: node.get("pattern")?.as_text()?.to_owned(), about })
}
