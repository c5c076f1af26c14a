//! Converts terminal output into plain text, incrementally: removes escape sequences and backspaced characters, keeps
//! a redrawn line once in its last form, and replaces invalid bytes by `�`. The current line is held back until it
//! ends, because it may still be redrawn.

mod scan;

use scan::{COPY, Step, copy_colored, plain_length, skip_string};

/// A line of more bytes is returned before it ends.
const LONGEST_LINE: usize = 64 * 1024;
/// If a string sequence (OSC, DCS and the like) has not ended after this many bytes, what follows is treated as text.
const LONGEST_STRING: usize = 1024 * 1024;
const MOST_SPACES: u32 = 500;

/// Cleans one stream.
#[derive(Debug, Default)]
pub struct Cleaner {
    /// Clean text: first what the last call returned (up to `given`), then what is held back.
    text: String,
    given: usize,
    state: EscapeState,
    cut: Vec<u8>,
    /// Whether a carriage return was read, after which the next printed character replaces the line.
    returned: bool,
    /// Whether the beginning of the current line was already returned and cannot be replaced.
    line_started: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EscapeState {
    #[default]
    Text,
    Escape,
    /// In a control sequence (CSI): its first parameter, and whether that may still grow.
    Control {
        number: u32,
        more: bool,
    },
    Command(usize),
    String(usize),
    Ending,
}

impl Cleaner {
    /// Cleans more output and returns the lines that are complete, and the current line if it is too long to be held
    /// back.
    pub fn push<'a>(&'a mut self, bytes: &[u8]) -> &'a str {
        self.forget();
        let mut copy = [0; COPY];
        let mut rest = self.finish_cut(bytes);
        while !rest.is_empty() {
            rest = match self.state {
                EscapeState::Text => self.plain(rest, &mut copy),
                EscapeState::Escape => self.escape(rest),
                EscapeState::Control { number, more } => self.control(rest, number, more),
                EscapeState::Command(length) => self.string(rest, length, true),
                EscapeState::String(length) => self.string(rest, length, false),
                EscapeState::Ending => self.ending(rest),
            };
        }
        let held = memchr::memrchr(b'\n', self.text.as_bytes()).map_or(0, |at| at + 1);
        self.given = if self.text.len() - held > LONGEST_LINE { self.text.len() } else { held };
        self.take_given()
    }

    /// Returns the line that is held back. Call it when no output comes for a while, and at the end.
    pub fn flush(&mut self) -> &str {
        self.forget();
        self.given = self.text.len();
        self.take_given()
    }

    /// Whether a line is held back.
    pub fn holds(&self) -> bool {
        self.text.len() > self.given
    }

    fn take_given(&mut self) -> &str {
        if self.given > 0 {
            self.line_started = !self.text.get(..self.given).is_some_and(|text| text.ends_with('\n'));
        }
        self.text.get(..self.given).unwrap_or_default()
    }

    fn forget(&mut self) {
        if self.given >= self.text.len() {
            self.text.clear();
        } else {
            self.text.drain(..self.given);
        }
        self.given = 0;
    }

    /// Processes the plain and colored text at the beginning or, if there is none, one special byte or control
    /// sequence. Returns the bytes that follow.
    fn plain<'b>(&mut self, bytes: &'b [u8], copy: &mut [u8; COPY]) -> &'b [u8] {
        if !self.returned {
            let (read, copied) = copy_colored(bytes, copy);
            if read > 0 {
                let text = copy.get(..copied).and_then(|copy| std::str::from_utf8(copy).ok());
                self.text.push_str(text.unwrap_or_default());
                let rest = bytes.get(read..).unwrap_or_default();
                return self.print(rest, plain_length(rest));
            }
        }
        let length = plain_length(bytes);
        if length > 0 {
            return self.print(bytes, length);
        }
        let Some((byte, rest)) = bytes.split_first() else { return bytes };
        match byte {
            b'\x1b' => match rest.split_first() {
                Some((b'[', rest)) => return self.control(rest, 0, true),
                _ => self.state = EscapeState::Escape,
            },
            b'\r' => self.returned = true,
            b'\x08' => self.erase_character(),
            // The first byte of U+0080 to U+00BF, which include control characters.
            0xc2 => match rest.split_first() {
                None => self.cut.push(*byte),
                Some((control @ 0x80..=0x9f, rest)) => {
                    self.start_c1_sequence(*control);
                    return rest;
                }
                Some((0xa0..=0xbf, _)) => return self.print(bytes, 2),
                Some(_) => self.push_replacement(),
            },
            _ => {}
        }
        rest
    }

    /// Prints the first `length` bytes, whose only ASCII control characters are newlines and tabs. Stops after an
    /// 8-bit control character, and returns the bytes that follow.
    fn print<'b>(&mut self, bytes: &'b [u8], length: usize) -> &'b [u8] {
        if length == 0 {
            return bytes;
        }
        let (run, rest) = bytes.split_at(length);
        if run.first() == Some(&b'\n') {
            // A newline after a carriage return ends the line and does not replace it.
            self.returned = false;
        }
        self.begin_printing();
        let mut run = run;
        loop {
            match std::str::from_utf8(run) {
                Ok(text) => {
                    self.text.push_str(text);
                    return rest;
                }
                Err(error) => {
                    let (good, bad) = run.split_at(error.valid_up_to());
                    self.text.push_str(std::str::from_utf8(good).unwrap_or_default());
                    let Some(length) = error.error_len() else {
                        // The rest of the character can only follow if this is the end of the read.
                        if rest.is_empty() {
                            self.cut.extend_from_slice(bad);
                        } else {
                            self.text.push(char::REPLACEMENT_CHARACTER);
                        }
                        return rest;
                    };
                    let (wrong, after) = bad.split_at(length);
                    match wrong {
                        // Not valid UTF-8 here, so it is an 8-bit control character.
                        [control @ 0x80..=0x9f] => {
                            self.start_c1_sequence(*control);
                            let left = after.len() + rest.len();
                            return bytes.get(bytes.len() - left..).unwrap_or_default();
                        }
                        _ => self.text.push(char::REPLACEMENT_CHARACTER),
                    }
                    run = after;
                }
            }
        }
    }

    fn finish_cut<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let mut rest = bytes;
        while !self.cut.is_empty() {
            let Some((byte, after)) = rest.split_first() else { return rest };
            let mut whole = std::mem::take(&mut self.cut);
            whole.push(*byte);
            match (std::str::from_utf8(&whole), whole.as_slice()) {
                (Ok(_), [0xc2, control @ 0x80..=0x9f]) => self.start_c1_sequence(*control),
                (Ok(text), _) => {
                    self.begin_printing();
                    self.text.push_str(text);
                }
                (Err(error), _) if error.error_len().is_none() => self.cut = whole,
                // The character is incomplete; the current byte is processed on its own.
                (Err(_), _) => {
                    self.push_replacement();
                    return rest;
                }
            }
            rest = after;
        }
        rest
    }

    fn start_c1_sequence(&mut self, control: u8) {
        self.state = match control {
            0x9b => EscapeState::Control { number: 0, more: true },
            0x9d => EscapeState::Command(0),
            0x90 | 0x98 | 0x9e | 0x9f => EscapeState::String(0),
            _ => EscapeState::Text,
        };
    }

    fn escape<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let Some((byte, rest)) = bytes.split_first() else { return bytes };
        self.state = match byte {
            b'[' => EscapeState::Control { number: 0, more: true },
            b']' => EscapeState::Command(0),
            b'P' | b'X' | b'^' | b'_' => EscapeState::String(0),
            0x20..=0x2f | 0x1b => EscapeState::Escape,
            0x30..=0x7e => EscapeState::Text,
            // A byte that is not part of an escape sequence keeps its usual meaning.
            _ => {
                self.state = EscapeState::Text;
                return bytes;
            }
        };
        rest
    }

    fn control<'b>(&mut self, bytes: &'b [u8], mut number: u32, mut more: bool) -> &'b [u8] {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b'0'..=b'9' if more => {
                    number = number.saturating_mul(10).saturating_add(u32::from(byte - b'0'));
                }
                b';' | b':' => more = false,
                0x20..=0x3f => {}
                0x40..=0x7e => {
                    self.state = EscapeState::Text;
                    self.act(*byte, number);
                    return bytes.get(at + 1..).unwrap_or_default();
                }
                _ => {
                    self.state = EscapeState::Text;
                    return bytes.get(at..).unwrap_or_default();
                }
            }
        }
        self.state = EscapeState::Control { number, more };
        &[]
    }

    fn act(&mut self, what: u8, number: u32) {
        match what {
            // Programs that draw on the screen often move the cursor to the right instead of writing spaces.
            b'C' => {
                self.begin_printing();
                let spaces = number.clamp(1, MOST_SPACES);
                self.text.extend(std::iter::repeat_n(' ', spaces as usize));
            }
            b'G' if number <= 1 => self.returned = true,
            b'K' if number == 2 || self.returned => {
                self.erase_line();
                self.returned = false;
            }
            // The cursor moves to another line, or the screen is erased (`J`).
            b'A' | b'B' | b'E' | b'F' | b'H' | b'd' | b'f' | b'J' if !self.line().is_empty() => {
                self.text.push('\n');
                self.returned = false;
            }
            _ => {}
        }
    }

    fn string<'b>(&mut self, bytes: &'b [u8], length: usize, is_command: bool) -> &'b [u8] {
        let (step, skipped) = skip_string(bytes, is_command);
        let length = length + skipped;
        self.state = match step {
            Step::Ends => EscapeState::Text,
            Step::Escape => EscapeState::Ending,
            Step::Inside if length > LONGEST_STRING => EscapeState::Text,
            Step::Inside if is_command => EscapeState::Command(length),
            Step::Inside => EscapeState::String(length),
        };
        bytes.get(skipped..).unwrap_or_default()
    }

    /// After ESC in a string sequence, a backslash ends the string; anything else begins a new sequence.
    fn ending<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        if let Some((b'\\', rest)) = bytes.split_first() {
            self.state = EscapeState::Text;
            rest
        } else {
            self.state = EscapeState::Escape;
            bytes
        }
    }

    fn push_replacement(&mut self) {
        self.begin_printing();
        self.text.push(char::REPLACEMENT_CHARACTER);
    }

    fn begin_printing(&mut self) {
        if std::mem::take(&mut self.returned) {
            self.erase_line();
        }
    }

    fn line(&self) -> &str {
        let start = memchr::memrchr(b'\n', self.text.as_bytes()).map_or(0, |at| at + 1);
        self.text.get(start..).unwrap_or_default()
    }

    fn erase_line(&mut self) {
        let length = self.line().len();
        let starts_here = length == self.text.len();
        self.text.truncate(self.text.len() - length);
        if starts_here && self.line_started {
            // The line's beginning was already returned, so the replacement starts a new line.
            self.text.push('\n');
            self.line_started = false;
        }
    }

    fn erase_character(&mut self) {
        if !self.line().is_empty() {
            self.text.pop();
        }
    }
}

/// Cleans a complete text.
pub fn clean(text: &str) -> String {
    let mut cleaner = Cleaner::default();
    let mut clean = cleaner.push(text.as_bytes()).to_owned();
    clean.push_str(cleaner.flush());
    clean
}

#[cfg(test)]
mod tests;
