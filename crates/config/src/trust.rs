//! Lists what the user must accept before a config that was found in the working directory is used: every key that is
//! not marked `before_trust` in the table of keys, every CLI agent, and every `${VARIABLE}`, because a stranger's
//! config could otherwise send any secret of the environment to any server. A line says everything that its key sets:
//! a variable of a server or an entry of a section decides as much as a program's name.

use crate::backends::{BackendApi, BackendTypes};
use crate::key_checker::join;
use crate::keys::{DEFAULT_IMAGE, Key, Kind, ROOT, Section};
use crate::shown_values::{
    address, is_shortened, other_entries, quoted, quoted_command, quoted_value, quoted_variables, shown,
};
use crate::substitute::{Piece, pieces};
use crate::tools::{self, paths};
use crate::tree::{Node, Value};
use crate::values::has_shape;
use std::collections::BTreeMap;

/// The maximum number of parts of each weight. More would not help a person to decide.
const MAX_LISTED: usize = 1000;
/// A person can read all of a shorter list, so it stays in file order.
const MAX_FILE_ORDER: usize = 20;

/// A part of a found config that needs the user's trust, or a program that a workflow would start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustRequirement {
    /// The dotted path of the key or of the workflow's task.
    pub location: String,
    /// What this part of the config would do ("would start …", "sets …"), or what the workflow would start
    /// ("the command …", "the agent …").
    pub what: String,
}

/// What a part does, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    Program,
    /// It opens a path, an address or the network, or lets an agent act without asking.
    Access,
    /// It uses one of the user's environment variables.
    Variable,
    Setting,
}

/// In a long list, programs come first, then accesses; what is not listed or is shortened is counted in the first line,
/// so that nobody can hide a part behind many others or behind long ones. Must be called before variables are substituted: a person is shown their names,
/// not their values.
pub(crate) fn find(root: &Node, backends: &'static BackendTypes) -> Vec<TrustRequirement> {
    let mut search = Search { backends, found: Vec::new(), counts: BTreeMap::new(), unlisted: 0 };
    section(&ROOT, root, "", &mut search);
    let Search { mut found, unlisted, .. } = search;
    if found.len() > MAX_FILE_ORDER {
        found.sort_by_key(|(weight, _)| *weight);
    }
    let shortened = found.iter().filter(|(_, need)| is_shortened(&need.what)).count();
    let what = format!(
        "parts that need trust but are not in this list: {unlisted}; shortened lines: {shortened}; read the file"
    );
    let is_whole = unlisted == 0 && shortened == 0;
    let first = (!is_whole).then(|| TrustRequirement { location: "not all".to_owned(), what });
    first.into_iter().chain(found.into_iter().map(|(_, need)| need)).collect()
}

struct Search {
    backends: &'static BackendTypes,
    found: Vec<(Weight, TrustRequirement)>,
    counts: BTreeMap<Weight, usize>,
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
                add(Weight::Program, path, format!("would start {}", backend.title), search);
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
        "hooks" => {
            let what = format!("names programs to call around tool calls: {}", quoted_value(key.name, node));
            add(Weight::Program, path, what, search);
        }
        "enable_mcp_command_line" => {
            let image =
                parent.get("command_line_docker_image").and_then(Node::as_text).unwrap_or(DEFAULT_IMAGE);
            let in_container = if tools::resolve::is_docker(parent) {
                format!(", in a container of {}", quoted(image))
            } else {
                String::new()
            };
            add(Weight::Program, path, format!("would let the agent run commands{in_container}"), search);
        }
        "mcp_servers" => {
            let base = path.strip_suffix(".mcp_servers").unwrap_or_default();
            for server in tools::servers(parent, base) {
                mcp_server(&server, search);
            }
        }
        "adapters" if matches!(node.value, Value::Map(_)) => {
            for entry in node.entries() {
                adapter(&entry.value, &join(path, &entry.key), search);
            }
        }
        "context_paths" => {
            for (index, entry) in node.items().iter().enumerate() {
                let Some(named) = paths::path_of(entry) else { continue };
                let act = if paths::is_writable(entry) { "write to" } else { "read" };
                let others = with_others(entry, &["path", "permission"]);
                let what = format!("would {act} {}{others}", shown(named));
                add(Weight::Access, &format!("{path}[{index}]"), what, search);
            }
        }
        "skills_directory" | "cwd" | "agent_temporary_workspace" | "snapshot_storage" => {
            let what = format!("names the path {}", shown(&tools::scalar(node).unwrap_or_default()));
            add(Weight::Access, path, what, search);
        }
        "interactive_mode" => interactive_mode(key, node, path, search),
        _ if matches!(key.kind, Kind::Url) => {
            let address = address(node.as_text().unwrap_or_default());
            let what = format!("would send your tasks, files and key to {address}");
            add(Weight::Access, path, what, search);
        }
        name => setting(name, node, path, search),
    }
    used_variables(node, path, search);
}

fn setting(name: &str, node: &Node, path: &str, search: &mut Search) {
    let weight = match name {
        "adapters" | "command_line_docker_packages" => Weight::Program,
        "command_line_docker_credentials"
        | "command_line_docker_network_mode"
        | "command_line_network"
        | "permission_mode"
        | "require_approval" => Weight::Access,
        _ => Weight::Setting,
    };
    add(weight, path, format!("sets `{name}` to {}", quoted_value(name, node)), search);
}

fn with_others(node: &Node, except: &[&str]) -> String {
    other_entries(node, except).map(|others| format!(", with {others}")).unwrap_or_default()
}

fn mcp_server(server: &tools::ServerNode<'_>, search: &mut Search) {
    const PROGRAM: [&str; 5] = ["name", "command", "args", "cwd", "env"];
    const ADDRESS: [&str; 3] = ["name", "url", "headers"];
    let (node, path) = (server.node, &server.path);
    let (command, url) = (node.get("command"), node.get("url").and_then(Node::as_text));
    let told = |keys: &[&'static str], is_told: bool| if is_told { keys.to_vec() } else { Vec::new() };
    let told = [told(&PROGRAM, command.is_some()), told(&ADDRESS, url.is_some())].concat();
    let name = node.get("name").and_then(tools::scalar);
    let name = name.map(|name| format!(" as {}", quoted(&name))).unwrap_or_default();
    let mut others = with_others(node, &told);
    if command.is_some() {
        let cwd = node.get("cwd").and_then(tools::scalar);
        let cwd = cwd.map(|cwd| format!(" in {}", quoted(&cwd))).unwrap_or_default();
        let others = std::mem::take(&mut others);
        let what = format!(
            "would start the MCP server {}{name}{cwd}{}{others}",
            quoted_command(&server.command()),
            with_variables(node)
        );
        add(Weight::Program, &format!("{path}.command"), what, search);
    }
    if let Some(url) = url {
        let headers = node.get("headers");
        let headers = headers.map(|node| format!(" with the headers {}", quoted_value("headers", node)));
        let (address, others) = (address(url), std::mem::take(&mut others));
        let what = format!(
            "would connect to the MCP server at {address}{name}{}{others}",
            headers.unwrap_or_default()
        );
        add(Weight::Access, &format!("{path}.url"), what, search);
    }
    if !others.is_empty() {
        add(Weight::Setting, path, format!("names an MCP server{others}"), search);
    }
}

fn adapter(node: &Node, path: &str, search: &mut Search) {
    let program = node.get("program").and_then(tools::scalar);
    let args = node.get("args").map(tools::texts).unwrap_or_default();
    let command: Vec<String> = program.into_iter().chain(args).collect();
    let others = with_others(node, &["program", "args", "env"]);
    let variables = with_variables(node);
    let what = format!("names the CLI agent {}{variables}{others}", quoted_command(&command));
    add(Weight::Program, path, what, search);
}

fn with_variables(node: &Node) -> String {
    let env = node.get("env").filter(|env| !env.entries().is_empty());
    env.map(|env| format!(" with the variables {}", quoted_variables(env))).unwrap_or_default()
}

fn interactive_mode(key: &Key, node: &Node, path: &str, search: &mut Search) {
    if node.get("enabled").and_then(Node::as_bool) == Some(false) {
        return;
    }
    let what = "would let the chat agent read and change files in this directory";
    add(Weight::Access, path, what.to_owned(), search);
    for entry in node.entries().iter().filter(|entry| !entry.value.is_null()) {
        let path = join(path, &entry.key);
        let inner = if let Kind::Section(inner) = key.kind { inner.key(&entry.key) } else { None };
        match inner {
            // The chat agent's own backend can contain endpoints and programs, which need trust.
            Some(Key { kind: Kind::Section(backend), name: "backend", .. }) => {
                section(backend, &entry.value, &path, search);
                let listed = |key: &&Key| !key.before_trust;
                let listed: Vec<&str> = backend.keys.iter().filter(listed).map(|key| key.name).collect();
                if let Some(others) = other_entries(&entry.value, &listed) {
                    add(Weight::Setting, &path, format!("sets {others}"), search);
                }
            }
            _ => setting(&entry.key, &entry.value, &path, search),
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
            add(Weight::Variable, path, what, search);
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

fn add(weight: Weight, location: &str, what: String, search: &mut Search) {
    let count = search.counts.entry(weight).or_default();
    if *count < MAX_LISTED {
        *count += 1;
        search.found.push((weight, TrustRequirement { location: location.to_owned(), what }));
    } else {
        search.unlisted += 1;
    }
}

#[cfg(test)]
mod tests;
