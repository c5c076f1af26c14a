//! The commands, one file each.

pub mod agents;
pub mod chat;
pub mod config;
pub mod eval;
pub mod mcp;
pub mod projects;
pub mod recount;
pub mod replay;
pub mod resume;
pub mod run;
pub mod session_cost;
pub mod session_prompt;
pub mod session_report;
pub mod sessions;
pub mod tui;
pub mod undo;
pub mod workflow;
