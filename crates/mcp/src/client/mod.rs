//! The MCP client: starts an agent's MCP servers, lists their tools and calls them. Servers are not trusted:
//! everything they send is bounded and checked. When a server dies, the agent is told; the run goes on.

mod bounded_http;
mod bounded_requests;
mod catalog;
mod connection;
mod exit_reason;
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
mod render;
mod sanitize;
mod server;
mod spawn;
mod spec;
mod stdio;
mod supervise;
mod tool_set;

pub use host::{McpToolHost, ServerState};
pub use notice::{NoticeKind, ServerNotice, StartError};
pub use options::ClientOptions;
pub(crate) use sanitize::has_too_many_values;
pub use spawn::{ServerProcess, SpawnRequest, SpawnedProcess, Spawner};
pub use spec::{ServerSpec, ServerTransport, named_tools};
pub use tool_set::ToolInfo;
