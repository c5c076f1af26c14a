//! What ends or discards work is asked about once, in a real terminal: stopping a run, leaving it for another session,
//! leaving the screen, and restoring files. A prefix of such a command does nothing.

use althing_testkit::{Action, Gate, Reply, Script, Terminal};
use serde_json::json;

use super::support::{Fixture, LIMIT, Team, althing, of_type};

const LEAVE: &str = "Leave while agents work?";

/// A conversation whose approved run works until the gate is released.
fn at_work(variables: &[(&str, &str)]) -> (Fixture, Gate, Terminal) {
    let gate = Gate::before_headers();
    let launch = Reply::call("launch_run", &json!({"task": "Compare caches"}));
    let script = Script::parliament()
        .on("model-a")
        .nth(0, Action::gated(Reply::new_answer("Use a CDN"), &gate))
        .on("talker")
        .nth(0, launch)
        .on("talker")
        .always(Reply::text("The summary."));
    let fixture = Fixture::new(2, script);
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let interactive = json!({"backend": backend, "require_approval": false});
    let team = Team::on(&base, 2).rule("interactive_mode", interactive);
    fixture.althing.file("team.yaml", team.text());
    let command = fixture.althing.new_command().args(["--config", "team.yaml"]);
    let command = variables.iter().fold(command, |command, (name, value)| command.env(name, value));
    let mut terminal = command.terminal(100, 40);
    terminal.wait_until(LIMIT, "the start", |screen| {
        screen.contains("Type a message...") || screen.contains("Write a message")
    });
    terminal.keys("compare caches\r");
    gate.wait_waiting_blocking(1, LIMIT);
    terminal.wait_for("Run: Compare caches", LIMIT);
    (fixture, gate, terminal)
}

fn cancels(fixture: &Fixture) -> usize {
    let events = fixture.althing.events();
    of_type(&events, "op_accepted").iter().filter(|event| event["data"]["op"]["op"] == "cancel").count()
}

/// Types a command, waits until it is in the input, and presses Enter.
fn command(terminal: &mut Terminal, text: &str) {
    terminal.keys(text);
    terminal.wait_for(&format!("› {text}"), LIMIT);
    terminal.keys("\r");
}

#[test]
fn a_prefix_of_a_command_that_ends_or_discards_something_does_nothing() {
    let (fixture, gate, mut terminal) = at_work(&[]);
    for (typed, whole) in [("/c", "/cancel"), ("/u", "/undo"), ("/ne", "/new"), ("/comp", "/compact")] {
        command(&mut terminal, typed);
        let screen = terminal.wait_for(&format!("write {whole} in full"), LIMIT);
        assert!(screen.contains(&format!("› {typed}")) && screen.contains("Running..."), "{screen}");
        terminal.keys("\x15");
        terminal.wait_for("Type a message...", LIMIT);
    }
    assert_eq!(cancels(&fixture), 0);
    // A choice in the list counts, and is asked about.
    terminal.keys("/c");
    terminal.wait_for("› /c", LIMIT);
    terminal.keys("\x1b[B\x1b[A");
    terminal.keys("\r");
    terminal.wait_for("Stop this run?", LIMIT);
    assert_eq!(cancels(&fixture), 0);
    terminal.keys("y");
    terminal.wait_for("Cancelled", LIMIT);
    assert_eq!(cancels(&fixture), 1);
    gate.release_all();
}

#[test]
fn leaving_a_run_that_works_is_asked_about_once() {
    for (typed, asked) in
        [("/clear", LEAVE), ("/new", LEAVE), ("/quit", LEAVE), ("/cancel", "Stop this run?")]
    {
        let (fixture, gate, mut terminal) = at_work(&[]);
        command(&mut terminal, typed);
        let screen = terminal.wait_for(asked, LIMIT);
        assert!(screen.contains("y confirm"), "{screen}");
        terminal.keys("\x1b");
        let screen = terminal.wait_gone(asked, LIMIT);
        assert!(screen.contains("Running..."), "{typed}:\n{screen}");
        // Ctrl+D asks before it leaves; a second Ctrl+D leaves.
        terminal.keys("\x04");
        terminal.wait_for(LEAVE, LIMIT);
        terminal.keys("\x04");
        assert_eq!(terminal.wait(LIMIT), 0);
        assert_eq!(cancels(&fixture), 0);
        gate.release_all();
    }
}

#[test]
fn another_session_or_project_is_opened_over_a_run_only_after_a_question() {
    for project in [false, true] {
        let (fixture, gate, mut terminal) = at_work(&[]);
        // Something to open: another conversation, and a project.
        let other = fixture.althing.new_command().args(["--offline", "--project", "second"]);
        let mut elsewhere = other.terminal(100, 30);
        elsewhere.wait_for("Type a message...", LIMIT);
        elsewhere.keys("hello\r");
        elsewhere.wait_for("Status: Idle", LIMIT);
        elsewhere.wait_for("You wrote", LIMIT);
        elsewhere.keys("\x04");
        assert_eq!(elsewhere.wait(LIMIT), 0);
        command(&mut terminal, if project { "/projects" } else { "/resume" });
        terminal.wait_for(if project { "second" } else { "hello" }, LIMIT);
        terminal.keys("\r");
        let screen = terminal.wait_for(LEAVE, LIMIT);
        assert!(screen.contains("Running..."), "{screen}");
        terminal.keys("y");
        terminal.wait_for(if project { "Project: second" } else { "You wrote" }, LIMIT);
        gate.release_all();
    }
}

#[test]
fn without_live_work_leaving_is_not_asked_about() {
    for keys in ["\x04", "/quit\r", "/q\r"] {
        let althing = althing();
        let mut terminal = althing.new_command().arg("--offline").terminal(100, 30);
        terminal.wait_for("Type a message...", LIMIT);
        terminal.keys(keys);
        assert_eq!(terminal.wait(LIMIT), 0, "{keys:?}");
    }
}

#[test]
fn undo_by_command_is_asked_about_and_names_the_files() {
    let fixture = Fixture::new(1, super::hostile::overwrites_a_file());
    let file = fixture.althing.file("project/file.txt", "before");
    let path = format!("{}:rw", file.parent().unwrap().display());
    let args = ["--config", "team.yaml", "--quick", "--context-path", &path, "task"];
    let mut terminal = fixture.althing.new_command().args(args).terminal(100, 40);
    terminal.wait_for("Files written to context paths:", LIMIT);
    command(&mut terminal, "/undo");
    let screen = terminal.wait_for("Undo what this run wrote?", LIMIT);
    assert!(screen.contains("file.txt (modified)"), "{screen}");
    terminal.keys("\x1b");
    terminal.wait_gone("Undo what this run wrote?", LIMIT);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "by the run");
    command(&mut terminal, "/undo");
    terminal.wait_for("Undo what this run wrote?", LIMIT);
    terminal.keys("y");
    terminal.wait_for("changes to 1 file undone", LIMIT);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
}

#[test]
fn in_plain_mode_the_same_is_asked_as_a_line() {
    let (fixture, gate, mut terminal) = at_work(&[("ALTHING_PLAIN", "1")]);
    terminal.keys("/cancel\r");
    terminal.wait_for("Stop this run? The agents' work so far is kept. Write yes or no.", LIMIT);
    terminal.keys("no\r");
    terminal.keys("/quit\r");
    terminal.wait_for(LEAVE, LIMIT);
    assert_eq!(cancels(&fixture), 0);
    terminal.keys("/cancel\r");
    terminal.wait_until(LIMIT, "the second question", |screen| screen.matches("Stop this run?").count() == 2);
    terminal.keys("yes\r");
    terminal.wait_for("Cancelled", LIMIT);
    assert_eq!(cancels(&fixture), 1);
    gate.release_all();
}
