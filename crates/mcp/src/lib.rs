//! Speaks MCP: uses the tools of MCP servers (`client`), offers agents' tools to the programs that work as them
//! (`endpoint`), and offers runs to anyone's client (`server`).
//!
//! Never decides what an agent may do, never writes to our stdout or stderr, never reads our environment: the caller
//! hands in what it needs. It exists so that `rmcp` and the ways in which servers misbehave stay in one crate.

mod client;
mod endpoint;
mod pulse;
mod server;
mod web;

pub use client::{
    ClientOptions, McpServers, NoticeKind, ServerNotice, ServerProcess, ServerSpec, ServerState,
    ServerTransport, SpawnRequest, SpawnedProcess, Spawner, StartError, ToolInfo,
};
pub use endpoint::AgentEndpoints;
pub use server::{
    McpListener, McpServer, RunDir, RunFeed, RunFile, RunOutcome, RunService, RunSummary, RunUpdate,
    ServeOptions,
};
pub use web::WebLimits;

/// How Althing names itself to clients.
fn own_name() -> rmcp::model::Implementation {
    rmcp::model::Implementation::new("althing", env!("CARGO_PKG_VERSION")).with_title("Althing")
}
