//! A bounded excerpt of a program's output: its beginning and its end.

pub(crate) const MAX_BYTES: usize = 64 * 1024;
const HALF: usize = MAX_BYTES / 2;

#[derive(Debug, Default)]
pub(crate) struct OutputExcerpt {
    head: String,
    tail: String,
    total: usize,
}

impl OutputExcerpt {
    pub(crate) fn push(&mut self, text: &str) {
        self.total += text.len();
        let room = floor(text, HALF.saturating_sub(self.head.len()));
        // Once the tail is in use, nothing is added to the head, even if a multi-byte character left some room there.
        let (first, rest) = text.split_at(if self.tail.is_empty() { room } else { 0 });
        self.head.push_str(first);
        let from = ceil(rest, rest.len().saturating_sub(HALF));
        self.tail.push_str(rest.get(from..).unwrap_or_default());
        // The tail is trimmed only occasionally, so that many small pieces stay cheap.
        if self.tail.len() > 2 * HALF {
            self.trim();
        }
    }

    fn trim(&mut self) {
        let from = ceil(&self.tail, self.tail.len().saturating_sub(HALF));
        self.tail.drain(..from);
    }

    /// `whole` is the part of the note that says where the whole output is.
    pub(crate) fn finish(mut self, whole: &str) -> String {
        if self.head.len() + self.tail.len() == self.total && self.total <= MAX_BYTES {
            self.head.push_str(&self.tail);
            return self.head;
        }
        self.trim();
        let left_out = self.total - self.head.len() - self.tail.len();
        let total = self.total;
        format!("{}\n[… {left_out} of {total} bytes left out here; {whole} …]\n{}", self.head, self.tail)
    }
}

fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, OutputExcerpt};

    #[test]
    fn short_output_is_unchanged_and_longer_output_keeps_both_ends() {
        let mut excerpt = OutputExcerpt::default();
        excerpt.push("ä".repeat(MAX_BYTES / 2).as_str());
        assert_eq!(excerpt.finish("x"), "ä".repeat(MAX_BYTES / 2));
        for size in [1, 3, 1000, 300_000] {
            let lines: Vec<String> = (0..30_000).map(|n| format!("é{n:08}\n")).collect();
            let text = lines.concat();
            let mut excerpt = OutputExcerpt::default();
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(super::ceil(rest, size));
                excerpt.push(piece);
                rest = after;
            }
            let short = excerpt.finish("the whole is in FILE");
            assert!(short.len() < MAX_BYTES + 200);
            assert!(short.starts_with("é00000000\né00000001\n") && short.ends_with("é00029999\n"));
            assert!(short.contains("bytes left out here; the whole is in FILE …]"));
        }
    }
}
