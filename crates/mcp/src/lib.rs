//! MCP: uses the tools of MCP servers (`client`), offers agents' tools to the CLI agents that work as them
//! (`endpoint`), and offers runs to any MCP client (`server`). This crate does not decide what an agent may do, does
//! not write to our stdout or stderr, and does not read our environment.
#![allow(missing_docs, reason = "internal crate: names that explain themselves need no comment")]

mod client;
mod endpoint;
mod keepalive;
mod server;
mod web;

pub use client::{
    ClientOptions, McpToolHost, NoticeKind, ServerNotice, ServerProcess, ServerSpec, ServerState,
    ServerTransport, SpawnRequest, SpawnedProcess, Spawner, StartError, ToolInfo, named_tools,
};
pub use endpoint::AgentEndpoints;
pub use server::{
    McpListener, McpServer, RunDir, RunFeed, RunFile, RunOutcome, RunService, RunSummary, RunUpdate,
    ServeOptions,
};
pub use web::WebLimits;

fn implementation_info() -> rmcp::model::Implementation {
    rmcp::model::Implementation::new("althing", env!("CARGO_PKG_VERSION")).with_title("Althing")
}
