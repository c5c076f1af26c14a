//! Keeps a waiting MCP client's call alive with progress notifications that carry no information: some clients abort
//! a call after a minute without progress, even if the connection is alive.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Sends notifications only if the client asked for them.
pub(crate) async fn while_waiting<T>(
    context: &RequestContext<RoleServer>,
    every: Duration,
    work: impl Future<Output = T>,
) -> T {
    let Some(token) = context.meta.get_progress_token() else { return work.await };
    tokio::select! {
        biased;
        done = work => done,
        never = send_progress(context, token, every) => match never {},
    }
}

async fn send_progress(
    context: &RequestContext<RoleServer>,
    token: ProgressToken,
    every: Duration,
) -> std::convert::Infallible {
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut progress = 0.0;
    loop {
        ticks.tick().await;
        progress += 1.0;
        let notification = ProgressNotificationParam::new(token.clone(), progress);
        // An error means that the client is gone; its call is cancelled then.
        let _ = context.peer.notify_progress(notification).await;
    }
}
