//! Checks an agent's tools for problems that the table of keys cannot express.

use std::collections::HashSet;

use super::resolve::{is_docker, is_on};
use super::{ServerNode, Transport, paths, servers};
use crate::LoadPurpose;
use crate::backends::{self, BackendApi, BackendTypes};
use crate::cross_key_checks::{self, AgentNode};
use crate::diagnostic::{Problem, Severity, Sink};
use crate::keys::{ALL_VARIABLES, NO_MOUNTS};
use crate::limits;
use crate::tree::{MapEntry, Node, Value};

const DOCKER: &[&str] = &[
    "command_line_docker_image",
    "command_line_docker_network_mode",
    "command_line_docker_memory_limit",
    "command_line_docker_cpu_limit",
    CREDENTIALS,
    PACKAGES,
];
const CREDENTIALS: &str = "command_line_docker_credentials";
const PACKAGES: &str = "command_line_docker_packages";
const COMMANDS: &[&str] =
    &["command_line_execution_mode", "command_line_network", "command_line_timeout_seconds"];
/// Keys without effect for the chat agent, which works on the files of its project or of the directory where Althing
/// was started.
const UNAVAILABLE: &[&str] = &["cwd", "enable_mcp_command_line", "context_paths"];
/// The maximum length of a server's name, in bytes.
const MAX_NAME_LENGTH: usize = 64;

pub(crate) fn check(root: &Node, backends: &BackendTypes, purpose: LoadPurpose, sink: &mut Sink<'_>) {
    paths::check(root, sink);
    let mut warned = HashSet::new();
    for agent in cross_key_checks::agents(root) {
        let Some(node) = agent.node.get("backend") else { continue };
        let backend = AgentNode { node, path: format!("{}.backend", agent.path) };
        mcp_servers(&backend, sink);
        tool_lists(&backend, sink);
        image(&backend, sink);
        credentials(&backend, purpose, sink);
        packages(&backend, sink);
        without_effect(&backend, backends, &mut warned, sink);
    }
    interactive(root, sink);
}

fn interactive(root: &Node, sink: &mut Sink<'_>) {
    let section = root.get("orchestrator").and_then(|node| node.get("interactive_mode"));
    let Some(node) = section.and_then(|node| node.get("backend")) else { return };
    let backend = AgentNode { node, path: "orchestrator.interactive_mode.backend".to_owned() };
    mcp_servers(&backend, sink);
    tool_lists(&backend, sink);
    let entries = node.entries().iter().filter(|entry| UNAVAILABLE.contains(&entry.key.as_str()));
    let given = |entry: &&MapEntry| !entry.value.is_null() && entry.value.as_bool() != Some(false);
    for entry in entries.filter(given) {
        let problem = Problem::new(format!("`{}` has no effect for the chat agent", entry.key));
        let path = format!("{}.{}", backend.path, entry.key);
        let hint = "the chat agent works on the files of the current directory or project, and launches runs for other work";
        sink.warning(entry.key_span, &path, problem.hint(hint));
    }
}

fn image(backend: &AgentNode<'_>, sink: &mut Sink<'_>) {
    if let Some(node) = backend.node.get("command_line_docker_image")
        && node.as_text().is_some_and(|image| image.trim().is_empty())
    {
        let problem = Problem::new("`command_line_docker_image` is blank");
        let path = format!("{}.command_line_docker_image", backend.path);
        sink.error(node.span, &path, problem.hint("name an image, or remove the key"));
    }
}

/// An agent that lacks what its config promises wastes its calls, so unsupported credentials are errors if the config
/// is run.
fn credentials(backend: &AgentNode<'_>, purpose: LoadPurpose, sink: &mut Sink<'_>) {
    if !is_docker(backend.node) || !is_on(backend.node, "enable_mcp_command_line") {
        return;
    }
    let severity = if purpose == LoadPurpose::Run { Severity::Error } else { Severity::Warning };
    let mut refuse = |entry: Option<&MapEntry>, path: &str, instead: &str| {
        let is_given = |entry: &&MapEntry| !entry.value.is_null() && entry.value.as_bool() != Some(false);
        let is_empty = |node: &Node| {
            matches!(&node.value, Value::List(items) if items.is_empty())
                || matches!(&node.value, Value::Map(entries) if entries.is_empty())
        };
        if let Some(entry) = entry.filter(is_given).filter(|entry| !is_empty(&entry.value)) {
            let problem = Problem::new(format!("`{}` is not supported", entry.key)).hint(instead);
            sink.push(severity, entry.key_span, &format!("{}.{path}", backend.path), problem);
        }
    };
    let Some(node) = backend.node.get(CREDENTIALS) else { return };
    for (key, instead) in
        [("mount", NO_MOUNTS), ("additional_mounts", NO_MOUNTS), ("pass_all_env", ALL_VARIABLES)]
    {
        refuse(node.entry(key), &format!("{CREDENTIALS}.{key}"), instead);
    }
    let entry = node.entry("env_vars_from_file").filter(|entry| !entry.value.is_null());
    if let Some(entry) = entry.filter(|_| node.get("env_file").is_none()) {
        let problem = Problem::new("`env_vars_from_file` needs `env_file`")
            .hint("add `env_file: …`, or use `env_vars`");
        sink.error(entry.key_span, &format!("{}.{CREDENTIALS}.env_vars_from_file", backend.path), problem);
    }
}

/// An option such as `--index-url=…` in place of a package would change what is installed.
fn packages(backend: &AgentNode<'_>, sink: &mut Sink<'_>) {
    let Some(lists) = backend.node.get(PACKAGES).and_then(|node| node.get("preinstall")) else { return };
    for entry in lists.entries() {
        for node in entry.value.items() {
            let is_wrong = |name: &str| {
                name.trim().is_empty() || name.starts_with('-') || name.contains(char::is_control)
            };
            if node.as_text().is_some_and(is_wrong) {
                let problem = Problem::new("this is not the name of a package")
                    .hint("a name must not be blank, begin with `-` or contain control characters");
                let path = format!("{}.{PACKAGES}.preinstall.{}", backend.path, entry.key);
                sink.error(node.span, &path, problem);
            }
        }
    }
}

fn without_effect(
    backend: &AgentNode<'_>,
    backends: &BackendTypes,
    warned: &mut HashSet<&'static str>,
    sink: &mut Sink<'_>,
) {
    let node = backend.node;
    let kind = node.get("type").and_then(Node::as_text).and_then(|name| backends.named(name));
    let mut warn = |keys: &'static [&'static str], where_to: &str, hint: &str| {
        for key in keys {
            let Some(entry) = node.entry(key).filter(|entry| !entry.value.is_null()) else { continue };
            if warned.insert(key) {
                let problem = Problem::new(format!("`{key}` has no effect {where_to}"));
                sink.warning(entry.key_span, &format!("{}.{key}", backend.path), problem.hint(hint));
            }
        }
    };
    match kind.filter(|kind| kind.api == BackendApi::Program) {
        Some(kind) if kind.is_supported() => {
            let where_to = "for a CLI agent";
            for keys in [COMMANDS, DOCKER] {
                let hint = "a CLI agent runs commands with its own tools; remove the key";
                warn(keys, where_to, hint);
            }
        }
        // An unsupported backend type is reported elsewhere.
        Some(_) => {}
        None => {
            let mut without = |keys, needs: &str| {
                warn(keys, &format!("without `{needs}`"), &format!("add `{needs}`, or remove the key"));
            };
            if !is_on(node, "enable_mcp_command_line") {
                without(COMMANDS, "enable_mcp_command_line: true");
            }
            if !is_docker(node) {
                without(DOCKER, "command_line_execution_mode: docker");
            }
        }
    }
}

fn tool_lists(backend: &AgentNode<'_>, sink: &mut Sink<'_>) {
    let lists = ["allowed_tools", "exclude_tools"];
    for (key, list) in lists.iter().filter_map(|key| Some((key, backend.node.get(key)?))) {
        let is_long = |node: &Node| node.as_text().is_some_and(|name| name.len() > limits::MAX_TOOL_NAME);
        if list.items().len() > limits::MAX_LISTED_TOOLS || list.items().iter().any(is_long) {
            let problem = Problem::new(format!(
                "`{key}` may name at most {} tools, of at most {} bytes each",
                limits::MAX_LISTED_TOOLS,
                limits::MAX_TOOL_NAME
            ));
            let problem = problem.hint("name fewer tools, or use shorter names");
            sink.error(list.span, &format!("{}.{key}", backend.path), problem);
        }
    }
}

fn mcp_servers(backend: &AgentNode<'_>, sink: &mut Sink<'_>) {
    let mut names = HashSet::new();
    let servers = servers(backend.node, &backend.path);
    if let Some(extra) = servers.get(limits::MAX_SERVERS) {
        let problem = Problem::new(format!("an agent may have at most {} MCP servers", limits::MAX_SERVERS));
        sink.error(extra.at, &extra.path, problem.hint("give the agent fewer servers"));
    }
    for server in servers {
        name(&server, &mut names, sink);
        transport(&server, sink);
        environment(server.node, &server.path, sink);
        cross_key_checks::check_headers(server.node, "headers", &server.path, sink);
        check_effects(&server, sink);
    }
}

fn name<'a>(server: &ServerNode<'a>, names: &mut HashSet<&'a str>, sink: &mut Sink<'_>) {
    let path = format!("{}.name", server.path);
    let Some(name) = server.name else {
        if server.node.get("name").is_none() {
            let problem = Problem::new("an MCP server in a list needs `name`");
            sink.error(
                server.at,
                &path,
                problem.hint("add `name: …`: its tools are called `mcp__name__tool`"),
            );
        }
        return;
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > MAX_NAME_LENGTH || !name.chars().all(fits) {
        let problem = Problem::new(format!(
            "an MCP server's name may contain only letters, digits, `-` and `_`, at most {MAX_NAME_LENGTH} characters"
        ));
        sink.error(server.at, &path, problem.hint("its tools are called `mcp__name__tool`"));
    } else if !names.insert(name) {
        let problem = Problem::new(format!("two MCP servers of this agent are called `{name}`"));
        sink.error(server.at, &path, problem.hint("give each server a different name"));
    }
}

fn transport(server: &ServerNode<'_>, sink: &mut Sink<'_>) {
    let (needs, example) = match server.transport() {
        Transport::Stdio => ("command", "add the program to start, `command: …`, or an address, `url: …`"),
        Transport::Http => ("url", "add `url: https://…`"),
    };
    let given = server.node.get(needs);
    let is_blank = match server.transport() {
        Transport::Stdio => server.command().first().is_none_or(|program| program.trim().is_empty()),
        // An invalid address was already reported.
        Transport::Http => false,
    };
    if given.is_none() || is_blank {
        let problem = Problem::new(format!("the MCP server needs `{needs}`"));
        let at = given.map_or(server.at, |node| node.span);
        sink.error(at, &format!("{}.{needs}", server.path), problem.hint(example));
    }
}

/// With such a variable, the program would fail to start.
pub(crate) fn environment(node: &Node, path: &str, sink: &mut Sink<'_>) {
    for entry in node.get("env").map(Node::entries).unwrap_or_default() {
        let value_is_right = entry.value.as_text().is_none_or(|value| !value.contains('\0'));
        if entry.key.is_empty() || entry.key.contains(['=', '\0']) || !value_is_right {
            let problem = Problem::new("an environment variable cannot have this name or value");
            sink.error(
                entry.key_span,
                &format!("{path}.env"),
                problem
                    .hint("a name must not be empty or contain `=`; names and values must not contain NUL"),
            );
        }
    }
}

fn check_effects(server: &ServerNode<'_>, sink: &mut Sink<'_>) {
    let others: &[&str] = match server.transport() {
        Transport::Stdio => &["url", "headers"],
        Transport::Http => &["command", "args", "env", "cwd"],
    };
    for key in others {
        if let Some(entry) = server.node.entry(key).filter(|entry| !entry.value.is_null()) {
            let problem = Problem::new(format!("`{key}` has no effect on this kind of MCP server"));
            let path = format!("{}.{key}", server.path);
            sink.warning(
                entry.key_span,
                &path,
                problem
                    .hint("see the server's `type`: `stdio` starts a program, `http` connects to an address"),
            );
        }
    }
    let has_headers = server.node.get("headers").is_some_and(|headers| !headers.entries().is_empty());
    if let Some(url) = server.node.get("url").filter(|url| has_headers && url.unset().is_empty())
        && url.as_text().is_some_and(|text| text.starts_with("http://") && !backends::is_loopback(text))
    {
        let problem = Problem::new("the headers would be sent over the network unencrypted");
        sink.warning(url.span, &format!("{}.url", server.path), problem.hint("use an `https://` address"));
    }
}
