//! `notify` in a config: the user's own program and address hear of questions and ended runs while the terminal does not
//! have the focus; what a found config names hears nothing.

use althing_testkit::{Action, RecordedRequest, Reply, Script, Terminal, wait};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use super::support::{Fixture, LIMIT, Team, althing};

/// What a terminal sends when its window loses the focus.
const FOCUS_LOST: &str = "\x1b[O";

/// A conversation whose chat agent proposes a run for every message; `team` is written to this file.
fn fixture(file: &str, more: impl FnOnce(&Fixture) -> Value) -> Fixture {
    let talker = Action::with(|request: &RecordedRequest| {
        if request.messages().iter().any(|message| message["role"] == "tool") {
            return Reply::text("Reported.");
        }
        Reply::call("launch_run", &json!({"task": "Paint it", "agent_mode": "single", "refinement": false}))
    });
    let fixture = Fixture::new(1, Script::parliament().on("talker").always(talker));
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let team = Team::on(&base, 1).rule("interactive_mode", json!({"backend": backend}));
    let mut config: Value = serde_json::from_str(&team.text()).unwrap();
    if let Some(more) = more(&fixture).as_object() {
        config.as_object_mut().unwrap().extend(more.clone());
    }
    fixture.althing.file(file, config.to_string());
    fixture
}

/// A program that appends its arguments and its stdin to `heard`, and that file.
fn listener(fixture: &Fixture) -> (PathBuf, PathBuf) {
    let dir = fixture.althing.home_dir();
    let (program, heard) = (dir.join("tell-me"), dir.join("heard"));
    std::fs::write(
        &program,
        format!("#!/bin/sh\nprintf '%s %s\\n' \"$*\" \"$(cat)\" >> {}\n", heard.display()),
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (program, heard)
}

fn heard(file: &PathBuf) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// Sends a message without the focus, and waits until the terminal itself was notified of the question.
fn asks_without_focus(terminal: &mut Terminal) {
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys_at_once(FOCUS_LOST).keys("Go\r");
    terminal.wait_for("Launch this run?", LIMIT);
    wait::until(LIMIT, || String::from_utf8_lossy(&terminal.raw()).contains("\x1b]9;"));
}

#[test]
fn the_users_program_hears_of_a_question_and_of_the_end_of_a_run() {
    let fixture = fixture("team.yaml", |_| json!({}));
    let (program, file) = listener(&fixture);
    // The team comes from another config; `notify` comes from the user's own.
    let own = json!({
        "agents": [{"id": "a", "backend": {"type": "offline"}}],
        "notify": {"command": [program, "--title"]},
    });
    let dir = fixture.althing.home_dir().join(".config/althing");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.yaml"), own.to_string()).unwrap();
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(100, 30);
    asks_without_focus(&mut terminal);
    let told = concat!(
        "--title Althing: Launch this run? Paint it ",
        r#"{"text":"Althing: Launch this run? Paint it"}"#
    );
    wait::until(LIMIT, || heard(&file).lines().any(|line| line == told));
    terminal.keys("\r");
    wait::until(LIMIT, || {
        heard(&file).lines().any(|line| line.contains("Complete") && line.contains("Paint it"))
    });
}

/// The listener as `notify` of a config that is named with `--config`.
fn with_listener() -> (Fixture, PathBuf) {
    let mut file = None;
    let fixture = fixture("team.yaml", |fixture| {
        let (program, heard) = listener(fixture);
        file = Some(heard);
        json!({"notify": {"command": [program]}})
    });
    (fixture, file.unwrap())
}

fn bells(terminal: &Terminal) -> usize {
    String::from_utf8_lossy(&terminal.raw()).matches('\x07').count()
}

#[test]
fn without_notifications_of_the_terminal_the_users_program_is_still_told_and_the_bell_rings() {
    let (fixture, file) = with_listener();
    let command = fixture.althing.new_command().args(["--config", "team.yaml"]);
    // Notifications may contain byte 7. Without them, every byte 7 is a bell.
    let command = command.env("ALTHING_NOTIFY", "0").env("ALTHING_THEME", "dark");
    let mut terminal = command.terminal(100, 30);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys_at_once(FOCUS_LOST).keys("Go\r");
    terminal.wait_for("Launch this run?", LIMIT);
    wait::until(LIMIT, || heard(&file).contains("Launch this run? Paint it"));
    wait::until(LIMIT, || bells(&terminal) == 1);
    terminal.keys("\r");
    wait::until(LIMIT, || heard(&file).contains("Complete"));
    wait::until(LIMIT, || bells(&terminal) == 2);
    assert!(!String::from_utf8_lossy(&terminal.raw()).contains("\x1b]9;"));
}

#[test]
fn while_the_focus_is_unknown_the_users_program_is_told_if_no_key_is_pressed() {
    let (fixture, file) = with_listener();
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(100, 30);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("Go\r");
    terminal.wait_for("Launch this run?", LIMIT);
    wait::until(LIMIT, || heard(&file).contains("Launch this run? Paint it"));
    // A key within some seconds after the end of the run means that the user is there.
    terminal.keys("\r");
    terminal.wait_for("Reported.", LIMIT);
    terminal.keys("x");
    let told_later = wait::holds_within(Duration::from_secs(12), || heard(&file).contains("Complete"));
    assert!(!told_later, "{}", heard(&file));
    assert!(
        !String::from_utf8_lossy(&terminal.raw()).contains("\x1b]9;"),
        "the terminal is asked for nothing"
    );
}

#[test]
fn the_end_of_a_workflow_is_reported() {
    let althing = althing();
    let go = althing.work_dir().join("go");
    let wait_for_go = format!("while [ ! -e {} ]; do sleep 0.02; done", go.display());
    let task = json!({"id": "wait", "agent": "command", "command": ["sh", "-c", wait_for_go],
        "executionMode": "headless", "prompt": ""});
    let stages = json!([{"name": "only", "tasks": [task]}]);
    althing.file("flow.yaml", json!({"name": "release", "goal": "Ship it", "stages": stages}).to_string());
    let command = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline", "--unconfined"]);
    let mut terminal = command.terminal(100, 30);
    terminal.wait_for("Status: Running", LIMIT);
    terminal.keys_at_once(FOCUS_LOST);
    std::fs::write(&go, "").unwrap();
    terminal.wait_for("Status: Done", LIMIT);
    wait::until(LIMIT, || {
        let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
        raw.contains("\x1b]9;Althing: ") && raw.contains(": release\x07")
    });
}

#[test]
fn a_webhook_gets_the_text_as_json() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("http://{address}/hook");
    let fixture = fixture("team.yaml", |_| json!({"notify": {"webhook": url}}));
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(100, 30);
    asks_without_focus(&mut terminal);
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut request = String::new();
    let mut bytes = [0; 4096];
    while !request.contains("Paint it") {
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "the request ended: {request}");
        request += &String::from_utf8_lossy(&bytes[..count]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    assert!(request.starts_with("POST /hook ") && request.contains("application/json"), "{request}");
    assert!(request.contains(r#"{"text":"Althing: Launch this run? Paint it"}"#), "{request}");
}

#[test]
fn a_found_config_notifies_nobody_even_if_it_is_trusted() {
    let mut file = None;
    let fixture = fixture("althing.yaml", |fixture| {
        let (program, heard) = listener(fixture);
        file = Some(heard);
        json!({"notify": {"command": [program]}})
    });
    let mut terminal = fixture.althing.new_command().args(["--trust"]).terminal(100, 30);
    asks_without_focus(&mut terminal);
    terminal.keys("\r");
    terminal.wait_for("Reported.", LIMIT);
    wait::until(LIMIT, || String::from_utf8_lossy(&terminal.raw()).matches("\x1b]9;").count() >= 2);
    let notice = "`notify` has no effect in a config that was found";
    assert!(
        terminal.screen().contains("no effect") || String::from_utf8_lossy(&terminal.raw()).contains(notice)
    );
    assert_eq!(heard(&file.unwrap()), "", "the program of a found config was started");
}
