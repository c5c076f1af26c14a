//! What a config must be trusted for: the programs that it would start here, the keys that it would send elsewhere, and
//! the files that it would open to its agents.
//!
//! It only tells; asking for trust is the caller's. It counts what a config asks for, whether or not Althing acts
//! on it yet: a directory of strangers must be trusted for what its config says, not for what today's version does.

use crate::abilities;
use crate::backends::{self, Reach};
use crate::hands::{self, ServerAt};
use crate::keys::DEFAULT_IMAGE;
use crate::rules;
use crate::secrets;
use crate::substitute::Lookup;
use crate::tree::Node;

/// One part of a config that would start a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartsProcess {
    /// Dotted path of the key.
    pub location: String,
    /// What would be started, in a few words.
    pub what: String,
}

/// One context path that a config would have written to, or that may lie outside its own directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachesPath {
    /// Dotted path of the entry.
    pub location: String,
    /// The path, as written.
    pub path: String,
    /// Whether it would be written to.
    pub writable: bool,
}

/// One backend or MCP server that would send a secret of this machine to an address of the config's choosing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendsSecret {
    /// Dotted path of the address.
    pub location: String,
    /// The host that would get it.
    pub to: String,
}

/// Every part of a document that would start a program. The document must not have been substituted: what is shown to a
/// person names variables, not what they hold.
pub(crate) fn find(root: &Node) -> Vec<StartsProcess> {
    let mut found = Vec::new();
    if root.get("hooks").is_some() {
        found
            .push(StartsProcess { location: "hooks".to_owned(), what: "hooks around tool calls".to_owned() });
    }
    for backend in rules::backends(root) {
        in_backend(backend.node, &backend.path, &mut found);
    }
    found
}

/// Backends that would send a key, or what a variable holds, to an address that the config chose: a stranger's config
/// could have the user's keys sent to itself. The document must not have been substituted.
pub(crate) fn find_sent_elsewhere(root: &Node, env: Lookup<'_>) -> Vec<SendsSecret> {
    let mut found = Vec::new();
    for backend in rules::backends(root) {
        for server in hands::servers(backend.node, &backend.path) {
            found.extend(sent_to_server(&server));
        }
        let Some(kind) = backend.node.get("type").and_then(Node::as_text).and_then(backends::backend_type)
        else {
            continue;
        };
        let owner = rules::key_owner(backend.node, kind);
        let Some(url) = rules::own_address(backend.node, owner).filter(|url| !backends::is_loopback(url))
        else {
            continue;
        };
        let uses_variables =
            ["api_key", "extra_headers", "default_headers", "extra_body", "base_url", "azure_endpoint"]
                .iter()
                .filter_map(|key| backend.node.get(key))
                .any(has_variable);
        let has_key =
            backend.node.get("api_key").is_none() && rules::api_key(backend.node, kind, env).is_some();
        if uses_variables || has_key {
            let to = backends::host_of(url).unwrap_or(url).to_owned();
            found.push(SendsSecret { location: format!("{}.base_url", backend.path), to });
        }
    }
    found
}

/// What variables hold and a server at an address of the config's choosing would get.
fn sent_to_server(server: &ServerAt<'_>) -> Option<SendsSecret> {
    let url = server.node.get("url")?.as_text().filter(|url| !backends::is_loopback(url))?;
    let uses_variables = ["url", "headers"].iter().filter_map(|key| server.node.get(key)).any(has_variable);
    let to = backends::host_of(url).unwrap_or(url).to_owned();
    uses_variables.then(|| SendsSecret { location: format!("{}.url", server.path), to })
}

fn has_variable(node: &Node) -> bool {
    node.to_json().to_string().contains("${")
}

/// Context paths that need the user's word when the config was found. The document must not have been substituted.
pub(crate) fn find_reached(root: &Node) -> Vec<ReachesPath> {
    let reached = hands::paths::all(root).into_iter().filter_map(|at| {
        let path = at.path()?;
        let writable = at.is_writable();
        (writable || leaves(path)).then(|| ReachesPath {
            location: at.location,
            path: path.to_owned(),
            writable,
        })
    });
    let skills = abilities::skills_directory(root).filter(|node| node.as_text().is_some_and(leaves));
    let skills = skills.and_then(|node| {
        let path = node.as_text()?.to_owned();
        Some(ReachesPath { location: "skills_directory".to_owned(), path, writable: false })
    });
    reached.chain(skills).collect()
}

/// Whether a path may lead out of the directory that it counts from.
fn leaves(path: &str) -> bool {
    path.starts_with(['/', '~', '\\'])
        || path.contains("${")
        || path.split(['/', '\\']).any(|part| part == ".." || part.ends_with(':'))
}

fn in_backend(node: &Node, path: &str, found: &mut Vec<StartsProcess>) {
    let mut add =
        |key: &str, what: String| found.push(StartsProcess { location: format!("{path}.{key}"), what });
    let kind = node.get("type").and_then(Node::as_text).and_then(backends::backend_type);
    if let Some(kind) = kind.filter(|kind| kind.reach == Reach::Program) {
        add("type", format!("the program behind {}", kind.title));
    }
    if node.get("hooks").is_some() {
        add("hooks", "hooks around tool calls".to_owned());
    }
    if node.get("enable_mcp_command_line").and_then(Node::as_bool) == Some(true) {
        let image = node.get("command_line_docker_image").and_then(Node::as_text).unwrap_or(DEFAULT_IMAGE);
        let place = if hands::resolve::is_docker(node) {
            format!(", in a container of `{}`", shown(image))
        } else {
            String::new()
        };
        add("enable_mcp_command_line", format!("commands of the agent's choosing{place}"));
    }
    for server in hands::servers(node, path) {
        if server.node.get("command").is_some() {
            let what = format!("the MCP server `{}`", shown(&server.command().join(" ")));
            found.push(StartsProcess { location: format!("{}.command", server.path), what });
        }
    }
}

/// A text for a question, short and without secrets.
pub(crate) fn shown(text: &str) -> String {
    secrets::hide(text, |_| "…".to_owned()).chars().take(120).collect()
}
