//! The picker of sessions, and a sent message that is edited.

use super::support::TestScreen;
use crate::script::Script;
use althing_tui::{Effect, TuiExit};
use crossterm::event::{Event, KeyCode};

fn picking(width: u16, height: u16) -> TestScreen {
    let mut script = Script::default();
    script.chat(true);
    let mut screen = TestScreen::showing(&script, width, height);
    screen.send_line("/sessions");
    screen
}

fn leaves(screen: &TestScreen) -> usize {
    screen.effects.iter().filter(|effect| matches!(effect, Effect::Leave(_))).count()
}

#[test]
fn letters_filter_the_list_and_never_reach_the_input_or_act() {
    let mut screen = picking(80, 24);
    screen.write("jwt y q x");
    assert!(screen.app.input.is_empty() && screen.shows("no session matches"));
    screen.press(KeyCode::Enter);
    assert_eq!(leaves(&screen), 0, "nothing is selected");
    for _ in 0..6 {
        screen.press(KeyCode::Backspace);
    }
    assert!(screen.shows("1 of 2") && !screen.shows("Draft the release notes"));
    screen.press(KeyCode::Enter);
    assert_eq!(screen.effects.last(), Some(&Effect::Leave(TuiExit::OpenSession("s1".into()))));
}

#[test]
fn pasted_text_goes_to_the_filter() {
    let mut screen = picking(80, 24);
    screen.send(Event::Paste("release\nnotes".into()));
    assert!(screen.shows("Filter: release notes") && screen.shows("1 of 2") && screen.app.input.is_empty());
}

#[test]
fn only_a_deliberate_y_deletes() {
    let deletes = |screen: &TestScreen| {
        screen.effects.iter().filter(|effect| matches!(effect, Effect::RemoveSession(_))).count()
    };
    for key in [KeyCode::Enter, KeyCode::Esc, KeyCode::Char('d'), KeyCode::Char('n'), KeyCode::Down] {
        let mut screen = picking(80, 24);
        screen.control('x');
        assert!(screen.shows("Delete “Draft the release notes” forever?"));
        screen.wait(2000);
        screen.press(key);
        assert!(deletes(&screen) == 0 && !screen.shows("forever?"), "{key:?}");
    }
    let mut screen = picking(80, 24);
    screen.control('x');
    screen.press(KeyCode::Char('y'));
    assert_eq!(deletes(&screen), 0, "it came too soon");
    screen.press_after_reading('y');
    assert_eq!(screen.effects.last(), Some(&Effect::RemoveSession("s2".into())));
}

#[test]
fn the_picker_fits_small_screens() {
    for (width, height) in [(40, 12), (20, 6), (8, 3)] {
        let mut screen = picking(width, height);
        screen.control('r');
        screen.write(&"a very long title ".repeat(10));
        screen.press(KeyCode::Esc);
        screen.control('x');
        screen.press(KeyCode::Esc);
        if height >= 12 {
            assert!(screen.shows("Draft the rel") && screen.shows("^R rename"), "{}", screen.text());
        }
    }
}

#[test]
fn a_click_selects_a_session_and_a_second_one_resumes_it() {
    let mut screen = picking(80, 24);
    screen.click("Replace JWT");
    assert_eq!(leaves(&screen), 0);
    screen.click("› Replace JWT");
    assert_eq!(screen.effects.last(), Some(&Effect::Leave(TuiExit::OpenSession("s1".into()))));
}

#[test]
fn a_sent_message_is_edited_and_branches_but_not_while_an_agent_works() {
    let mut script = Script::default();
    script.chat(true);
    let seq = script.user_sends("question one");
    script.turn(1);
    script.replies(1, "an answer");
    let mut screen = TestScreen::showing(&script, 80, 24);
    let edit = |screen: &mut TestScreen| {
        screen.press(KeyCode::Tab);
        screen.press(KeyCode::Home);
        screen.press_alone('e');
    };
    edit(&mut screen);
    assert!(screen.shows("agents are working") && screen.app.input.is_empty());
    screen.press(KeyCode::Esc);
    let known = script.items.len();
    script.turn_ends(1);
    screen.feed(&script.items[known..]);
    edit(&mut screen);
    assert_eq!(screen.app.input.text(), "question one");
    screen.press(KeyCode::Esc);
    assert!(screen.app.input.is_empty(), "esc cancels");
    screen.send_line("an ordinary message");
    assert_eq!(leaves(&screen), 0, "the next message is sent as always");
    edit(&mut screen);
    screen.write("!");
    screen.press(KeyCode::Enter);
    let branch = TuiExit::Branch { before: althing_protocol::Seq(seq), text: "question one!".into() };
    assert_eq!(screen.effects.last(), Some(&Effect::Leave(branch)));
}
