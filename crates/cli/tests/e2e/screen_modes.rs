//! The modes of the mode bar, set with keys on the screen: the run that then starts makes the same calls with the same
//! tools as a run with the same modes on the command line. Also tests what the screen shows before the presentation.

use std::collections::BTreeMap;

use althing_testkit::{Action, Gate, Parliament, RecordedRequest, Reply, Script, wait};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, items, of_type, texts};

const OVERRIDE_HINT: &str = "Press Ctrl+O to override, Enter to continue";
const ALT_A: &str = "\x1ba";
const ALT_R: &str = "\x1br";
const SHIFT_TAB: &str = "\x1b[Z";
const TASK: &str = "Name three colors";

fn runs(fixture: &Fixture) -> Vec<Value> {
    let events = fixture.althing.events();
    let created = of_type(&events, "task_created").into_iter();
    created.map(|event| event["data"]["spec"].clone()).filter(|spec| spec["kind"] == "run").collect()
}

fn calls(fixture: &Fixture) -> BTreeMap<(String, String), usize> {
    let mut calls = BTreeMap::new();
    for request in fixture.server.requests() {
        let mut tools = request.tool_names();
        tools.sort_unstable();
        *calls.entry((request.model().to_owned(), tools.join(" "))).or_default() += 1;
    }
    calls
}

fn on_the_screen(keys: &str, bar: &str) -> Fixture {
    let fixture = Fixture::new(2, Script::parliament());
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(100, 40);
    terminal.wait_for("Plan · Multi · Refine · Interactive off", LIMIT);
    terminal.keys(keys);
    terminal.wait_for(bar, LIMIT);
    terminal.keys(TASK).keys("\r");
    let multi = bar.contains("Multi");
    if multi {
        terminal.wait_for(OVERRIDE_HINT, LIMIT);
        terminal.keys("\r");
    }
    wait::until(LIMIT, || {
        fixture.althing.events().iter().any(|event| event["data"]["verdict"] == "finished")
    });
    fixture
}

// spec: modes/tui-mode-state/mode-state-generates-orchestrator-overrides
// spec: modes/tui-mode-state/mode-state-initialization
#[test]
fn a_run_started_on_the_screen_follows_the_toggled_modes_like_one_of_the_command_line() {
    // Keys; the mode bar after them; the same modes as options; [answers, votes, presentations]; the modes in the log.
    type Row = (&'static str, &'static str, &'static [&'static str], [usize; 3], [bool; 3]);
    let table: [Row; 5] = [
        ("", "Plan · Multi · Refine ·", &[], [2, 2, 1], [true, true, false]),
        (ALT_R, "Plan · Multi · Refine off ·", &["--quick"], [2, 2, 1], [true, false, false]),
        (ALT_A, "Plan · Single · Refine ·", &["--single-agent"], [1, 1, 1], [false, true, false]),
        (
            "\x1ba\x1br",
            "Plan · Single · Refine off ·",
            &["--single-agent", "--quick"],
            [1, 0, 0],
            [false, false, false],
        ),
        (SHIFT_TAB, "Plan on · Multi · Refine ·", &["--plan"], [2, 2, 1], [true, true, true]),
    ];
    for (keys, bar, options, expected, [multi, refinement, planning]) in table {
        let screen = on_the_screen(keys, bar);
        let line = Fixture::new(2, Script::parliament());
        line.command(options).arg(TASK).spawn().wait(LIMIT);
        assert_eq!(calls(&screen), calls(&line), "{bar}");
        let events = screen.althing.events();
        let purposes: Vec<&str> = of_type(&events, "attempt_started")
            .iter()
            .map(|event| event["data"]["purpose"].as_str().unwrap())
            .collect();
        let presented = purposes.iter().filter(|purpose| **purpose == "present").count();
        let found = [items(&events, "answer").len(), items(&events, "vote").len(), presented];
        assert_eq!(found, expected, "{bar}: {purposes:?}");
        let (run, same) = (runs(&screen).remove(0), runs(&line).remove(0));
        let agent_mode = if multi { "multi" } else { "single" };
        let modes = json!({"agent_mode": agent_mode, "refinement": refinement, "planning": planning});
        assert_eq!(run["modes"], modes, "{bar}");
        // Only the rule of the override window differs: a person is at the screen and can override the vote.
        let mut rules = [run["rules"].clone(), same["rules"].clone()];
        for rules in &mut rules {
            rules.as_object_mut().unwrap().remove("override_window");
        }
        assert_eq!(rules[0], rules[1], "{bar}");
        let quick_team = multi && !refinement;
        if quick_team {
            let voting = screen.server.requests();
            let voting = voting.iter().filter(|request| request.tool_names().contains(&"vote"));
            assert!(voting.clone().all(|request| !request.tool_names().contains(&"new_answer")), "{bar}");
            assert_eq!(voting.count(), 2, "each votes once, after both have answered");
            let shown = texts(&screen.server.requests().pop().unwrap());
            for answer in ["Answer of model-a", "Answer of model-b"] {
                assert!(shown.contains(answer), "the presenter synthesizes: {shown}");
            }
        }
        if !multi && !refinement {
            let requests = screen.server.requests();
            assert!(requests.iter().all(|request| !request.tool_names().contains(&"vote")), "{bar}");
        }
    }
}

// spec: modes/tui-mode-state/mode-state-generates-orchestrator-overrides
#[test]
fn modes_toggled_on_the_screen_win_over_what_the_chat_agent_asks_for() {
    let launch = json!({"task": TASK, "agent_mode": "multi", "refinement": true});
    let talker = move |request: &RecordedRequest| {
        let told = request.messages().last().is_some_and(|last| last["role"] == "tool");
        if told { Reply::text("It is done.") } else { Reply::call("launch_run", &launch) }
    };
    let fixture = Fixture::new(2, Script::parliament().on("talker").always(Action::with(talker)));
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let team = Team::on(&base, 2).rule("interactive_mode", json!({"backend": backend}));
    fixture.althing.file("team.yaml", team.text());
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(100, 40);
    terminal.wait_for("Plan · Multi · Refine · Interactive", LIMIT);
    terminal.keys(ALT_A).keys(ALT_R).keys("\x1b2");
    terminal.wait_for("2 b works", LIMIT);
    terminal.keys("please\r");
    let screen = terminal.wait_for("Cancel esc", LIMIT);
    let row = |label: &str| screen.lines().find(|line| line.contains(label)).unwrap_or_default().to_owned();
    assert!(row("Modes  ").contains("Single") && row("Modes  ").contains("Quick"), "{screen}");
    assert!(row("Agents ").contains('b') && !row("Agents ").contains("model-a"), "{screen}");
    terminal.keys("\r");
    terminal.wait_for("It is done.", LIMIT);
    assert_eq!(fixture.calls(), [("model-b".to_owned(), 1), ("talker".to_owned(), 2)].into());
    let modes = json!({"agent_mode": "single", "refinement": false, "planning": false});
    assert_eq!(runs(&fixture)[0]["modes"], modes);
    assert!(items(&fixture.althing.events(), "vote").is_empty());
}

fn answers_twice(request: &RecordedRequest) -> Reply {
    let agent = request.model().trim_start_matches("model-");
    let tail = "The last words of it.";
    let tools = request.tool_names();
    if !tools.contains(&"vote") && !tools.contains(&"new_answer") {
        Reply::text(format!("Presented by {agent}"))
    } else if !tools.contains(&"vote") {
        Reply::new_answer(&format!("First idea of {agent}. {tail}"))
    } else if texts(request).contains(&format!("Second idea of {agent}.")) {
        Reply::vote("agent1", "it is complete")
    } else {
        Reply::new_answer(&format!("Second idea of {agent}.\n\n{}\n\n{tail}", "More of it. ".repeat(30)))
    }
}

// spec: modes/human-override/override-availability
// spec: modes/human-override/override-modal-display
// spec: modes/human-override/override-selection
#[test]
fn the_choice_of_the_presenter_shows_the_newest_answer_of_every_agent() {
    let fixture = Fixture::new(3, Script::from_fn(answers_twice));
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml", TASK]).terminal(120, 40);
    terminal.wait_for(OVERRIDE_HINT, LIMIT);
    let events = fixture.althing.events();
    assert!(items(&events, "answer").len() >= 6, "every agent has two answers");
    terminal.keys("\x0f");
    let screen = terminal.wait_for("Choose who presents", LIMIT);
    for agent in ["a", "b", "c"] {
        let row = screen.lines().find(|line| line.contains(&format!("Second idea of {agent}.")));
        let row = row.unwrap_or_else(|| panic!("the newest answer of {agent} is missing:\n{screen}"));
        assert!(row.contains(&format!(" {agent} ")) && row.contains("vote"), "{row}");
    }
    assert!(!screen.contains("First idea"), "no older answer is shown:\n{screen}");
    // The order of agents with equally many votes is random.
    let shown =
        |row: &str| ["a", "b", "c"].into_iter().find(|agent| row.contains(&format!("idea of {agent}.")));
    let second = screen.lines().filter_map(shown).nth(1).unwrap();
    // Down selects the second agent; Space opens the whole text of its newest answer.
    terminal.keys("\x1b[B ");
    terminal.wait_gone("Choose who presents", LIMIT);
    let screen = terminal.wait_for("The last words of it.", LIMIT);
    assert!(
        screen.contains(&format!("Second idea of {second}.")) && !screen.contains("First idea"),
        "{screen}"
    );
    assert!(screen.contains(OVERRIDE_HINT), "the vote stays open, and visible:\n{screen}");
    // Esc goes back to the choice, where the same agent is selected.
    terminal.keys("\x1b");
    terminal.wait_for("Choose who presents", LIMIT);
    terminal.keys("\r");
    terminal.wait_for(&format!("Presented by {second}"), LIMIT);
}

fn working(cols: u16, rows: u16) -> (Fixture, Gate, althing_testkit::Terminal) {
    let gate = Gate::before_headers();
    let held = gate.clone();
    let script = Script::from_fn(move |request: &RecordedRequest| {
        Action::gated(Action::from(Parliament::default().reply(request)), &held)
    });
    let fixture = Fixture::new(2, script);
    let terminal = fixture.althing.new_command().args(["--config", "team.yaml", TASK]).terminal(cols, rows);
    gate.wait_waiting_blocking(2, LIMIT);
    terminal.wait_for("Running...", LIMIT);
    (fixture, gate, terminal)
}

fn bottom(screen: &str) -> (String, String) {
    let rows: Vec<&str> = screen.lines().collect();
    let row = |back: usize| rows.iter().rev().nth(back).unwrap_or(&"").trim_end().to_owned();
    (row(1), row(0))
}

fn cancelled(fixture: &Fixture) -> bool {
    let events = fixture.althing.events();
    of_type(&events, "op_accepted").iter().any(|event| event["data"]["op"]["op"] == "cancel")
}

// spec: design/ui/alignment
// spec: modes/mode-bar-widget/mode-bar-visibility
// spec: modes/mode-bar-widget/mode-bar-disabled-during-execution
#[test]
fn the_mode_bar_and_the_input_stay_below_an_opened_run_and_take_a_message_there() {
    for (cols, rows) in [(40, 12), (80, 24), (149, 40), (160, 45)] {
        let (fixture, gate, mut terminal) = working(cols, rows);
        let bar_begins = if cols < 60 { " p M R i" } else { " Plan · Multi · Refine · Interactive off" };
        terminal.keys("\x12");
        let head = if cols < 60 { "‹ Run: Name" } else { "‹ esc   Run: Name" };
        let screen = terminal.wait_for(head, LIMIT);
        let (bar, input) = bottom(&screen);
        assert!(bar.starts_with(bar_begins), "{cols}x{rows}:\n{screen}");
        assert!(
            input.starts_with(" › Type a message...") && input.contains("[Send]"),
            "{cols}x{rows}:\n{screen}"
        );
        // The modes are locked: a key and a click change nothing.
        terminal.keys(ALT_R);
        terminal.wait_for("modes locked while agents work", LIMIT);
        let row = u16::try_from(screen.lines().count() - 2).unwrap();
        terminal.keys("\x1b[F");
        terminal.wait_gone("modes locked", LIMIT);
        terminal.click(1, row);
        terminal.wait_for("modes locked while agents work", LIMIT);
        // Letters go to the input; none of them cancels the run.
        terminal.keys("proxy x y");
        let screen = terminal.wait_for("› proxy x y", LIMIT);
        assert!(
            bottom(&screen).0.starts_with(bar_begins) && screen.contains(head),
            "{cols}x{rows}:\n{screen}"
        );
        assert!(!cancelled(&fixture), "{cols}x{rows}");
        // With the focus in the run, the mode bar and the input are still visible.
        terminal.keys("\t");
        let screen = terminal.wait_for("tab to write a message", LIMIT);
        assert!(bottom(&screen).0.starts_with(bar_begins), "{cols}x{rows}:\n{screen}");
        assert!(bottom(&screen).1.contains("[Send]"), "{cols}x{rows}:\n{screen}");
        let (column, row) = terminal.find("[Send]").unwrap();
        terminal.click(column, row);
        wait::until(LIMIT, || {
            let events = fixture.althing.events();
            of_type(&events, "op_accepted").iter().any(|event| event["data"]["op"]["text"] == "proxy x y")
        });
        assert!(!cancelled(&fixture));
        gate.release_all();
    }
}

// spec: design/ui/run-card
#[test]
fn the_button_on_the_card_cancels_the_run_after_a_question() {
    for (cols, rows) in [(60, 20), (80, 24), (160, 45)] {
        let (fixture, gate, mut terminal) = working(cols, rows);
        let (column, row) = terminal.find("[Cancel]").unwrap_or_else(|| panic!("{}", terminal.screen()));
        terminal.click(column, row);
        terminal.wait_for("Stop this run?", LIMIT);
        assert!(!cancelled(&fixture), "{cols}x{rows}: it is asked first");
        terminal.keys("y");
        let screen = terminal.wait_for("Cancelled", LIMIT);
        assert!(cancelled(&fixture) && !screen.contains("[Cancel]"), "{cols}x{rows}:\n{screen}");
        gate.release_all();
    }
}
