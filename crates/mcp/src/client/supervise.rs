//! Owns an MCP server's process: waits for its end, and stops it step by step on shutdown.

use super::limits;
use super::spawn::ServerProcess;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The process is stopped when `shutdown` is cancelled.
pub(crate) struct SupervisedProcess {
    ended: watch::Receiver<Option<String>>,
}

impl SupervisedProcess {
    /// The supervising task outlives this handle, so that the process can end gracefully. If the runtime ends first,
    /// `process` is dropped, which kills the process.
    pub(crate) fn start(
        process: Box<dyn ServerProcess>,
        shutdown: CancellationToken,
        grace: Duration,
    ) -> Self {
        let (say, ended) = watch::channel(None);
        tokio::spawn(async move {
            let how = wait_or_stop_mcp_server(process, &shutdown, grace).await;
            say.send_replace(Some(how));
            // A descendant that left the server's process group may hold the pipes open, so reading stops after a
            // moment.
            sleep(limits::EXIT_STATUS_WAIT).await;
            shutdown.cancel();
        });
        Self { ended }
    }

    pub(crate) async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "ended".to_owned(),
        }
    }
}

async fn wait_or_stop_mcp_server(
    mut process: Box<dyn ServerProcess>,
    shutdown: &CancellationToken,
    grace: Duration,
) -> String {
    let by_itself = tokio::select! {
        how = process.wait() => Some(how),
        () = shutdown.cancelled() => None,
    };
    let how = match by_itself {
        Some(how) => how,
        None => stop_mcp_server(process.as_mut(), grace).await,
    };
    // Children that the process left behind could hold its pipes open.
    process.kill();
    how
}

/// Stdin was closed before; after `grace` the server gets TERM, and after another `grace` KILL.
async fn stop_mcp_server(process: &mut dyn ServerProcess, grace: Duration) -> String {
    if let Ok(how) = timeout(grace, process.wait()).await {
        return how;
    }
    process.terminate();
    if let Ok(how) = timeout(grace, process.wait()).await {
        return how;
    }
    process.kill();
    timeout(grace, process.wait()).await.unwrap_or_else(|_| "could not be ended".to_owned())
}
