//! `althing mcp`: serves `launch_run` to MCP clients, over stdio or streamable HTTP.

use crate::exit::Exit;
use crate::show;
use althing_app::AppContext;
use althing_app::Failure;
use althing_app::agent_selection::AgentSelection;
use althing_app::run_service::LocalRunService;
use althing_app::session;
use althing_app::team;
use althing_engine::launch_guidance;
use althing_mcp::{McpServer, ServeOptions, WebLimits};
use althing_protocol::Secret;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as Blocking;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;

/// How long unanswered calls may continue after the client has closed our stdin.
const LAST_CALLS: Duration = Duration::from_secs(1);

pub struct McpOptions {
    /// The address to listen on. With `None`, the server uses stdio.
    pub http: Option<SocketAddr>,
    pub wait: u64,
}

pub fn run(mcp: &McpOptions, app: AppContext) -> Result<Exit, Failure> {
    let runtime = session::runtime()?;
    let mut signals = crate::stop::signals(&runtime)?;
    let mut team = team::assemble(&app)?;
    AgentSelection::without_task(&app, &team)?.narrow_to_run(&mut team);
    team.announce(&app);
    // A call from an MCP client counts as approved by that client, unless the config requires a person's approval of
    // every run. (For a run that needs more access, the server asks in any case.)
    let approval = team.config.interactive.as_ref().filter(|_| team.is_from_file());
    let require_approval =
        approval.is_some_and(|interactive| interactive.enabled && interactive.require_approval);
    let token = app.environment.variable("ALTHING_MCP_TOKEN").map(Secret::new);
    let runs = Arc::new(LocalRunService::new(team, app)?);
    let mut serve = ServeOptions::new(launch_guidance(runs.team()));
    serve.wait = Duration::from_secs(mcp.wait);
    serve.require_approval = require_approval;
    let server = McpServer::new(runs.clone(), serve);
    runtime.block_on(async {
        let ended = match mcp.http {
            None => tokio::select! {
                ended = over_stdio(&server) => ended.map(|()| Exit::Answered),
                _ = signals.next() => Ok(Exit::Interrupted),
            },
            Some(address) => match server.listen(address, token.clone(), WebLimits::default()).await {
                Ok(listener) => {
                    show::notice(&format!("serving MCP at {}", listener.url()));
                    if token.is_none() {
                        // The generated token is shown only here; it is stored nowhere.
                        show::print_secret_notice(&format!("bearer token: {}", listener.token().reveal()));
                    }
                    signals.next().await;
                    Ok(Exit::Answered)
                }
                Err(error) => Err(error),
            },
        };
        runs.close().await;
        ended.map_err(Failure::usage)
    })
}

/// Serves the client at stdin and stdout. Tokio cannot wait for every kind of file, so threads copy between these files
/// and sockets.
async fn over_stdio(server: &McpServer) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("stdin and stdout cannot be used: {error}");
    let (mut to_server, input) = Blocking::pair().map_err(failed)?;
    let (output, from_server) = Blocking::pair().map_err(failed)?;
    let (end_of_input, input_ended) = tokio::sync::oneshot::channel();
    let (all_written, written) = tokio::sync::oneshot::channel();
    let socket = |blocking: Blocking| {
        blocking.set_nonblocking(true)?;
        UnixStream::from_std(blocking)
    };
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut to_server);
        let _ = end_of_input.send(());
    });
    std::thread::spawn(move || {
        show::copy_messages(from_server);
        let _ = all_written.send(());
    });
    let (input, output) = (socket(input).map_err(failed)?, socket(output).map_err(failed)?);
    let late = async {
        // An error means that the thread panicked; then there is no more input either.
        let _ = input_ended.await;
        tokio::time::sleep(LAST_CALLS).await;
    };
    let ended = tokio::select! {
        ended = server.serve_pipes(input, output) => ended,
        () = late => return Ok(()),
    };
    // Wait until the last output is written. An error means that the thread panicked.
    let _ = written.await;
    ended
}
