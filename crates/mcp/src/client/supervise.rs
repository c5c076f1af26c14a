//! Owns a server's process: sees its end, and ends it step by step when it is no longer wanted.

use super::limits;
use super::spawn::ServerProcess;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The hold on a supervised process. It ends when `life` does, which also closes its stdin.
pub(crate) struct Supervised {
    ended: watch::Receiver<Option<String>>,
}

impl Supervised {
    /// Takes the process over. The task outlives this handle so that the end stays graceful; if the runtime goes
    /// first, the process is dropped with the task, which kills it.
    pub(crate) fn start(process: Box<dyn ServerProcess>, life: CancellationToken, grace: Duration) -> Self {
        let (say, ended) = watch::channel(None);
        tokio::spawn(async move {
            let how = see_to_end(process, &life, grace).await;
            say.send_replace(Some(how));
            // Its pipes end with it, unless something that escaped its group still holds them. Nothing more is to be
            // expected of those after a moment for what is left to read.
            sleep(limits::FATE).await;
            life.cancel();
        });
        Self { ended }
    }

    /// How it ended; waits for that.
    pub(crate) async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "ended".to_owned(),
        }
    }
}

async fn see_to_end(
    mut process: Box<dyn ServerProcess>,
    life: &CancellationToken,
    grace: Duration,
) -> String {
    let by_itself = tokio::select! {
        how = process.wait() => Some(how),
        () = life.cancelled() => None,
    };
    let how = match by_itself {
        Some(how) => how,
        None => end(process.as_mut(), grace).await,
    };
    // What it started and left behind still holds its pipes.
    process.kill();
    how
}

async fn end(process: &mut dyn ServerProcess, grace: Duration) -> String {
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
