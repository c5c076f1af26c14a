//! MCP over a child's stdin and stdout: one message a line, bounded both ways.
//!
//! Our own instead of the library's, because a server may print what is no message, print without end, or not read.

use super::admit::{self, LeftOut};
use super::fate::Fate;
use super::limits;
use super::lines::{Line, Lines};
use super::log::{RestDropped, ServerLog};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The messages to and from one child.
pub(crate) struct StdioTransport {
    lines: Lines<Box<dyn AsyncRead + Send + Unpin>>,
    /// To the task that writes: a message is written whole or not at all, even when its sender is dropped.
    outbox: mpsc::Sender<Vec<u8>>,
    /// Messages of a batch that wait for their turn.
    waiting: VecDeque<ServerJsonRpcMessage>,
    /// How much noise came since the last message.
    noise: usize,
    life: CancellationToken,
    fate: Arc<Fate>,
    log: Arc<ServerLog>,
    left_out: Arc<LeftOut>,
}

impl StdioTransport {
    /// Takes the child's streams over. Its stdin is closed when `life` ends.
    pub(crate) fn new(
        stdin: Box<dyn AsyncWrite + Send + Unpin>,
        stdout: Box<dyn AsyncRead + Send + Unpin>,
        life: CancellationToken,
        notes: (Arc<Fate>, Arc<ServerLog>, Arc<LeftOut>),
    ) -> Self {
        let (outbox, inbox) = mpsc::channel(limits::OUTBOX);
        tokio::spawn(write(stdin, inbox, life.clone()));
        let (fate, log, left_out) = notes;
        Self {
            lines: Lines::new(stdout, limits::FRAME),
            outbox,
            waiting: VecDeque::new(),
            noise: 0,
            life,
            fate,
            log,
            left_out,
        }
    }

    /// Takes one line in; false when the server is to be given up.
    fn take(&mut self, line: &[u8]) -> bool {
        if line.iter().all(u8::is_ascii_whitespace) {
            return true;
        }
        if let Some(messages) = admit::messages(line, &self.left_out) {
            self.noise = 0;
            self.waiting.extend(messages);
            return true;
        }
        self.log.line(line, RestDropped::No);
        self.noise = self.noise.saturating_add(line.len() + 1);
        if self.noise > limits::NOISE {
            self.fate.say("was stopped: it prints to its stdout what is not MCP, without end");
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

    /// The next message; None when the server has ended or is given up. Safe to drop at any point.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            let line = tokio::select! {
                biased;
                line = self.lines.next() => line,
                () = self.life.cancelled() => return None,
            };
            match line {
                Ok(Some(Line::Whole(line))) => {
                    if !self.take(&line) {
                        return None;
                    }
                }
                Ok(Some(Line::Cut(_))) => {
                    self.fate.say(format!(
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
        self.life.cancel();
        Ok(())
    }
}

impl Drop for StdioTransport {
    /// A handshake that is given up drops the transport without closing it, perhaps with the writing task stuck in a
    /// pipe that nobody reads.
    fn drop(&mut self) {
        self.life.cancel();
    }
}

/// Writes messages until there are no more, the server no longer reads, or its life is over. Ending closes its stdin;
/// a server that does not read is of no use, so its life ends with that.
async fn write(
    mut stdin: Box<dyn AsyncWrite + Send + Unpin>,
    mut inbox: mpsc::Receiver<Vec<u8>>,
    life: CancellationToken,
) {
    let all = async {
        while let Some(line) = inbox.recv().await {
            if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = all => life.cancel(),
        () = life.cancelled() => {}
    }
}
