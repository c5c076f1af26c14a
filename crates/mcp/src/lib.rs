//! Uses the tools of MCP servers.
