//! Copying from the screen: in tmux with its default settings, and a text that is longer than terminals take.

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
