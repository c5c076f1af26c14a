//! The client: starts an agent's MCP servers, lists their tools and calls them.
//!
//! Servers are not trusted: everything they send is bounded and checked. When a server dies, the agent is told; the run
//! goes on.

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
