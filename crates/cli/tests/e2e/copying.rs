//! Copying from the screen: in tmux with its default settings, a text that is longer than terminals take, and a text
//! with control sequences; the same text in the pager.

use std::os::unix::fs::PermissionsExt;

use althing_testkit::{Reply, Script, wait};
use serde_json::json;

use super::support::{Fixture, LIMIT, Team};

fn replies(text: &str) -> Fixture {
    let fixture = Fixture::new(1, Script::parliament().on("talker").always(Reply::text(text)));
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let team = Team::on(&base, 1).rule("interactive_mode", json!({"backend": backend}));
    fixture.althing.file("team.yaml", team.text());
    fixture
}

#[test]
fn in_tmux_with_its_defaults_a_copied_text_is_really_copied() {
    let text = "These words are copied.\n\nAll of them, with \"quotes\" and ünïcode.";
    let fixture = replies(text);
    let command = fixture.althing.new_command().args(["--config", "team.yaml"]);
    let Some(mut tmux) = command.tmux(100, 30) else {
        panic!("tmux is not installed");
    };
    tmux.wait_for("Type a message...", LIMIT);
    tmux.text("hello").press("Enter");
    tmux.wait_for("These words are copied.", LIMIT);
    tmux.wait_for("Status: Idle", LIMIT);
    tmux.text("/copy").press("Enter");
    tmux.wait_for("copied, also to tmux's buffer", LIMIT);
    assert_eq!(tmux.copied(), text);
}

#[test]
fn what_replaces_a_flag_on_the_screen_leaves_no_letter_of_it() {
    let flags = "🇿🇼🇿🇲🇿🇦 ".repeat(8);
    let fixture = replies(&format!("Flags:\n\n{flags}\n\nThe end."));
    let command = fixture.althing.new_command().args(["--config", "team.yaml"]);
    let mut tmux = command.tmux(80, 24).expect("tmux is installed");
    tmux.wait_for("Type a message...", LIMIT);
    tmux.text("hello").press("Enter");
    tmux.wait_for("ZWZMZA ZWZMZA", LIMIT);
    tmux.wait_for("Status: Idle", LIMIT);
    tmux.press("C-t");
    let screen = tmux.wait_for("‹ esc   Tasks", LIMIT);
    assert!(!screen.contains(['Z', 'W']), "{screen}");
}

#[test]
fn a_text_that_is_too_long_for_the_clipboard_is_said_to_be_cut() {
    let text = "word ".repeat(20_000);
    let fixture = replies(&text);
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(100, 30);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("hello\r");
    terminal.wait_for("word word", LIMIT);
    terminal.wait_for("Status: Idle", LIMIT);
    terminal.keys("/copy\r");
    terminal.wait_for("copied the first 74 kB of 100 kB", LIMIT);
    wait::until(LIMIT, || String::from_utf8_lossy(&terminal.raw()).contains("\x1b]52;c;d29yZCB3b3Jk"));
}

/// Ends a bracketed paste and types a command, changes the title and the clipboard, hides the rest.
const HOSTILE: &str = "first\tword\n\x1b[201~touch PWNED\r\u{9b}2J\x1b]0;title\x07\x1b]52;c;AAAA\x07\x1b[8mlast\u{202e}\x08 word";
const HARMLESS: &str = "first\tword\n";

fn has_only_text(text: &str) -> bool {
    let is_text = |c: char| c == '\n' || c == '\t' || !(c.is_control() || c == '\u{202e}');
    text.starts_with(HARMLESS) && text.contains("last") && text.chars().all(is_text)
}

#[test]
fn a_copied_text_contains_no_control_sequence() {
    let fixture = replies(HOSTILE);
    let command = fixture.althing.new_command().args(["--config", "team.yaml"]);
    let Some(mut tmux) = command.tmux(100, 30) else {
        panic!("tmux is not installed");
    };
    tmux.wait_for("Type a message...", LIMIT);
    tmux.text("hello").press("Enter");
    tmux.wait_for("first", LIMIT);
    tmux.wait_for("Status: Idle", LIMIT);
    tmux.text("/copy").press("Enter");
    tmux.wait_for("copied, also to tmux's buffer", LIMIT);
    assert!(has_only_text(&tmux.copied()), "{:?}", tmux.copied());

    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(100, 30);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("hello\r");
    terminal.wait_for("first", LIMIT);
    terminal.wait_for("Status: Idle", LIMIT);
    terminal.keys("\t");
    terminal.wait_for("c copy", LIMIT);
    terminal.keys("c");
    terminal.wait_for("copied", LIMIT);
    let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
    let copied = raw.split("\x1b]52;c;").nth(1).and_then(|rest| rest.split('\x07').next()).unwrap();
    let copied = String::from_utf8(decoded(copied)).unwrap();
    assert!(has_only_text(&copied), "{copied:?}");
}

#[test]
fn the_pager_gets_no_control_sequence() {
    let fixture = replies(HOSTILE);
    let paged = fixture.althing.home_dir().join("paged");
    let pager = fixture.althing.file("../pager", format!("#!/bin/sh\ncat \"$1\" > {}\n", paged.display()));
    std::fs::set_permissions(&pager, PermissionsExt::from_mode(0o755)).unwrap();
    let command = fixture.althing.new_command().args(["--config", "team.yaml"]);
    let mut terminal = command.env("PAGER", pager.to_str().unwrap()).terminal(100, 30);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("hello\r");
    terminal.wait_for("first", LIMIT);
    terminal.wait_for("Status: Idle", LIMIT);
    terminal.keys("\t");
    terminal.wait_for("c copy", LIMIT);
    terminal.keys("o");
    let is_paged = || {
        std::fs::read_to_string(&paged).is_ok_and(|text| text.contains("word\n") || text.ends_with("word"))
    };
    wait::until(LIMIT, is_paged);
    let text = std::fs::read_to_string(&paged).unwrap();
    assert!(has_only_text(&text), "{text:?}");
}

fn decoded(base64: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = base64.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte));
    let (mut bits, mut count, mut bytes) = (0_usize, 0, Vec::new());
    for digit in digits {
        (bits, count) = ((bits << 6 | digit) & 0xffff, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    bytes
}
