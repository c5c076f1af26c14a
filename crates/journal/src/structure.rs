//! The parts of ops and specs that are acted upon literally: commands, variables, paths. A secret in one of them would be
//! masked in the log, and what is masked cannot be acted upon.

use crate::mask::MASK;
use althing_protocol::{Event, Fact, Op, TaskSpec};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// Everything below these fields is acted upon.
const ACTED_UPON: &[&str] = &[
    "command",
    "args",
    "headless_args",
    "resume_args",
    "program",
    "env",
    "cwd",
    "path",
    "protected",
    "context_paths",
    "unapproved_paths",
    "readable_dirs",
    "source",
    "project",
    "workspace",
    "options",
    "interactions",
    "ready",
    "adapter",
];

/// The place in a recorded session at which something that would be acted upon was masked. Older versions masked values
/// there that anybody could choose.
pub fn masked_place(events: &[Arc<Event>]) -> Option<String> {
    events.iter().find_map(|event| match &event.fact {
        Fact::SessionOpened(opened) => {
            let dirs = [("cwd", Some(&opened.cwd)), ("project", opened.project.as_ref())];
            let masked = dirs.into_iter().find(|(_, dir)| dir.is_some_and(|dir| is_masked(dir)));
            masked.map(|(name, _)| name.to_owned()).or_else(|| place(opened.op.as_ref()?, &is_masked))
        }
        Fact::OpAccepted { op, .. } => place(op, &is_masked),
        Fact::TaskCreated { spec: TaskSpec::Work { .. }, .. } => None,
        Fact::TaskCreated { spec, .. } => place(spec, &is_masked),
        _ => None,
    })
}

fn is_masked(text: &str) -> bool {
    text.contains(MASK)
}

/// The first place in `op` that is acted upon and contains a secret.
pub(crate) fn secret_place(op: &Op, is_secret: &dyn Fn(&str) -> bool) -> Option<String> {
    place(op, is_secret)
}

fn place(value: &impl Serialize, has: &dyn Fn(&str) -> bool) -> Option<String> {
    match serde_json::to_value(value) {
        Ok(value) => find(&value, "", false, has),
        // What cannot be recorded cannot be checked.
        Err(_) => Some("the whole op".to_owned()),
    }
}

fn find(value: &Value, at: &str, is_acted_upon: bool, has: &dyn Fn(&str) -> bool) -> Option<String> {
    let below = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    match value {
        Value::String(text) => (is_acted_upon && has(text)).then(|| at.to_owned()),
        Value::Array(values) => (1..)
            .zip(values)
            .find_map(|(n, value): (usize, _)| find(value, &format!("{at}[{n}]"), is_acted_upon, has)),
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            if is_acted_upon && has(name) {
                return Some(at.to_owned());
            }
            find(value, &below(name), is_acted_upon || ACTED_UPON.contains(&name.as_str()), has)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}
