//! The override window after a vote in a real terminal: it closes with its run, its countdown is paused while a person
//! chooses, and the choice shows the answers.

use std::time::{Duration, Instant};

use althing_testkit::process::wait_for_event;
use althing_testkit::{Althing, Script, Terminal, wait};

use super::support::{Fixture, LIMIT, althing, of_type};

const OVERRIDE_HINT: &str = "Press Ctrl+O to override, Enter to continue";
const TASK: &str = "Compare three ways to cache HTTP responses";
const DOWN: &str = "\x1b[B";

fn voted(althing: &Althing, cols: u16, rows: u16) -> Terminal {
    let mut terminal = althing.new_command().arg("--offline").terminal(cols, rows);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys(TASK).keys("\r");
    terminal.wait_for("Cancel esc", LIMIT);
    // On a small screen the request has to be read to its end first.
    for _ in 0..5 {
        terminal.keys("\x1b[6~");
    }
    terminal.keys("\r");
    terminal.wait_for("Press Ctrl+O to override", LIMIT);
    terminal
}

#[test]
fn the_vote_window_closes_when_its_run_is_stopped() {
    let althing = althing();
    let mut terminal = voted(&althing, 100, 30);
    terminal.keys("\x03");
    terminal.wait_gone(OVERRIDE_HINT, LIMIT);
    terminal.wait_for("Status: Idle", LIMIT);
    // The run has ended, so nothing says any more that it is being stopped.
    terminal.wait_gone("stopping the run", LIMIT);
    // The chat agent's reply and the answer so far are written below the card.
    wait::until(LIMIT, || terminal.keys("\x1b[5~").screen().contains("Cancelled"));
    let events = althing.events();
    assert_eq!(of_type(&events, "interaction_closed").len(), 2, "the approval and the vote are closed");
}

#[test]
fn the_countdown_is_paused_while_the_choice_is_open() {
    let window = Duration::from_secs(3);
    let fixture = Fixture::with(2, Script::parliament(), |team| {
        let seconds = serde_json::json!({"override_window_seconds": window.as_secs()});
        team.rule("coordination", seconds)
    });
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(100, 30);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("Compare them").keys("\r");
    terminal.wait_for(OVERRIDE_HINT, LIMIT);
    terminal.keys("\x0f");
    terminal.wait_for("Choose who presents", LIMIT);
    let opened = Instant::now();
    wait_for_event(&fixture.althing.state_dir(), LIMIT, |event| {
        event["data"]["op"]["op"] == "pause_countdown" && event["data"]["op"]["paused"] == true
    });
    wait::until(LIMIT, || opened.elapsed() > window + Duration::from_secs(1));
    assert!(terminal.screen().contains("Choose who presents"), "{}", terminal.screen());
    // Reading an answer whole does not end the pause, and Esc goes back to the choice.
    terminal.keys(" ");
    terminal.wait_gone("Choose who presents", LIMIT);
    terminal.keys("\x1b");
    terminal.wait_for("Choose who presents", LIMIT);
    terminal.keys(DOWN).keys("\r");
    terminal.wait_for("Complete ✓", LIMIT);
    let events = fixture.althing.events();
    let closed = of_type(&events, "interaction_closed");
    assert_eq!(closed[0]["data"]["decision"]["decision"], "presenter", "{}", closed[0]);
    assert!(of_type(&events, "timer_fired").is_empty());
}

#[test]
fn the_countdown_goes_on_when_the_choice_is_closed() {
    let fixture = Fixture::with(2, Script::parliament(), |team| {
        team.rule("coordination", serde_json::json!({"override_window_seconds": 2}))
    });
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(100, 30);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("Compare them").keys("\r");
    terminal.wait_for(OVERRIDE_HINT, LIMIT);
    terminal.keys("\x0f");
    terminal.wait_for("Choose who presents", LIMIT);
    terminal.keys("\x1b");
    terminal.wait_for("Complete ✓", LIMIT);
    let events = fixture.althing.events();
    assert_eq!(of_type(&events, "timer_fired").len(), 1, "the window closed by itself");
}

#[test]
fn the_choice_shows_the_answers_and_the_voters_reasons_at_every_size() {
    for (cols, rows) in [(40, 12), (80, 24), (160, 45)] {
        let althing = althing();
        let mut terminal = voted(&althing, cols, rows);
        terminal.keys("\x0f");
        let screen = terminal.wait_for("Choose who presents", LIMIT);
        assert!(screen.contains("voted for it"), "{cols}x{rows}:\n{screen}");
        // Esc closes the choice without choosing; the winner can still be overridden.
        terminal.keys("\x1b");
        terminal.wait_gone("Choose who presents", LIMIT);
        terminal.wait_for("Press Ctrl+O to override", LIMIT);
    }
}
