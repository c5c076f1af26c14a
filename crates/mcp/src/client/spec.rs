//! The description of an MCP server. Plain data.

use super::{limits, names};
use althing_protocol::Secret;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// The server's name, which becomes part of the names of its tools.
    pub name: String,
    pub transport: ServerTransport,
    /// The offered tools, by the server's own names or as `mcp__server__tool`; `None` offers all.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools that are not offered, even if `allowed_tools` names them.
    pub exclude_tools: Vec<String>,
    /// The limit for starting the server and listing its tools.
    pub start_timeout: Duration,
    /// The limit for a call without a response or progress.
    pub call_timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTransport {
    Stdio {
        /// The program, which is looked up in the child's `PATH`.
        command: String,
        args: Vec<String>,
        /// Variables in addition to the allow-listed ones. Secret, because configs put keys here.
        env: Vec<(String, Secret)>,
        /// The working directory; `None` means that of this process.
        cwd: Option<PathBuf>,
    },
    Http {
        /// The address. Its query may contain a key, so messages show only the origin.
        url: String,
        headers: Vec<(String, Secret)>,
    },
}

impl ServerSpec {
    /// The spec has the default limits and offers all tools.
    pub fn stdio(name: impl Into<String>, command: impl Into<String>, args: Vec<String>) -> Self {
        let transport = ServerTransport::Stdio { command: command.into(), args, env: Vec::new(), cwd: None };
        Self::new(name.into(), transport)
    }

    /// The spec has the default limits and offers all tools.
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

    pub(crate) fn wants(&self, tool: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|entry| self.names(entry, tool));
        !named(&self.exclude_tools) && self.allowed_tools.as_deref().is_none_or(named)
    }

    pub(crate) fn names(&self, entry: &str, tool: &str) -> bool {
        entry == tool
            || entry
                .strip_prefix("mcp__")
                .and_then(|rest| rest.strip_prefix(self.name.as_str()))
                .and_then(|rest| rest.strip_prefix("__"))
                == Some(tool)
    }
}

/// The tools that `allowed_tools` names: others are known only once a server is started.
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
