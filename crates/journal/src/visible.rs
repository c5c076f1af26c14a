//! The bytes of a text that are shown. Characters that are dropped before a text is shown must not hide a secret from
//! the search.

use althing_text::sanitize;
use std::ops::Range;

/// What is left of some bytes without hidden characters.
pub(crate) struct Visible {
    pub(crate) bytes: Vec<u8>,
    /// Where something was left out: the place in `bytes`, and how many bytes were left out up to there. The places are
    /// distinct, so a flood of hidden characters takes no more memory here than it took itself.
    gaps: Vec<(usize, usize)>,
}

impl Visible {
    /// None if no character is hidden. A character that is cut off at the end counts as hidden, because it may turn out
    /// to be a hidden one when the rest of its bytes arrives.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.iter().all(|byte| byte.is_ascii() && *byte != b'\r') {
            return None;
        }
        let mut visible = Self { bytes: Vec::with_capacity(bytes.len()), gaps: Vec::new() };
        let mut read = 0;
        for chunk in bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                read += c.len_utf8();
                if sanitize::is_hidden(c) {
                    visible.leave_out(c.len_utf8());
                } else {
                    visible.bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            read += chunk.invalid().len();
            let is_cut = read == bytes.len()
                && std::str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
            if is_cut {
                visible.leave_out(chunk.invalid().len());
            } else {
                visible.bytes.extend_from_slice(chunk.invalid());
            }
        }
        (!visible.gaps.is_empty()).then_some(visible)
    }

    fn leave_out(&mut self, count: usize) {
        let place = self.bytes.len();
        match self.gaps.last_mut() {
            Some((last, left_out)) if *last == place => *left_out += count,
            last => {
                let before = last.map_or(0, |(_, left_out)| *left_out);
                self.gaps.push((place, before + count));
            }
        }
    }

    /// The parts of the original bytes that were left out, in order.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = Range<usize>> {
        let before = std::iter::once(0).chain(self.gaps.iter().map(|(_, left_out)| *left_out));
        before.zip(&self.gaps).map(|(before, (place, left_out))| place + before..place + left_out)
    }

    /// The place in the original bytes of the visible byte at this place.
    pub(crate) fn origin(&self, place: usize) -> usize {
        let gaps = self.gaps.partition_point(|(at, _)| *at <= place);
        let left_out = gaps.checked_sub(1).and_then(|last| self.gaps.get(last));
        place + left_out.map_or(0, |(_, left_out)| *left_out)
    }

    /// Start and end in the original bytes of the visible bytes from `start` to `end`.
    pub(crate) fn span(&self, start: usize, end: usize) -> (usize, usize) {
        (self.origin(start), self.origin(end.saturating_sub(1)) + 1)
    }
}
