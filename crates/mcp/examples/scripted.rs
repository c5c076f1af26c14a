//! Serves scripted runs, as `althing mcp` serves real ones: `scripted` over stdio, `scripted http` over HTTP on a free
//! port, whose address and token it prints. The tests connect real MCP clients to it.
//!
//! `--wait MS` sets how long `launch_run` waits; `--approve` requires approval.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "an example for tests: it fails by panicking, and prints where it listens"
)]

#[path = "../tests/scripted/mod.rs"]
mod scripted;

use althing_mcp::{McpServer, ServeOptions, WebLimits};
use std::sync::Arc;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut options = ServeOptions::new(scripted::GUIDANCE);
    options.require_approval = arguments.iter().any(|argument| argument == "--approve");
    if let Some(at) = arguments.iter().position(|argument| argument == "--wait") {
        options.wait = Duration::from_millis(arguments[at + 1].parse().unwrap());
    }
    let server = McpServer::new(Arc::new(scripted::Scripted::default()), options);
    if arguments.first().is_some_and(|first| first == "http") {
        let anywhere = "127.0.0.1:0".parse().unwrap();
        let listening = server.listen(anywhere, None, WebLimits::default()).await.unwrap();
        println!("{}\n{}", listening.url(), listening.token().reveal());
        // The server runs until the parent process closes its stdin.
        let mut rest = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut tokio::io::stdin(), &mut rest).await;
    } else {
        server.serve_pipes(tokio::io::stdin(), tokio::io::stdout()).await.unwrap();
    }
}
