//! Letters and digits that are shortcuts and can also begin a sentence: a sentence answers and changes nothing, in any
//! dialog and wherever the focus is; a letter alone does.

use super::support::{TestScreen, options};
use crate::script::{self, Script};
use althing_protocol::{Decision, InteractionKind, Op, RunEnd, RunStatus};
use althing_tui::{Effect, TrustChoice, TuiOptions};
use crossterm::event::KeyCode;

fn trust() -> TestScreen {
    let mut screen = TestScreen::new(80, 24);
    screen.app.ask_trust(vec!["start the program /tmp/x".into()]);
    screen.app.note_question_shown(screen.now);
    screen.draw();
    screen
}

fn leaving() -> TestScreen {
    let mut screen = TestScreen::showing(&script::conversation(), 80, 24);
    screen.send_line("/quit");
    screen
}

/// A confirmation above an opened run, so that the input does not have the focus.
fn stopping() -> TestScreen {
    let mut screen = TestScreen::showing(&script::conversation(), 80, 24);
    screen.enter_run();
    screen.press(KeyCode::Char('x'));
    screen
}

fn deleting() -> TestScreen {
    let mut screen = TestScreen::new(80, 24);
    screen.send_line("/sessions");
    screen.control('x');
    screen
}

fn asked(open: impl FnOnce(&mut Script)) -> TestScreen {
    let mut script = Script::default();
    script.workflow();
    open(&mut script);
    let mut screen = TestScreen::with(TuiOptions { workflow: true, ..options() }, 80, 24);
    screen.feed(&script.items);
    screen.press(KeyCode::Char('a'));
    screen
}

fn program() -> TestScreen {
    asked(|script| script.program_asks("w1.ask"))
}

fn interrupted() -> TestScreen {
    asked(|script| script.asks(Some("w1.ask"), "i-cut", InteractionKind::Interrupted, None))
}

type Opened = (&'static str, fn() -> TestScreen, &'static str);

/// The dialogs that a person opens, with the letters that answer them.
const OPENED: [Opened; 6] = [
    ("trust", trust, "oanq"),
    ("leaving", leaving, "y"),
    ("stopping", stopping, "y"),
    ("deleting", deleting, "y"),
    ("program", program, "a123"),
    ("interrupted", interrupted, "af"),
];

fn harmful(screen: &TestScreen) -> Vec<&Effect> {
    let is_harmful = |effect: &&Effect| match effect {
        Effect::Submit(op) => matches!(op, Op::Answer { .. } | Op::Cancel { .. } | Op::Pin { .. }),
        Effect::Leave(_) | Effect::Undo(_) | Effect::RemoveSession(_) | Effect::Copy(_) | Effect::Page(_) => {
            true
        }
        _ => false,
    };
    screen.effects.iter().filter(is_harmful).collect()
}

#[test]
fn a_sentence_that_begins_with_a_shortcut_answers_no_dialog() {
    for (name, open, letters) in OPENED {
        for letter in letters.chars() {
            for between in [100, 900] {
                let mut screen = open();
                screen.wait(5_000);
                for typed in format!("{letter}es please do it").chars() {
                    screen.press(KeyCode::Char(typed));
                    screen.wait(between);
                }
                screen.wait(5_000);
                assert_eq!(screen.app.trust_choice(), None, "{name} {letter} {between}");
                assert!(harmful(&screen).is_empty(), "{name} {letter}: {:?}", harmful(&screen));
                if name == "leaving" {
                    assert_eq!(screen.app.input.text(), "yes please do it", "no letter is lost");
                }
            }
        }
    }
}

#[test]
fn a_shortcut_alone_answers_after_a_second_and_with_enter_at_once() {
    for (name, open, letters) in OPENED {
        for letter in letters.chars() {
            for by_enter in [false, true] {
                let mut screen = open();
                screen.wait(5_000);
                screen.press(KeyCode::Char(letter));
                let answered =
                    |screen: &TestScreen| !harmful(screen).is_empty() || screen.app.trust_choice().is_some();
                assert!(!answered(&screen), "{name} {letter}");
                if by_enter {
                    screen.press(KeyCode::Enter);
                } else {
                    assert!(screen.shows("in a second"), "{name} {letter}:\n{}", screen.text());
                    screen.wait(1_000);
                }
                assert!(answered(&screen), "{name} {letter} {by_enter}:\n{}", screen.text());
            }
            let mut screen = open();
            screen.wait(5_000);
            screen.press(KeyCode::Char(letter));
            screen.press(KeyCode::Backspace);
            screen.wait(5_000);
            assert!(harmful(&screen).is_empty() && screen.app.trust_choice().is_none(), "{name}: taken back");
        }
    }
    let mut screen = trust();
    screen.wait(5_000);
    screen.press_alone('a');
    assert_eq!(screen.app.trust_choice(), Some(TrustChoice::Always));
}

#[test]
fn two_shortcuts_that_follow_each_other_in_a_box_are_a_message() {
    let mut script = Script::default();
    script.chat(true);
    script.approval();
    for text in ["aa", "ac", "ca", "ea"] {
        let mut screen = TestScreen::showing(&script, 100, 30);
        screen.write(text);
        screen.wait(5_000);
        assert!(screen.ops.is_empty(), "{text}: {:?}", screen.ops);
        assert_eq!(screen.app.input.text(), text);
    }
}

#[test]
fn a_letter_whose_box_is_gone_comes_before_the_letters_that_follow() {
    let mut script = Script::default();
    script.chat(true);
    script.approval();
    let mut screen = TestScreen::showing(&script, 100, 30);
    screen.press(KeyCode::Char('a'));
    script.items.clear();
    script.answered("i-run", Decision::Reject { reason: None });
    screen.feed(&script.items);
    screen.write("nd");
    screen.wait(2_000);
    assert_eq!(screen.app.input.text(), "and");
}

/// A conversation in which the person has moved up from the newest entry this many times.
fn browsing(up: usize) -> TestScreen {
    let mut script = script::conversation();
    let mut result = Script::result("r2", "Replace JWT", RunStatus::Completed);
    result.context_path_writes = Script::writes(2);
    script.finishes("r2", result, RunEnd::Answered);
    let mut screen = TestScreen::showing(&script, 100, 40);
    screen.press(KeyCode::Tab);
    (0..up).for_each(|_| screen.press(KeyCode::Up));
    screen.wait(5_000);
    screen.effects.clear();
    screen
}

#[test]
fn a_sentence_typed_while_going_through_the_conversation_is_a_message() {
    for up in 0..7 {
        for text in ["please explain", "copy that", "explain it", "undo it", "open it", "all of it", "do it"]
        {
            for between in [3, 300, 480] {
                let mut screen = browsing(up);
                for typed in text.chars() {
                    screen.press(KeyCode::Char(typed));
                    screen.wait(between);
                }
                screen.wait(5_000);
                assert!(screen.effects.is_empty(), "{up} {text}: {:?}", screen.effects);
                assert!(screen.app.modal.is_none(), "{up} {text}");
                assert_eq!(screen.app.input.text(), text, "{up}");
            }
        }
    }
}

#[test]
fn a_letter_alone_acts_on_the_selected_entry() {
    let mut screen = browsing(0);
    screen.press_alone('c');
    assert!(matches!(screen.effects.as_slice(), [Effect::Copy(_)]), "{:?}", screen.effects);
    screen.press(KeyCode::Char('p'));
    screen.press(KeyCode::Up);
    assert!(
        matches!(screen.ops.as_slice(), [Op::Pin { .. }]),
        "a key that is no letter makes it act at once"
    );
    assert!(screen.app.browsing, "and acts itself");
    screen.press(KeyCode::Char('p'));
    screen.press(KeyCode::Backspace);
    screen.wait(5_000);
    assert_eq!(screen.ops.len(), 1, "it was taken back");
    // With Ctrl or Alt, a letter is another key.
    screen.effects.clear();
    for letter in ['p', 'e', 'u', 'x'] {
        let mut screen = browsing(0);
        screen.control(letter);
        screen.wait(5_000);
        assert!(harmful(&screen).is_empty() && screen.app.modal.is_none(), "{letter}: {:?}", screen.effects);
    }
}
