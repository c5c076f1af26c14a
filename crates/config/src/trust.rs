//! Lists what the user must accept before a config that was found in the working directory is used: every key that is
//! not marked `before_trust` in the table of keys, every CLI agent, and every `${VARIABLE}`, because a stranger's
//! config could otherwise send any secret of the environment to any server.

use crate::backends::{self, BackendApi, BackendTypes};
use crate::key_checker::join;
use crate::keys::{DEFAULT_IMAGE, Key, Kind, ROOT, Section};
use crate::secrets;
use crate::substitute::{Piece, pieces};
use crate::tools::{self, paths};
use crate::tree::{Node, Value};
use crate::values::has_shape;

/// More settings and variables would not help a person to decide.
const MAX_SETTINGS: usize = 100;
const MAX_ACTS: usize = 1000;
/// A person can read all of a shorter list, so it stays in file order.
const MAX_FILE_ORDER: usize = 20;
/// The maximum number of characters of a command line, address or path.
const MAX_SHOWN: usize = 2000;

/// A part of a found config that needs the user's trust, or a program that a workflow would start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustRequirement {
    /// The dotted path of the key or of the workflow's task.
    pub location: String,
    /// What this part of the config would do ("would start …", "sets …"), or what the workflow would start
    /// ("the command …", "the agent …").
    pub what: String,
}

/// In a long list, programs, addresses and paths come first. Must be called before variables are substituted: a
/// person is shown their names, not their values.
pub(crate) fn find(root: &Node, backends: &'static BackendTypes) -> Vec<TrustRequirement> {
    let mut search = Search { backends, found: Vec::new(), acts: 0, unlisted: 0 };
    section(&ROOT, root, "", &mut search);
    let Search { mut found, unlisted, .. } = search;
    if found.len() > MAX_FILE_ORDER {
        found.sort_by_key(|(is_act, _)| !is_act);
    }
    let mut found: Vec<TrustRequirement> = found.into_iter().map(|(_, need)| need).collect();
    if unlisted > 0 {
        let what = format!("{unlisted} parts that need trust are not listed here; read the file");
        found.push(TrustRequirement { location: "and more".to_owned(), what });
    }
    found
}

struct Search {
    backends: &'static BackendTypes,
    /// The flag says whether the part is an act (a program, address or path) rather than a setting or variable.
    found: Vec<(bool, TrustRequirement)>,
    acts: usize,
    unlisted: usize,
}

fn section(section: &'static Section, node: &Node, path: &str, search: &mut Search) {
    for entry in node.entries() {
        let path = join(path, &entry.key);
        match section.key(&entry.key) {
            Some(key) if key.before_trust => value(key.kind, &entry.value, &path, search),
            Some(key) => key_needing_trust(key, &entry.value, node, &path, search),
            // An unknown key is reported elsewhere, but some sections are passed on whole, with their variables.
            None => used_variables(&entry.value, &path, search),
        }
    }
}

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

fn key_needing_trust(key: &Key, node: &Node, parent: &Node, path: &str, search: &mut Search) {
    if is_switched_off(key, node) {
        return;
    }
    match key.name {
        "hooks" => add(path, "names programs to call around tool calls".to_owned(), search),
        "enable_mcp_command_line" => {
            let image =
                parent.get("command_line_docker_image").and_then(Node::as_text).unwrap_or(DEFAULT_IMAGE);
            let in_container = if tools::resolve::is_docker(parent) {
                format!(", in a container of {}", quoted(image))
            } else {
                String::new()
            };
            add(path, format!("would let the agent run commands{in_container}"), search);
        }
        "mcp_servers" => {
            let base = path.strip_suffix(".mcp_servers").unwrap_or_default();
            for server in tools::servers(parent, base) {
                if server.node.get("command").is_some() {
                    let what = format!("would start the MCP server {}", quoted_command(&server.command()));
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
            // The chat agent's own backend may name endpoints and programs.
            if let (Kind::Section(inner), true) = (key.kind, is_on) {
                section_needing_trust(inner, node, path, search);
            }
        }
        _ if matches!(key.kind, Kind::Url) => {
            let address = node.as_text().unwrap_or_default();
            add(path, format!("would send your tasks, files and key to {}", host(address)), search);
        }
        _ => add_setting(path, format!("sets `{}`", key.name), search),
    }
    used_variables(node, path, search);
}

/// The section already needs trust as a whole; only the keys of its `backend` are named in addition.
fn section_needing_trust(inner: &'static Section, node: &Node, path: &str, search: &mut Search) {
    for entry in node.entries() {
        if let Some(Key { kind: Kind::Section(backend), name: "backend", .. }) = inner.key(&entry.key) {
            section(backend, &entry.value, &join(path, &entry.key), search);
        }
    }
}

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
        let what = format!("would use your environment variable {}", quoted(name));
        if !search.found.iter().any(|(_, known)| known.what == what && known.location.starts_with(path)) {
            add_setting(path, what, search);
        }
    }
}

/// `off` and `no` only switch off booleans; elsewhere they are names, of a directory for example.
fn is_switched_off(key: &Key, node: &Node) -> bool {
    match &node.value {
        // Even an empty section turns the conversation on.
        Value::Null => key.name != "interactive_mode",
        Value::List(items) => items.is_empty(),
        _ => matches!(key.kind, Kind::Bool) && node.as_bool() == Some(false),
    }
}

fn add(location: &str, what: String, search: &mut Search) {
    if search.acts < MAX_ACTS {
        search.acts += 1;
        search.found.push((true, TrustRequirement { location: location.to_owned(), what }));
    } else {
        search.unlisted += 1;
    }
}

fn add_setting(location: &str, what: String, search: &mut Search) {
    if search.found.len() - search.acts < MAX_SETTINGS {
        search.found.push((false, TrustRequirement { location: location.to_owned(), what }));
    } else {
        search.unlisted += 1;
    }
}

fn host(url: &str) -> String {
    shown(backends::host_of(url).unwrap_or(url))
}

fn shown(text: &str) -> String {
    let (text, cut) = shortened(text);
    text + &cut
}

fn quoted(text: &str) -> String {
    let (text, cut) = shortened(&secrets::without_secret_words(text));
    format!("`{text}`{cut}")
}

/// Like [`quoted`], for a program and its arguments. Empty arguments and arguments with spaces or quotes are quoted as
/// in a shell, so that it is visible where each begins and ends.
pub fn quoted_command(words: &[String]) -> String {
    let quote = |word: &String| {
        let word = secrets::without_secret_words(word);
        let is_plain =
            !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || matches!(c, '\'' | '"'));
        if is_plain { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    let words: Vec<String> = words.iter().map(quote).collect();
    let (text, cut) = shortened(&words.join(" "));
    format!("`{text}`{cut}")
}

fn shortened(text: &str) -> (String, String) {
    let more = text.chars().count().saturating_sub(MAX_SHOWN);
    let cut = if more > 0 { format!("… ({more} more characters)") } else { String::new() };
    (text.chars().take(MAX_SHOWN).collect(), cut)
}
