//! Everything that is written to stdout. On a terminal, text is sanitized, and characters that control or confuse the
//! terminal are escaped in JSON, which does not change the value.
//!
//! A closed pipe is no failure: the reader has seen enough. Any other error is reported, so that a script never takes
//! missing output for success.

use althing_app::Failure;
use althing_text::sanitize;
use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::sync::{Mutex, PoisonError};

/// The first error of `print`, `print_json` or `print_generated`.
static WRITE_ERROR: Mutex<Option<io::Error>> = Mutex::new(None);

pub fn print(text: &str) {
    note(write_answer(text));
}

pub fn print_json(json: &str) {
    note(write_json_line(json));
}

/// Prints text that is not sanitized, because Althing generated it: completions and the manual page.
pub fn print_generated(bytes: &[u8]) {
    note(write(bytes));
}

/// The failure of `print`, `print_json` or `print_generated`, if one of them failed.
pub fn stdout_failure() -> Option<Failure> {
    let error = WRITE_ERROR.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    Some(Failure::usage(format!("the output could not be written to stdout: {error}")))
}

pub fn write_answer(text: &str) -> io::Result<()> {
    let text = if io::stdout().is_terminal() { super::sanitized(text) } else { Cow::Borrowed(text) };
    write(format!("{text}\n").as_bytes())
}

pub fn write_json_line(json: &str) -> io::Result<()> {
    let json = if io::stdout().is_terminal() { sanitize::json(json) } else { Cow::Borrowed(json) };
    write(format!("{json}\n").as_bytes())
}

pub fn copy_messages(messages: impl Read) {
    let mut messages = BufReader::with_capacity(16 * 1024, messages);
    if io::stdout().is_terminal() {
        let mut line = Vec::new();
        while matches!(messages.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line);
            if write(sanitize::json(&text).as_bytes()).is_err() {
                return;
            }
            line.clear();
        }
        return;
    }
    while let Ok(bytes @ [_, ..]) = messages.fill_buf() {
        let mut out = io::stdout().lock();
        if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
            return;
        }
        let read = bytes.len();
        messages.consume(read);
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn note(written: io::Result<()>) {
    if let Err(error) = written {
        WRITE_ERROR.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}
