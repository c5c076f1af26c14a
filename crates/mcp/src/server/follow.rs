//! Waits for a run on behalf of an MCP client, and reports the run's progress meanwhile.

use super::runs::{RunFeed, RunOutcome, RunUpdate};
use althing_protocol::Interaction;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

pub(super) enum WaitOutcome {
    Ended(Box<RunOutcome>),
    /// The run cannot continue without an answer.
    Question(Box<Interaction>),
    StillRunning,
}

/// Sends progress only if the client asked for it.
pub(super) struct ProgressReporter<'a> {
    context: &'a RequestContext<RoleServer>,
    token: Option<ProgressToken>,
    sent: f64,
    /// The last message is repeated when there is nothing new, because some clients abort a call after silence.
    last: String,
}

impl<'a> ProgressReporter<'a> {
    pub(super) fn new(context: &'a RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self { context, token, sent: 0.0, last: "the run is in progress".to_owned() }
    }

    async fn line(&mut self, line: String) {
        self.last = line;
        self.repeat().await;
    }

    async fn repeat(&mut self) {
        let Some(token) = self.token.clone() else { return };
        self.sent += 1.0;
        let notification = ProgressNotificationParam::new(token, self.sent).with_message(self.last.clone());
        // An error means that the client is gone.
        let _ = self.context.peer.notify_progress(notification).await;
    }
}

/// Returns when the run ends, asks a question without a countdown, or the time is up.
pub(super) async fn follow(
    feed: &mut dyn RunFeed,
    at_most: Duration,
    keepalive: Duration,
    reporter: &mut ProgressReporter<'_>,
) -> WaitOutcome {
    let deadline = Instant::now() + at_most;
    loop {
        let news = tokio::select! {
            biased;
            news = feed.next() => news,
            () = sleep_until(deadline) => return WaitOutcome::StillRunning,
            () = sleep(keepalive) => {
                reporter.repeat().await;
                continue;
            }
        };
        match news {
            RunUpdate::Line(line) => reporter.line(line).await,
            RunUpdate::Question(interaction) if interaction.countdown.is_none() => {
                return WaitOutcome::Question(interaction);
            }
            RunUpdate::Question(_) => {
                reporter
                    .line(
                        "the run asks a question, and continues with the default if nobody answers"
                            .to_owned(),
                    )
                    .await
            }
            RunUpdate::Ended(result) => return WaitOutcome::Ended(result),
        }
    }
}
