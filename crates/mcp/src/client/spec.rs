//! What the caller says about a server. Values only: nothing here starts or reads anything.

use super::limits;
use althing_protocol::Secret;
use std::path::PathBuf;
use std::time::Duration;

/// One MCP server as the configuration describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// The user's name for it; part of its tools' names.
    pub name: String,
    /// How it is reached.
    pub transport: ServerTransport,
    /// The only tools to offer, by the server's own names (`mcp__server__tool` is understood too); None offers all.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools never to offer; wins over `allowed_tools`.
    pub exclude_tools: Vec<String>,
    /// How long it may take to start and list its tools.
    pub start_timeout: Duration,
    /// How long a call may go without an answer or a sign of progress.
    pub call_timeout: Duration,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTransport {
    /// A child process that speaks over its stdin and stdout.
    Stdio {
        /// The program, looked up in the child's `PATH`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables beside the allow-listed ones. Configs keep keys here, hence secret.
        env: Vec<(String, Secret)>,
        /// Where it runs; None means where we do.
        cwd: Option<PathBuf>,
    },
    /// A streamable HTTP endpoint.
    Http {
        /// Its address. May hold a key in its query, so messages only ever name its origin.
        url: String,
        /// Headers to send with every request.
        headers: Vec<(String, Secret)>,
    },
}

impl ServerSpec {
    /// A child process with the usual limits and all of its tools.
    pub fn stdio(name: impl Into<String>, command: impl Into<String>, args: Vec<String>) -> Self {
        let transport = ServerTransport::Stdio { command: command.into(), args, env: Vec::new(), cwd: None };
        Self::new(name.into(), transport)
    }

    /// An HTTP endpoint with the usual limits and all of its tools.
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

    /// Whether the user wants this tool of it.
    pub(crate) fn wants(&self, tool: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|entry| self.names(entry, tool));
        !named(&self.exclude_tools) && self.allowed_tools.as_deref().is_none_or(named)
    }

    /// Whether an entry of a list means this tool.
    pub(crate) fn names(&self, entry: &str, tool: &str) -> bool {
        entry == tool
            || entry
                .strip_prefix("mcp__")
                .and_then(|rest| rest.strip_prefix(self.name.as_str()))
                .and_then(|rest| rest.strip_prefix("__"))
                == Some(tool)
    }
}
