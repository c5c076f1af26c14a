//! Background tasks: the badge, the bell, the panel, answers.

use super::support::{TestScreen, options};
use crate::script::Script;
use althing_protocol::{AttemptOutcome, Decision, Fact, FeedItem, Op, Progress, Seq, TaskStatus, Usage};
use althing_tui::{Effect, TuiExit, TuiOptions};
use althing_view::conversation::{Audience, ConversationLines};
use althing_view::labels;
use crossterm::event::KeyCode;

fn waiting() -> TestScreen {
    let mut script = Script::default();
    script.workflow();
    script.program_asks("w1.ask");
    TestScreen::showing(&script, 100, 30)
}

#[test]
fn a_task_that_waits_shows_a_badge_rings_once_and_is_one_key_away() {
    let mut screen = waiting();
    assert!(screen.rows()[0].contains("1 waits for you"));
    assert_eq!(screen.effects.iter().filter(|effect| **effect == Effect::Bell).count(), 1);
    screen.feed(&[]);
    assert_eq!(screen.effects.iter().filter(|effect| **effect == Effect::Bell).count(), 1);
    assert_eq!(screen.app.model.task(&"w1.ask".into()).unwrap().status, TaskStatus::WaitingForUser);
    screen.control('t');
    assert!(screen.shows("›  ask"), "what waits is chosen: {}", screen.text());
    assert!(screen.shows("waits for you") && screen.shows("Run `cargo test`?"));
    screen.press(KeyCode::Enter);
    assert!(screen.shows("attached to ask (gemini) · ^] detach"));
}

#[test]
fn the_bell_can_be_disabled() {
    let mut script = Script::default();
    script.workflow();
    script.program_asks("w1.ask");
    let mut screen = TestScreen::with(TuiOptions { bell: false, ..options() }, 80, 24);
    screen.feed(&script.items);
    assert!(!screen.effects.contains(&Effect::Bell));
}

#[test]
fn tasks_are_listed_by_stage_with_their_status() {
    let mut screen = waiting();
    screen.control('t');
    let rows: Vec<u16> = ["Stage: gather", "   log", "Stage: decide", "›  ask"]
        .iter()
        .map(|text| screen.find(text).1)
        .collect();
    assert!(rows.is_sorted());
    assert!(screen.shows("done ✓"));
    screen.press(KeyCode::Esc);
    assert!(screen.shows("Type a message..."));
}

#[test]
fn a_permission_is_given_by_a_number_or_a_click() {
    let mut screen = waiting();
    screen.control('t');
    screen.press(KeyCode::Char('a'));
    assert!(screen.shows("ask asks for permission") && screen.shows("Run `cargo test`?"));
    screen.press(KeyCode::Char('2'));
    assert!(screen.ops.is_empty(), "a digit that follows at once is typed, not chosen");
    screen.press_after_reading('2');
    let expected = |option: &str| Op::Answer {
        interaction: "i-program".into(),
        decision: Decision::Choose { option: option.into() },
    };
    assert_eq!(screen.ops.last(), Some(&expected("always")));

    let mut screen = waiting();
    screen.control('t');
    screen.press(KeyCode::Char('a'));
    screen.click("3 No");
    screen.click("3 No");
    assert_eq!(screen.ops.last(), Some(&expected("no")));
}

#[test]
fn a_program_without_a_terminal_shows_text_tools_and_output() {
    let mut script = Script::default();
    script.workflow();
    let after = Seq(script.seq);
    let output = Progress::Output {
        after,
        task: "w1.log".into(),
        raw: String::new(),
        clean: "42 commits read\n".into(),
    };
    script.pass(output);
    let mut screen = TestScreen::showing(&script, 100, 30);
    screen.control('t');
    screen.press(KeyCode::Up);
    screen.press(KeyCode::Enter);
    for text in ["Task: log", "Three changes are visible to users.", "Bash", "git log", "42 commits read"] {
        assert!(screen.shows(text), "{text} in\n{}", screen.text());
    }
    screen.press(KeyCode::Char('x'));
    assert!(screen.shows("the task has already ended") && screen.ops.is_empty());
    screen.press(KeyCode::Esc);
    screen.press(KeyCode::Down);
    screen.press(KeyCode::Char('x'));
    screen.press_after_reading('y');
    assert_eq!(screen.ops.last(), Some(&Op::Cancel { task: "w1.ask".into() }));
}

/// The screen of a workflow. Below its other screens is the tasks panel, not a conversation.
fn watching(script: &Script) -> TestScreen {
    let mut screen = TestScreen::with(TuiOptions { workflow: true, ..options() }, 100, 30);
    screen.feed(&script.items);
    screen
}

#[test]
fn a_workflow_shows_every_stage_and_task_from_the_beginning() {
    let mut script = Script::default();
    script.workflow();
    // The program of the last stage has not started: its events are removed.
    let began = |item: &FeedItem| match item {
        FeedItem::Event(event) => event.task.as_ref().is_some_and(|task| task.as_str() == "w1.ask"),
        FeedItem::Progress(_) => false,
    };
    script.items.retain(|item| !began(item));
    let mut screen = watching(&script);
    for text in ["Workflow: release-notes", "Status: Running", "Stage: gather", "Stage: decide", "pending"] {
        assert!(screen.shows(text), "{text}:\n{}", screen.text());
    }
    screen.press(KeyCode::End);
    screen.press(KeyCode::Enter);
    assert!(screen.shows("the task has not started yet"), "{}", screen.text());
    screen.press(KeyCode::Char('x'));
    assert!(screen.ops.is_empty(), "what has not begun is not cancelled alone");
}

#[test]
fn a_workflow_at_work_is_left_on_purpose_only_and_a_finished_one_by_any_way_back() {
    let mut script = Script::default();
    script.workflow();
    let mut screen = watching(&script);
    for code in [KeyCode::Esc, KeyCode::Char('q')] {
        screen.press(code);
        assert!(screen.shows("Ctrl+D leaves"), "{}", screen.text());
    }
    assert!(!screen.effects.contains(&Effect::Leave(TuiExit::Quit)));
    screen.control('c');
    assert!(screen.shows("Ctrl+C again leaves") && screen.ops.is_empty(), "nothing is stopped by it");
    script.items.clear();
    script.fact(Some("w1.ask"), Fact::StatusChanged { status: TaskStatus::Done, why: None });
    script.fact(Some("w1"), Fact::StatusChanged { status: TaskStatus::Done, why: None });
    script.fact(None, Fact::SessionClosed {});
    screen.feed(&script.items);
    screen.press(KeyCode::Home);
    assert!(screen.shows("Status: Done ✓") && screen.shows("q leave"), "{}", screen.text());
    screen.press(KeyCode::Char('q'));
    assert!(screen.effects.contains(&Effect::Leave(TuiExit::Quit)));
}

#[test]
fn a_held_ctrl_d_does_not_leave_a_workflow_and_a_second_ctrl_d_does() {
    let mut script = Script::default();
    script.workflow();
    let mut screen = watching(&script);
    screen.control('d');
    // The first repetition of a held key comes late, the others fast.
    screen.wait(600);
    for _ in 0..50 {
        screen.control('d');
        assert!(screen.shows("Leave this workflow?") && screen.effects.is_empty(), "{}", screen.text());
        screen.wait(40);
    }
    screen.wait(1_000);
    screen.control('d');
    assert_eq!(screen.effects, [Effect::Leave(TuiExit::Quit)]);
}

#[test]
fn a_failed_task_is_retried_only_after_a_question() {
    let mut script = Script::default();
    script.workflow();
    script.fact(Some("w1.ask"), Fact::StatusChanged { status: TaskStatus::Failed, why: None });
    let mut screen = watching(&script);
    screen.press(KeyCode::End);
    assert!(screen.shows("r retry"), "{}", screen.text());
    for key in [KeyCode::Esc, KeyCode::Enter, KeyCode::Char('r')] {
        screen.press(KeyCode::Char('r'));
        assert!(screen.shows("Retry this task?") && screen.shows("may cost again"), "{}", screen.text());
        let keys = screen.rows().last().cloned().unwrap_or_default();
        assert_eq!(keys.trim(), "y confirm · esc no", "the hints are those of the question");
        screen.wait(1_000);
        screen.press(key);
        assert!(!screen.shows("Retry this task?") && screen.ops.is_empty(), "{key:?}: {}", screen.text());
        screen.wait(1_000);
    }
    screen.press(KeyCode::Char('r'));
    screen.press_after_reading('y');
    assert_eq!(screen.ops, [Op::Retry { task: "w1.ask".into() }]);
}

#[test]
fn the_time_of_a_retried_task_counts_from_its_newest_start() {
    let mut script = Script::default();
    script.workflow();
    script.fact(Some("w1.ask"), Fact::StatusChanged { status: TaskStatus::Failed, why: None });
    script.wait(3_600_000);
    script.fact(Some("w1.ask"), Fact::StatusChanged { status: TaskStatus::Running, why: None });
    script.wait(5_000);
    script.fact(Some("w1.ask"), Fact::StatusChanged { status: TaskStatus::Done, why: None });
    let screen = watching(&script);
    let task = screen.app.model.task(&"w1.ask".into()).expect("the task");
    assert_eq!(task.ended.map(|ended| ended.since(task.started).0), Some(5_010));
}

#[test]
fn the_message_that_a_program_has_ended_leaves_the_hints_of_the_workflow_on_the_screen() {
    let mut script = Script::default();
    script.workflow();
    let mut screen = watching(&script);
    screen.press(KeyCode::End);
    screen.press(KeyCode::Enter);
    script.items.clear();
    script.fact(Some("w1.ask"), Fact::StatusChanged { status: TaskStatus::Done, why: None });
    screen.feed(&script.items);
    assert!(screen.shows("the program has ended · enter read · "), "{}", screen.text());
    assert!(screen.shows("^D leave"), "{}", screen.text());
}

#[test]
fn waiting_tasks_of_a_workflow_are_answered_from_any_row() {
    let mut script = Script::default();
    script.workflow();
    script.program_asks("w1.ask");
    let mut screen = watching(&script);
    assert!(screen.rows()[0].contains("1 waits for you") && screen.shows("›  log"));
    screen.press(KeyCode::Char('a'));
    assert!(screen.shows("ask asks for permission"), "{}", screen.text());
}

#[test]
fn stopping_a_task_of_a_workflow_is_asked_about_in_the_panel_and_in_the_task() {
    let mut screen = waiting();
    screen.control('t');
    screen.press(KeyCode::Char('x'));
    assert!(screen.shows("Stop this task?") && screen.ops.is_empty(), "{}", screen.text());
    screen.press(KeyCode::Enter);
    assert!(!screen.shows("Stop this task?") && screen.ops.is_empty());
    screen.press(KeyCode::Char('x'));
    screen.press_after_reading('y');
    assert_eq!(screen.ops, [Op::Cancel { task: "w1.ask".into() }]);
}

#[test]
fn a_failed_task_keeps_the_hint_in_every_front_end() {
    let (error, hint) = ("claude would use .claude/settings.json", "pass `--trust` if you trust it");
    let outcome = AttemptOutcome::Exited {
        ok: false,
        exit_code: Some(1),
        signal: None,
        output: String::new(),
        error: Some(error.into()),
        hint: Some(hint.into()),
    };
    let mut script = Script::default();
    script.workflow();
    script.fact(
        Some("w1.ask"),
        Fact::AttemptEnded { attempt: 1, outcome: outcome.clone(), usage: Usage::default(), call: None },
    );
    script.fact(Some("w1.ask"), Fact::StatusChanged { status: TaskStatus::Failed, why: Some(error.into()) });
    let screen = TestScreen::showing(&script, 160, 30);
    let mut lines = ConversationLines::new(Audience::Person);
    let plain: Vec<String> =
        lines.updates(&screen.app.model).iter().map(|line| line.text().to_owned()).collect();
    let expected = format!("{error} ({hint})");
    assert!(plain.iter().any(|line| line.contains(&expected)), "{plain:#?}");
    assert!(screen.shows("pass `--trust`"), "{}", screen.text());
    assert_eq!(labels::outcome(&outcome), Some(format!("failed: {expected}")));
}
