//! MCP over a child's stdin and stdout: one message per line, bounded in both directions. Replaces the transport of
//! `rmcp`, because a server may print lines that are not messages, print without end, or not read its input.

use super::exit_reason::ExitReason;
use super::limits;
use super::lines::{LineReader, RawLine};
use super::log::{RestDropped, ServerLog};
use super::sanitize::{self, SkippedTools};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) struct StdioTransport {
    lines: LineReader<Box<dyn AsyncRead + Send + Unpin>>,
    /// The queue of the writing task: a message is written completely or not at all, even if its sender is dropped.
    outbox: mpsc::Sender<Vec<u8>>,
    /// Messages of a batch that were not delivered yet.
    waiting: VecDeque<ServerJsonRpcMessage>,
    /// The number of bytes that are not MCP since the last message.
    noise: usize,
    shutdown: CancellationToken,
    exit_reason: Arc<ExitReason>,
    log: Arc<ServerLog>,
    skipped_tools: Arc<SkippedTools>,
}

impl StdioTransport {
    /// The child's stdin is closed on `shutdown`.
    pub(crate) fn new(
        stdin: Box<dyn AsyncWrite + Send + Unpin>,
        stdout: Box<dyn AsyncRead + Send + Unpin>,
        shutdown: CancellationToken,
        notes: (Arc<ExitReason>, Arc<ServerLog>, Arc<SkippedTools>),
    ) -> Self {
        let (outbox, inbox) = mpsc::channel(limits::OUTBOX);
        tokio::spawn(write(stdin, inbox, shutdown.clone()));
        let (exit_reason, log, skipped_tools) = notes;
        Self {
            lines: LineReader::new(stdout, limits::FRAME),
            outbox,
            waiting: VecDeque::new(),
            noise: 0,
            shutdown,
            exit_reason,
            log,
            skipped_tools,
        }
    }

    fn take(&mut self, line: &[u8]) -> bool {
        if line.iter().all(u8::is_ascii_whitespace) {
            return true;
        }
        if let Some(messages) = sanitize::messages(line, &self.skipped_tools) {
            self.noise = 0;
            self.waiting.extend(messages);
            return true;
        }
        self.log.line(line, RestDropped::No);
        self.noise = self.noise.saturating_add(line.len() + 1);
        if self.noise > limits::NOISE {
            self.exit_reason.set("was stopped: it printed too much on stdout that is not MCP");
            return false;
        }
        true
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let outbox = self.outbox.clone();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            outbox.send(line).await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
        }
    }

    /// `None` when the server has ended or has to be stopped, or when the shutdown has started. Cancel-safe.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            let line = tokio::select! {
                biased;
                line = self.lines.next() => line,
                () = self.shutdown.cancelled() => return None,
            };
            match line {
                Ok(Some(RawLine::Whole(line))) => {
                    if !self.take(&line) {
                        return None;
                    }
                }
                Ok(Some(RawLine::Cut(_))) => {
                    self.exit_reason.set(format!(
                        "was stopped: it sent a message of more than {} MiB",
                        limits::FRAME / (1024 * 1024)
                    ));
                    return None;
                }
                Ok(None) | Err(_) => return None,
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.shutdown.cancel();
        Ok(())
    }
}

impl Drop for StdioTransport {
    /// An aborted handshake drops the transport without calling `close`, possibly while the writing task is blocked
    /// on a full pipe.
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// Returning closes the child's stdin. If the channel closes or writing fails, the shutdown starts: a server that
/// gets no messages is useless.
async fn write(
    mut stdin: Box<dyn AsyncWrite + Send + Unpin>,
    mut inbox: mpsc::Receiver<Vec<u8>>,
    shutdown: CancellationToken,
) {
    let all = async {
        while let Some(line) = inbox.recv().await {
            if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = all => shutdown.cancel(),
        () = shutdown.cancelled() => {}
    }
}
