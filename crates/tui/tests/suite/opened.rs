//! What is opened over or beside the conversation: the input and the mode bar stay visible, keys go where the focus is,
//! and the buttons of the screen work.

use super::support::TestScreen;
use crate::script::{self, Script};
use althing_protocol::{Op, RunEnd, RunStatus};
use crossterm::event::KeyCode;

const SIZES: [(u16, u16); 8] =
    [(40, 12), (48, 14), (60, 16), (80, 24), (100, 30), (149, 40), (150, 40), (160, 45)];

fn opened(what: &str, (width, height): (u16, u16)) -> TestScreen {
    let mut script = script::conversation();
    script.all_answer("r2");
    let mut screen = TestScreen::showing(&script, width, height);
    match what {
        "run" => screen.control('r'),
        "run with the focus" => screen.enter_run(),
        "answer" => {
            screen.enter_run();
            screen.press(KeyCode::Enter);
        }
        "message" => {
            screen.press(KeyCode::Tab);
            screen.press(KeyCode::Home);
            screen.press(KeyCode::Enter);
        }
        "tasks" => screen.control('t'),
        other => panic!("{other}"),
    }
    let head = if width < 60 { "‹" } else { "‹ esc" };
    assert!(screen.shows(head), "{what} at {width}x{height}:\n{}", screen.text());
    screen
}

const OPENED: [&str; 5] = ["run", "run with the focus", "answer", "message", "tasks"];

/// Whether the mode bar is in the row above the input, and the input in the last row.
fn bottom_is_complete(screen: &TestScreen) -> bool {
    let rows = screen.rows();
    let (bar, input) = (&rows[rows.len() - 2], &rows[rows.len() - 1]);
    let bar_is_there = bar.starts_with(" Plan · Multi · Refine · Interactive") || bar.starts_with(" p M R I");
    bar_is_there && input.contains("[Send]")
}

// spec: design/ui/alignment
// spec: modes/mode-bar-widget/mode-bar-visibility
#[test]
fn the_input_and_the_mode_bar_are_visible_below_everything_that_is_open_at_every_size() {
    for size in SIZES {
        for what in OPENED {
            let mut screen = opened(what, size);
            assert!(bottom_is_complete(&screen), "{what} at {size:?}:\n{}", screen.text());
            if what != "run" {
                assert!(screen.shows("tab to write a message"), "{what} at {size:?}:\n{}", screen.text());
                screen.press(KeyCode::Tab);
            }
            assert!(screen.shows("› Type a message..."), "{what} at {size:?}:\n{}", screen.text());
            assert_eq!(screen.cursor().y, size.1 - 1, "the cursor is in the input");
            screen.write("fix x, y");
            assert!(screen.shows("› fix x, y") && bottom_is_complete(&screen), "{what} at {size:?}");
            let head = if size.0 < 60 { "‹" } else { "‹ esc" };
            assert!(screen.shows(head), "{what} stays open:\n{}", screen.text());
            assert!(screen.ops.is_empty() && screen.app.modal.is_none(), "{what}: {:?}", screen.ops);
            screen.press(KeyCode::Enter);
            assert!(
                matches!(screen.ops.last(), Some(Op::SendMessage { text, .. }) if text == "fix x, y"),
                "{what} at {size:?}: {:?}",
                screen.ops
            );
        }
    }
}

#[test]
fn every_letter_typed_after_a_run_was_opened_from_the_input_goes_to_the_input() {
    for size in [(40, 12), (80, 24), (149, 40)] {
        for letter in (' '..='~').filter(|letter| !matches!(letter, '/' | '@')) {
            let mut screen = opened("run", size);
            screen.write(&format!("{letter}yit"));
            assert_eq!(screen.app.input.text(), format!("{letter}yit"));
            assert!(screen.ops.is_empty() && screen.effects.is_empty(), "{letter}: {:?}", screen.effects);
            assert!(screen.app.modal.is_none(), "{letter}");
        }
    }
}

#[test]
fn tab_moves_the_focus_and_esc_closes_from_both_sides() {
    for size in [(40, 12), (80, 24), (149, 40)] {
        let mut screen = opened("run", size);
        screen.write("half");
        screen.press(KeyCode::Tab);
        assert!(!screen.shows("half") && screen.shows("tab to write a message"), "{}", screen.text());
        screen.press(KeyCode::Char('x'));
        assert!(screen.shows("Stop this run?") && screen.ops.is_empty(), "{}", screen.text());
        screen.press(KeyCode::Esc);
        screen.press(KeyCode::Tab);
        screen.write(" a thought");
        assert!(screen.shows("› half a thought"), "{}", screen.text());
        screen.press(KeyCode::Esc);
        assert!(!screen.shows("‹") && screen.shows("› half a thought"), "{}", screen.text());
        screen.enter_run();
        screen.press(KeyCode::Esc);
        assert!(!screen.shows("‹") && screen.shows("› half a thought"), "{}", screen.text());
    }
}

#[test]
fn the_keys_and_words_of_the_mode_bar_work_while_something_is_open() {
    let mut script = script::conversation();
    let result = Script::result("r2", "Execute phase 1", RunStatus::Completed);
    script.finishes("r2", result, RunEnd::Answered);
    script.state(althing_protocol::ChatState::Idle);
    for (width, height) in [(80, 24), (160, 45)] {
        let mut screen = TestScreen::showing(&script, width, height);
        screen.enter_run();
        screen.press(KeyCode::BackTab);
        assert!(screen.shows("Plan on"), "{}", screen.text());
        screen.alt('r');
        assert!(screen.shows("Refine off"), "{}", screen.text());
        screen.click("Multi");
        assert!(screen.shows("Single") && screen.shows("1 gem works"), "{}", screen.text());
        screen.click("2 gpt   3 cc");
        assert!(screen.shows("2 gpt works"), "{}", screen.text());
        assert!(screen.shows("‹ esc   Run: Execute phase 1"), "the run is still open:\n{}", screen.text());
    }
}

// spec: design/ui/run-card
#[test]
fn the_card_of_a_live_run_has_a_button_that_cancels_it_after_a_question() {
    for (width, height) in [(48, 14), (60, 16), (80, 24), (100, 30), (160, 45)] {
        let mut screen = TestScreen::showing(&script::conversation(), width, height);
        assert_eq!(screen.text().matches("[Cancel]").count(), 1, "{width}:\n{}", screen.text());
        screen.click("[Cancel]");
        assert!(screen.shows("Stop this run?") && screen.ops.is_empty(), "{width}:\n{}", screen.text());
        screen.click("Stop it");
        assert_eq!(screen.ops, [Op::Cancel { task: "r2".into() }]);
    }
    // Beside an opened run the card can still be clicked.
    let mut screen = opened("run", (160, 45));
    screen.click("[Cancel]");
    assert!(screen.shows("Stop this run?"), "{}", screen.text());
    // At the smallest size there is no button, because the title needs the room.
    assert!(!TestScreen::showing(&script::conversation(), 40, 12).shows("[Cancel]"));
}

#[test]
fn the_cards_of_finished_runs_have_no_button() {
    let mut script = script::conversation();
    let result = Script::result("r2", "Execute phase 1", RunStatus::Completed);
    script.finishes("r2", result, RunEnd::Answered);
    assert!(!TestScreen::showing(&script, 100, 30).shows("[Cancel]"));
}

#[test]
fn a_title_that_looks_like_the_button_cannot_be_clicked_as_one() {
    let mut script = Script::default();
    script.chat(true);
    script.run("r1", Some("c1"), "Explain [Cancel] to me");
    let mut screen = TestScreen::showing(&script, 100, 30);
    screen.click("[Cancel] to me");
    assert!(screen.app.modal.is_none() && screen.shows("‹ esc   Run: Explain"), "{}", screen.text());
}

#[test]
fn the_button_beside_the_input_sends_what_is_written_and_nothing_else() {
    for (width, height) in [(40, 12), (80, 24), (160, 45)] {
        let mut script = Script::default();
        script.chat(true);
        script.run("r1", Some("c1"), "Replace JWT");
        script.all_answer("r1");
        script.vote("r1");
        script.override_window("r1");
        let mut screen = TestScreen::showing(&script, width, height);
        assert!(screen.is_dim("[Send]"));
        screen.click("[Send]");
        assert!(screen.ops.is_empty(), "there is nothing to send, and the vote stays open: {:?}", screen.ops);
        let text = "a message that is longer than one row of a small screen has room for";
        screen.write(text);
        assert!(screen.is_bold("[Send]"), "{}", screen.text());
        screen.click("[Send]");
        assert!(
            matches!(screen.ops.as_slice(), [Op::SendMessage { text: sent, .. }] if sent == text),
            "{width}: {:?}",
            screen.ops
        );
        assert!(screen.app.input.is_empty());
    }
}

#[test]
fn the_button_sends_a_message_typed_while_a_box_is_open() {
    let mut script = Script::default();
    script.chat(true);
    script.user_sends("Build it");
    script.turn(1);
    script.approval();
    let mut screen = TestScreen::showing(&script, 80, 24);
    screen.write("wait for me");
    screen.click("[Send]");
    assert!(matches!(screen.ops.as_slice(), [Op::SendMessage { .. }]), "{:?}", screen.ops);
    assert!(screen.shows("Launch this run?"));
}

#[test]
fn page_keys_scroll_what_is_open_while_a_message_is_written() {
    let mut screen = opened("run", (80, 14));
    screen.write("draft");
    let before = screen.text();
    screen.press(KeyCode::PageUp);
    assert_ne!(screen.text(), before);
    assert!(screen.shows("› draft"), "{}", screen.text());
}
