//! Skips drawing of output that would scroll off the terminal's screen at once, so that a flood costs little. Only
//! complete lines of text and colors are skipped, and only if enough lines follow that none of them could still be
//! visible.

use std::borrow::Cow;

/// Below this number of bytes, drawing is faster than splitting.
const LEAST: usize = 16 * 1024;
/// The block size in bytes; the compiler vectorizes the check of a block.
const BLOCK: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct SkimmedOutput<'a> {
    pub(super) first: &'a [u8],
    skipped: Cow<'a, [u8]>,
    /// The color sequences in effect after the skipped lines, drawn before `last`.
    pub(super) colors: Vec<u8>,
    pub(super) last: &'a [u8],
}

/// Splits output into drawn and skipped parts; `None` if that saves no work, or would change what is visible.
pub(super) fn split(bytes: &[u8], rows: u16, scrolls_plainly: bool) -> Option<SkimmedOutput<'_>> {
    if bytes.len() < LEAST || !scrolls_plainly {
        return None;
    }
    let from = memchr::memchr(b'\n', bytes)? + 1;
    // A few lines more than the screen has, so that whatever the screen showed before has certainly scrolled off.
    let to = memchr::memrchr_iter(b'\n', bytes).nth(usize::from(rows) + 2)? + 1;
    let (first, rest) = bytes.split_at_checked(from)?;
    let (skipped, last) = rest.split_at_checked(to.checked_sub(from)?)?;
    if skipped.len() < LEAST / 2 {
        return None;
    }
    without_colors(first)?;
    let (skipped, colors) = without_colors(skipped)?;
    Some(SkimmedOutput { first, skipped, colors, last })
}

fn without_colors(bytes: &[u8]) -> Option<(Cow<'_, [u8]>, Vec<u8>)> {
    let Some(begin) = memchr::memchr(0x1b, bytes) else {
        return is_plain(bytes).then_some((Cow::Borrowed(bytes), Vec::new()));
    };
    let (mut text, mut colors) = (Vec::with_capacity(bytes.len()), Vec::new());
    let (plain, mut rest) = bytes.split_at_checked(begin)?;
    text.extend_from_slice(plain);
    while !rest.is_empty() {
        let (color, after) = rest.split_at_checked(color_length(rest)?)?;
        // A reset cancels all earlier color sequences.
        if matches!(color, b"\x1b[m" | b"\x1b[0m") {
            colors.clear();
        }
        colors.extend_from_slice(color);
        let (plain, next) = after.split_at(memchr::memchr(0x1b, after).unwrap_or(after.len()));
        text.extend_from_slice(plain);
        rest = next;
    }
    is_plain(&text).then_some((Cow::Owned(text), colors))
}

fn color_length(bytes: &[u8]) -> Option<usize> {
    let arguments = bytes.strip_prefix(b"\x1b[")?;
    let last = arguments.iter().position(|byte| !matches!(byte, b'0'..=b';'))?;
    (arguments.get(last) == Some(&b'm')).then_some(last + 3)
}

fn is_plain(bytes: &[u8]) -> bool {
    let plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t' | 0x80..);
    bytes.chunks(BLOCK).all(|block| block.iter().fold(true, |all, byte| all & plain(byte)))
}

impl SkimmedOutput<'_> {
    pub(super) fn append_skipped(&self, clean: &mut String) {
        clean.reserve(self.skipped.len());
        let mut rest = &*self.skipped;
        while let Some((line, after)) =
            memchr::memchr(b'\n', rest).and_then(|end| rest.split_at_checked(end + 1))
        {
            rest = after;
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            // A carriage return inside a line restarts it.
            let shown = memchr::memrchr(b'\r', line).and_then(|at| line.get(at + 1..)).unwrap_or(line);
            match std::str::from_utf8(shown) {
                Ok(text) if shown.is_ascii() && memchr::memchr(b'\t', shown).is_none() => {
                    clean.push_str(text.trim_ascii_end());
                }
                _ => {
                    let text = String::from_utf8_lossy(shown).replace('\t', "    ");
                    let shown =
                        text.trim_end().chars().filter(|letter| althing_text::sanitize::is_safe(*letter));
                    clean.extend(shown);
                }
            }
            clean.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::model::TerminalModel;
    use crate::terminal::pty::TerminalSize;
    use std::fmt::Write;

    fn flood(lines: usize) -> String {
        let mut text = "end of a line begun before\r\n".to_owned();
        for line in 0..lines {
            write!(text, "{line:06} and some words to fill it\r\n").unwrap();
        }
        text + "the last\x1b[1;31m words"
    }

    #[test]
    fn skipping_lines_gives_the_same_screen_as_drawing_them() {
        let text = flood(5_000);
        assert!(split(text.as_bytes(), 24, true).is_some(), "it is a flood");
        let size = TerminalSize { cols: 80, rows: 24 };
        let (mut skimmed, mut drawn) = (TerminalModel::new(size), TerminalModel::new(size));
        let begun = b"first\r\n\x1b[32mbegun: ";
        let at_once = skimmed.feed(begun).clean + &skimmed.feed(text.as_bytes()).clean;
        let mut in_pieces = drawn.feed(begun).clean;
        for piece in text.as_bytes().chunks(1000) {
            in_pieces += &drawn.feed(piece).clean;
        }
        assert_eq!(skimmed.emulator.snapshot(), drawn.emulator.snapshot());
        assert_eq!(at_once, in_pieces);
        assert!(at_once.starts_with("first\nbegun: end of a line begun before\n000000 and"), "{at_once:.80}");
    }

    #[test]
    fn colored_lines_are_skipped_and_their_colors_stay_set() {
        let mut text = String::new();
        for line in 0..3_000 {
            // Each line resets the color of the line before and sets a color that continues into the next line.
            write!(text, "\x1b[0m\x1b[3{}mline \x1b[1m{line:06}\x1b[22m of a log\r\n", line % 7 + 1).unwrap();
        }
        text.insert_str(0, "\x1b[4m");
        let text = text + "red or not";
        assert!(split(text.as_bytes(), 24, true).is_some(), "it is a flood");
        let size = TerminalSize { cols: 80, rows: 24 };
        let (mut skimmed, mut drawn) = (TerminalModel::new(size), TerminalModel::new(size));
        let at_once = skimmed.feed(text.as_bytes()).clean;
        let in_pieces: String = text.as_bytes().chunks(1000).map(|piece| drawn.feed(piece).clean).collect();
        assert_eq!(skimmed.emulator.snapshot(), drawn.emulator.snapshot());
        assert_eq!(at_once, in_pieces);
        assert!(at_once.starts_with("line 000000 of a log\nline 000001"), "{at_once:.80}");
    }

    #[test]
    fn output_with_other_control_sequences_is_not_skipped() {
        let mut text = flood(2_000);
        text.insert_str(20_000, "\x1b]7501;state=blocked\x07");
        assert_eq!(split(text.as_bytes(), 24, true), None);
        assert_eq!(
            split(flood(2_000).as_bytes(), 24, false),
            None,
            "a scroll region and the alternate screen scroll differently"
        );
        assert_eq!(split(b"short\r\n", 24, true), None);
    }
}
