//! The terminal's replies to queries of the program, where supported CLI agents need a reply to continue. Queries for
//! the clipboard, the contents of the screen and the title are never answered, nor are queries for the kitty keyboard
//! protocol, because attached users type in the plain encoding.

use super::emulator::ScreenRow;
use super::status::{self, Status, StatusMessage};
use std::fmt;
use vt100::Screen;

/// The maximum size of the replies that are not yet written back, in bytes; further replies are dropped.
const MOST: usize = 16 * 1024;
const LONGEST_TITLE: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct TerminalCallbacks {
    pub(crate) answers: Vec<u8>,
    pub(crate) title: String,
    pub(crate) status: Option<Status>,
    pub(crate) left: Vec<ScreenRow>,
    /// Carries attributes from row to row while rows are captured.
    capture: vt100::capture::BasicFormattedCaptureState,
}

impl TerminalCallbacks {
    fn answer(&mut self, bytes: &[u8]) {
        if self.answers.len() + bytes.len() <= MOST {
            self.answers.extend_from_slice(bytes);
        }
    }

    /// Answers DECRQM, the query for the state of a mode: 1 means set, 2 reset, 0 unknown.
    fn mode(&mut self, screen: &Screen, mode: u16) {
        let set = match mode {
            1 => Some(screen.application_cursor()),
            25 => Some(!screen.hide_cursor()),
            47 | 1049 => Some(screen.alternate_screen()),
            2004 => Some(screen.bracketed_paste()),
            _ => None,
        };
        let value = set.map_or(0, |set| if set { 1 } else { 2 });
        self.answer(format!("\x1b[?{mode};{value}$y").as_bytes());
    }
}

impl vt100::Callbacks for TerminalCallbacks {
    fn set_window_title(&mut self, _: &mut Screen, title: &[u8]) {
        let title = super::sanitize_line::sanitize_line(&String::from_utf8_lossy(title), LONGEST_TITLE);
        title.trim().clone_into(&mut self.title);
    }

    fn unhandled_csi(
        &mut self,
        screen: &mut Screen,
        first: Option<u8>,
        second: Option<u8>,
        params: &[&[u16]],
        letter: char,
    ) {
        let param = params.first().and_then(|param| param.first()).copied().unwrap_or(0);
        let (row, col) = screen.cursor_position();
        let (row, col) = (u32::from(row) + 1, u32::from(col) + 1);
        match (first, second, letter, param) {
            (None, None, 'c', 0) => self.answer(b"\x1b[?62;22c"),
            (Some(b'>'), None, 'c', 0) => self.answer(b"\x1b[>1;10;0c"),
            (Some(b'>'), None, 'q', 0) => {
                self.answer(concat!("\x1bP>|althing(", env!("CARGO_PKG_VERSION"), ")\x1b\\").as_bytes());
            }
            (None, None, 'n', 5) => self.answer(b"\x1b[0n"),
            (None, None, 'n', 6) => self.answer(format!("\x1b[{row};{col}R").as_bytes()),
            (Some(b'?'), None, 'n', 6) => self.answer(format!("\x1b[?{row};{col}R").as_bytes()),
            (Some(b'?'), None, 'n', 996) => self.answer(b"\x1b[?997;1n"),
            (Some(b'?'), Some(b'$'), 'p', mode) => self.mode(screen, mode),
            (None, None, 't', 18) => {
                let (rows, cols) = screen.size();
                self.answer(format!("\x1b[8;{rows};{cols}t").as_bytes());
            }
            _ => {}
        }
    }

    fn unhandled_osc(&mut self, _: &mut Screen, params: &[&[u8]]) {
        match params {
            [b"10", b"?", ..] => self.answer(b"\x1b]10;rgb:d8d8/d8d8/d8d8\x1b\\"),
            [b"11", b"?", ..] => self.answer(b"\x1b]11;rgb:1818/1818/1818\x1b\\"),
            [b"7501", payload, ..] => match status::read(payload) {
                Some(StatusMessage::Query) => self.answer(b"\x1b]7501;?\x1b\\"),
                Some(StatusMessage::Status(status)) => self.status = Some(status),
                Some(StatusMessage::Clear) => self.status = None,
                None => {}
            },
            _ => {}
        }
    }

    fn on_scroll(&mut self, row: vt100::capture::RowContents<'_>, alternate_screen: bool) {
        if alternate_screen {
            return;
        }
        let mut formatted = String::new();
        let _ = row.write_formatted_basic(&mut formatted, &mut self.capture);
        let plain = vt100::capture::basic_formatted_to_plain(&formatted);
        let text: String =
            plain.flat_map(str::chars).filter(|letter| althing_text::sanitize::is_safe(*letter)).collect();
        // The row does not tell whether its line continues in the next row. If the line ends here, what vt100 would
        // write next is a line break.
        let mut next = FirstLetter(None);
        let _ = row.write_formatted_basic(&mut next, &mut self.capture.clone());
        self.left.push(ScreenRow::new(text, next.0 != Some('\n')));
    }
}

struct FirstLetter(Option<char>);

impl fmt::Write for FirstLetter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = text.chars().next();
        if self.0.is_some() { Err(fmt::Error) } else { Ok(()) }
    }
}
