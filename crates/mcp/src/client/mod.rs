//! The client half: starts an agent's MCP servers, lists their tools and calls them.
//!
//! A server is never trusted: what it says is bounded, checked and only then passed on, and its death is the agent's
//! to be told, never the run's to fail by.

mod admit;
mod catalog;
mod connection;
mod fate;
mod handshake;
mod host;
mod http;
mod limits;
mod lines;
mod listing;
mod log;
mod names;
mod notice;
mod options;
mod output;
mod post;
mod render;
mod server;
mod shelf;
mod spawn;
mod spec;
mod stdio;
mod supervise;

pub use host::{McpServers, ServerState};
pub use notice::{NoticeKind, ServerNotice, StartError};
pub use options::ClientOptions;
pub use shelf::ToolInfo;
pub use spawn::{ServerProcess, SpawnRequest, SpawnedProcess, Spawner};
pub use spec::{ServerSpec, ServerTransport};
