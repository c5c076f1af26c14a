//! Hints and messages at the widths of small and large windows: key hints lose whole items instead of being cut, and
//! messages to the user wrap.

use althing_testkit::{Althing, Terminal};
use serde_json::Value;

use super::support::{LIMIT, althing};

const UP: &str = "\x1b[A";

fn offline(althing: &Althing, cols: u16, rows: u16) -> Terminal {
    let terminal = althing.new_command().arg("--offline").terminal(cols, rows);
    terminal.wait_for("Type a message...", LIMIT);
    terminal
}

/// The words of a screen, without frames and line breaks.
fn words(screen: &str) -> String {
    let text = screen.replace(['│', '─', '┌', '┐', '└', '┘'], " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The row of the mode bar: at this width, modes are words or letters.
#[track_caller]
fn hint(screen: &str) -> &str {
    let is_bar = |line: &&str| {
        let line = line.trim_start();
        ["Plan · ", "p M R", "p S R", "p m R"].iter().any(|start| line.starts_with(start))
    };
    screen.lines().rev().find(is_bar).unwrap_or_else(|| panic!("no mode bar:\n{screen}")).trim_end()
}

#[track_caller]
fn assert_whole(terminal: &Terminal, kept: &str) {
    let screen = terminal.wait_until(LIMIT, kept, |screen| hint(screen).contains(kept));
    assert!(!hint(&screen).contains('…') && hint(&screen).contains(kept), "{kept}:\n{screen}");
}

#[test]
fn key_hints_lose_whole_items_at_every_width() {
    for cols in [40, 60, 80, 160] {
        let althing = althing();
        let mut terminal = offline(&althing, cols, 24);
        assert_whole(&terminal, "enter send");
        terminal.keys("/");
        assert_whole(&terminal, "esc close");
        terminal.keys("\x15");
        terminal.keys("hello\r");
        terminal.wait_until(LIMIT, "the reply", |screen| {
            screen.contains("You wrote: \"hello\"") && screen.contains("Status: Idle")
        });
        terminal.keys("\t");
        assert_whole(&terminal, "esc back");
        terminal.keys(UP);
        assert_whole(&terminal, "esc back");
        terminal.keys("\r");
        terminal.wait_for("‹ esc", LIMIT);
        assert_whole(&terminal, "esc back");
        terminal.keys("\x1b");
        terminal.wait_gone("‹ esc", LIMIT);
        terminal.keys("\x1b");
        terminal.wait_for("Type a message...", LIMIT);
        terminal.keys("Compare three ways to cache\r");
        terminal.wait_for("Launch this run?", LIMIT);
        assert_whole(&terminal, "esc reject");
        terminal.keys("\r");
        terminal.wait_for("Press Ctrl+O to", LIMIT);
        assert_whole(&terminal, "^C stop");
    }
}

#[test]
fn a_long_message_wraps_instead_of_being_cut() {
    const LOGIN: &str =
        "/login: set the API key of the provider in the environment; `althing agents` shows what is missing";
    for (cols, rows) in [(40, 12), (40, 24), (80, 24), (160, 45)] {
        let althing = althing();
        let mut terminal = offline(&althing, cols, rows);
        terminal.keys("/login");
        terminal.wait_for("› /login", LIMIT);
        terminal.keys("\r");
        let screen = terminal.wait_until(LIMIT, "the whole message", |screen| words(screen).contains(LOGIN));
        assert!(screen.contains("Type a message..."), "the input stays visible:\n{screen}");
        // The next key takes the message away, and the mode bar comes back.
        terminal.keys("x");
        terminal.wait_gone("what is missing", LIMIT);
        terminal.wait_until(LIMIT, "the mode bar", |screen| !hint(screen).is_empty());
    }
}

/// The first `explanation` anywhere in an event.
fn explanation(value: &Value) -> Option<String> {
    match value {
        Value::Object(fields) => {
            let own = fields.get("explanation").and_then(Value::as_str).map(str::to_owned);
            own.or_else(|| fields.values().find_map(explanation))
        }
        Value::Array(values) => values.iter().find_map(explanation),
        _ => None,
    }
}

#[test]
fn the_explanation_of_a_vote_wraps() {
    for (cols, rows) in [(40, 24), (80, 24)] {
        let althing = althing();
        let mut terminal = offline(&althing, cols, rows);
        terminal.keys("Compare three ways to cache\r");
        terminal.wait_for("Launch this run?", LIMIT);
        terminal.keys("\r");
        terminal.wait_for("Press Ctrl+O to", LIMIT);
        let events = althing.events();
        let explanation = events.iter().find_map(explanation).expect("a decision in the log");
        let shown = format!("{}.", words(&explanation));
        terminal.wait_until(LIMIT, &shown, |screen| words(screen).contains(&shown));
    }
}
