//! What a program in a terminal printed, as lines; each line is reported once, when it is complete.
//!
//! A row of a program that prints is complete when the cursor has left it. When a program that draws pauses, the rows
//! that are new on the screen are what it printed. A line that wraps because the terminal is narrow is reported as
//! one line, so that a secret that crosses the edge can be found and masked.

use super::emulator::{Emulator, ScreenRow};
use super::skim::SkimmedOutput;
use std::collections::{HashSet, VecDeque};

const MAX_HISTORY_LINES: usize = 2_000;
const MAX_HISTORY_BYTES: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Transcript {
    reported_rows: usize,
    seen: Vec<ScreenRow>,
    draws: bool,
    history: VecDeque<String>,
    last_line_wraps: bool,
    bytes: usize,
}

impl Transcript {
    /// Reports what a piece of output completed: lines that scrolled off and, unless the program draws, rows that the
    /// cursor left.
    pub(crate) fn record(&mut self, left: &[ScreenRow], emulator: &Emulator, clean: &mut String) {
        self.draws |= emulator.draws();
        if self.draws {
            let new = self.new_lines(left, true);
            self.report(&new, clean);
        } else {
            self.report(left.get(self.reported_rows..).unwrap_or_default(), clean);
        }
        self.reported_rows = self.reported_rows.saturating_sub(left.len());
        self.seen.drain(..left.len().min(self.seen.len()));
        let row = emulator.cursor_row();
        if !self.draws && row > self.reported_rows {
            let rows = emulator.rows();
            let finished = rows.get(self.reported_rows..row).unwrap_or_default();
            self.report(finished, clean);
            self.seen.resize(self.reported_rows, ScreenRow::default());
            self.seen.extend_from_slice(finished);
            self.reported_rows = row;
        }
    }

    pub(crate) fn add_skipped(&mut self, parts: &SkimmedOutput<'_>, clean: &mut String) {
        let from = clean.len();
        parts.append_skipped(clean);
        let lines = clean.get(from..).unwrap_or_default().lines();
        let last: Vec<&str> = lines.rev().take(MAX_HISTORY_LINES).collect();
        for line in last.into_iter().rev() {
            self.remember(line, false);
        }
    }

    /// Called when the program pauses. If the program draws, reports the lines that were not on the screen the last
    /// time.
    pub(crate) fn at_rest(&mut self, emulator: &Emulator) -> String {
        let mut clean = String::new();
        if self.draws {
            let rows = emulator.rows();
            let new = self.new_lines(&rows, false);
            self.report(&new, &mut clean);
            self.reported_rows = rows.len();
            self.seen = rows;
        }
        clean
    }

    pub(crate) fn at_end(&mut self, emulator: &Emulator) -> String {
        let mut clean = self.at_rest(emulator);
        if !self.draws {
            let rows = emulator.rows();
            let full = rows.iter().rposition(|row| !row.text.is_empty()).map_or(0, |last| last + 1);
            self.report(rows.get(self.reported_rows..full).unwrap_or_default(), &mut clean);
            self.reported_rows = full;
        }
        clean
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.history.iter().map(String::as_str)
    }

    fn new_lines(&self, rows: &[ScreenRow], include_blank: bool) -> Vec<ScreenRow> {
        let seen: HashSet<&str> = self.seen.iter().map(|row| row.text.as_str()).collect();
        let is_new =
            |row: &ScreenRow| (include_blank || !row.text.is_empty()) && !seen.contains(row.text.as_str());
        let lines = rows.split_inclusive(|row| !row.wraps);
        lines.filter(|line| line.iter().any(is_new)).flatten().cloned().collect()
    }

    fn report(&mut self, rows: &[ScreenRow], clean: &mut String) {
        for row in rows {
            clean.push_str(&row.text);
            if !row.wraps {
                clean.push('\n');
            }
            self.remember(&row.text, row.wraps);
        }
    }

    fn remember(&mut self, text: &str, last_line_wraps: bool) {
        self.bytes += text.len();
        match self.history.back_mut().filter(|_| self.last_line_wraps) {
            Some(line) => line.push_str(text),
            None => self.history.push_back(text.to_owned()),
        }
        self.last_line_wraps = last_line_wraps;
        while self.history.len() > MAX_HISTORY_LINES || self.bytes > MAX_HISTORY_BYTES {
            let Some(gone) = self.history.pop_front() else { break };
            self.bytes -= gone.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::terminal::model::TerminalModel;
    use crate::terminal::pty::TerminalSize;

    fn model() -> TerminalModel {
        TerminalModel::new(TerminalSize { cols: 20, rows: 4 })
    }

    fn report(pieces: &[&str]) -> (String, String) {
        let mut model = model();
        let clean = pieces.iter().map(|piece| model.feed(piece.as_bytes()).clean).collect();
        (clean, model.transcript.at_end(&model.emulator))
    }

    #[test]
    fn printed_lines_are_reported_once_when_they_are_complete() {
        let (clean, end) = report(&["one\r\ntw", "o\r\nthree\r\n", "four\r\nfive\r\nsix\r\nsev", "en"]);
        assert_eq!((clean.as_str(), end.as_str()), ("one\ntwo\nthree\nfour\nfive\nsix\n", "seven\n"));
    }

    #[test]
    fn a_line_wider_than_the_terminal_is_reported_as_one_line() {
        let long = "key: sk-0123456789 abcdefghij klmnopqrst uvwxyz";
        for cut in 1..long.len() {
            let (begin, end) = long.split_at(cut);
            // Depending on `lines_after`, the long line is on the screen, scrolled off in part, or scrolled off
            // completely.
            for lines_after in 0..6 {
                let (clean, last) = report(&["one\r\n", begin, end, "\r\n", &"x\r\n".repeat(lines_after)]);
                let reported_rows = format!("one\n{long}\n{}", "x\n".repeat(lines_after));
                assert_eq!(clean + &last, reported_rows, "cut at {cut}");
            }
        }
        let mut model = model();
        model.feed(format!("one\r\n{long}\r\ntwo").as_bytes());
        model.transcript.at_end(&model.emulator);
        assert_eq!(model.transcript.lines().collect::<Vec<_>>(), ["one", long, "two"]);
    }

    #[test]
    fn a_wide_drawn_line_is_reported_whole_when_a_part_of_it_is_new() {
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
    fn colors_and_cursor_movements_are_removed() {
        let (clean, end) = report(&["\x1b[1;32mgreen\x1b[0m\x1b[5Cfar\r\n", "\x1b[Kover\rOVER\r\n"]);
        assert_eq!(clean + &end, "green     far\nOVER\n");
    }

    #[test]
    fn a_drawing_program_is_reported_by_its_screen_rows() {
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
    fn rows_of_the_alternate_screen_are_not_reported_as_scrolled_off() {
        let (clean, end) =
            report(&["shell\r\n", "\x1b[?1049h\x1b[Ha\r\nb\r\nc\r\nd\r\ne\r\nf", "\x1b[?1049l"]);
        assert_eq!(clean, "shell\n");
        assert!(!end.contains('b'), "{end}");
    }
}
