//! What a program in a terminal said, as lines: told once each, when they are finished.
//!
//! A program that prints goes down the screen: a row that the cursor left is finished. A program that draws goes
//! anywhere: there, once it rests, the rows that were not there before are what it said. Which of the two it is shows by
//! itself: whoever goes back to where it had been, or uses the other screen, draws.
//!
//! A line that the terminal was too narrow for is one line all the same: told in pieces, nothing could be found in it that
//! lies across its edge, a secret least of all.

use super::emulator::{Emulator, Row};
use super::skim::Parts;
use std::collections::{HashSet, VecDeque};

/// How many lines are kept for whoever attaches later.
const KEPT_LINES: usize = 2_000;
/// And how many bytes of them.
const KEPT_BYTES: usize = 1024 * 1024;

/// What was said so far.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    /// Rows of the screen, from its top, that were told.
    told: usize,
    /// The screen's rows when they were last told.
    seen: Vec<Row>,
    /// Whether the program draws.
    draws: bool,
    /// The last lines that were told.
    kept: VecDeque<String>,
    /// Whether the last of them goes on.
    goes_on: bool,
    bytes: usize,
}

impl Transcript {
    /// Tells what is finished after a piece of output: rows that left the screen, and those that the cursor left.
    pub(crate) fn after(&mut self, left: &[Row], emulator: &Emulator, clean: &mut String) {
        self.draws |= emulator.draws();
        if self.draws {
            let new = self.unseen(left, true);
            self.tell(&new, clean);
        } else {
            self.tell(left.get(self.told..).unwrap_or_default(), clean);
        }
        self.told = self.told.saturating_sub(left.len());
        self.seen.drain(..left.len().min(self.seen.len()));
        let row = emulator.cursor_row();
        if !self.draws && row > self.told {
            let rows = emulator.rows();
            let finished = rows.get(self.told..row).unwrap_or_default();
            self.tell(finished, clean);
            self.seen.resize(self.told, Row::default());
            self.seen.extend_from_slice(finished);
            self.told = row;
        }
    }

    /// Tells lines that were never drawn.
    pub(crate) fn skipped(&mut self, parts: &Parts<'_>, clean: &mut String) {
        let from = clean.len();
        parts.tell_skipped(clean);
        let lines = clean.get(from..).unwrap_or_default().lines();
        let last: Vec<&str> = lines.rev().take(KEPT_LINES).collect();
        for line in last.into_iter().rev() {
            self.keep(line, false);
        }
    }

    /// Tells what there is once the program rests: rows that were not there the last time.
    pub(crate) fn at_rest(&mut self, emulator: &Emulator) -> String {
        let mut clean = String::new();
        if self.draws {
            let rows = emulator.rows();
            let new = self.unseen(&rows, false);
            self.tell(&new, &mut clean);
            self.told = rows.len();
            self.seen = rows;
        }
        clean
    }

    /// Tells what there is when nothing more will come.
    pub(crate) fn at_end(&mut self, emulator: &Emulator) -> String {
        let mut clean = self.at_rest(emulator);
        if !self.draws {
            let rows = emulator.rows();
            let full = rows.iter().rposition(|row| !row.text.is_empty()).map_or(0, |last| last + 1);
            self.tell(rows.get(self.told..full).unwrap_or_default(), &mut clean);
            self.told = full;
        }
        clean
    }

    /// The last lines that were told, oldest first.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(String::as_str)
    }

    /// The lines of which a row was not there when they were last told, each as a whole.
    fn unseen(&self, rows: &[Row], blank_ones_too: bool) -> Vec<Row> {
        let seen: HashSet<&str> = self.seen.iter().map(|row| row.text.as_str()).collect();
        let is_new =
            |row: &Row| (blank_ones_too || !row.text.is_empty()) && !seen.contains(row.text.as_str());
        let lines = rows.split_inclusive(|row| !row.wraps);
        lines.filter(|line| line.iter().any(is_new)).flatten().cloned().collect()
    }

    fn tell(&mut self, rows: &[Row], clean: &mut String) {
        for row in rows {
            clean.push_str(&row.text);
            if !row.wraps {
                clean.push('\n');
            }
            self.keep(&row.text, row.wraps);
        }
    }

    fn keep(&mut self, text: &str, goes_on: bool) {
        self.bytes += text.len();
        match self.kept.back_mut().filter(|_| self.goes_on) {
            Some(line) => line.push_str(text),
            None => self.kept.push_back(text.to_owned()),
        }
        self.goes_on = goes_on;
        while self.kept.len() > KEPT_LINES || self.bytes > KEPT_BYTES {
            let Some(gone) = self.kept.pop_front() else { break };
            self.bytes -= gone.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::terminal::model::Model;
    use crate::terminal::pty::Size;

    fn model() -> Model {
        Model::new(Size { cols: 20, rows: 4 })
    }

    fn tell(pieces: &[&str]) -> (String, String) {
        let mut model = model();
        let clean = pieces.iter().map(|piece| model.feed(piece.as_bytes()).clean).collect();
        (clean, model.transcript.at_end(&model.emulator))
    }

    #[test]
    fn printed_lines_are_told_once_each_as_they_are_finished() {
        let (clean, end) = tell(&["one\r\ntw", "o\r\nthree\r\n", "four\r\nfive\r\nsix\r\nsev", "en"]);
        assert_eq!((clean.as_str(), end.as_str()), ("one\ntwo\nthree\nfour\nfive\nsix\n", "seven\n"));
    }

    #[test]
    fn a_line_that_is_wider_than_the_terminal_is_told_as_one() {
        let long = "key: sk-0123456789 abcdefghij klmnopqrst uvwxyz";
        for cut in 1..long.len() {
            let (begin, end) = long.split_at(cut);
            // On the screen, at its edge, and gone from it.
            for lines_after in 0..6 {
                let (clean, last) = tell(&["one\r\n", begin, end, "\r\n", &"x\r\n".repeat(lines_after)]);
                let told = format!("one\n{long}\n{}", "x\n".repeat(lines_after));
                assert_eq!(clean + &last, told, "cut at {cut}");
            }
        }
        let mut model = model();
        model.feed(format!("one\r\n{long}\r\ntwo").as_bytes());
        model.transcript.at_end(&model.emulator);
        assert_eq!(model.transcript.lines().collect::<Vec<_>>(), ["one", long, "two"]);
    }

    #[test]
    fn a_wide_line_of_a_program_that_draws_is_told_as_one_whenever_a_part_of_it_is_new() {
        let mut model = model();
        let mut frame = |frame: &str| {
            let clean = model.feed(frame.as_bytes()).clean;
            clean + &model.transcript.at_rest(&model.emulator)
        };
        assert_eq!(frame("\x1b[2J\x1b[H0123456789012345678901234"), "0123456789012345678901234\n");
        assert_eq!(frame("\x1b[2;6H!\r\nrest"), "0123456789012345678901234!\nrest\n");
    }

    // spec: core/output-sanitization/ansi-stripping
    #[test]
    fn colours_and_cursor_moves_leave_no_trace() {
        let (clean, end) = tell(&["\x1b[1;32mgreen\x1b[0m\x1b[5Cfar\r\n", "\x1b[Kover\rOVER\r\n"]);
        assert_eq!(clean + &end, "green     far\nOVER\n");
    }

    #[test]
    fn a_program_that_draws_is_told_by_its_screen_and_not_by_its_strokes() {
        let mut model = model();
        let mut frame = |frame: &str| {
            let clean = model.feed(frame.as_bytes()).clean;
            clean + &model.transcript.at_rest(&model.emulator)
        };
        assert_eq!(frame("\x1b[2J\x1b[Hhead\r\nDo\x1b[1Cyou?"), "head\nDo you?\n");
        assert_eq!(frame("\x1b[H\x1b[Khead\r\n\x1b[KYes\r\nmore"), "Yes\nmore\n");
        assert_eq!(frame("\x1b[Hhead"), "");
    }

    #[test]
    fn lines_of_the_other_screen_never_count_as_left() {
        let (clean, end) = tell(&["shell\r\n", "\x1b[?1049h\x1b[Ha\r\nb\r\nc\r\nd\r\ne\r\nf", "\x1b[?1049l"]);
        assert_eq!(clean, "shell\n");
        assert!(!end.contains('b'), "{end}");
    }
}
