//! The description of a server. Plain data: nothing here starts or reads anything.

use super::{limits, names};
use althing_protocol::Secret;
use std::path::PathBuf;
use std::time::Duration;

/// One MCP server as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// The user's name for the server; part of the names of its tools.
    pub name: String,
    pub transport: ServerTransport,
    /// The only tools to offer, by the server's own names or as `mcp__server__tool`; None offers all.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools never to offer; overrides `allowed_tools`.
    pub exclude_tools: Vec<String>,
    /// The time limit for starting the server and listing its tools.
    pub start_timeout: Duration,
    /// The time that a call may take without a response or progress.
    pub call_timeout: Duration,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTransport {
    /// A child process that communicates over stdin and stdout.
    Stdio {
        /// The program, looked up in the child's `PATH`.
        command: String,
        args: Vec<String>,
        /// Variables in addition to the allow-listed ones. Secret, because configs put keys here.
        env: Vec<(String, Secret)>,
        /// The working directory; None means ours.
        cwd: Option<PathBuf>,
    },
    /// A streamable HTTP endpoint.
    Http {
        /// The URL of the endpoint. Its query may contain a key, so messages show only the origin.
        url: String,
        /// Headers sent with every request.
        headers: Vec<(String, Secret)>,
    },
}

impl ServerSpec {
    /// A stdio server with the default limits and all of its tools.
    pub fn stdio(name: impl Into<String>, command: impl Into<String>, args: Vec<String>) -> Self {
        let transport = ServerTransport::Stdio { command: command.into(), args, env: Vec::new(), cwd: None };
        Self::new(name.into(), transport)
    }

    /// An HTTP server with the default limits and all of its tools.
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self::new(name.into(), ServerTransport::Http { url: url.into(), headers: Vec::new() })
    }

    fn new(name: String, transport: ServerTransport) -> Self {
        Self {
            name,
            transport,
            allowed_tools: None,
            exclude_tools: Vec::new(),
            start_timeout: limits::START,
            call_timeout: limits::CALL,
        }
    }

    /// Whether the config lets this tool through.
    pub(crate) fn wants(&self, tool: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|entry| self.names(entry, tool));
        !named(&self.exclude_tools) && self.allowed_tools.as_deref().is_none_or(named)
    }

    /// Whether a list entry names this tool.
    pub(crate) fn names(&self, entry: &str, tool: &str) -> bool {
        entry == tool
            || entry
                .strip_prefix("mcp__")
                .and_then(|rest| rest.strip_prefix(self.name.as_str()))
                .and_then(|rest| rest.strip_prefix("__"))
                == Some(tool)
    }
}

/// The names under which the tools that the servers' `allowed_tools` name would be offered. No server is started, so
/// the tools of a server without `allowed_tools` are not known.
pub fn named_tools(servers: &[ServerSpec]) -> Vec<String> {
    let own_name = |server: &ServerSpec, entry: &str| {
        let prefix = format!("mcp__{}__", server.name);
        entry.strip_prefix(&prefix).unwrap_or(entry).to_owned()
    };
    let mut tools: Vec<(&str, String)> = Vec::new();
    for server in servers {
        for entry in server.allowed_tools.iter().flatten() {
            let tool = (server.name.as_str(), own_name(server, entry));
            if server.wants(&tool.1) && !tools.contains(&tool) {
                tools.push(tool);
            }
        }
    }
    let tools: Vec<(&str, &str)> = tools.iter().map(|(server, tool)| (*server, tool.as_str())).collect();
    names::offered(&tools).into_iter().flatten().collect()
}
