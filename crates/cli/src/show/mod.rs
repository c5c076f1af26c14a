//! Everything printed for people: failures, notices, progress, the answer. Text from agents is sanitized before it
//! reaches a terminal.

mod changes;
mod live;
mod plain;

pub use changes::diff;
pub use live::LiveProgress;
pub use plain::PlainProgress;

use althing_app::Failure;
use althing_app::secrets::mask;
use althing_config::{ConfigReport, Style};
use althing_text::sanitize;
use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

/// Messages that are held back while the screen is open.
static HELD_NOTICES: Mutex<Option<String>> = Mutex::new(None);

/// While this value exists, messages are held back, because the terminal shows the screen or is about to show it.
/// Dropping the value prints the messages.
pub struct HeldNotices {
    _private: (),
}

/// Starts holding back messages.
pub fn hold_notices() -> HeldNotices {
    HELD_NOTICES.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
    HeldNotices { _private: () }
}

impl HeldNotices {
    /// Takes the messages that were held back so far, for the screen to show.
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

/// Prints a message on stderr and logs it. A closed stderr is ignored.
pub fn notice(text: &str) {
    tracing::info!(text, "said");
    write_notice(text);
}

/// Prints a message on stderr without logging it: events of a session are in the session's own log.
fn write_notice(text: &str) {
    let mut line = sanitize::output(&mask(text)).into_owned();
    line.push('\n');
    if let Some(held) = HELD_NOTICES.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        held.push_str(&line);
        return;
    }
    // The line is one write, because stderr is unbuffered and other programs may write to it too.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Prints output on stdout, sanitized if stdout is a terminal. Write errors are ignored, so a closed pipe is no failure.
pub fn print(text: &str) {
    write_stdout(&if std::io::stdout().is_terminal() { sanitize::output(text) } else { text.into() });
}

/// Prints JSON on stdout. Write errors are ignored, so a closed pipe is no failure.
pub fn print_json(json: &str) {
    write_stdout(&json_for_stdout(json));
}

/// JSON as it may be written to stdout: on a terminal, characters that control or confuse the terminal are escaped, which
/// does not change the value.
pub fn json_for_stdout(json: &str) -> Cow<'_, str> {
    if std::io::stdout().is_terminal() { sanitize::json(json) } else { Cow::Borrowed(json) }
}

fn write_stdout(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints a secret on stderr, unmasked and unlogged, for the user who asked for it.
pub fn print_secret_notice(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints a failure with its hints.
pub fn failure(failure: &Failure) {
    if let Some(report) = &failure.report {
        problems(report);
    }
    notice(&format!("althing: {}", failure.message));
    for hint in &failure.hints {
        notice(&format!("  hint: {hint}"));
    }
}

/// Prints all problems of a config on stderr.
pub fn problems(report: &ConfigReport) {
    let color =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let style = if color { Style::Color } else { Style::Plain };
    // The text is not sanitized, to keep the renderer's colors; quoted source lines are already free of control
    // characters.
    let _ = write!(std::io::stderr(), "{}", mask(&report.render(style)));
}
