//! Everything printed for people: failures, notices, progress, the answer. Text from agents is sanitized before it
//! reaches a terminal.
//!
//! In this crate only this module and its submodules write to stdout and stderr; `protocol/tests/house.rs` fails for
//! any other file.

mod changes;
mod display;
mod live;
mod plain;
mod stdout;

pub use changes::diff;
pub use display::Display;
pub use live::LiveProgress;
pub use plain::PlainProgress;
pub use stdout::{
    copy_messages, print, print_generated, print_json, stdout_failure, write_answer, write_json_line,
};

use althing_app::Failure;
use althing_app::secrets::{mask, mask_own};
use althing_config::{ConfigReport, Style};
use althing_text::sanitize;
use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

static HELD_NOTICES: Mutex<Option<String>> = Mutex::new(None);

/// The path of the working directory, and how it is shown, if it contains line ends or other control characters.
static DIR_OF_MANY_LINES: OnceLock<(String, String)> = OnceLock::new();

/// From now on, the path of this directory adds no lines to what is printed.
pub fn keep_on_one_line(dir: &Path) {
    let path = dir.display().to_string();
    let line = sanitize::visible_line(&path);
    if line != path {
        // Fails only if it is called twice.
        let _ = DIR_OF_MANY_LINES.set((path, line));
    }
}

/// The text as it may be printed on a terminal.
fn sanitized(text: &str) -> Cow<'_, str> {
    match DIR_OF_MANY_LINES.get() {
        Some((path, line)) if text.contains(path) => {
            Cow::Owned(sanitize::output(&text.replace(path, line)).into_owned())
        }
        _ => sanitize::output(text),
    }
}

/// While this value exists, messages are held back, because the screen is open or about to open. Dropping it prints the
/// messages.
pub struct HeldNotices {
    _private: (),
}

pub fn hold_notices() -> HeldNotices {
    HELD_NOTICES.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
    HeldNotices { _private: () }
}

impl HeldNotices {
    /// Takes the messages that were held back so far, so that the screen shows them.
    #[expect(clippy::unused_self, reason = "only the holder may take the messages")]
    pub fn take(&self) -> Vec<String> {
        let mut held = HELD_NOTICES.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_mut().map(std::mem::take).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

impl Drop for HeldNotices {
    fn drop(&mut self) {
        let held = HELD_NOTICES.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = std::io::stderr().write_all(held.unwrap_or_default().as_bytes());
    }
}

/// Prints a message on stderr and logs it. A closed stderr is ignored. Masks only the user's own secrets, because
/// values that a found config or `.env` calls secrets could hide parts of the paths that the message lists. Texts of
/// models and programs in events need no more masking, because they were masked when they were recorded.
pub fn notice(text: &str) {
    tracing::info!(text, "said");
    write_notice(text);
}

/// Prints a line about the progress of a run. It is not logged, because it contains the beginning of the task.
pub fn progress(text: &str) {
    write_notice(text);
}

/// Prints a message without logging it, because the events of a session are in the session's own log.
fn write_notice(text: &str) {
    write_masked(&mask_own(text));
}

/// Prints a question on stderr and logs it. On a terminal, every row that continues a long line is marked.
pub fn question(text: &str) {
    tracing::info!(text, "asked");
    let masked = mask_own(text);
    if std::io::stderr().is_terminal() {
        write_masked(&althing_text::marked_rows(&masked, live::terminal_width()));
    } else {
        write_masked(&masked);
    }
}

fn write_masked(text: &str) {
    let mut line = sanitized(text).into_owned();
    line.push('\n');
    if let Some(held) = HELD_NOTICES.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        held.push_str(&line);
        return;
    }
    // The text is written with one call, because stderr is unbuffered and other programs may write to it too.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Prints usage errors on stderr, and the requested help or version on stdout. The message quotes arguments, so it is
/// masked and sanitized like any other.
pub fn parser_message(error: &clap::Error) {
    let text = error.render().to_string();
    let text = text.strip_suffix('\n').unwrap_or(&text);
    if error.use_stderr() {
        write_notice(text);
    } else {
        print(text);
    }
}

/// Prints a secret on stderr, unmasked and unlogged.
pub fn print_secret_notice(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

pub fn failure(failure: &Failure) {
    if let Some(report) = &failure.report {
        problems(report);
    }
    // The message may quote what a server, program or panic said.
    let say = |text: &str| if failure.is_question { question(text) } else { notice(&mask(text)) };
    say(&format!("althing: {}", failure.message));
    for hint in &failure.hints {
        say(&format!("  hint: {hint}"));
    }
}

pub fn problems(report: &ConfigReport) {
    let color =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let style = if color { Style::Color } else { Style::Plain };
    // The renderer sanitizes every part of the text itself; sanitizing the whole text would remove its colors.
    let _ = write!(std::io::stderr(), "{}", mask_own(&report.render(style)));
}
