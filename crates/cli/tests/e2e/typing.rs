//! Which part of the screen gets a key in a real terminal: the input while a person types, a dialog while a person
//! answers it. Stopping a run and undoing its files need confirmation.

use std::time::{Duration, Instant};

use althing_testkit::process::wait_for_event;
use althing_testkit::{Action, Althing, Gate, Reply, Script, Terminal, wait};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, althing, bare, of_type};

const TASK: &str = "Compare three ways to cache HTTP responses";
const OVERRIDE_HINT: &str = "Press Ctrl+O to override, Enter to continue";
const RIGHT: &str = "\x1b[C";
const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";

/// A conversation with the offline model, at the moment when the chat agent proposes a run.
fn proposed(althing: &Althing, cols: u16) -> Terminal {
    let mut terminal = althing.new_command().arg("--offline").terminal(cols, 50);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys(TASK).keys("\r");
    terminal.wait_for("Cancel esc", LIMIT);
    terminal
}

/// The conversation of `proposed`, after the run was approved and its agents voted, with the run open on the screen.
fn opened(althing: &Althing, cols: u16) -> Terminal {
    let mut terminal = proposed(althing, cols);
    terminal.keys("\r");
    terminal.wait_for(OVERRIDE_HINT, LIMIT);
    terminal.keys("\x12");
    terminal.wait_for("‹ esc   Run: Comp", LIMIT);
    terminal
}

fn go_into_run(terminal: &mut Terminal) {
    terminal.keys("\t");
    terminal.wait_for("tab to write a message", LIMIT);
}

fn runs(althing: &Althing) -> Vec<Value> {
    let events = althing.events();
    let created = of_type(&events, "task_created").into_iter();
    created.map(|event| event["data"]["spec"].clone()).filter(|spec| spec["kind"] == "run").collect()
}

fn cancelled(althing: &Althing) -> bool {
    let events = althing.events();
    of_type(&events, "op_accepted").iter().any(|event| event["data"]["op"]["op"] == "cancel")
}

#[track_caller]
fn line(terminal: &Terminal, text: &str) -> String {
    let screen = terminal.screen();
    let found = screen.lines().find(|line| line.contains(text));
    found.unwrap_or_else(|| panic!("no `{text}`:\n{screen}")).to_owned()
}

fn members(run: &Value) -> Vec<String> {
    let members = run["members"].as_array().unwrap().iter();
    members.map(|member| member["id"].as_str().unwrap().to_owned()).collect()
}

// spec: interactive/run-approval-flow/approval-granted
#[test]
fn single_mode_in_the_approval_dialog_names_the_agent_that_works() {
    let althing = althing();
    let mut terminal = proposed(&althing, 100);
    terminal.keys("m");
    terminal.wait_for("Single: ‹one› two three", LIMIT);
    assert!(line(&terminal, "Agents ").contains("one") && !line(&terminal, "Agents ").contains("two"));
    terminal.keys("m");
    terminal.wait_for("Single: one ‹two› three", LIMIT);
    terminal.keys(RIGHT);
    terminal.wait_for("Single: one two ‹three›", LIMIT);
    let agents = line(&terminal, "Agents ");
    assert!(agents.contains("three") && !agents.contains("one"), "{agents}");
    terminal.keys("\r");
    terminal.wait_for("Status: Idle", LIMIT);
    // The answer has moved the card out of view: Ctrl+R opens the run.
    terminal.keys("\x12");
    terminal.wait_for("Complete ✓", LIMIT);
    let runs = runs(&althing);
    assert_eq!(runs.len(), 1);
    assert_eq!(
        (members(&runs[0]), &runs[0]["modes"]["agent_mode"]),
        (vec!["three".into()], &"single".into())
    );
}

#[test]
fn a_rejected_answer_reopens_the_dialog_with_the_reason() {
    let althing = althing();
    let mut terminal = proposed(&althing, 100);
    terminal.keys("e");
    terminal.wait_for("tab next field", LIMIT);
    terminal.keys("\x05\x15\r");
    terminal.wait_for("Cancel esc", LIMIT);
    terminal.keys("\r");
    let screen = terminal.wait_for("`task` is empty", LIMIT);
    assert!(screen.contains("Launch this run?"), "{screen}");
    assert!(runs(&althing).is_empty());
    // The dialog is still open, and takes another answer.
    terminal.keys("e");
    terminal.wait_for("tab next field", LIMIT);
    terminal.keys("Sort a list\r");
    terminal.wait_until(LIMIT, "the new task in the box", |screen| {
        screen.contains("Task      Sort a list") && screen.contains("Cancel esc")
    });
    terminal.keys("\r");
    terminal.wait_for("Run: Sort a list", LIMIT);
    assert_eq!(runs(&althing)[0]["task"], "Sort a list");
}

#[test]
fn a_rejected_run_can_still_be_cancelled_by_a_command() {
    let althing = althing();
    let mut terminal = proposed(&althing, 100);
    terminal.keys("/cancel");
    terminal.wait_for("› /cancel", LIMIT);
    terminal.keys("\r");
    let screen = terminal.wait_for("Status: Idle", LIMIT);
    assert!(!screen.contains("Launch this run?"), "{screen}");
    assert!(runs(&althing).is_empty());
}

// spec: design/ui/alignment
#[test]
fn letters_go_to_the_visible_input_and_not_to_the_open_run() {
    for cols in [60, 100, 170] {
        letters_go_to_the_input(cols);
    }
}

fn letters_go_to_the_input(cols: u16) {
    let althing = althing();
    let mut terminal = opened(&althing, cols);
    terminal.keys("fix it, undo 1 /x");
    terminal.wait_for("› fix it, undo 1 /x", LIMIT);
    assert!(!cancelled(&althing));
    assert!(terminal.screen().contains("‹ esc   Run: Comp"), "the run is still open");
    terminal.keys("\r");
    wait_for_event(&althing.state_dir(), LIMIT, |event| event["data"]["op"]["text"] == "fix it, undo 1 /x");
    // Tab moves the focus to the run, and the input says so.
    go_into_run(&mut terminal);
    terminal.keys("x");
    terminal.wait_for("Stop this run?", LIMIT);
    assert!(!cancelled(&althing), "it is asked first");
    terminal.keys("\x1b");
    terminal.wait_gone("Stop this run?", LIMIT);
    terminal.keys("\t");
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("x");
    terminal.wait_for("› x", LIMIT);
    assert!(!cancelled(&althing));
}

#[test]
fn cancelling_a_run_needs_confirmation() {
    let althing = althing();
    let mut terminal = opened(&althing, 100);
    go_into_run(&mut terminal);
    terminal.keys("x");
    terminal.wait_for("Stop this run?", LIMIT);
    // Neither Enter nor the same key again confirms.
    terminal.keys("\r");
    terminal.wait_gone("Stop this run?", LIMIT);
    terminal.keys("x");
    terminal.wait_for("Stop this run?", LIMIT);
    terminal.keys("x");
    terminal.wait_gone("Stop this run?", LIMIT);
    assert!(!cancelled(&althing));
    terminal.keys("x");
    terminal.wait_for("Stop this run?", LIMIT);
    terminal.keys("y");
    terminal.wait_for("Cancelled", LIMIT);
    assert!(cancelled(&althing));
}

#[test]
fn an_opened_message_shows_its_text() {
    let mut terminal = althing().arg("--offline").terminal(100, 40);
    terminal.wait_for("Type a message...", LIMIT);
    for word in ["first", "second", "third"] {
        terminal.keys(&format!("hello {word}\r"));
        terminal.wait_for(&format!("You wrote: \"hello {word}\""), LIMIT);
        terminal.wait_for("Status: Idle", LIMIT);
    }
    terminal.keys("\t");
    terminal.wait_for("esc back", LIMIT);
    // The entries from the newest reply upwards: message, reply, message, …
    for word in ["third", "second", "first"] {
        terminal.keys(UP).keys("\r");
        let screen = terminal.wait_for("‹ esc   You", LIMIT);
        assert!(screen.contains(&format!("hello {word}")), "{word}:\n{screen}");
        assert_eq!(screen.matches("hello").count(), 1, "{screen}");
        terminal.keys("\x1b");
        terminal.wait_gone("‹ esc   You", LIMIT);
        terminal.keys(UP);
    }
}

#[test]
fn letters_typed_on_the_welcome_screen_are_all_kept() {
    for text in ["compare a and b", "open the config", "? what is this", "1 2 3"] {
        let althing = bare();
        let mut terminal = althing.terminal(100, 30);
        terminal.wait_for("Welcome to Althing", LIMIT);
        terminal.keys(text);
        terminal.wait_for(&format!("› {text}"), LIMIT);
        assert!(!althing.work_dir().join("althing.yaml").exists(), "{text} wrote a config");
        terminal.keys("\r");
        wait_for_event(&althing.state_dir(), LIMIT, |event| event["data"]["op"]["text"] == text);
    }
}

#[test]
fn the_choices_of_the_welcome_screen_work_with_arrows_and_enter() {
    let althing = bare();
    let mut terminal = althing.terminal(100, 30);
    terminal.wait_for("first write a config (althing.yaml) to this directory", LIMIT);
    terminal.keys(DOWN);
    terminal.wait_for("› try it with the offline model", LIMIT);
    terminal.keys(DOWN);
    terminal.wait_for("› first write a config (althing.yaml) to this directory", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("using /", LIMIT);
    assert!(althing.work_dir().join("althing.yaml").is_file());
}

#[test]
fn letters_typed_while_a_dialog_is_open_go_to_the_input_and_approve_nothing() {
    let althing = althing();
    let mut terminal = proposed(&althing, 100);
    for text in ["and more", "arm", "e mail", "cancel that", "more", "redo it"] {
        terminal.keys(text);
        let screen = terminal.wait_for(&format!("› {text}"), LIMIT);
        assert!(screen.contains("Launch this run?") && screen.contains("Multi · Refine"), "{screen}");
        assert!(runs(&althing).is_empty(), "{text}");
        terminal.keys("\x03");
        terminal.wait_gone(&format!("› {text}"), LIMIT);
        assert!(terminal.screen().contains("Launch this run?"), "{}", terminal.screen());
    }
    terminal.keys("\x1b[200~a pasted line\x1b[201~");
    terminal.wait_for("› a pasted line", LIMIT);
    terminal.keys("\r");
    let screen = terminal.wait_for("queued", LIMIT);
    assert!(screen.contains("Launch this run?") && runs(&althing).is_empty(), "{screen}");
    // With an empty input, the letter approves.
    terminal.keys("a");
    terminal.wait_for(OVERRIDE_HINT, LIMIT);
    assert_eq!(runs(&althing).len(), 1);
}

/// A conversation whose chat agent proposes a run once the gate is open.
fn gated_proposal(gate: &Gate) -> Fixture {
    let launch = Reply::call("launch_run", &json!({"task": "Compare them"}));
    let script = Script::parliament()
        .on("talker")
        .nth(0, Action::gated(launch, gate))
        .on("talker")
        .always(Reply::text("Understood."));
    let fixture = Fixture::new(2, script);
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let team = Team::on(&base, 2).rule("interactive_mode", json!({"backend": backend}));
    fixture.althing.file("team.yaml", team.text());
    fixture
}

// spec: interactive/run-approval-flow/approval-required
#[test]
fn what_was_typed_before_the_question_appeared_never_approves_a_run() {
    let (line, screen) = (&["chat", "--config", "team.yaml"][..], &["--config", "team.yaml"][..]);
    for (args, plain, ready, reject) in [
        (line, "", "", "n\r"),
        (screen, "1", "Write a message", "/reject\r"),
        (screen, "", "Type a message...", "\x1b"),
    ] {
        // What is typed before and after the question appears: a whole line before it, or a line that is completed
        // after it.
        for (before, after) in [("y\r", ""), ("y", "\r"), ("a\r", ""), ("/approve", "\r"), ("\r", "")] {
            let gate = Gate::before_headers();
            let fixture = gated_proposal(&gate);
            let command = fixture.althing.new_command().args(args);
            let command = if plain.is_empty() { command } else { command.env("ALTHING_PLAIN", plain) };
            let mut terminal = command.terminal(120, 40);
            terminal.wait_for(ready, LIMIT);
            terminal.keys("Compare them, all of you\r");
            gate.wait_waiting_blocking(1, LIMIT);
            terminal.keys(before);
            // Wait until the terminal echoes what was typed, or the screen shows it.
            let shown = before.trim_end();
            terminal.wait_until(LIMIT, "what was typed", |screen| {
                shown.is_empty() || screen.split_whitespace().any(|word| word == shown)
            });
            gate.release_all();
            terminal.wait_for("aunch this run?", LIMIT);
            terminal.keys(after);
            // The question is rejected, and the chat agent is told so. A key right after others may belong to the
            // input, so it is pressed again after a while, as a person would.
            let told = || {
                fixture.server.requests().iter().any(|request| {
                    request.messages().iter().any(|message| message.to_string().contains("did not approve"))
                })
            };
            let mut pressed_at = None::<Instant>;
            wait::until(LIMIT, || {
                if pressed_at.is_none_or(|at| at.elapsed() > Duration::from_secs(2)) {
                    terminal.keys(reject);
                    pressed_at = Some(Instant::now());
                }
                told() || !runs(&fixture.althing).is_empty()
            });
            let requests = fixture.server.requests();
            let about = format!("{args:?} {plain} {before:?} {after:?}");
            assert!(told(), "{about}: {}", terminal.screen());
            assert!(runs(&fixture.althing).is_empty(), "{about}: a run was started");
            assert!(requests.iter().all(|request| request.model() == "talker"), "{about}");
        }
    }
}

#[test]
fn an_enter_that_ends_a_message_does_not_decide_a_vote() {
    let althing = althing();
    let mut terminal = opened(&althing, 100);
    terminal.keys("\x1b");
    terminal.wait_gone("‹ esc   Run: Comp", LIMIT);
    // Someone who presses Enter twice, as the terminal of a fast machine sends it.
    terminal.keys_at_once("and then?\r\r");
    let screen = terminal.wait_until(LIMIT, "the queued message and a message about the key", |screen| {
        screen.contains("press it again") && screen.contains("queued")
    });
    assert!(screen.contains(OVERRIDE_HINT), "{screen}");
    wait_for_event(&althing.state_dir(), LIMIT, |event| event["data"]["op"]["text"] == "and then?");
    let answered = |althing: &Althing| {
        let events = althing.events();
        of_type(&events, "op_accepted")
            .iter()
            .any(|event| event["data"]["op"]["decision"] == json!({"decision": "continue"}))
    };
    assert!(!answered(&althing));
    // After a pause, the same key keeps the winner.
    terminal.keys("\r");
    wait_for_event(&althing.state_dir(), LIMIT, |event| {
        event["type"] == "interaction_closed" && event["data"]["decision"]["decision"] == "continue"
    });
}
