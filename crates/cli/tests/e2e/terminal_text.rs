//! Names of directories, arguments, panic messages and JSON reach a terminal only as text (row S7 of
//! docs/reliability.md).

use althing_testkit::{Althing, Script};
use serde_json::json;

use super::hostile::{HOSTILE, first_terminal_control};
use super::support::{Fixture, LIMIT, althing, run};

fn on_terminal(command: &Althing) -> String {
    let mut terminal = command.clone().env("NO_COLOR", "1").terminal(200, 50);
    terminal.wait(LIMIT);
    String::from_utf8_lossy(&terminal.raw()).replace("\r\n", "\n")
}

#[test]
fn the_name_of_a_directory_with_a_broken_config_reaches_the_terminal_as_text() {
    let name = HOSTILE.replace('/', "");
    for config in ["agents: [", "agents: [{id: a, backend: {type: offline, modle: x}}]\nnobody_knows: 1\n"] {
        let althing = althing();
        althing.file(&format!("{name}/althing.yaml"), config);
        let script = r#"cd "$1" && "$2" --automation task"#;
        let shell =
            althing.program("/bin/sh").args(["-c", script, "sh", &name, env!("CARGO_BIN_EXE_althing")]);
        let shown = on_terminal(&shell);
        assert!(shown.contains("althing.yaml:"), "the problem is shown: {shown:?}");
        assert_eq!(first_terminal_control(&shown), None, "{shown:?}");
    }
}

#[test]
fn arguments_that_are_refused_reach_the_terminal_as_text() {
    let flag = format!("--no{HOSTILE}");
    for args in [
        vec![flag.as_str(), "task"],
        vec!["--orchestrator-timeout", HOSTILE, "task"],
        vec!["sessions", HOSTILE],
        vec!["completions", HOSTILE],
        vec!["config", HOSTILE],
        vec!["--stream-events=x\u{1b}[31m", "task"],
    ] {
        let shown = on_terminal(&althing().args(&args));
        assert!(shown.contains("error") || shown.contains("althing:"), "{args:?}: {shown:?}");
        assert_eq!(first_terminal_control(&shown), None, "{args:?}: {shown:?}");
    }
}

#[test]
fn a_panic_message_reaches_the_terminal_as_text() {
    let fixture = Fixture::new(1, Script::parliament());
    let command = fixture.command(&["task"]).env("ALTHING_TEST_PANIC", format!("session:1:{HOSTILE}"));
    let output = command.spawn().wait(LIMIT).expect_code(2);
    assert!(output.stderr.contains("internal error"), "{}", output.stderr);
    assert_eq!(first_terminal_control(&output.stderr), None, "{:?}", output.stderr);
}

#[test]
fn the_json_of_a_workflow_on_a_terminal_has_no_character_that_controls_it() {
    let althing = althing();
    let prints = "printf 'a\\302\\233b\\342\\200\\256c'";
    let task = json!({"id": "one", "agent": "command", "command": ["sh", "-c", prints], "executionMode": "headless", "prompt": ""});
    let flow = json!({"name": "flow", "stages": [{"name": "one", "tasks": [task]}]});
    althing.file("flow.yaml", flow.to_string());
    let shown =
        on_terminal(&althing.args(["workflow", "run", "flow.yaml", "--offline", "--json", "--automation"]));
    let json = shown.lines().find(|line| line.contains("\"session_id\"")).unwrap_or_default();
    assert!(json.contains("u202e"), "the value is there, escaped: {shown:?}");
    assert_eq!(first_terminal_control(json), None, "{json:?}");
}

#[test]
fn output_that_cannot_be_written_is_an_error_of_every_command() {
    let fixture = Fixture::new(1, Script::parliament());
    fixture.run(&["task"]).expect_code(0);
    let id = fixture.session_id();
    let show = format!("sessions show {id}");
    for args in
        ["sessions", &show, "completions bash", "man", "--help", "--version", "config schema", "agents"]
    {
        let line = format!("{} {args} > /dev/full", env!("CARGO_BIN_EXE_althing"));
        let output =
            fixture.althing.program("/bin/sh").args(["-c", &line]).spawn().wait(LIMIT).expect_code(1);
        assert!(output.stderr.contains("stdout"), "{args}: {}", output.stderr);
        assert!(!output.stderr.contains("internal error"), "{args}: {}", output.stderr);
    }
    run(&fixture.althing, &["sessions"]).expect_code(0);
}
