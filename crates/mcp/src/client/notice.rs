//! What people should know about a server: typed, with advice. Never holds a key, an address's query, or unprintable
//! text: everything quoted from a server went through [`quote`].

use super::limits;
use althing_text::sanitize::is_safe;
use althing_text::truncate_chars;
use std::fmt;
use std::time::Duration;

/// Something about a server that the user should see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNotice {
    /// The server, as the configuration names it.
    pub server: String,
    /// What it is about.
    pub kind: NoticeKind,
}

/// What a notice is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// It did not start, and its tools are missing.
    NotStarted(StartError),
    /// Another server of the same name was configured before it, so it was not started.
    DuplicateServer,
    /// It offers no tool, or none that the configuration lets through.
    NoTools,
    /// One of its tools cannot be offered.
    ToolLeftOut {
        /// The tool.
        tool: String,
        /// Why.
        reason: String,
    },
    /// It has more tools than are offered.
    TooManyTools {
        /// How many are offered.
        kept: usize,
    },
    /// A list in the configuration names a tool that it does not have.
    UnknownTool {
        /// The name in the configuration.
        tool: String,
    },
    /// It ended or the connection was lost.
    Died {
        /// How.
        how: String,
    },
    /// It was started again.
    Restarted {
        /// Which restart this was, counted from 1.
        restart: u32,
    },
    /// It could not be started again.
    RestartFailed(StartError),
    /// It ended too often and stays down.
    GivenUp {
        /// How often it was started again.
        restarts: u32,
    },
    /// Its tools changed but could not be listed again; the old list stands.
    RefreshFailed {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for ServerNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = quote(&self.server);
        match &self.kind {
            NoticeKind::NotStarted(error) => write!(f, "MCP server {server} is left out: {error}"),
            NoticeKind::DuplicateServer => {
                write!(f, "a second MCP server named {server} is left out")
            }
            NoticeKind::NoTools => write!(f, "MCP server {server} offers no tools"),
            NoticeKind::ToolLeftOut { tool, reason } => {
                write!(f, "tool {tool} of MCP server {server} is left out: {reason}")
            }
            NoticeKind::TooManyTools { kept } => {
                write!(f, "MCP server {server} has too many tools; only the first {kept} are offered")
            }
            NoticeKind::UnknownTool { tool } => {
                write!(f, "MCP server {server} has no tool {tool} that the configuration names")
            }
            NoticeKind::Died { how } => write!(f, "MCP server {server} {how}"),
            NoticeKind::Restarted { restart } => {
                write!(f, "MCP server {server} was started again (restart {restart})")
            }
            NoticeKind::RestartFailed(error) => {
                write!(f, "MCP server {server} could not be started again: {error}")
            }
            NoticeKind::GivenUp { restarts } => {
                write!(f, "MCP server {server} stays down after {restarts} restarts")
            }
            NoticeKind::RefreshFailed { reason } => {
                write!(f, "the changed tools of MCP server {server} could not be listed: {reason}")
            }
        }
    }
}

impl ServerNotice {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match &self.kind {
            NoticeKind::NotStarted(error) | NoticeKind::RestartFailed(error) => error.hint(),
            NoticeKind::DuplicateServer => Some("give each entry of `mcp_servers` its own name".to_owned()),
            NoticeKind::NoTools => Some("check its `allowed_tools` and `exclude_tools`".to_owned()),
            NoticeKind::TooManyTools { .. } => {
                Some("name the tools you need in its `allowed_tools`".to_owned())
            }
            NoticeKind::UnknownTool { .. } => {
                Some("use the server's own tool names, without any prefix".to_owned())
            }
            NoticeKind::Died { .. } | NoticeKind::GivenUp { .. } => {
                Some("its stderr in the log may say why".to_owned())
            }
            NoticeKind::ToolLeftOut { .. }
            | NoticeKind::Restarted { .. }
            | NoticeKind::RefreshFailed { .. } => None,
        }
    }
}

/// Why a server did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The program is not there.
    #[error("the program `{program}` was not found")]
    NotFound {
        /// The program.
        program: String,
    },
    /// The program could not be run.
    #[error("the program `{program}` could not be run: {reason}")]
    Spawn {
        /// The program.
        program: String,
        /// What the system said.
        reason: String,
    },
    /// It was not ready in time.
    #[error("it was not ready within {} s{}", limit.as_secs_f32(), said_last(said))]
    Timeout {
        /// The time it had.
        limit: Duration,
        /// The last lines of its stderr.
        said: Vec<String>,
    },
    /// It ended before it was ready.
    #[error("it {how} before it was ready{}", said_last(said))]
    Ended {
        /// How it ended.
        how: String,
        /// The last lines of its stderr.
        said: Vec<String>,
    },
    /// It answered the handshake with an error or with nonsense.
    #[error("it refused the MCP handshake: {reason}")]
    Handshake {
        /// What it said.
        reason: String,
    },
    /// It could not be reached, or answered with an HTTP error.
    #[error("{origin} could not be used: {reason}")]
    Http {
        /// Scheme, host and port.
        origin: String,
        /// What happened.
        reason: String,
    },
    /// It wants a login that we do not have.
    #[error("{origin} asks for authorization")]
    Unauthorized {
        /// Scheme, host and port.
        origin: String,
    },
    /// Its tools could not be listed.
    #[error("its tools could not be listed: {reason}")]
    ListTools {
        /// Why.
        reason: String,
    },
    /// The configuration cannot be used as it stands.
    #[error("{reason}")]
    BadSpec {
        /// What is wrong with it.
        reason: String,
    },
}

impl StartError {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotFound { program } => {
                return Some(format!("install `{program}`, or give its full path as the server's `command`"));
            }
            Self::Spawn { .. } => "check the server's `command` and `cwd`",
            Self::Timeout { .. } => {
                "a first `npx` or `uvx` run fetches packages: run it once by hand, or raise its time limit"
            }
            Self::Ended { .. } => {
                "run its command by hand to see what it lacks; it gets only the variables in `env`"
            }
            Self::Handshake { .. } => "check that its command starts an MCP server in stdio mode",
            Self::Http { .. } => "check its `url`; only streamable HTTP is spoken, not the older HTTP+SSE",
            Self::Unauthorized { .. } => "put its key into `headers`, for example `Authorization: Bearer …`",
            Self::ListTools { .. } => return None,
            Self::BadSpec { .. } => "correct its entry in `mcp_servers`",
        };
        Some(hint.to_owned())
    }
}

fn said_last(said: &[String]) -> String {
    if said.is_empty() { String::new() } else { format!("; it last said: {}", said.join(" / ")) }
}

/// Text of a server as it may stand in a message of ours: printable, on one line, not long.
pub(crate) fn quote(text: &str) -> String {
    truncate_chars(&text.replace(|c: char| !is_safe(c), " "), limits::QUOTE)
}
