//! Resolves an agent's tools from its backend section. Problems were reported before.

use std::collections::HashSet;

use althing_protocol::{
    CommandsConfig, DockerConfig, DockerPackages, McpServerConfig, McpTransport, Secret, ToolsConfig,
};

use super::{FILE_TOOLS, ServerNode, Transport, builtin_tool, builtin_tools, scalar, servers, texts};
use crate::backends::{BackendApi, BackendTypes};
use crate::keys::{DEFAULT_IMAGE, INSTALL_NETWORK};
use crate::memory;
use crate::resolve::seconds;
use crate::tree::Node;

/// The file tools that remain with `exclude_file_operation_mcps`.
const FILE_TOOLS_WITH_COMMANDS: &[&str] = &["write_file", "edit_file"];

/// The agent has file tools if `cwd` is set or if the team has context paths.
pub(crate) fn tools(backend: &Node, has_paths: bool, backends: &BackendTypes) -> ToolsConfig {
    let has_workspace = text(backend, "cwd").is_some_and(|cwd| !cwd.trim().is_empty());
    let allowed = allowed_tools(backend, backends);
    let allowed = allowed.as_deref();
    let servers = servers(backend, "").into_iter();
    let mcp_servers = servers.filter_map(|server| self::server(&server, backend, allowed));
    ToolsConfig {
        files: has_workspace || has_paths,
        commands: is_on(backend, "enable_mcp_command_line").then(|| commands(backend)),
        mcp_servers: mcp_servers.collect(),
        excluded_tools: excluded_tools(backend, allowed),
    }
}

fn commands(backend: &Node) -> CommandsConfig {
    let patterns = |key: &str| match backend.get(key) {
        Some(list) => texts(list),
        None => Vec::new(),
    };
    let network = is_on(backend, "command_line_network");
    let credentials = |key: &str| {
        let section = backend.get("command_line_docker_credentials")?;
        section.get(key).filter(|node| !node.is_null())
    };
    let docker = is_docker(backend).then(|| {
        let usual = if network { "bridge" } else { "none" };
        let network_mode =
            text(backend, "command_line_docker_network_mode").unwrap_or_else(|| usual.to_owned());
        DockerConfig {
            image: text(backend, "command_line_docker_image").unwrap_or_else(|| DEFAULT_IMAGE.to_owned()),
            packages: packages(backend, &network_mode),
            network_mode,
            memory_limit: backend.get("command_line_docker_memory_limit").and_then(memory::amount),
            cpu_limit: backend.get("command_line_docker_cpu_limit").and_then(Node::as_number),
            env_vars: credentials("env_vars").map(texts).unwrap_or_default(),
            env_file: credentials("env_file").and_then(Node::as_text).map(str::to_owned),
            env_vars_from_file: credentials("env_vars_from_file").map(texts),
        }
    });
    CommandsConfig {
        network: docker.as_ref().map_or(network, |docker| docker.network_mode != "none"),
        docker,
        timeout: seconds(backend, "command_line_timeout_seconds"),
        allowed: patterns("command_line_allowed_commands"),
        blocked: patterns("command_line_blocked_commands"),
    }
}

fn packages(backend: &Node, network_mode: &str) -> DockerPackages {
    let section = backend.get("command_line_docker_packages");
    let list = |key: &str| {
        let list = section.and_then(|section| section.get("preinstall")).and_then(|lists| lists.get(key));
        list.map(texts).unwrap_or_default()
    };
    let usual = if network_mode == "none" { INSTALL_NETWORK } else { network_mode };
    DockerPackages {
        system: list("system"),
        python: list("python"),
        npm: list("npm"),
        network_mode: section
            .and_then(|section| text(section, "network"))
            .unwrap_or_else(|| usual.to_owned()),
    }
}

pub(crate) fn is_docker(backend: &Node) -> bool {
    backend.get("command_line_execution_mode").and_then(Node::as_text) == Some("docker")
}

fn server(server: &ServerNode<'_>, backend: &Node, allowed: Option<&[String]>) -> Option<McpServerConfig> {
    let transport = match server.transport() {
        Transport::Stdio => {
            let mut words = server.command().into_iter();
            McpTransport::Stdio {
                command: words.next()?,
                args: words.collect(),
                env: secrets(server.node, "env"),
                cwd: text(server.node, "cwd"),
            }
        }
        Transport::Http => {
            McpTransport::Http { url: text(server.node, "url")?, headers: secrets(server.node, "headers") }
        }
    };
    let excluded =
        [server.node, backend].map(|node| node.get("exclude_tools").map(texts).unwrap_or_default());
    Some(McpServerConfig {
        name: server.name?.to_owned(),
        transport,
        allowed_tools: server
            .node
            .get("allowed_tools")
            .map(texts)
            .or_else(|| allowed.map(<[String]>::to_vec)),
        exclude_tools: dedup(excluded.concat()),
        call_timeout: seconds(server.node, "timeout_seconds"),
    })
}

/// The list of a CLI agent is about that agent's own tools, so it does not limit Althing's tools.
fn allowed_tools(backend: &Node, backends: &BackendTypes) -> Option<Vec<String>> {
    let kind = backend.get("type").and_then(Node::as_text).and_then(|name| backends.named(name));
    let is_program = kind.is_some_and(|kind| kind.api == BackendApi::Program);
    backend.get("allowed_tools").filter(|_| !is_program).map(texts)
}

fn excluded_tools(backend: &Node, allowed: Option<&[String]>) -> Vec<String> {
    let mut excluded = backend.get("exclude_tools").map(texts).unwrap_or_default();
    let mut builtin: Vec<&str> = excluded.iter().filter_map(|name| builtin_tool(name)).collect();
    if let Some(allowed) = allowed {
        let kept: Vec<&str> = allowed.iter().filter_map(|name| builtin_tool(name)).collect();
        builtin.extend(builtin_tools().filter(|tool| !kept.contains(tool)));
    }
    if is_on(backend, "exclude_file_operation_mcps") {
        builtin.extend(FILE_TOOLS.iter().filter(|tool| !FILE_TOOLS_WITH_COMMANDS.contains(tool)));
    }
    excluded.extend(builtin.into_iter().map(str::to_owned));
    dedup(excluded)
}

fn dedup(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    texts.into_iter().filter(|text| seen.insert(text.clone())).collect()
}

fn secrets(server: &Node, key: &str) -> Vec<(String, Secret)> {
    let entries = server.get(key).map(Node::entries).unwrap_or_default();
    entries.iter().filter_map(|entry| Some((entry.key.clone(), Secret::new(scalar(&entry.value)?)))).collect()
}

fn text(node: &Node, key: &str) -> Option<String> {
    node.get(key)?.as_text().map(str::to_owned)
}

pub(super) fn is_on(node: &Node, key: &str) -> bool {
    node.get(key).and_then(Node::as_bool) == Some(true)
}
