//! The emulated screen of a terminal, of fixed size: rows that scroll off are passed on.

use super::drawing::DrawingDetector;
use super::pty::TerminalSize;
use super::queries::TerminalCallbacks;
use super::status::Status;
use althing_protocol::{Screen, ScreenCell, ScreenColor};
use std::num::NonZeroU16;

pub(crate) struct Emulator {
    parser: vt100::Parser<TerminalCallbacks>,
    drawing: DrawingDetector,
    /// The beginning of a character that was split between reads. It is held back until the rest comes: if the parser
    /// (vte 0.15) gets half a character, it loses the text after the other half.
    cut: Vec<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScreenRow {
    pub(crate) text: String,
    /// Whether the row's line continues in the next row because the terminal was too narrow.
    pub(crate) wraps: bool,
}

impl ScreenRow {
    pub(crate) fn new(text: String, wraps: bool) -> Self {
        // Trailing blanks are not part of a line's text, unless the line continues in the next row.
        let text = if wraps { text } else { text.trim_end().to_owned() };
        Self { text, wraps }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EmulatorOutput {
    pub(crate) left: Vec<ScreenRow>,
    pub(crate) answers: Vec<u8>,
}

/// The screen around the cursor, in whole lines: rows that the terminal wrapped are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CursorView {
    pub(crate) above: Vec<String>,
    pub(crate) before: String,
    pub(crate) after: Vec<String>,
    pub(crate) is_alternate: bool,
}

impl Emulator {
    pub(crate) fn new(size: TerminalSize) -> Self {
        let (rows, cols) = nonzero(size);
        // The emulator needs no scrollback, because the transcript keeps rows that scroll off.
        let parser = vt100::Parser::new_with_callbacks(rows, cols, 0, TerminalCallbacks::default());
        Self { parser, drawing: DrawingDetector::default(), cut: Vec::new() }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) -> EmulatorOutput {
        if self.cut.is_empty() {
            self.draw(bytes);
        } else {
            let mut joined = std::mem::take(&mut self.cut);
            joined.extend_from_slice(bytes);
            self.draw(&joined);
        }
        let callbacks = self.parser.callbacks_mut();
        EmulatorOutput {
            left: std::mem::take(&mut callbacks.left),
            answers: std::mem::take(&mut callbacks.answers),
        }
    }

    fn draw(&mut self, bytes: &[u8]) {
        let (whole, cut) = bytes.split_at(bytes.len() - unfinished(bytes));
        self.cut.extend_from_slice(cut);
        self.drawing.scan(whole);
        self.parser.process(whole);
    }

    /// Whether a line break at the bottom scrolls the whole main screen, so that rows that leave it are never seen
    /// again.
    pub(crate) fn scrolls_plainly(&self) -> bool {
        !self.parser.screen().alternate_screen() && !self.drawing.has_region
    }

    /// Whether the program ever moved the cursor up or to a given position, or is using the alternate screen.
    pub(crate) fn draws(&self) -> bool {
        self.drawing.goes_back || self.parser.screen().alternate_screen()
    }

    pub(crate) fn resize(&mut self, size: TerminalSize) -> EmulatorOutput {
        let (rows, cols) = nonzero(size);
        self.parser.set_size(rows, cols);
        self.feed(&[])
    }

    pub(crate) fn size(&self) -> TerminalSize {
        let (rows, cols) = self.parser.screen().size();
        TerminalSize { cols: cols.get(), rows: rows.get() }
    }

    pub(crate) fn title(&self) -> &str {
        &self.parser.callbacks().title
    }

    pub(crate) fn status(&self) -> Option<&Status> {
        self.parser.callbacks().status.as_ref()
    }

    pub(crate) fn bracketed_paste(&self) -> bool {
        self.parser.screen().bracketed_paste()
    }

    pub(crate) fn cursor_row(&self) -> usize {
        usize::from(self.parser.screen().cursor_position().0)
    }

    /// Whether the rows of the screen from this one on contain characters that [`Self::rows`] leaves out.
    pub(crate) fn has_hidden_characters(&self, first_row: usize) -> bool {
        let mut rows = self.parser.screen().rows(0, self.size().cols).skip(first_row);
        rows.any(|row| row.chars().any(althing_text::sanitize::is_hidden))
    }

    pub(crate) fn rows(&self) -> Vec<ScreenRow> {
        let screen = self.parser.screen();
        let clean = |(row, number): (String, u16)| {
            let shown: String =
                row.chars().filter(|letter| althing_text::sanitize::is_safe(*letter)).collect();
            ScreenRow::new(shown, screen.row_wrapped(number))
        };
        screen.rows(0, self.size().cols).zip(0..).map(clean).collect()
    }

    pub(crate) fn cursor_view(&self) -> CursorView {
        let (screen, cols) = (self.parser.screen(), self.size().cols);
        let (row, col) = screen.cursor_position();
        let text = |row: u16, cols: std::ops::Range<u16>| -> String {
            let cells = cols.filter_map(|col| screen.cell(row, col));
            let shown = cells.filter(|cell| !cell.is_wide_continuation()).map(|cell| match cell.contents() {
                "" => " ",
                text => text,
            });
            shown.flat_map(str::chars).filter(|letter| althing_text::sanitize::is_safe(*letter)).collect()
        };
        let mut lines = vec![String::new()];
        let push = |lines: &mut Vec<String>, piece: &str, wraps: bool| {
            if let Some(line) = lines.last_mut() {
                line.push_str(piece);
            }
            if !wraps {
                lines.push(String::new());
            }
        };
        for above in 0..row {
            push(&mut lines, &text(above, 0..cols), screen.row_wrapped(above));
        }
        push(&mut lines, &text(row, 0..col.min(cols)), true);
        let before = lines.pop().unwrap_or_default();
        let mut after = vec![String::new()];
        push(&mut after, &text(row, col.min(cols)..cols), screen.row_wrapped(row));
        for below in row.saturating_add(1)..self.size().rows {
            push(&mut after, &text(below, 0..cols), screen.row_wrapped(below));
        }
        let trimmed = |lines: Vec<String>| lines.iter().map(|line| line.trim_end().to_owned()).collect();
        let is_alternate = screen.alternate_screen();
        CursorView { above: trimmed(lines), before, after: trimmed(after), is_alternate }
    }

    pub(crate) fn snapshot(&self) -> Screen {
        let (screen, size) = (self.parser.screen(), self.size());
        let rows = (0..size.rows).map(|row| {
            let mut cells: Vec<ScreenCell> =
                (0..size.cols).map(|col| screen.cell(row, col).map(cell).unwrap_or_default()).collect();
            let blank = cells.iter().rev().take_while(|cell| is_blank(cell)).count();
            cells.truncate(cells.len() - blank);
            cells
        });
        let (row, col) = screen.cursor_position();
        Screen {
            cols: size.cols,
            rows: rows.collect(),
            cursor: (!screen.hide_cursor()).then_some((col.min(size.cols.saturating_sub(1)), row)),
            title: self.title().to_owned(),
            bracketed_paste: screen.bracketed_paste(),
            application_cursor: screen.application_cursor(),
        }
    }
}

fn unfinished(bytes: &[u8]) -> usize {
    for (n, byte) in (1..=3).zip(bytes.iter().rev()) {
        let whole = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if n < whole { n } else { 0 };
    }
    0
}

fn nonzero(size: TerminalSize) -> (NonZeroU16, NonZeroU16) {
    let at_least_one = |count: u16| NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN);
    (at_least_one(size.rows), at_least_one(size.cols))
}

fn cell(cell: &vt100::Cell) -> ScreenCell {
    let text: String =
        cell.contents().chars().filter(|letter| althing_text::sanitize::is_safe(*letter)).collect();
    let is_second_half = cell.is_wide_continuation();
    let text = if text.is_empty() && !is_second_half { " ".to_owned() } else { text };
    ScreenCell {
        text,
        fg: color(cell.fgcolor()),
        bg: color(cell.bgcolor()),
        bold: cell.bold(),
        dim: cell.dim(),
        italic: cell.italic(),
        underline: cell.underline(),
        inverse: cell.inverse(),
    }
}

fn is_blank(cell: &ScreenCell) -> bool {
    cell.text == " " && cell.bg == ScreenColor::Default && !cell.inverse && !cell.underline
}

fn color(color: vt100::Color) -> ScreenColor {
    match color {
        vt100::Color::Default => ScreenColor::Default,
        vt100::Color::Idx(index) => ScreenColor::Indexed(index),
        vt100::Color::Rgb(red, green, blue) => ScreenColor::Rgb(red, green, blue),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_splits_a_character_loses_no_text() {
        let text = "e\u{301}H\u{301}é\x1b[1m日本語👩x\u{9b}2Cy".as_bytes();
        let mut whole = Emulator::new(TerminalSize { cols: 40, rows: 2 });
        whole.feed(text);
        for first in 1..text.len() {
            for second in first..text.len() {
                let mut cut = Emulator::new(TerminalSize { cols: 40, rows: 2 });
                for piece in [&text[..first], &text[first..second], &text[second..]] {
                    cut.feed(piece);
                }
                assert_eq!(cut.snapshot(), whole.snapshot(), "cut at {first} and {second}");
            }
        }
    }
}
