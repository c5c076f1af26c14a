//! Ctrl+C and Ctrl+D while dialogs are open and keys are held down, and confirmations whose work ends.

use super::support::{TestScreen, options};
use crate::script::{self, Script};
use althing_protocol::{Decision, Fact, InteractionKind, Op, RunEnd, RunStatus, TaskStatus};
use althing_tui::{Effect, TuiExit, TuiOptions};
use crossterm::event::KeyCode;

fn working() -> TestScreen {
    TestScreen::showing(&script::conversation(), 100, 30)
}

fn cancels(screen: &TestScreen) -> usize {
    screen.ops.iter().filter(|op| matches!(op, Op::Cancel { .. })).count()
}

#[test]
fn ctrl_c_closes_an_open_dialog_and_stops_nothing() {
    for command in
        ["/help", "/cost", "/agents", "/cancel", "/undo", "/quit", "/theme", "/projects", "/sessions"]
    {
        let mut screen = working();
        screen.send_line(command);
        assert!(screen.app.modal.is_some(), "{command}");
        screen.wait(2_000);
        screen.control('c');
        assert!(screen.app.modal.is_none(), "{command}:\n{}", screen.text());
        assert_eq!(cancels(&screen), 0, "{command}");
        assert!(!screen.effects.iter().any(|effect| matches!(effect, Effect::Leave(_))), "{command}");
        screen.wait(2_000);
        screen.control('c');
        assert_eq!(cancels(&screen), 1, "{command}: without a dialog, it stops the run");
    }
    // What was written below the dialog stays.
    let mut screen = working();
    screen.write("half a thought");
    screen.control('g');
    screen.control('c');
    assert!(screen.app.modal.is_none());
    assert_eq!(screen.app.input.text(), "half a thought");
}

#[test]
fn ctrl_c_closes_the_question_of_a_program_and_the_choice_of_the_presenter() {
    let mut script = Script::default();
    script.workflow();
    script.program_asks("w1.ask");
    let mut screen = TestScreen::with(TuiOptions { workflow: true, ..options() }, 80, 24);
    screen.feed(&script.items);
    screen.press(KeyCode::Char('a'));
    screen.wait(2_000);
    screen.control('c');
    assert!(screen.app.modal.is_none() && screen.ops.is_empty(), "{:?}", screen.ops);
    assert!(!screen.shows("Ctrl+C again leaves"), "{}", screen.text());
    let mut script = Script::default();
    script.chat(true);
    script.run("r1", Some("c1"), "Replace JWT");
    script.all_answer("r1");
    script.vote("r1");
    script.override_window("r1");
    let mut screen = TestScreen::showing(&script, 80, 24);
    screen.control('o');
    screen.wait(2_000);
    screen.control('c');
    assert!(screen.app.modal.is_none() && cancels(&screen) == 0, "{:?}", screen.ops);
}

fn asked(open: impl FnOnce(&mut Script)) -> TestScreen {
    let mut script = Script::default();
    script.chat(true);
    open(&mut script);
    TestScreen::showing(&script, 100, 30)
}

#[test]
fn ctrl_c_rejects_what_a_box_asks() {
    for open in [Script::approval, Script::plan_approval] {
        let mut screen = asked(open);
        screen.wait(2_000);
        screen.control('c');
        assert!(
            matches!(screen.ops.as_slice(), [Op::Answer { decision: Decision::Reject { .. }, .. }]),
            "{:?}",
            screen.ops
        );
        assert!(screen.shows("Ctrl+C again leaves"), "{}", screen.text());
        screen.control('c');
        assert_eq!(screen.effects.last(), Some(&Effect::Leave(TuiExit::Quit)));
        // Ctrl+C does not answer a dialog that has just appeared, but a second Ctrl+C leaves.
        let mut script = Script::default();
        script.chat(true);
        let mut screen = TestScreen::showing(&script, 100, 30);
        script.items.clear();
        open(&mut script);
        screen.feed_at_once(&script.items);
        screen.control('c');
        assert!(screen.app.modal.is_some() && screen.ops.is_empty(), "{:?}", screen.ops);
        screen.control('c');
        assert_eq!(screen.effects.last(), Some(&Effect::Leave(TuiExit::Quit)));
    }
}

#[test]
fn ctrl_c_in_a_field_of_a_box_first_clears_the_field() {
    for (open, letter) in [
        (Script::approval as fn(&mut Script), 'e'),
        (Script::plan_approval, 'c'),
        (Script::plan_approval, 'i'),
    ] {
        let mut screen = asked(open);
        screen.press_alone(letter);
        screen.write("a long thought");
        screen.control('c');
        assert!(screen.ops.is_empty() && screen.app.modal.is_some(), "{letter}: {:?}", screen.ops);
        assert!(!screen.shows("a long thought") && screen.shows("cleared"), "{letter}:\n{}", screen.text());
        screen.control('7');
        assert!(screen.shows("a long thought"), "{letter}: it can be brought back:\n{}", screen.text());
        screen.control('c');
        // Ctrl+C that is still held down does not close the box.
        screen.wait(660);
        for _ in 0..20 {
            screen.control('c');
            screen.wait(40);
        }
        assert!(screen.ops.is_empty() && screen.app.modal.is_some(), "{letter}: {:?}", screen.ops);
        screen.wait(2_000);
        screen.control('c');
        assert!(
            matches!(screen.ops.as_slice(), [Op::Answer { decision: Decision::Reject { .. }, .. }]),
            "{letter}: {:?}",
            screen.ops
        );
    }
    let mut screen = working();
    screen.send_line("/sessions");
    screen.write("release");
    screen.control('c');
    assert!(screen.app.modal.is_some() && screen.shows("2 of 2"), "{}", screen.text());
}

#[test]
fn a_confirmation_closes_when_what_it_asks_about_has_ended() {
    for command in ["/cancel", "/quit", "/new"] {
        let mut script = script::conversation();
        let mut screen = TestScreen::showing(&script, 100, 30);
        screen.send_line(command);
        assert!(screen.app.modal.is_some(), "{command}");
        script.items.clear();
        let result = Script::result("r2", "Replace JWT", RunStatus::Completed);
        script.finishes("r2", result, RunEnd::Answered);
        screen.feed(&script.items);
        assert!(screen.app.modal.is_none(), "{command}:\n{}", screen.text());
        assert!(screen.shows("ended"), "{command} says why:\n{}", screen.text());
        assert!(screen.ops.is_empty() && !screen.effects.iter().any(|it| matches!(it, Effect::Leave(_))));
    }
    // A program that has finished its turn, and another front end that ends it.
    let mut script = Script::default();
    script.workflow();
    script.program_asks("w1.ask");
    let mut screen = TestScreen::with(TuiOptions { workflow: true, ..options() }, 80, 24);
    screen.feed(&script.items);
    screen.press(KeyCode::Down);
    screen.press(KeyCode::Char('x'));
    assert!(screen.shows("Stop this task?"), "{}", screen.text());
    script.items.clear();
    script.fact(Some("w1.ask"), Fact::StatusChanged { status: TaskStatus::Done, why: None });
    screen.feed(&script.items);
    assert!(screen.app.modal.is_none(), "{}", screen.text());
}

#[test]
fn a_held_ctrl_d_deletes_to_the_end_and_does_not_leave() {
    let hold = |screen: &mut TestScreen| {
        screen.control('d');
        screen.wait(660);
        for _ in 0..40 {
            screen.control('d');
            screen.wait(40);
        }
    };
    for text in ["x", "some words"] {
        let mut script = Script::default();
        script.chat(true);
        let mut screen = TestScreen::showing(&script, 80, 24);
        screen.write(text);
        screen.control('a');
        hold(&mut screen);
        assert!(screen.app.input.is_empty());
        assert!(screen.effects.is_empty(), "{text}: {:?}", screen.effects);
        screen.wait(2_000);
        screen.control('d');
        assert_eq!(screen.effects, [Effect::Leave(TuiExit::Quit)], "pressed again, it leaves");
    }
}

#[test]
fn a_ctrl_d_that_ended_a_program_and_is_held_does_not_leave() {
    let mut script = Script::default();
    script.workflow();
    let mut screen = TestScreen::with(TuiOptions { workflow: true, ..options() }, 80, 24);
    screen.feed(&script.items);
    screen.press(KeyCode::Down);
    screen.press(KeyCode::Enter);
    screen.wait(2_000);
    screen.control('d');
    assert!(matches!(screen.ops.last(), Some(Op::Input { .. })), "{:?}", screen.ops);
    script.items.clear();
    script.fact(Some("w1.ask"), Fact::StatusChanged { status: TaskStatus::Done, why: None });
    script.fact(Some("w1"), Fact::StatusChanged { status: TaskStatus::Done, why: None });
    script.fact(None, Fact::SessionClosed {});
    screen.feed_at_once(&script.items);
    screen.wait(660);
    screen.control('d');
    assert!(!screen.effects.iter().any(|it| matches!(it, Effect::Leave(_))), "{:?}", screen.effects);
}

#[test]
fn earlier_messages_begin_anew_after_ctrl_c() {
    let mut script = Script::default();
    script.chat(true);
    let mut screen = TestScreen::showing(&script, 80, 24);
    screen.send_line("first");
    screen.send_line("second");
    screen.write("draft");
    screen.press(KeyCode::Up);
    screen.press(KeyCode::Up);
    assert_eq!(screen.app.input.text(), "first");
    screen.control('c');
    screen.press(KeyCode::Down);
    assert_eq!(screen.app.input.text(), "", "the draft was cleared, too");
    screen.press(KeyCode::Up);
    assert_eq!(screen.app.input.text(), "second");
}

#[test]
fn ctrl_c_before_a_box_was_drawn_is_not_meant_for_it() {
    let mut screen = asked(|script| {
        script.turn(1);
        let kind = InteractionKind::RunApproval { proposal: Box::new(Script::proposal()) };
        script.asks(Some("c1"), "i-run", kind, None);
    });
    screen.app.box_is_unseen = true;
    screen.control('c');
    assert_eq!(cancels(&screen), 1, "it stops the turn: {:?}", screen.ops);
}
