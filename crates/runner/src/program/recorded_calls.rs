//! Records the calls of our tools that a CLI agent makes over MCP while it runs. They are not executed then: the program
//! is told to end its turn, and the calls become part of its reply.

use althing_protocol::{BoxFuture, EndpointHandler, ToolCall, ToolOutcome};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a program may continue after it called one of our tools and was told to end its turn.
const STOP_AFTER_TOOL_CALL: Duration = Duration::from_secs(60);
/// The maximum number of recorded tool calls. After its first call a program is told to end its turn, so no honest
/// program comes near this number.
const MAX_RECORDED: usize = 1000;
const CALL_RECORDED: &str =
    "Recorded. End your turn now without any further tool call; the result is in the next message.";

#[derive(Default)]
pub(super) struct RecordedCalls {
    calls: Mutex<Vec<ToolCall>>,
    first: Notify,
}

impl RecordedCalls {
    pub(super) fn take(&self) -> Vec<ToolCall> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Completes [`STOP_AFTER_TOOL_CALL`] after the first recorded call; never if there is no call.
    pub(super) async fn overdue(&self) {
        self.first.notified().await;
        tokio::time::sleep(STOP_AFTER_TOOL_CALL).await;
    }
}

impl EndpointHandler for RecordedCalls {
    fn call(&self, mut call: ToolCall) -> BoxFuture<'_, ToolOutcome> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= MAX_RECORDED {
            let content = format!("Refused: {MAX_RECORDED} calls are recorded already. End your turn.");
            return Box::pin(async { ToolOutcome { content, is_error: true } });
        }
        // The id is unique within the reply, independent of the MCP request id.
        call.id = format!("call-{}", calls.len() + 1);
        calls.push(call);
        drop(calls);
        self.first.notify_one();
        Box::pin(async { ToolOutcome { content: CALL_RECORDED.to_owned(), is_error: false } })
    }
}
