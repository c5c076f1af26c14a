//! Small things that only a real terminal shows: the text of a timeline's entry, a cost that is not known, `yes` in plain
//! mode, what is new below, and the question before a task of a workflow is stopped.

use althing_testkit::{Action, Gate, Reply, Script};
use serde_json::json;

use super::support::{Fixture, LIMIT, Team, althing, of_type};

const UP: &str = "\x1b[A";
const PAGE_UP: &str = "\x1b[5~";

fn conversation(script: impl Into<Script>) -> Fixture {
    let fixture = Fixture::new(2, script);
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let team = Team::on(&base, 2).rule("interactive_mode", json!({"backend": backend}));
    let team = team.rule("coordination", json!({"override_window_seconds": 0}));
    fixture.althing.file("team.yaml", team.text());
    fixture
}

#[test]
fn an_entry_of_a_timeline_opens_with_its_own_text() {
    let script = Script::parliament()
        .on("model-a")
        .nth(0, Reply::new_answer("Use a CDN for static files"))
        .on("model-b")
        .nth(0, Reply::new_answer("Use no cache at all"))
        .on("talker")
        .nth(0, Reply::call("launch_run", &json!({"task": "Compare caches"})))
        .on("talker")
        .always(Reply::text("The summary."));
    let fixture = conversation(script);
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(100, 40);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("compare caches\r");
    terminal.wait_for("Launch this run?", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("The summary.", LIMIT);
    terminal.wait_for("Status: Idle", LIMIT);
    terminal.keys("\x12");
    terminal.wait_for("‹ esc   Run: Compare caches", LIMIT);
    terminal.keys("\t");
    terminal.wait_for("tab to write a message", LIMIT);
    terminal.keys("1");
    terminal.wait_for("/ search", LIMIT);
    // From the newest entry to the oldest: every one opens with its own title and text.
    let mut titles = Vec::new();
    for _ in 0..12 {
        terminal.keys_at_once(UP);
        terminal.keys("\r");
        let screen = terminal.wait_until(LIMIT, "an opened entry", |screen| {
            screen.starts_with(" ‹ esc   ") && !screen.contains("Run: Compare caches")
        });
        let title =
            screen.lines().next().unwrap_or_default().trim_start_matches(" ‹ esc   ").trim().to_owned();
        let text = screen.lines().nth(2).unwrap_or_default().to_owned();
        terminal.keys("\x1b");
        terminal.wait_for("Run: Compare caches", LIMIT);
        if titles.last().is_some_and(|(last, _)| *last == title) && title == "began" {
            break;
        }
        titles.push((title, text));
    }
    let own = |wanted: &str, text: &str| {
        titles.iter().any(|(title, shown)| title.starts_with(wanted) && shown.contains(text))
    };
    assert!(own("agent1.1", "Use a CDN for static files"), "{titles:?}");
    assert!(own("vote", "for "), "{titles:?}");
    assert!(!titles.iter().any(|(title, text)| title == "vote" && text.contains("CDN")), "{titles:?}");
}

#[test]
fn a_cost_that_is_not_known_is_called_unknown_on_the_screen() {
    // A CLI agent that reports no cost, and whose model has no known price.
    let mut fixture = Fixture::with(1, Script::parliament(), |team| {
        let team = team.agent("helper", &json!({"type": "claude_code", "model": "secret-model"}));
        team.rule("coordination", json!({"override_window_seconds": 0}))
    });
    fixture.althing = super::scripted_claude::on_pipes(&fixture.althing);
    let args = ["--config", "team.yaml", "Compare caches"];
    let mut terminal = fixture.althing.new_command().args(args).terminal(100, 40);
    terminal.wait_for("Complete ✓", LIMIT);
    terminal.keys("/cost\r");
    let screen = terminal.wait_for("Cost so far", LIMIT);
    let row = screen
        .lines()
        .find(|line| line.contains("Run: Compare caches") && line.contains("calls"))
        .unwrap_or_default();
    assert!(row.contains("unknown"), "{screen}");
    assert!(!row.contains("$0"), "an unknown cost is not shown as zero:\n{screen}");
}

#[test]
fn in_plain_mode_yes_approves_a_run() {
    let althing = althing();
    let mut terminal = althing.new_command().arg("--offline").env("ALTHING_PLAIN", "1").terminal(120, 60);
    terminal.wait_for("Write a message", LIMIT);
    terminal.keys("Compare three ways to cache\r");
    terminal.wait_for("Question: launch this run?", LIMIT);
    terminal.keys("yes\r");
    terminal.wait_for("won the vote", LIMIT);
    let events = althing.events();
    let is_run = |event: &&&serde_json::Value| event["data"]["spec"]["kind"] == "run";
    assert_eq!(of_type(&events, "task_created").iter().filter(is_run).count(), 1);
}

#[test]
fn what_is_new_below_is_counted() {
    let gate = Gate::before_headers();
    let line = |n: usize, line: usize| format!("reply {n}, line {line}");
    let long = |n: usize| Reply::text((0..30).map(|at| line(n, at)).collect::<Vec<_>>().join("\n\n"));
    let script =
        Script::parliament().on("talker").nth(0, long(1)).on("talker").always(Action::gated(long(2), &gate));
    let fixture = conversation(script);
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(80, 24);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("one\r");
    terminal.wait_for("reply 1, line 29", LIMIT);
    terminal.wait_for("Status: Idle", LIMIT);
    terminal.keys("two\r");
    gate.wait_waiting_blocking(1, LIMIT);
    terminal.keys("three\r");
    terminal.wait_for("queued, delivered after this turn", LIMIT);
    terminal.keys(PAGE_UP);
    let screen = terminal.wait_gone("reply 1, line 29", LIMIT);
    assert!(!screen.contains("new"), "{screen}");
    gate.release_all();
    // Two entries are new: the queued message and its reply. The reply that was already awaited is not counted; it
    // takes the place of the waiting line.
    let screen = terminal.wait_for("↓ 2 new", LIMIT);
    assert!(!screen.contains("reply 2"), "the place is kept:\n{screen}");
}

#[test]
fn stopping_a_task_of_a_workflow_is_asked_about() {
    let althing = althing();
    let task = json!({"id": "wait", "agent": "command", "command": ["sh", "-c", "sleep 600"],
        "executionMode": "headless", "prompt": ""});
    let stages = json!([{"name": "only", "tasks": [task]}]);
    althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let command = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline", "--unconfined"]);
    let mut terminal = command.terminal(100, 30);
    terminal.wait_for("running", LIMIT);
    terminal.keys("x");
    terminal.wait_for("Stop this task?", LIMIT);
    terminal.keys("\x1b");
    let screen = terminal.wait_gone("Stop this task?", LIMIT);
    assert!(screen.contains("running") && !screen.contains("cancelled"), "{screen}");
    terminal.keys("x");
    terminal.wait_for("Stop this task?", LIMIT);
    terminal.keys("y");
    terminal.wait_for("cancelled", LIMIT);
}

#[test]
fn in_plain_mode_an_empty_line_does_not_decide_a_vote() {
    let althing = althing();
    let mut terminal = althing.new_command().arg("--offline").env("ALTHING_PLAIN", "1").terminal(120, 60);
    terminal.wait_for("Write a message", LIMIT);
    terminal.keys("Compare three ways to cache\r");
    terminal.wait_for("Question: launch this run?", LIMIT);
    terminal.keys("yes\r");
    terminal.wait_for("Write /approve to keep the winner", LIMIT);
    terminal.keys("\r").keys("/cost\r");
    // Lines are handled in order, so the empty one has been handled.
    terminal.wait_for(" calls, ", LIMIT);
    let is_decided = |events: &[serde_json::Value]| {
        of_type(events, "op_accepted")
            .iter()
            .any(|event| event["data"]["op"]["decision"]["decision"] == "continue")
    };
    assert!(!is_decided(&althing.events()), "{}", terminal.screen());
    terminal.keys("/approve\r");
    terminal.wait_for("won the vote", LIMIT);
}
