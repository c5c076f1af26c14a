//! Splits a program's output into lines, independent of read boundaries. Buffers one line of bounded length.

/// The maximum length of a line, in bytes; longer lines are dropped.
const MAX_LINE: usize = 8 * 1024 * 1024;
/// The buffer capacity that is kept between lines, in bytes: one huge line must not hold its memory for the whole
/// run.
const MAX_IDLE_CAPACITY: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputLine<'a> {
    Whole(&'a [u8]),
    TooLong,
}

#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    partial: Vec<u8>,
    too_long: bool,
}

impl LineSplitter {
    pub(crate) fn push(&mut self, bytes: &[u8], take: &mut dyn FnMut(OutputLine<'_>)) {
        let mut rest = bytes;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(at);
            self.append(line);
            self.finish(take);
            rest = after.get(1..).unwrap_or_default();
        }
        self.append(rest);
    }

    pub(crate) fn finish(&mut self, take: &mut dyn FnMut(OutputLine<'_>)) {
        if std::mem::take(&mut self.too_long) {
            take(OutputLine::TooLong);
        } else if !self.partial.trim_ascii().is_empty() {
            take(OutputLine::Whole(&self.partial));
        }
        self.partial.clear();
        self.partial.shrink_to(MAX_IDLE_CAPACITY);
    }

    fn append(&mut self, bytes: &[u8]) {
        if self.too_long || self.partial.len() + bytes.len() > MAX_LINE {
            self.too_long = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LineSplitter, MAX_LINE, OutputLine};

    fn split(pieces: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        let (mut lines, mut found) = (LineSplitter::default(), Vec::new());
        let mut take = |line: OutputLine<'_>| match line {
            OutputLine::Whole(line) => found.push(Some(line.to_vec())),
            OutputLine::TooLong => found.push(None),
        };
        for piece in pieces {
            lines.push(piece, &mut take);
        }
        lines.finish(&mut take);
        found
    }

    #[test]
    fn lines_are_joined_across_reads_and_blank_ones_are_dropped() {
        let found = split(&[b"on", b"e\ntwo\n", b"\n  \nthr", b"ee"]);
        assert_eq!(found, [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()].map(Some));
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_the_next_one_is_complete() {
        let long = vec![b'x'; MAX_LINE];
        assert_eq!(split(&[&long, b"x", b"x\nnext\n"]), [None, Some(b"next".to_vec())]);
    }
}
