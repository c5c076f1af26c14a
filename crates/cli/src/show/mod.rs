//! Everything that is said to people: failures, notes, progress, the answer. Nothing an agent says reaches a terminal
//! as anything but text.

mod changes;
mod live;
mod plain;

pub use changes::diff;
pub use live::Live;
pub use plain::Plain;

use althing_app::Failure;
use althing_app::secrets::mask;
use althing_config::{Report, Style};
use althing_text::sanitize;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

/// What is to be said once the screen is given back.
static HELD: Mutex<Option<String>> = Mutex::new(None);

/// While it lives nothing is said: the terminal is a screen, or is about to be one. Then everything is.
pub struct Hold {
    _private: (),
}

/// From now on nothing is said.
pub fn hold() -> Hold {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
    Hold { _private: () }
}

impl Hold {
    /// What would have been said so far: the screen says it instead.
    #[expect(clippy::unused_self, reason = "only who holds it back may take it")]
    pub fn heard(&self) -> Vec<String> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_mut().map(std::mem::take).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = std::io::stderr().write_all(held.unwrap_or_default().as_bytes());
    }
}

/// One line, or several, on stderr. A stderr that is gone is nobody's to hear.
pub fn say(text: &str) {
    tracing::info!(text, "said");
    put(text);
}

/// The same for what happens in a session, which is in the session's own log and not in the program's.
fn put(text: &str) {
    let mut line = sanitize::output(&mask(text)).into_owned();
    line.push('\n');
    if let Some(held) = HELD.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        held.push_str(&line);
        return;
    }
    // In one piece: stderr is not buffered, and lines of other programs may go there too.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// One line, or several, on stdout: what was asked for. A reader that went away has enough.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// One line on stderr that is a secret, for the one who asked for it.
pub fn say_secret(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Why the program ends.
pub fn failure(failure: &Failure) {
    if let Some(report) = &failure.report {
        problems(report);
    }
    say(&format!("althing: {}", failure.message));
    for hint in &failure.hints {
        say(&format!("  hint: {hint}"));
    }
}

/// Everything that is wrong with a config, on stderr.
pub fn problems(report: &Report) {
    let colour =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let style = if colour { Style::Color } else { Style::Plain };
    // The renderer's own colours must stay; what it quotes was cleaned when it was read.
    let _ = write!(std::io::stderr(), "{}", mask(&report.render(style)));
}
