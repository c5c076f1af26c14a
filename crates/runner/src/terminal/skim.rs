//! Keeps a flood from costing more than it shows: lines that would leave the screen within the same piece of output are
//! read but never drawn.
//!
//! Only ever skips whole lines of plain text between two parts that are drawn, and only where so many lines follow that
//! none of the skipped could still be seen. Everything else, above all every escape sequence, is drawn.

/// Below this, drawing is quicker than thinking about it.
const LEAST: usize = 16 * 1024;

/// A piece of output in three parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// To be drawn: what completes the line that was begun before.
    pub(super) first: &'a [u8],
    /// Whole lines that would not be seen.
    skipped: &'a [u8],
    /// To be drawn: a screen full and more.
    pub(super) last: &'a [u8],
}

/// Splits a piece of output, where that spares work and changes nothing that can be seen.
pub(super) fn split(bytes: &[u8], rows: u16, scrolls_plainly: bool) -> Option<Parts<'_>> {
    if bytes.len() < LEAST || !scrolls_plainly {
        return None;
    }
    let from = bytes.iter().position(|byte| *byte == b'\n')? + 1;
    // A few more than the screen has, so that whatever was on it before has left it for certain.
    let to =
        bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').nth(usize::from(rows) + 2)?.0 + 1;
    let (first, rest) = bytes.split_at_checked(from)?;
    let (skipped, last) = rest.split_at_checked(to.checked_sub(from)?)?;
    (skipped.len() >= LEAST / 2 && is_plain(first) && is_plain(skipped)).then_some(Parts {
        first,
        skipped,
        last,
    })
}

/// Whether it is text and line breaks, nothing that a terminal acts on.
fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t' | 0x80..))
}

impl Parts<'_> {
    /// Adds the lines that are not drawn, as text.
    pub(super) fn tell_skipped(&self, clean: &mut String) {
        clean.reserve(self.skipped.len());
        let lines = self.skipped.strip_suffix(b"\n").unwrap_or(self.skipped).split(|byte| *byte == b'\n');
        for line in lines {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            // A carriage return inside begins the line anew.
            let shown = line.rsplit(|byte| *byte == b'\r').next().unwrap_or(line);
            match std::str::from_utf8(shown) {
                Ok(text) if shown.is_ascii() && !shown.contains(&b'\t') => clean.push_str(text.trim_end()),
                _ => {
                    let text = String::from_utf8_lossy(shown).replace('\t', "    ");
                    let shown = text.trim_end().chars().filter(|letter| super::safe::is_shown(*letter));
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
    use crate::terminal::model::Model;
    use crate::terminal::pty::Size;
    use std::fmt::Write;

    fn flood(lines: usize) -> String {
        let mut text = "end of a line begun before\r\n".to_owned();
        for line in 0..lines {
            write!(text, "{line:06} and some words to fill it\r\n").unwrap();
        }
        text + "the last\x1b[1;31m words"
    }

    #[test]
    fn what_was_skimmed_looks_the_same_as_what_was_drawn() {
        let text = flood(5_000);
        assert!(split(text.as_bytes(), 24, true).is_some(), "it is a flood");
        let size = Size { cols: 80, rows: 24 };
        let (mut skimmed, mut drawn) = (Model::new(size), Model::new(size));
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
    fn nothing_is_skipped_that_a_terminal_acts_on() {
        let mut text = flood(2_000);
        text.insert_str(20_000, "\x1b]7501;state=blocked\x07");
        assert_eq!(split(text.as_bytes(), 24, true), None);
        assert_eq!(
            split(flood(2_000).as_bytes(), 24, false),
            None,
            "a region or another screen scrolls otherwise"
        );
        assert_eq!(split(b"short\r\n", 24, true), None);
    }
}
