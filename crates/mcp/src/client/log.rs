//! Collects an MCP server's own output: its stderr, and stdout lines that are not MCP. It is bounded, so that a noisy
//! server fills neither memory nor the log.

use super::limits;
use super::lines::{LineReader, RawLine};
use super::notice::quote;
use super::options::StderrSink;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub(crate) struct ServerLog {
    server: String,
    sink: Option<StderrSink>,
    state: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    /// The number of bytes, including output that no longer reaches the sink.
    written: usize,
    /// The last lines, which are quoted when the server dies.
    last: VecDeque<String>,
}

impl ServerLog {
    pub(crate) fn new(server: &str, sink: Option<StderrSink>) -> Arc<Self> {
        Arc::new(Self { server: server.to_owned(), sink, state: Mutex::default() })
    }

    pub(crate) fn line(&self, bytes: &[u8], rest_dropped: RestDropped) {
        let mut text = String::from_utf8_lossy(bytes.get(..limits::LOG_LINE).unwrap_or(bytes)).into_owned();
        if matches!(rest_dropped, RestDropped::Yes) || bytes.len() > limits::LOG_LINE {
            text.push_str(" … (line cut)");
        }
        let verdict = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if !text.trim().is_empty() {
                state.last.push_back(quote(text.trim()));
                if state.last.len() > limits::LOG_LAST {
                    state.last.pop_front();
                }
            }
            let before = state.written;
            state.written = before.saturating_add(text.len() + 1);
            (before < limits::LOG_TOTAL, state.written >= limits::LOG_TOTAL)
        };
        let Some(sink) = &self.sink else { return };
        if verdict.0 {
            sink(&self.server, &text);
            if verdict.1 {
                sink(&self.server, "… (further output of this server is dropped)");
            }
        }
    }

    pub(crate) fn last(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).last.iter().cloned().collect()
    }

    /// Reads to the end, so that the server never blocks on a full pipe; but for at most `after` from the shutdown
    /// on, because an orphaned child may hold the stream open.
    pub(crate) async fn drain(
        self: Arc<Self>,
        stream: impl AsyncRead + Unpin,
        shutdown: CancellationToken,
        after: Duration,
    ) {
        let over = async {
            shutdown.cancelled().await;
            sleep(after).await;
        };
        tokio::select! {
            () = self.read(stream) => {}
            () = over => {}
        }
    }

    async fn read(&self, stream: impl AsyncRead + Unpin) {
        let mut lines = LineReader::new(stream, limits::LOG_LINE);
        loop {
            match lines.next().await {
                Ok(Some(RawLine::Whole(line))) => self.line(&line, RestDropped::No),
                Ok(Some(RawLine::Cut(line))) => {
                    lines.skip();
                    self.line(&line, RestDropped::Yes);
                }
                Ok(None) | Err(_) => return,
            }
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum RestDropped {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> (Arc<ServerLog>, Arc<Mutex<Vec<String>>>) {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = lines.clone();
        let sink: StderrSink = Arc::new(move |_, line| kept.lock().unwrap().push(line.to_owned()));
        (ServerLog::new("s", Some(sink)), lines)
    }

    #[tokio::test]
    async fn each_line_reaches_the_sink_and_long_ones_are_cut() {
        let (log, lines) = log();
        let long = format!("one\n{}\ntwo\n", "x".repeat(limits::LOG_LINE + 1));
        log.read(long.as_bytes()).await;
        let lines = lines.lock().unwrap();
        assert_eq!((lines[0].as_str(), lines[2].as_str()), ("one", "two"));
        assert!(lines[1].ends_with("(line cut)"));
    }

    #[tokio::test]
    async fn a_flood_ends_with_one_line_about_the_cut() {
        let (log, lines) = log();
        let line = [b'x'; 4000];
        for _ in 0..2000 {
            log.line(&line, RestDropped::No);
        }
        let lines = lines.lock().unwrap();
        let total: usize = lines.iter().map(String::len).sum();
        assert!(total <= limits::LOG_TOTAL + 8192, "{total}");
        assert_eq!(lines.iter().filter(|line| line.contains("further output")).count(), 1);
    }
}
