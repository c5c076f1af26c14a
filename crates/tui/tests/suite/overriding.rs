//! The vote, and overriding the presenter.

use super::support::TestScreen;
use crate::script::Script;
use althing_protocol::{Decision, Fact, Op, Origin, Timestamp};
use crossterm::event::KeyCode;

fn voted() -> TestScreen {
    let mut script = Script::default();
    script.chat(true);
    script.run("r1", Some("c1"), "Replace JWT");
    script.all_answer("r1");
    script.vote("r1");
    let mut screen = TestScreen::new(100, 30);
    script.now = screen.now;
    script.override_window("r1");
    screen.feed(&script.items);
    screen
}

fn decision(screen: &TestScreen) -> Option<&Decision> {
    screen.ops.iter().rev().find_map(|op| match op {
        Op::Answer { decision, .. } => Some(decision),
        _ => None,
    })
}

// spec: modes/human-override/override-availability
#[test]
fn after_the_vote_the_screen_says_how_to_override_it() {
    let mut screen = voted();
    assert!(screen.shows("Press Ctrl+O to override, Enter to continue"));
    assert!(screen.shows("gem wins with 2 of 3 votes and will present."));
    assert!(screen.shows("60 s"));
    screen.now = Timestamp(screen.now.0 + 6_100);
    screen.draw();
    assert!(screen.shows("54 s"), "{}", screen.text());
    screen.press(KeyCode::Enter);
    assert_eq!(decision(&screen), Some(&Decision::Continue));
}

// spec: modes/human-override/override-modal-display
#[test]
fn the_choice_shows_everyones_newest_answer() {
    let mut screen = voted();
    screen.control('o');
    for text in [
        "Choose who presents",
        "gem  2 votes  Use pasetors with v4.local tokens",
        "cc   1 vote   Keep JWT for one release behind a feature flag",
        "gpt  0 votes  Write a thin trait and swap the implementation",
    ] {
        assert!(screen.shows(text), "{text} in\n{}", screen.text());
    }
    screen.press(KeyCode::Char(' '));
    assert!(screen.shows("Keep tests."), "the whole answer can be read");
    assert!(!screen.shows("Choose who presents"), "{}", screen.text());
    screen.press(KeyCode::Esc);
    assert!(screen.shows("Choose who presents"), "Esc goes back to the choice:\n{}", screen.text());
    screen.press(KeyCode::Esc);
    assert!(screen.shows("Press Ctrl+O to override"));
}

fn pauses(screen: &TestScreen) -> Vec<bool> {
    let pause = |op: &Op| match op {
        Op::PauseCountdown { paused, .. } => Some(*paused),
        _ => None,
    };
    screen.ops.iter().filter_map(pause).collect()
}

#[test]
fn the_countdown_is_paused_as_long_as_the_choice_or_one_of_its_answers_is_open() {
    let mut screen = voted();
    screen.control('o');
    assert_eq!(pauses(&screen), [true]);
    screen.press(KeyCode::Down);
    screen.press(KeyCode::Char(' '));
    screen.press(KeyCode::Esc);
    assert_eq!(pauses(&screen), [true], "the answer belongs to the choice");
    screen.press(KeyCode::Esc);
    assert_eq!(pauses(&screen), [true, false]);
    screen.control('o');
    screen.press(KeyCode::Enter);
    assert_eq!(pauses(&screen), [true, false, true], "an answered question has no countdown");
}

#[test]
fn a_paused_countdown_stands_still_and_goes_on_where_it_stopped() {
    let mut script = Script::default();
    script.chat(true);
    script.run("r1", Some("c1"), "Replace JWT");
    script.all_answer("r1");
    script.vote("r1");
    let mut screen = TestScreen::new(100, 30);
    script.now = screen.now;
    script.override_window("r1");
    screen.feed(&script.items);
    let id = screen.app.model.override_question().unwrap().interaction.id.clone();
    let mut pause = |screen: &mut TestScreen, paused: bool| {
        script.items.clear();
        script.now = screen.now;
        let op = Op::PauseCountdown { interaction: id.clone(), paused };
        script.fact(None, Fact::accepted(op, Origin::User));
        screen.feed(&script.items);
    };
    // The question was opened by the second event of the script, 10 ms after the first.
    screen.wait(10_010);
    pause(&mut screen, true);
    screen.wait(100_000);
    assert!(screen.shows("50 s (paused)"), "{}", screen.text());
    pause(&mut screen, false);
    screen.wait(5_000);
    assert!(screen.shows("45 s") && !screen.shows("paused"), "{}", screen.text());
}

#[test]
fn the_choice_shows_the_reasons_of_the_voters_and_the_rendered_answer() {
    let mut screen = voted();
    screen.control('o');
    assert!(screen.shows("voted for it:"), "{}", screen.text());
    assert!(screen.shows("Keep tests."), "the answer is below the list:\n{}", screen.text());
}

#[test]
fn another_agent_is_chosen_with_two_keys() {
    let mut screen = voted();
    screen.control('o');
    screen.wait(400);
    screen.press(KeyCode::Down);
    screen.press(KeyCode::Enter);
    assert_eq!(decision(&screen), Some(&Decision::Presenter { agent: "cc".into() }));
}

#[test]
fn esc_keeps_the_winner_and_the_window_open() {
    let mut screen = voted();
    screen.control('o');
    screen.press(KeyCode::Esc);
    assert_eq!(decision(&screen), None);
    assert!(screen.shows("Press Ctrl+O to override, Enter to continue"));
}

#[test]
fn a_message_that_is_being_written_is_sent_and_does_not_end_the_window() {
    let mut screen = voted();
    screen.send_line("wait a moment");
    assert_eq!(decision(&screen), None);
    assert!(matches!(screen.ops.last(), Some(Op::SendMessage { .. })));
}
