//! Takes over the user's terminal and restores it: when the guard is dropped (also if SIGINT, SIGTERM or SIGHUP ends
//! the screen), when any thread panics, and while another program uses the terminal. Restoring twice is harmless.

use crate::host::{NotificationForm, Notifications};
use crate::line;
use crossterm::{cursor, event, execute, terminal};
use std::io::{self, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

static TAKEN: AtomicBool = AtomicBool::new(false);

static MOUSE: AtomicBool = AtomicBool::new(true);

/// Whether a panic occurred. After a panic, the state of the screen is unreliable.
static BROKEN: AtomicBool = AtomicBool::new(false);

static HOOK: Once = Once::new();

/// Notified by a panic, so that the event loop need not wait for a key to notice it.
static PANICKED: Notify = Notify::const_new();

pub async fn panicked() {
    PANICKED.notified().await;
}

#[derive(Debug)]
pub struct TerminalGuard {
    _private: (),
}

impl TerminalGuard {
    /// Takes over the terminal: raw mode, alternate screen, bracketed paste, focus events and, if `mouse`, mouse
    /// capture.
    pub fn acquire(mouse: bool) -> io::Result<Self> {
        MOUSE.store(mouse, Ordering::SeqCst);
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                BROKEN.store(true, Ordering::SeqCst);
                // The terminal is restored first, so that the panic message is readable.
                restore_terminal();
                PANICKED.notify_one();
                before(info);
            }));
        });
        let guard = Self { _private: () };
        guard.reacquire()?;
        Ok(guard)
    }

    /// Takes over the terminal again. Fails if a panic occurred.
    pub fn reacquire(&self) -> io::Result<()> {
        if BROKEN.load(Ordering::SeqCst) {
            return Err(panic_error());
        }
        TAKEN.store(true, Ordering::SeqCst);
        terminal::enable_raw_mode()?;
        execute!(
            io::stdout(),
            terminal::EnterAlternateScreen,
            event::EnableBracketedPaste,
            event::EnableFocusChange,
            cursor::Hide
        )?;
        self.set_mouse(MOUSE.load(Ordering::SeqCst))
    }

    pub fn set_mouse(&self, on: bool) -> io::Result<()> {
        MOUSE.store(on, Ordering::SeqCst);
        if on {
            execute!(io::stdout(), event::EnableMouseCapture)
        } else {
            execute!(io::stdout(), event::DisableMouseCapture)
        }
    }

    pub fn release(&self) {
        restore_terminal();
    }

    /// A panic on any thread restores the terminal, so afterwards we no longer own it.
    pub fn is_owned(&self) -> bool {
        TAKEN.load(Ordering::SeqCst) && !BROKEN.load(Ordering::SeqCst)
    }
}

pub fn panic_error() -> io::Error {
    io::Error::other("an internal error occurred; the session can be resumed")
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Does nothing unless we own the terminal. Every step is tried, even if others fail.
pub fn restore_terminal() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout();
    // A panic may have interrupted a frame. Until its synchronized update ends, the terminal shows no further output.
    let _ = execute!(out, terminal::EndSynchronizedUpdate);
    let _ = execute!(out, event::DisableBracketedPaste);
    let _ = execute!(out, event::DisableFocusChange);
    let _ = execute!(out, event::DisableMouseCapture);
    let _ = execute!(out, terminal::LeaveAlternateScreen);
    let _ = execute!(out, cursor::Show);
    let _ = terminal::disable_raw_mode();
    let _ = out.flush();
}

/// The escape sequence (OSC 52) that asks the terminal to copy a text, and the message that says how much is copied.
pub fn clipboard(text: &str) -> (String, String) {
    /// The maximum size in bytes. Terminals reject longer texts, so they are cut.
    const MOST: usize = 74_000;
    let end = text.floor_char_boundary(MOST);
    let copied = text.get(..end).unwrap_or_default();
    let what = if end < text.len() {
        format!(
            "copied the first {} kB of {} kB: terminals take no more",
            end / 1000,
            text.len().div_ceil(1000)
        )
    } else {
        "copied".into()
    };
    (format!("\x1b]52;c;{}\x07", base64(copied.as_bytes())), what)
}

/// Asks the terminal for its background color (OSC 11).
pub fn send_background_query() -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(b"\x1b]11;?\x1b\\")?;
    out.flush()
}

/// The escape sequence of a notification. The text may come from agents, so it is sanitized and cut.
pub fn notification(how: Notifications, text: &str) -> String {
    let text: String = line::cut(text, 120).chars().filter(|c| *c != ';').collect();
    let sequence = match how.form {
        NotificationForm::Osc9 => format!("\x1b]9;Althing: {text}\x07"),
        NotificationForm::Osc777 => format!("\x1b]777;notify;Althing;{text}\x07"),
        NotificationForm::Osc99 => format!("\x1b]99;;Althing: {text}\x1b\\"),
    };
    if how.in_tmux { format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b")) } else { sequence }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4_usize {
            let index = (word >> (18 - 6 * place)) & 63;
            let letter = LETTERS.get(index as usize).copied().unwrap_or(b'=');
            out.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_contains_no_control_characters_of_its_text() {
        let how = |form, in_tmux| Notifications { form, in_tmux };
        let text = "Launch\x1b]52;c;AAAA\x07 this?\nnow";
        for (how, expected) in [
            (how(NotificationForm::Osc9, false), "\x1b]9;Althing: "),
            (how(NotificationForm::Osc777, false), "\x1b]777;notify;Althing;"),
            (how(NotificationForm::Osc99, false), "\x1b]99;;Althing: "),
            (how(NotificationForm::Osc9, true), "\x1bPtmux;\x1b\x1b]9;Althing: "),
        ] {
            let sequence = notification(how, text);
            let rest = sequence.strip_prefix(expected).unwrap_or_default();
            let body = rest.trim_end_matches(['\x07', '\x1b', '\\']);
            assert!(!body.is_empty() && body.chars().all(|c| !c.is_control() && c != ';'), "{sequence:?}");
        }
    }

    #[test]
    fn the_clipboard_gets_base64_and_nothing_else() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg==");
        assert_eq!(base64(b"fo"), "Zm8=");
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
        assert_eq!(clipboard("\x1b]0;x\x07"), ("\x1b]52;c;G10wO3gH\x07".into(), "copied".into()));
    }
}
