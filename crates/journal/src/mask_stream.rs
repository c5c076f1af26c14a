//! Masks known secret values in a byte stream with arbitrary chunk boundaries, such as the output of a program. It
//! holds back only the end of a chunk that may be the start of a secret. If a flood of hidden characters follows there,
//! they are dropped: the stream must neither hold back all of them nor forget the start of the secret.

use crate::mask::{MASK, Masker};
use crate::visible::Visible;
use althing_protocol::MaskStream;
use std::fmt;
use std::sync::Arc;

/// Masks the secrets in a byte stream.
pub struct MaskingStream {
    masker: Arc<Masker>,
    /// Bytes that were received but not yet passed on.
    held: Vec<u8>,
    /// How many bytes at the start of `held` belong to a secret whose mask was already passed on.
    covered: usize,
    out: Vec<u8>,
}

impl fmt::Debug for MaskingStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MaskingStream(…)")
    }
}

impl MaskingStream {
    /// A stream that masks the secrets that this masker knows.
    pub fn new(masker: Arc<Masker>) -> Self {
        Self { masker, held: Vec::new(), covered: 0, out: Vec::new() }
    }

    /// Moves the held bytes up to `end` into `out`, masked; the rest stays held.
    fn release(&mut self, end: usize) {
        let mut done = self.covered;
        self.out.clear();
        for (start, span_end) in self.masker.spans(&self.held) {
            if start >= end {
                break;
            }
            // A mask that was already passed on may cover the start.
            if start >= done {
                self.out.extend_from_slice(self.held.get(done..start).unwrap_or_default());
                self.out.extend_from_slice(MASK.as_bytes());
            }
            done = done.max(span_end);
        }
        self.out.extend_from_slice(self.held.get(done..end).unwrap_or_default());
        self.covered = done.saturating_sub(end);
        self.held.drain(..end);
    }

    /// Drops hidden characters from the held bytes if these are too many. The last bytes stay as they are: they may be
    /// the start of a secret that contains hidden characters itself.
    fn limit_held(&mut self) {
        if self.held.len() <= self.masker.most_held() {
            return;
        }
        let Some(visible) = Visible::of(&self.held) else { return };
        // Not in the middle of a character.
        let is_inside = |at: &usize| self.held.get(*at).is_some_and(|byte| (0x80..0xc0).contains(byte));
        let longest = self.masker.longest();
        let last = (0..=self.held.len().saturating_sub(longest)).rev().find(|at| !is_inside(at)).unwrap_or(0);
        let (mut kept, mut done, mut covered) = (Vec::new(), 0, self.covered);
        for hidden in visible.hidden().take_while(|hidden| hidden.start < last) {
            let end = hidden.end.min(last);
            kept.extend_from_slice(self.held.get(done..hidden.start).unwrap_or_default());
            covered -= self.covered.min(end).saturating_sub(hidden.start);
            done = end;
        }
        kept.extend_from_slice(self.held.get(done..).unwrap_or_default());
        (self.held, self.covered) = (kept, covered);
    }
}

impl MaskStream for MaskingStream {
    fn push<'a>(&'a mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.masker.is_empty() {
            return bytes;
        }
        if self.held.is_empty() && !self.masker.may_contain_secret(bytes) {
            let (free, held) = bytes.split_at(bytes.len() - self.masker.unfinished_bytes(bytes));
            self.held.extend_from_slice(held);
            self.limit_held();
            return free;
        }
        self.held.extend_from_slice(bytes);
        self.release(self.held.len() - self.masker.unfinished_bytes(&self.held));
        self.limit_held();
        &self.out
    }

    fn finish(&mut self) -> &[u8] {
        self.release(self.held.len());
        self.covered = 0;
        &self.out
    }
}

#[cfg(test)]
mod tests {
    use super::MaskingStream;
    use crate::mask::Masker;
    use althing_protocol::MaskStream;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn masked<'a>(secrets: &[&str], pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
        let mut stream = MaskingStream::new(Arc::new(Masker::new(secrets)));
        let mut out = Vec::new();
        for piece in pieces {
            out.extend_from_slice(stream.push(piece));
        }
        out.extend_from_slice(stream.finish());
        out
    }

    #[test]
    fn a_secret_is_masked_wherever_the_stream_is_cut() {
        let text = b"key sk-canary-01, again sk-canary-01sk-canary-01, sk-cana and an end: sk-canary-01";
        let wanted = "key [secret], again [secret][secret], sk-cana and an end: [secret]";
        for cut in 0..text.len() {
            let (front, back) = text.split_at(cut);
            assert_eq!(String::from_utf8_lossy(&masked(&["sk-canary-01"], [front, back])), wanted, "{cut}");
        }
        assert_eq!(String::from_utf8_lossy(&masked(&["sk-canary-01"], text.chunks(1))), wanted);
    }

    #[test]
    fn other_bytes_pass_unchanged_and_little_is_held_back() {
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        for size in [1, 7, 4096] {
            assert_eq!(masked(&["sk-canary-01", "\u{1}\u{2}\u{3}!!!!"], bytes.chunks(size)), bytes);
        }
        // A secret that overlaps with itself.
        let mut stream = MaskingStream::new(Arc::new(Masker::new(["aaaaaaaa"])));
        let mut out = 0;
        for _ in 0..1000 {
            out += stream.push(&[b'a'; 100]).len();
            assert!(stream.held.len() < 8, "{}", stream.held.len());
        }
        assert!(out + stream.finish().len() < 20, "one mask for all of it");
    }

    #[test]
    fn secrets_with_terminal_line_ends_are_masked() {
        let text: &[u8] = b"<first line\r\nsecond line>";
        assert_eq!(masked(&["first line\nsecond line"], [text]), b"<[secret]>");
    }

    #[test]
    fn characters_that_are_not_shown_hide_no_secret_wherever_the_stream_is_cut() {
        for between in ["\u{200b}", "\r", "\u{2060}\u{feff}", "\u{e0041}"] {
            let letters: Vec<String> = "sk-canary-01".chars().map(String::from).collect();
            let text = format!("ä{between}<{}>{between}ö", letters.join(between));
            let wanted = format!("ä{between}<[secret]>{between}ö");
            for size in 1..=text.len() {
                let out = masked(&["sk-canary-01"], text.as_bytes().chunks(size));
                assert_eq!(String::from_utf8_lossy(&out), wanted, "{between:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn a_flood_of_hidden_characters_is_neither_collected_nor_hides_a_secret() {
        for (hidden, size, end, wanted) in [
            ("\r", 10_000_000, "ary-01 and more", "[secret] and more"),
            ("\u{200b}", 1_000_000, "ary-01 and more", "[secret] and more"),
            ("\r", 1_000_000, "x", "sk-canx"),
        ] {
            let flood = hidden.repeat(size / hidden.len());
            let masker = Arc::new(Masker::new(["sk-canary-01"]));
            let mut stream = MaskingStream::new(Arc::clone(&masker));
            let (mut out, mut searched) = (Vec::new(), 0);
            for piece in std::iter::once(&b"sk-can"[..]).chain(flood.as_bytes().chunks(65_536)) {
                searched += stream.held.len() + piece.len();
                out.extend_from_slice(stream.push(piece));
                assert!(stream.held.len() <= masker.most_held(), "{}", stream.held.len());
            }
            assert!(searched < 2 * flood.len(), "{searched} bytes were searched");
            out.extend_from_slice(stream.push(end.as_bytes()));
            out.extend_from_slice(stream.finish());
            let shown = String::from_utf8(out).unwrap().replace(hidden, "");
            assert_eq!(shown, wanted, "{hidden:?}");
        }
    }

    #[test]
    fn a_mask_that_was_passed_on_covers_the_whole_secret_when_a_flood_follows() {
        // The second secret begins with the end of the first, so that end is held back although it is masked already.
        let (some, flood) = ("\r".repeat(10_000), "\r".repeat(100_000));
        let text = format!("<first-sec{flood}ond-s{some}ecret{flood}-tea>");
        let out = masked(&["first-second-secret", "secret-third"], text.as_bytes().chunks(4096));
        assert_eq!(String::from_utf8(out).unwrap().replace('\r', ""), "<[secret]-tea>");
    }

    proptest! {
        #[test]
        fn a_chunked_stream_equals_the_masked_whole(
            text in "[abc\u{200b}\r]{0,60}",
            secrets in proptest::collection::vec("[abc]{6,9}", 1..4),
            sizes in proptest::collection::vec(1_usize..9, 1..30),
        ) {
            let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
            let whole = Masker::new(&secrets).mask_text(&text).into_owned();
            let mut rest = text.as_bytes();
            let mut pieces = Vec::new();
            for size in sizes {
                let (piece, left) = rest.split_at(size.min(rest.len()));
                pieces.push(piece);
                rest = left;
            }
            pieces.push(rest);
            prop_assert_eq!(String::from_utf8(masked(&secrets, pieces)).unwrap(), whole);
        }
    }
}
