//! Runs as MCP tasks, for clients that poll instead of waiting.

use super::calls::ended;
use super::runs::{RunFeed, RunService, RunUpdate};
use althing_protocol::RunStatus;
use rmcp::model::{CreateTaskResult, MetaObject};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use std::sync::Arc;

/// The interval in milliseconds at which clients should poll.
const POLL: u64 = 1000;

/// The task's metadata contains the run id, for `run_status` and the other tools.
pub(super) fn start(
    tasks: &TaskManager,
    runs: Arc<dyn RunService>,
    run: String,
    feed: Box<dyn RunFeed>,
) -> CreateTaskResult {
    let options = TaskOptions::new()
        // A task never expires: a run may take long, and its result stays stored.
        .with_ttl_ms(None)
        .with_poll_interval_ms(POLL)
        .with_status_message(format!("run {run} is in progress"));
    let named = run.clone();
    let task = tasks.spawn(options, |context| Box::pin(follow(context, runs, run, feed)));
    let mut meta = MetaObject::new();
    meta.insert("althing/runId".to_owned(), named.into());
    let mut created = CreateTaskResult::new(task);
    created.meta = Some(meta);
    created
}

async fn follow(
    context: TaskContext,
    runs: Arc<dyn RunService>,
    run: String,
    mut feed: Box<dyn RunFeed>,
) -> Result<rmcp::model::CallToolResult, TaskExit> {
    let mut asked_to_stop = false;
    loop {
        let news = tokio::select! {
            biased;
            () = context.cancelled(), if !asked_to_stop => {
                asked_to_stop = true;
                // The run's end reports the outcome.
                let _ = runs.cancel(&run).await;
                continue;
            }
            news = feed.next() => news,
        };
        match news {
            RunUpdate::Line(line) => context.set_status_message(line),
            RunUpdate::Question(interaction) => {
                let asks = format!(
                    "the run asks a question: answer interaction {} with `answer_interaction`",
                    interaction.id
                );
                context.set_status_message(asks);
            }
            RunUpdate::Ended(outcome) if asked_to_stop && outcome.status() == RunStatus::Cancelled => {
                return Err(TaskExit::Cancelled);
            }
            RunUpdate::Ended(outcome) => return Ok(ended(&*runs, &outcome)),
        }
    }
}
