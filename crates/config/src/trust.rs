//! What a config must be trusted for: the programs that it would start here, and the keys that it would send elsewhere.
//!
//! It only tells; asking for trust is the caller's. It counts what a config asks for, whether or not Althing acts
//! on it yet: a directory of strangers must be trusted for what its config says, not for what today's version does.

use crate::backends::{self, Reach};
use crate::rules;
use crate::secrets;
use crate::substitute::Lookup;
use crate::tree::{Node, Value};

/// One part of a config that would start a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartsProcess {
    /// Dotted path of the key.
    pub location: String,
    /// What would be started, in a few words.
    pub what: String,
}

/// One backend that would send a secret of this machine to an address of the config's choosing.
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
        let Some(kind) = backend.node.get("type").and_then(Node::as_text).and_then(backends::backend_type)
        else {
            continue;
        };
        let owner = rules::key_owner(backend.node, kind);
        let Some(url) = rules::own_address(backend.node, owner).filter(|url| !backends::is_loopback(url))
        else {
            continue;
        };
        let uses_variables = ["api_key", "extra_headers", "default_headers", "extra_body", "base_url"]
            .iter()
            .filter_map(|key| backend.node.get(key))
            .any(|node| node.to_json().to_string().contains("${"));
        let has_key =
            backend.node.get("api_key").is_none() && rules::api_key(backend.node, kind, env).is_some();
        if uses_variables || has_key {
            let to = backends::host_of(url).unwrap_or(url).to_owned();
            found.push(SendsSecret { location: format!("{}.base_url", backend.path), to });
        }
    }
    found
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
        add("enable_mcp_command_line", "commands of the agent's choosing".to_owned());
    }
    if let Some(servers) = node.get("mcp_servers") {
        let listed = servers.items().iter().enumerate().map(|(index, server)| (format!("[{index}]"), server));
        let named = servers.entries().iter().map(|entry| (format!(".{}", entry.key), &entry.value));
        for (place, server) in listed.chain(named) {
            if let Some(command) = server.get("command") {
                add(
                    &format!("mcp_servers{place}.command"),
                    format!("the MCP server `{}`", command_line(command, server)),
                );
            }
        }
    }
}

fn command_line(command: &Node, server: &Node) -> String {
    let words = |node: &Node| match &node.value {
        Value::List(items) => items.iter().filter_map(Node::as_text).map(str::to_owned).collect(),
        _ => node.as_text().map(str::to_owned).into_iter().collect::<Vec<_>>(),
    };
    let mut line = words(command);
    line.extend(server.get("args").map(words).unwrap_or_default());
    secrets::hide(&line.join(" "), |_| "…".to_owned()).chars().take(120).collect()
}
