//! The first hour of a newcomer, replayed in tmux at two sizes: start with nothing, ask, approve with a changed mode, name
//! a file for writing, open and copy an earlier message, override a vote, run a plan, attach to a task of a workflow,
//! find and resume an earlier session.

use althing_testkit::process::wait_for_event;
use althing_testkit::{Althing, Tmux, skip_unless_ci, wait};
use serde_json::{Value, json};

use super::support::{LIMIT, althing, of_type};

const TASK: &str = "Compare three ways to cache HTTP responses";

/// A program that asks a question in its terminal, as programs do.
const ASKS: &str = "printf 'Continue? [y/N] '; read answer; echo \"the answer was <$answer>\"";

/// A machine on which nothing is configured. Ordinary programs such as `sh` are found, CLI agents are not.
fn new_machine() -> Althing {
    let althing = althing().env("PATH", "/usr/bin:/bin").env("OLLAMA_HOST", "127.0.0.1:9");
    althing.file("notes.txt", "what we know about caches\n");
    let task = json!({"id": "ask", "agent": "command", "command": ["sh", "-c", ASKS], "executionMode": "interactive", "prompt": ""});
    let workflow = json!({"name": "release", "stages": [{"name": "prepare", "tasks": [task]}]});
    althing.file("flow.yaml", format!("{workflow:#}"));
    althing
}

/// Approves the open request: reads it to its end, then presses Enter.
fn approve(tmux: &mut Tmux) {
    for _ in 0..4 {
        tmux.press("PageDown");
    }
    tmux.press("Enter");
    tmux.wait_gone("Cancel esc", LIMIT);
}

fn wait_idle(tmux: &Tmux) {
    tmux.wait_for("Status: Idle", LIMIT);
}

/// Waits until this many runs have ended.
#[track_caller]
fn wait_finished(althing: &Althing, runs: usize) {
    let is_finished = |event: &&Value| event["type"] == "decided" && event["data"]["verdict"] == "finished";
    wait::until(LIMIT, || althing.events().iter().filter(is_finished).count() >= runs);
}

fn runs(events: &[Value]) -> Vec<&Value> {
    let created = of_type(events, "task_created").into_iter().map(|event| &event["data"]["spec"]);
    created.filter(|spec| spec["kind"] == "run").collect()
}

/// Starts with nothing, and has a conversation with everything that a run offers. Returns the id of the session.
fn first_conversation(althing: &Althing, cols: u16, rows: u16) -> Option<String> {
    let mut tmux = althing.tmux(cols, rows)?;
    tmux.wait_for("Welcome to Althing", LIMIT);
    tmux.press("Down");
    tmux.wait_for("› try it with the offline model", LIMIT);
    tmux.press("Enter");
    tmux.wait_gone("Welcome to Althing", LIMIT);
    tmux.wait_for("Type a message...", LIMIT);

    // Ask.
    tmux.text("good morning").press("Enter");
    tmux.wait_for("You wrote: \"good morning\"", LIMIT);
    wait_idle(&tmux);

    // Name a file for writing, and approve with another mode.
    tmux.text(&format!("{TASK} in @notes.txt:w ")).press("Enter");
    let screen = tmux.wait_for("Launch this run?", LIMIT);
    assert!(screen.contains("May write") && screen.contains("Multi · Refine"), "{screen}");
    tmux.press("m");
    tmux.wait_for("Single", LIMIT);
    approve(&mut tmux);
    wait_finished(althing, 1);
    wait_idle(&tmux);
    let events = althing.events();
    let run = runs(&events)[0].clone();
    assert_eq!(run["members"].as_array().map(Vec::len), Some(1), "what was shown is what started: {run}");
    assert_eq!(run["context_paths"][0]["writable"], true, "{run}");

    // Open and copy an earlier message: the first one.
    tmux.press("Tab");
    tmux.wait_for("esc to write a message", LIMIT);
    tmux.press("Home");
    tmux.wait_for("e edit", LIMIT);
    tmux.press("Enter");
    let screen = tmux.wait_for("‹ esc", LIMIT);
    assert!(screen.contains("good morning"), "{screen}");
    tmux.press("c");
    tmux.wait_for("copied", LIMIT);
    assert_eq!(tmux.copied(), "good morning");
    tmux.press("Escape");
    tmux.wait_gone("‹ esc", LIMIT);
    tmux.press("Escape");
    tmux.wait_for("Type a message...", LIMIT);

    // Override a vote.
    tmux.text(TASK).press("Enter");
    tmux.wait_for("Launch this run?", LIMIT);
    approve(&mut tmux);
    tmux.wait_for("Press Ctrl+O to override", LIMIT);
    tmux.press("C-o");
    tmux.wait_for("Choose who presents", LIMIT);
    tmux.press("Down").press("Enter");
    wait_finished(althing, 2);
    wait_idle(&tmux);
    let events = althing.events();
    let chosen = of_type(&events, "interaction_closed");
    assert!(chosen.iter().any(|event| event["data"]["decision"]["decision"] == "presenter"), "{chosen:#?}");

    // Run a plan.
    tmux.press("BTab");
    tmux.wait_for("Describe what to plan...", LIMIT);
    tmux.text("Write a tool that counts words").press("Enter");
    tmux.wait_for("Press Ctrl+O to override", LIMIT);
    tmux.press("Enter");
    tmux.wait_for("Add instructions", LIMIT);
    approve_plan(&mut tmux);
    tmux.wait_for("Executing Plan", LIMIT);
    tmux.wait_for(" of 3 ✓", LIMIT);
    // The run that made the plan, and the run that executed it. The vote of the second one is kept.
    tmux.wait_for("Press Ctrl+O to override", LIMIT);
    tmux.press("Enter");
    wait_finished(althing, 4);
    wait_idle(&tmux);
    tmux.press("C-d");
    assert_eq!(tmux.wait_end(LIMIT), 0);
    let events = althing.events();
    Some(events[0]["data"]["session"].as_str().unwrap().to_owned())
}

fn approve_plan(tmux: &mut Tmux) {
    for _ in 0..4 {
        tmux.press("PageDown");
    }
    tmux.press("Enter");
    tmux.wait_gone("Add instructions", LIMIT);
}

/// Attaches to a task of a workflow that asks something, and answers it.
fn attach_to_workflow(althing: &Althing, cols: u16, rows: u16) {
    let command = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline", "--unconfined"]);
    let mut tmux = command.tmux(cols, rows).expect("tmux was found before");
    tmux.wait_for("1 waits for you", LIMIT);
    tmux.press("Enter");
    tmux.wait_for("^] detach", LIMIT);
    tmux.wait_for("Continue? [y/N]", LIMIT);
    tmux.text("y").press("Enter");
    tmux.wait_for("Status: Done ✓", LIMIT);
    // Before the workflow has ended, Ctrl+D would ask for confirmation.
    wait_for_event(&althing.state_dir(), LIMIT, |event| event["type"] == "session_closed");
    tmux.press("C-d");
    assert_eq!(tmux.wait_end(LIMIT), 0);
    let screen = tmux.screen();
    assert!(screen.contains("the answer was <y>"), "{screen}");
}

/// Starts again, finds the earlier session by its words, and resumes it.
fn resume_earlier_session(althing: &Althing, session: &str, cols: u16, rows: u16) {
    let mut tmux = althing.new_command().arg("--offline").tmux(cols, rows).expect("tmux was found before");
    tmux.wait_for("Type a message...", LIMIT);
    tmux.text("/resume").press("Enter");
    tmux.wait_for("Filter:", LIMIT);
    tmux.text("morning");
    let screen = tmux.wait_for("1 of 1", LIMIT);
    assert!(screen.contains("good morning") && screen.contains(session), "{screen}");
    tmux.press("Enter");
    tmux.wait_gone("Filter:", LIMIT);
    tmux.wait_for("Type a message...", LIMIT);
    tmux.text("/find good morning").press("Enter");
    tmux.wait_for("You wrote: \"good morning\"", LIMIT);
    // Esc and a key that follows at once are one key with Alt.
    tmux.press("Escape");
    tmux.wait_for("Type a message...", LIMIT);
    tmux.press("C-d");
    assert_eq!(tmux.wait_end(LIMIT), 0);
}

#[track_caller]
fn replay(cols: u16, rows: u16) {
    let althing = new_machine();
    let Some(session) = first_conversation(&althing, cols, rows) else {
        return skip_unless_ci("tmux is not installed");
    };
    attach_to_workflow(&althing, cols, rows);
    resume_earlier_session(&althing, &session, cols, rows);
}

#[test]
fn a_newcomer_finds_the_way_at_80_by_24() {
    replay(80, 24);
}

#[test]
fn a_newcomer_finds_the_way_at_160_by_45() {
    replay(160, 45);
}
