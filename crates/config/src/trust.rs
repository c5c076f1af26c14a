//! Lists what the user must accept before a config that was found in the working directory is used.
//!
//! Without trust a found config may only set the keys that are marked `before_trust` in `keys/`: agents, prompts,
//! modes, limits and parameters of models. Every other key that is set needs trust, and so does every `${VARIABLE}`,
//! because a stranger's config could otherwise send any secret of the environment to any server. A CLI agent needs
//! trust as well. The marked keys are an allow-list, so a new key needs trust until somebody decides otherwise. Asking
//! for trust is the caller's job.

use crate::backends::{self, BackendApi, BackendTypes};
use crate::key_checker::join;
use crate::keys::{DEFAULT_IMAGE, Key, Kind, ROOT, Section};
use crate::secrets;
use crate::substitute::{Piece, pieces};
use crate::tools::{self, paths};
use crate::tree::{Node, Value};
use crate::values::has_shape;

/// The maximum number of trust requirements that are listed; a person who sees this many needs no more to decide.
const MAX_LISTED: usize = 100;

/// One part of a found config or workflow for which the file needs the user's trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustRequirement {
    /// The dotted path of the key.
    pub location: String,
    /// What this part would do: "would start …", "sets …". In a workflow, what it would start: "the command …".
    pub what: String,
}

/// Everything in a document that needs trust, in file order. Variables must not have been substituted in the document
/// yet: a person is shown the names of variables, not their values.
pub(crate) fn find(root: &Node, backends: &'static BackendTypes) -> Vec<TrustRequirement> {
    let mut search = Search { backends, found: Vec::new() };
    section(&ROOT, root, "", &mut search);
    search.found
}

/// A search for what needs trust.
struct Search {
    /// The backend types that the document may name.
    backends: &'static BackendTypes,
    /// What needs trust so far; at most [`MAX_LISTED`] entries.
    found: Vec<TrustRequirement>,
}

fn section(section: &'static Section, node: &Node, path: &str, search: &mut Search) {
    for entry in node.entries() {
        let path = join(path, &entry.key);
        match section.key(&entry.key) {
            Some(key) if key.before_trust => value(key.kind, &entry.value, &path, search),
            Some(key) => key_needing_trust(key, &entry.value, node, &path, search),
            // An unknown key is reported elsewhere. Its variables are listed, because some sections are passed on
            // whole.
            None => used_variables(&entry.value, &path, search),
        }
    }
}

/// Searches a value for parts that need trust. The key that holds the value needs no trust itself.
fn value(kind: Kind, node: &Node, path: &str, search: &mut Search) {
    match kind {
        Kind::Section(inner) if matches!(node.value, Value::Map(_)) => section(inner, node, path, search),
        Kind::List(item) if matches!(node.value, Value::List(_)) => {
            for (index, node) in node.items().iter().enumerate() {
                value(*item, node, &format!("{path}[{index}]"), search);
            }
        }
        Kind::Either(kinds) if kinds.iter().any(|kind| has_shape(*kind, node)) => {
            for kind in kinds.iter().filter(|kind| has_shape(**kind, node)).take(1) {
                value(*kind, node, path, search);
            }
        }
        Kind::BackendType => {
            let backend = node.as_text().and_then(|name| search.backends.named(name));
            if let Some(backend) = backend.filter(|backend| backend.api == BackendApi::Program) {
                add(path, format!("would start {}", backend.title), search);
            }
            used_variables(node, path, search);
        }
        _ => used_variables(node, path, search),
    }
}

/// Adds what a key that needs trust would do, unless the key is switched off.
fn key_needing_trust(key: &Key, node: &Node, parent: &Node, path: &str, search: &mut Search) {
    if is_switched_off(key, node) {
        return;
    }
    match key.name {
        "hooks" => add(path, "would start hooks around tool calls".to_owned(), search),
        "enable_mcp_command_line" => {
            let image =
                parent.get("command_line_docker_image").and_then(Node::as_text).unwrap_or(DEFAULT_IMAGE);
            let in_container = if tools::resolve::is_docker(parent) {
                format!(", in a container of `{}`", shown(image))
            } else {
                String::new()
            };
            add(path, format!("would let the agent run commands{in_container}"), search);
        }
        "mcp_servers" => {
            let base = path.strip_suffix(".mcp_servers").unwrap_or_default();
            for server in tools::servers(parent, base) {
                if server.node.get("command").is_some() {
                    let command = shown(&server.command().join(" "));
                    let what = format!("would start the MCP server `{command}`");
                    add(&format!("{}.command", server.path), what, search);
                }
                if let Some(url) = server.node.get("url").and_then(Node::as_text) {
                    let what = format!("would connect to the MCP server at {}", host(url));
                    add(&format!("{}.url", server.path), what, search);
                }
            }
        }
        "context_paths" => {
            for (index, entry) in node.items().iter().enumerate() {
                let Some(named) = paths::path_of(entry) else { continue };
                let act = if paths::is_writable(entry) { "write to" } else { "read" };
                add(&format!("{path}[{index}]"), format!("would {act} {}", shown(named)), search);
            }
        }
        "skills_directory" | "cwd" | "agent_temporary_workspace" | "snapshot_storage" => {
            add(path, format!("names the path {}", shown(&tools::scalar(node).unwrap_or_default())), search);
        }
        "interactive_mode" => {
            let is_on = node.get("enabled").and_then(Node::as_bool) != Some(false);
            if is_on {
                let what = "would let the chat agent read and change files in this directory";
                add(path, what.to_owned(), search);
            }
            // The chat agent's own backend may name endpoints and programs, so it is described key by key.
            if let (Kind::Section(inner), true) = (key.kind, is_on) {
                section_needing_trust(inner, node, path, search);
            }
        }
        _ if matches!(key.kind, Kind::Url) => {
            let address = node.as_text().unwrap_or_default();
            add(path, format!("would send your tasks, files and key to {}", host(address)), search);
        }
        _ => add(path, format!("sets `{}`", key.name), search),
    }
    used_variables(node, path, search);
}

/// Searches a section that already needs trust as a whole: only the keys of its `backend` are named in addition.
fn section_needing_trust(inner: &'static Section, node: &Node, path: &str, search: &mut Search) {
    for entry in node.entries() {
        if let Some(Key { kind: Kind::Section(backend), name: "backend", .. }) = inner.key(&entry.key) {
            section(backend, &entry.value, &join(path, &entry.key), search);
        }
    }
}

/// Adds every variable that is used in a value.
fn used_variables(node: &Node, path: &str, search: &mut Search) {
    let mut names: Vec<&str> = Vec::new();
    let mut todo = vec![node];
    while let Some(node) = todo.pop() {
        match &node.value {
            Value::Text(text) => {
                names.extend(pieces(&text.content).into_iter().filter_map(|piece| match piece {
                    Piece::Variable { name, .. } => Some(name),
                    Piece::Text(_) => None,
                }))
            }
            Value::List(items) => todo.extend(items),
            Value::Map(entries) => todo.extend(entries.iter().map(|entry| &entry.value)),
            Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Number(_) => {}
        }
    }
    names.sort_unstable();
    names.dedup();
    for name in names {
        let what = format!("would use your environment variable `{}`", shown(name));
        if !search.found.iter().any(|known| known.what == what && known.location.starts_with(path)) {
            add(path, what, search);
        }
    }
}

/// Whether a key that needs trust has no effect: it is null, an empty list, or a switch that is off. `off` and `no`
/// only switch off booleans: elsewhere they are names, of a directory for example.
fn is_switched_off(key: &Key, node: &Node) -> bool {
    match &node.value {
        // The section itself turns the conversation on, even if it is empty.
        Value::Null => key.name != "interactive_mode",
        Value::List(items) => items.is_empty(),
        _ => matches!(key.kind, Kind::Bool) && node.as_bool() == Some(false),
    }
}

fn add(location: &str, what: String, search: &mut Search) {
    if search.found.len() < MAX_LISTED {
        search.found.push(TrustRequirement { location: location.to_owned(), what });
    }
}

fn host(url: &str) -> String {
    shown(backends::host_of(url).unwrap_or(url))
}

/// A text for a question to the user, short and without secrets.
pub(crate) fn shown(text: &str) -> String {
    secrets::replace_secrets(text, |_| "…".to_owned()).chars().take(120).collect()
}
