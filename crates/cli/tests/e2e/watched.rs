//! A workflow in a terminal: its tasks on the screen, and attaching to programs.

use std::path::PathBuf;

use althing_testkit::process::wait_for_event;
use althing_testkit::vt100::Color;
use althing_testkit::{Althing, Terminal, wait};
use serde_json::{Value, json};

use super::support::{LIMIT, althing};

/// A program that asks a question in its terminal, prints the answer, and continues until the file `go` exists.
const ASKING_SCRIPT: &str = r#"printf 'hello from the program\n\033[32mAllow it? (yes / no)\033[0m '
read answer; printf '\033[2J\033[Hgot <%s>\n' "$answer"; while [ ! -e "$GO" ]; do sleep 0.02; done"#;

fn asking() -> (Althing, PathBuf) {
    let althing = althing();
    let go = althing.work_dir().join("go");
    let headless = |id: &str, script: &str| json!({"id": id, "agent": "command", "command": ["sh", "-c", script], "executionMode": "headless", "prompt": ""});
    let asker = json!({"program": "sh", "args": ["-c", ASKING_SCRIPT], "env": {"GO": go},
        "interactions": [{"pattern": r"(?P<text>Allow it\? \(yes / no\))", "about": "question"}]});
    let file = json!({"name": "release", "goal": "Ship 2.0", "adapters": {"asker": asker}, "stages": [
        {"name": "prepare", "tasks": [
            headless("log", "echo forty-two commits"),
            {"id": "ask", "agent": "asker", "executionMode": "interactive", "prompt": ""},
        ]},
        {"name": "publish", "tasks": [headless("notes", "echo the notes are out")]},
    ]});
    althing.file("flow.yaml", format!("{file:#}"));
    (althing, go)
}

fn watch(althing: &Althing) -> Terminal {
    althing
        .new_command()
        .args(["workflow", "run", "flow.yaml", "--offline", "--unconfined"])
        // Without a theme, Althing itself asks the terminal for its background.
        .env("ALTHING_THEME", "dark")
        .terminal(100, 30)
}

fn status_changed(task: &'static str, status: &'static str) -> impl Fn(&Value) -> bool {
    move |event| {
        event["type"] == "status_changed" && event["task"] == task && event["data"]["status"] == status
    }
}

// spec: core/interaction-detection-for-background-tasks/background-prompt
#[test]
fn a_waiting_background_program_is_reported_attached_answered_and_detached() {
    let (althing, go) = asking();
    let mut terminal = watch(&althing);
    let screen = terminal.wait_for("1 waits for you", LIMIT);
    wait_for_event(&althing.state_dir(), LIMIT, status_changed("w1.ask", "WAITING_FOR_USER"));
    for text in
        ["Workflow: release", "Ship 2.0", "Stage: prepare", "Allow it?", "Stage: publish", "notes", "pending"]
    {
        assert!(screen.contains(text), "{text}:\n{screen}");
    }
    assert!(terminal.raw().contains(&7), "the bell rings");

    terminal.wait_for("done ✓", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("forty-two commits", LIMIT);
    terminal.keys("\x1b");
    terminal.wait_for("Stage: prepare", LIMIT);

    terminal.keys("a");
    terminal.wait_for("attached to ask (asker) · ^] detach", LIMIT);
    let screen = terminal.wait_for("Allow it? (yes / no)", LIMIT);
    assert!(screen.contains("hello from the program") && !screen.contains("Stage:"), "{screen}");
    let (column, row) = terminal.find("Allow it?").unwrap();
    let color = terminal.with_screen(|screen| screen.cell(row, column).unwrap().fgcolor());
    assert_eq!(color, Color::Idx(2), "its colors are shown");
    terminal.keys("yes\r");
    terminal.wait_for("got <yes>", LIMIT);
    terminal.keys("\x1d");
    let screen = terminal.wait_for("Stage: prepare", LIMIT);
    assert!(!screen.contains("got <yes>"), "{screen}");
    terminal.wait_gone("waits for you", LIMIT);

    std::fs::write(go, "").unwrap();
    terminal.wait_for("Status: Done ✓", LIMIT);
    terminal.keys("q");
    assert_eq!(terminal.wait(LIMIT), 0);
    let screen = terminal.screen();
    assert!(screen.contains("the notes are out"), "what the last stage gave is left behind:\n{screen}");
}

#[test]
fn a_workflow_left_on_the_screen_is_resumed_on_the_screen() {
    let (althing, go) = asking();
    let mut terminal = watch(&althing);
    terminal.wait_for("1 waits for you", LIMIT);
    terminal.keys("\x04");
    terminal.wait_for("Leave this workflow?", LIMIT);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 4);
    assert!(terminal.screen().contains("althing resume"), "{}", terminal.screen());

    let mut terminal = althing.new_command().args(["resume", "--unconfined"]).terminal(100, 30);
    // The program asks again, in its own terminal.
    let waits = status_changed("w1.ask", "WAITING_FOR_USER");
    wait::until(LIMIT, || althing.events().iter().filter(|event| waits(event)).count() == 2);
    let screen = terminal.wait_for("1 waits for you", LIMIT);
    assert!(screen.contains("done ✓"), "what was finished stays so:\n{screen}");
    std::fs::write(go, "").unwrap();
    terminal.keys("a");
    terminal.wait_for("attached to ask", LIMIT);
    terminal.keys("no\r");
    terminal.wait_for("Status: Done ✓", LIMIT);
    // Ctrl+D instead of `q`: letters typed right after the program's end are ignored, because they might still be meant
    // for the program.
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
}

#[test]
fn in_plain_mode_a_workflow_prints_lines_and_takes_answers_as_lines() {
    let (althing, go) = asking();
    std::fs::write(go, "").unwrap();
    let mut terminal = watch(&althing.new_command().env("ALTHING_PLAIN", "1"));
    terminal.wait_for("Question: Allow it? (yes / no)", LIMIT);
    terminal.keys("/type yes\r");
    assert_eq!(terminal.wait(LIMIT), 0, "it ends by itself");
    let screen = terminal.screen();
    for text in [
        "Task log: running",
        "Task log: done",
        "Task ask: waits for you",
        "Task ask: done",
        "the notes are out",
    ] {
        assert!(screen.contains(text), "{text}:\n{screen}");
    }
    assert!(!terminal.raw().contains(&0x1b), "nothing moves, nothing is drawn over");
}

#[test]
fn a_failing_task_is_shown_and_sets_the_exit_status() {
    let althing = althing();
    let bad = json!({"id": "bad", "agent": "command", "command": ["sh", "-c", "echo no luck >&2; exit 3"],
        "executionMode": "headless", "prompt": ""});
    let file = json!({"name": "n", "goal": "g", "stages": [{"name": "only", "tasks": [bad]}]});
    althing.file("flow.yaml", format!("{file:#}"));
    let mut terminal = watch(&althing);
    let screen = terminal.wait_for("Status: Failed ✗", LIMIT);
    assert!(screen.contains("no luck"), "{screen}");
    terminal.keys("q");
    assert_eq!(terminal.wait(LIMIT), 2);
}

/// A program that sets a title, the clipboard and a link, requests the device status, saves a line of input, and (if
/// its name is `first`) floods its terminal.
const HOSTILE: &str = r#"printf '\033]0;taken\007\033]52;c;aGk=\007\033]8;;http://evil\033\\link\033[6n\033[c\033Pq\033\\'
echo; echo "$NAME is ready"; read line; echo "$line" > "$DIR/$NAME"; [ "$NAME" = first ] && yes 'a flood of words'; read line"#;

// Row S8 of docs/reliability.md.
#[test]
fn an_attached_program_draws_only_its_own_cells_and_can_be_detached_during_a_flood() {
    let althing = althing();
    let dir = althing.work_dir();
    let task = |name: &str| json!({"id": name, "agent": "asker", "executionMode": "interactive", "prompt": "", "env": {"NAME": name}});
    let asker = json!({"program": "sh", "args": ["-c", HOSTILE], "env": {"DIR": dir}});
    let stages = json!([{"name": "only", "tasks": [task("first"), task("second")]}]);
    let file = json!({"name": "n", "goal": "g", "adapters": {"asker": asker}, "stages": stages});
    althing.file("flow.yaml", format!("{file:#}"));
    let mut terminal = watch(&althing);
    terminal.wait_until(LIMIT, "both run", |screen| screen.matches("running").count() == 2);
    terminal.keys("\r");
    terminal.wait_for("first is ready", LIMIT);
    terminal.keys("for the first alone\r");
    terminal.wait_for("a flood of words", LIMIT);
    terminal.keys("\x1d");
    terminal.wait_for("Stage: only", LIMIT);
    let typed = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    // The terminal answered the program's requests before it passed on the typed keys.
    let first = typed("first");
    assert!(first.starts_with("\x1b[1;5R") && first.ends_with("for the first alone\n"), "{first:?}");
    assert_eq!(typed("second"), "");
    let raw = terminal.raw();
    for foreign in [&b"\x1b]"[..], b"\x1bP", b"\x1b[6n", b"\x1b[c"] {
        assert!(!raw.windows(foreign.len()).any(|bytes| bytes == foreign), "{foreign:?}");
    }
    terminal.keys("x");
    terminal.wait_for("Stop this task?", LIMIT);
    terminal.keys("y");
    terminal.wait_for("cancelled", LIMIT);
    terminal.keys("\x04");
    terminal.wait_for("Leave this workflow?", LIMIT);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 4);
}
