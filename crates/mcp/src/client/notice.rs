//! Notices for people about an MCP server. They contain no keys, no URL queries and no unprintable text; everything
//! quoted from a server passes through [`quote`].

use super::limits;
use althing_text::sanitize::is_safe;
use althing_text::truncate_chars;
use std::fmt;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNotice {
    pub server: String,
    pub kind: NoticeKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    NotStarted(StartError),
    DuplicateServer,
    /// The server offers no tools, or the config filters out all of them.
    NoTools,
    ToolLeftOut {
        tool: String,
        reason: String,
    },
    TooManyTools {
        kept: usize,
    },
    /// The config names a tool that the server does not have.
    UnknownTool {
        tool: String,
    },
    /// The server ended, or the connection was lost.
    Died {
        how: String,
    },
    Restarted {
        /// Counted from 1.
        restart: u32,
    },
    RestartFailed(StartError),
    /// The server died too often and is not restarted any more.
    GivenUp {
        restarts: u32,
    },
    /// The tools changed but could not be listed; the old list stays in use.
    RefreshFailed {
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
                write!(f, "MCP server {server} has no tool {tool}, which the configuration names")
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
                Some(
                    "run the server's command by hand to see why it ended; for a server with `url`, check that it \
                     still answers there"
                        .to_owned(),
                )
            }
            NoticeKind::ToolLeftOut { .. }
            | NoticeKind::Restarted { .. }
            | NoticeKind::RefreshFailed { .. } => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    #[error("the program `{program}` was not found")]
    NotFound { program: String },
    #[error("the program `{program}` could not be run: {reason}")]
    Spawn { program: String, reason: String },
    #[error("it was not ready within {} s{}", limit.as_secs_f32(), quote_stderr(stderr_tail))]
    Timeout { limit: Duration, stderr_tail: Vec<String> },
    #[error("it {how} before it was ready{}", quote_stderr(stderr_tail))]
    Ended { how: String, stderr_tail: Vec<String> },
    /// The server answered with an error or with an invalid message.
    #[error("it refused the MCP handshake: {reason}")]
    Handshake { reason: String },
    /// The server could not be reached, or answered with an HTTP error.
    #[error("{origin} could not be used: {reason}")]
    Http {
        /// Scheme, host and port.
        origin: String,
        reason: String,
    },
    /// The config provides no credentials, or the server does not accept them.
    #[error("{origin} asks for authorization")]
    Unauthorized {
        /// Scheme, host and port.
        origin: String,
    },
    #[error("its tools could not be listed: {reason}")]
    ListTools { reason: String },
    #[error("{reason}")]
    BadSpec { reason: String },
}

impl StartError {
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotFound { program } => {
                return Some(format!("install `{program}`, or give its full path as the server's `command`"));
            }
            Self::Spawn { .. } => "check the server's `command` and `cwd`",
            Self::Timeout { .. } => {
                "a first `npx` or `uvx` run fetches packages: run the server's command once by hand, then try again; \
                 for a server with `url`, check that it answers there"
            }
            Self::Ended { .. } => {
                "run the server's command by hand to see what is missing; Althing passes only basic variables such as \
                 PATH and those in `env`"
            }
            Self::Handshake { .. } => {
                "check that its `command` starts an MCP server in stdio mode, or that its `url` leads to one"
            }
            Self::Http { .. } => "check its `url`; only streamable HTTP is supported, not the older HTTP+SSE",
            Self::Unauthorized { .. } => "put its key into `headers`, for example `Authorization: Bearer …`",
            Self::ListTools { .. } => return None,
            Self::BadSpec { .. } => "correct its entry in `mcp_servers`",
        };
        Some(hint.to_owned())
    }
}

fn quote_stderr(stderr_tail: &[String]) -> String {
    if stderr_tail.is_empty() {
        String::new()
    } else {
        format!("; its last output was: {}", stderr_tail.join(" / "))
    }
}

/// A server's text for use in Althing's messages: printable, on one line, shortened.
pub(crate) fn quote(text: &str) -> String {
    truncate_chars(&text.replace(|c: char| !is_safe(c), " "), limits::QUOTE)
}
