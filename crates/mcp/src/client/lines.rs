//! Reads lines with a length limit. Buffers at most one line; the future is cancel-safe.

use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RawLine {
    Whole(Vec<u8>),
    /// The beginning of a line that exceeds the limit. The rest follows unless [`LineReader::skip`] is called.
    Cut(Vec<u8>),
}

pub(crate) struct LineReader<R> {
    reader: BufReader<R>,
    /// The beginning of the current line; stored in `self` so that dropping the future loses nothing.
    partial: Vec<u8>,
    limit: usize,
    skipping: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        Self { reader: BufReader::new(reader), partial: Vec::new(), limit, skipping: false }
    }

    pub(crate) fn skip(&mut self) {
        self.skipping = true;
    }

    /// `None` at the end of the stream. An unterminated last line counts as a line.
    pub(crate) async fn next(&mut self) -> io::Result<Option<RawLine>> {
        loop {
            if self.reader.buffer().is_empty() {
                // A flooding stream is always ready, so other tasks must get a chance to run.
                tokio::task::yield_now().await;
            }
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                let rest = std::mem::take(&mut self.partial);
                return Ok((!rest.is_empty()).then_some(RawLine::Whole(rest)));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let piece = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            if !self.skipping {
                let room = self.limit.saturating_sub(self.partial.len());
                if piece.len() > room {
                    self.partial.extend_from_slice(piece.get(..room).unwrap_or_default());
                    self.reader.consume(room);
                    return Ok(Some(RawLine::Cut(std::mem::take(&mut self.partial))));
                }
                self.partial.extend_from_slice(piece);
            }
            let used = piece.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                if std::mem::take(&mut self.skipping) {
                    continue;
                }
                let mut line = std::mem::take(&mut self.partial);
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(Some(RawLine::Whole(line)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};
    use tokio::io::ReadBuf;

    /// A stream that is always ready and never ends a line.
    struct Flood<'a> {
        reads: &'a AtomicUsize,
    }

    impl AsyncRead for Flood<'_> {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            assert!(self.reads.fetch_add(1, Ordering::Relaxed) < 10_000, "nobody else ran");
            into.put_slice(b"xxxxxxxx");
            Poll::Ready(Ok(()))
        }
    }

    async fn all(text: &[u8], limit: usize) -> Vec<RawLine> {
        let mut lines = LineReader::new(text, limit);
        let mut out = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            if matches!(line, RawLine::Cut(_)) {
                lines.skip();
            }
            out.push(line);
        }
        out
    }

    fn whole(text: &str) -> RawLine {
        RawLine::Whole(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn lines_end_at_newlines_and_the_last_one_at_the_end() {
        assert_eq!(all(b"a\r\n\nbc", 10).await, [whole("a"), whole(""), whole("bc")]);
    }

    #[tokio::test]
    async fn a_flood_lets_other_tasks_run_between_its_reads() {
        let reads = AtomicUsize::new(0);
        let mut lines = LineReader::new(Flood { reads: &reads }, 10);
        lines.skip();
        let mut turns = 0;
        tokio::select! {
            biased;
            line = lines.next() => panic!("input that never ends a line gave a line: {line:?}"),
            () = async {
                while turns < 100 {
                    turns += 1;
                    tokio::task::yield_now().await;
                }
            } => {}
        }
        let reads = reads.load(Ordering::Relaxed);
        assert!(reads <= 2 * turns, "{reads} reads in {turns} turns");
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_cut_and_the_next_one_is_whole() {
        assert_eq!(all(b"abcdef\ngh\n", 3).await, [RawLine::Cut(b"abc".to_vec()), whole("gh")]);
    }
}
