//! Speaks MCP: uses the tools of MCP servers (`client`), and will offer Althing's own (`server`, later).
//!
//! Never decides what an agent may do, never writes to our stdout or stderr, never reads our environment: the caller
//! hands in what it needs. It exists so that `rmcp` and the ways in which servers misbehave stay in one crate.

mod client;

pub use client::{
    Launch, Launched, LocalSpawner, McpServers, NoticeKind, Options, Process, ServerNotice, ServerSpec,
    ServerState, ServerTransport, Spawner, StartError, ToolInfo, allowed_environment,
};
