//! Keys of the input, commands, completions, and leaving.

use super::support::{HostWithPaths, TestScreen, options};
use crate::script::{self, Script};
use althing_protocol::{Op, RunEnd, RunStatus, Seq, TaskId, Timestamp};
use althing_tui::{App, Effect, ProjectEntry, SessionEntry, Theme, TuiExit, TuiHost, TuiOptions, Welcome};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use std::sync::Arc;

fn idle() -> TestScreen {
    let mut script = Script::default();
    script.chat(true);
    TestScreen::showing(&script, 80, 24)
}

fn texts(screen: &TestScreen) -> Vec<&str> {
    let mut texts = Vec::new();
    for op in &screen.ops {
        if let Op::SendMessage { text, .. } = op {
            texts.push(text.as_str());
        }
    }
    texts
}

#[test]
fn enter_sends_and_other_ways_of_entering_begin_a_line() {
    let mut screen = idle();
    screen.write("one");
    screen.send(Event::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::ALT)));
    screen.write("two");
    screen.control('j');
    screen.write("three\\");
    screen.press(KeyCode::Enter);
    screen.write("four");
    assert!(screen.shows("› one") && screen.shows("  four"));
    screen.press(KeyCode::Enter);
    assert_eq!(texts(&screen), ["one\ntwo\nthree\nfour"]);
    screen.press(KeyCode::Enter);
    assert_eq!(texts(&screen).len(), 1, "an empty message is not sent");
}

#[test]
fn a_paste_is_one_piece_of_text_and_sends_nothing() {
    let mut screen = idle();
    screen.send(Event::Paste("line one\r\nline two\x1b[31m".into()));
    assert!(texts(&screen).is_empty());
    screen.press(KeyCode::Enter);
    assert_eq!(texts(&screen), ["line one\nline two[31m"]);
}

#[test]
fn earlier_messages_come_back_and_the_draft_is_kept() {
    let mut screen = idle();
    screen.send_line("first");
    screen.send_line("second");
    screen.write("draft");
    screen.press(KeyCode::Up);
    assert!(screen.shows("› second"));
    screen.press(KeyCode::Up);
    assert!(screen.shows("› first"));
    screen.press(KeyCode::Up);
    assert!(screen.shows("› first"));
    screen.press(KeyCode::Down);
    screen.press(KeyCode::Down);
    assert!(screen.shows("› draft"));
}

#[test]
fn paths_and_commands_complete() {
    let mut screen = idle();
    screen.write("look at @src");
    assert!(screen.shows("@src/main.rs"));
    screen.press(KeyCode::Tab);
    assert!(screen.shows("› look at @src/"));
    screen.press(KeyCode::Down);
    screen.press(KeyCode::Tab);
    screen.press(KeyCode::Enter);
    assert_eq!(texts(&screen), ["look at @src/main.rs"]);
    screen.write("/the");
    assert!(screen.shows("/theme  colors"));
    screen.press(KeyCode::Tab);
    screen.write("light");
    screen.press(KeyCode::Enter);
    assert_eq!(screen.app.theme, Theme::Light);
}

#[test]
fn a_command_may_be_left_unfinished_and_a_wrong_one_is_explained() {
    let mut screen = idle();
    screen.send_line("/hel");
    assert!(screen.shows("Help") && screen.shows("esc close"));
    screen.press(KeyCode::Esc);
    screen.send_line("/agnets");
    assert!(screen.shows("/agnets is not a command: did you mean /agents?"), "{}", screen.text());
    assert!(texts(&screen).is_empty());
    screen.send_line("//literally");
    assert_eq!(texts(&screen), ["/literally"]);
}

#[test]
fn the_other_names_of_commands_complete() {
    for (typed, offered) in
        [("/resu", "/resume"), ("/exi", "/exit"), ("/sear", "/search"), ("/usa", "/usage")]
    {
        let mut screen = idle();
        screen.write(typed);
        assert!(screen.shows(&format!("{offered}  ")), "{typed}:\n{}", screen.text());
        screen.press(KeyCode::Tab);
        assert_eq!(screen.app.input.text(), format!("{offered} "));
    }
    let mut screen = idle();
    screen.send_line("/usa");
    assert!(screen.shows("Cost so far"), "{}", screen.text());
    // A command that discards something must be written in full, also under another name.
    let mut screen = idle();
    screen.send_line("/rese");
    assert!(screen.effects.is_empty() && screen.shows("write /reset in full"), "{}", screen.text());
    let mut screen = idle();
    screen.send_line("/serach x");
    assert!(screen.shows("did you mean /search?"), "{}", screen.text());
}

#[test]
fn a_message_that_begins_with_a_path_is_no_command() {
    let mut screen = TestScreen::with_host(options(), Arc::new(HostWithPaths), 80, 24);
    for text in ["/usr/bin/env python3 fails here", "/usr/bin/env", "/tmp is full", "/tmp"] {
        screen.send_line(text);
        assert_eq!(texts(&screen).last(), Some(&text), "{}", screen.text());
    }
    let sent = texts(&screen).len();
    screen.send_line("/nothing is here");
    assert!(screen.shows("/nothing is not a command"), "{}", screen.text());
    assert_eq!(texts(&screen).len(), sent);
}

#[test]
fn commands_ask_for_what_they_say() {
    let mut script = script::conversation();
    let message = script.seq;
    script.turn(3);
    let mut screen = TestScreen::showing(&script, 80, 24);
    screen.send_line("/pin");
    assert_eq!(screen.ops.last(), Some(&Op::Pin { message: Some(Seq(message)) }));
    screen.send_line("/compact");
    assert_eq!(screen.ops.last(), Some(&Op::Compact));
    screen.send_line("/cancel");
    assert!(screen.shows("Stop this run?"), "{}", screen.text());
    screen.press_after_reading('y');
    assert_eq!(screen.ops.last(), Some(&Op::Cancel { task: "r2".into() }));
    let mut talking = Script::default();
    talking.chat(true);
    talking.turn(1);
    let mut waiting = TestScreen::showing(&talking, 80, 24);
    waiting.send_line("/cancel");
    assert_eq!(waiting.ops.last(), Some(&Op::Cancel { task: TaskId::chat() }), "without a run, the turn");
    screen.send_line("/undo");
    assert!(screen.shows("Undo what this run wrote?"), "{}", screen.text());
    screen.press_after_reading('y');
    assert_eq!(screen.effects.last(), Some(&Effect::Undo("r1".into())));
    screen.send_line("/copy");
    assert!(matches!(screen.effects.last(), Some(Effect::Copy(text)) if text.contains("plan with 3 phases")));
    screen.send_line("/sessions");
    screen.press(KeyCode::Down);
    screen.press(KeyCode::Enter);
    assert!(screen.shows("Leave while agents work?"), "{}", screen.text());
    screen.press_after_reading('y');
    assert_eq!(screen.effects.last(), Some(&Effect::Leave(TuiExit::OpenSession("s1".into()))));
    screen.send_line("/quit");
    screen.press_after_reading('y');
    assert_eq!(screen.effects.last(), Some(&Effect::Leave(TuiExit::Quit)));
}

#[test]
fn a_letter_that_does_not_answer_a_confirmation_begins_a_message() {
    let mut screen = TestScreen::showing(&script::conversation(), 80, 24);
    screen.send_line("/quit");
    assert!(screen.shows("Leave while agents work?"), "{}", screen.text());
    screen.write("also compare yaks");
    assert!(!screen.shows("Leave while agents work?"), "{}", screen.text());
    assert_eq!(screen.app.input.text(), "also compare yaks");
    assert!(screen.effects.is_empty() && screen.ops.is_empty());
    screen.control('u');
    screen.send_line("/quit");
    screen.press_alone('n');
    assert!(!screen.shows("Leave while agents work?"), "{}", screen.text());
    assert!(screen.app.input.is_empty() && screen.effects.is_empty());
}

#[test]
fn a_message_that_begins_like_an_answer_to_a_confirmation_loses_no_letter() {
    let mut screen = TestScreen::showing(&script::conversation(), 80, 24);
    for message in ["no, wait", "yes please", "yyes", "nobody"] {
        screen.send_line("/quit");
        assert!(screen.shows("Leave while agents work?"), "{}", screen.text());
        screen.write(message);
        assert!(!screen.shows("Leave while agents work?"), "{message}: {}", screen.text());
        assert_eq!(screen.app.input.text(), message);
        assert!(screen.effects.is_empty() && screen.ops.is_empty(), "{message}");
        screen.control('u');
    }
    for keys in [&[KeyCode::Char('n')][..], &[KeyCode::Char('y'), KeyCode::Esc]] {
        screen.send_line("/quit");
        for key in keys {
            screen.press(*key);
        }
        screen.wait(1100);
        screen.write("go on");
        assert_eq!(screen.app.input.text(), "go on", "an answer is no letter of a later message");
        screen.control('u');
    }
    assert!(screen.effects.is_empty() && screen.ops.is_empty());
}

#[test]
fn ctrl_c_clears_then_cancels_then_leaves() {
    let mut screen = TestScreen::showing(&script::conversation(), 80, 24);
    screen.write("half a thought");
    screen.control('c');
    assert!(screen.app.input.is_empty() && screen.ops.is_empty());
    screen.write("half a thought");
    screen.control('c');
    assert!(screen.app.input.is_empty() && screen.ops.is_empty());
    screen.control('c');
    assert_eq!(screen.ops, [Op::Cancel { task: "r2".into() }]);
    assert!(screen.shows("Ctrl+C again leaves"));
    screen.control('c');
    assert_eq!(screen.effects.last(), Some(&Effect::Leave(TuiExit::Quit)));
    // When the run has ended, the message that it is being stopped disappears. Another key between two Ctrl+C cancels
    // leaving.
    let mut script = script::conversation();
    let mut screen = TestScreen::showing(&script, 80, 24);
    screen.control('c');
    let known = script.items.len();
    let result = Script::result("r2", "Replace JWT", RunStatus::Cancelled);
    script.finishes("r2", result, RunEnd::Cancelled);
    screen.feed(&script.items[known..]);
    assert!(!screen.shows("stopping the run"), "{}", screen.text());
    let mut screen = idle();
    screen.control('c');
    screen.write("x");
    screen.press(KeyCode::Backspace);
    screen.control('c');
    assert!(!screen.effects.contains(&Effect::Leave(TuiExit::Quit)), "any other key between takes it back");
}

#[test]
fn ctrl_d_leaves_only_from_an_empty_input() {
    let mut screen = idle();
    screen.write("text");
    screen.control('d');
    assert!(screen.effects.is_empty());
    screen.control('u');
    screen.control('d');
    assert_eq!(screen.effects, [Effect::Leave(TuiExit::Quit)]);
}

#[test]
fn keys_open_the_editor_the_pager_and_the_shell() {
    let mut screen = idle();
    screen.write("draft");
    screen.control('x');
    assert_eq!(screen.effects, [Effect::EditInput]);
    screen.app.edited(Ok("written elsewhere\n".into()));
    screen.draw();
    assert!(screen.shows("› written elsewhere"));
    screen.control('z');
    assert_eq!(screen.effects.last(), Some(&Effect::Suspend));
}

#[test]
fn the_first_message_is_sent_at_once() {
    let screen = TestScreen::with(TuiOptions { first_message: Some("do it".into()), ..options() }, 80, 24);
    assert_eq!(texts(&screen), ["do it"]);
}

#[test]
fn the_choices_of_the_first_screen_are_taken_by_arrows_and_clicks() {
    let welcome = || TuiOptions { welcome: Some(Welcome::default()), ..options() };
    let chosen = |steps: usize| {
        let mut screen = TestScreen::with(welcome(), 80, 24);
        assert!(screen.shows("Welcome to Althing") && screen.shows("› start with what was found"));
        (0..steps).for_each(|_| screen.press(KeyCode::Down));
        screen.press(KeyCode::Enter);
        screen
    };
    let screen = chosen(0);
    assert!(!screen.shows("Welcome to Althing") && screen.ops.is_empty() && screen.effects.is_empty());
    assert_eq!(chosen(1).effects, [Effect::Leave(TuiExit::UseOffline)]);
    assert_eq!(chosen(2).effects, [Effect::WriteConfig]);
    assert!(chosen(3).shows("Help"));
    let mut screen = TestScreen::with(welcome(), 80, 24);
    screen.click("first write a config (althing.yaml) to this directory");
    assert_eq!(screen.effects, [Effect::WriteConfig]);
}

#[test]
fn every_letter_on_the_first_screen_goes_into_the_input() {
    let welcome = || TuiOptions { welcome: Some(Welcome::default()), ..options() };
    let letters = (' '..='~').filter(|letter| !matches!(letter, ' ' | '/' | '@'));
    for letter in letters.chain(['é', '日']) {
        let mut screen = TestScreen::with(welcome(), 80, 24);
        screen.write(&format!("{letter}ompare"));
        assert_eq!(screen.app.input.text(), format!("{letter}ompare"));
        assert!(screen.effects.is_empty(), "{letter}: {:?}", screen.effects);
        screen.press(KeyCode::Enter);
        assert_eq!(texts(&screen), [format!("{letter}ompare")]);
    }
}

#[test]
fn notes_of_the_start_stand_in_the_conversation() {
    let notes = vec!["No config was found: agents are made from GEMINI_API_KEY.".into()];
    let mut screen = TestScreen::with(TuiOptions { notes, ..options() }, 80, 24);
    assert!(screen.shows("note: No config was found: agents are made from GEMINI_API_KEY."));
    screen.send_line("hello");
    assert_eq!(texts(&screen), ["hello"], "a note takes no keys");
}

#[test]
fn themes_are_tried_before_they_are_kept() {
    let mut screen = idle();
    screen.send_line("/theme");
    screen.press(KeyCode::Down);
    assert_eq!(screen.app.theme, Theme::Light);
    screen.press(KeyCode::Esc);
    assert_eq!(screen.app.theme, Theme::Dark);
}

#[test]
fn a_recording_accepts_no_input() {
    let mut screen = TestScreen::with(TuiOptions { replay: true, ..options() }, 80, 24);
    screen.feed(&script::conversation().items);
    screen.send_line("hello");
    assert!(screen.ops.is_empty() && screen.shows("this is a recording"));
    assert!(screen.rows()[0].ends_with("Replay"));
}

fn beside() -> TestScreen {
    let mut screen = TestScreen::showing(&script::conversation(), 170, 40);
    screen.control('r');
    assert!(screen.shows("‹ esc   Run: Execute phase 1") && screen.shows("› Type a message..."));
    screen
}

#[test]
fn beside_an_opened_run_every_letter_goes_to_the_visible_input() {
    for letter in (' '..='~').filter(|letter| !matches!(letter, '/' | '@')) {
        let mut screen = beside();
        screen.write(&format!("{letter}it"));
        assert_eq!(screen.app.input.text(), format!("{letter}it"));
        assert!(screen.ops.is_empty() && screen.effects.is_empty(), "{letter}: {:?}", screen.effects);
        assert!(screen.app.modal.is_none(), "{letter}");
        assert!(screen.shows("‹ esc   Run: Execute phase 1"), "{letter}");
    }
}

#[test]
fn tab_moves_the_focus_between_the_input_and_the_run_and_only_one_shows_it() {
    let mut screen = beside();
    let cursor = screen.cursor();
    assert_eq!(cursor.y, 39, "the cursor is in the input");
    screen.write("half a thought");
    screen.press(KeyCode::Tab);
    assert!(
        !screen.shows("half a thought") && screen.shows("tab to write a message · what you wrote is kept")
    );
    screen.press(KeyCode::Char('2'));
    assert!(screen.shows("gpt · gpt-5-mini"), "a digit chooses an agent now:\n{}", screen.text());
    screen.press(KeyCode::Tab);
    screen.write("!");
    assert!(screen.shows("› half a thought!"));
    screen.press(KeyCode::Esc);
    assert!(!screen.shows("‹ esc   Run: Execute phase 1") && screen.shows("› half a thought!"));
}

#[test]
fn going_through_the_conversation_shows_no_input() {
    let mut screen = TestScreen::showing(&script::conversation(), 100, 30);
    screen.press(KeyCode::Tab);
    assert!(!screen.shows("Type a message...") && screen.shows("esc to write a message"));
    screen.press(KeyCode::Esc);
    assert!(screen.shows("› Type a message..."));
}

#[test]
fn irreversible_actions_are_confirmed_and_only_yes_executes_them() {
    for width in [100, 170] {
        let mut screen = TestScreen::showing(&script::conversation(), width, 40);
        screen.enter_run();
        for no in [KeyCode::Enter, KeyCode::Esc, KeyCode::Char('x'), KeyCode::Char('n'), KeyCode::Char(' ')] {
            screen.press(KeyCode::Char('x'));
            assert!(screen.shows("Stop this run?"), "{}", screen.text());
            screen.press(no);
            screen.wait(500);
            assert!(!screen.shows("Stop this run?") && screen.ops.is_empty(), "{no:?}");
        }
        screen.press(KeyCode::Char('x'));
        screen.press_after_reading('y');
        assert_eq!(screen.ops, [Op::Cancel { task: "r2".into() }]);
        screen.click("cancel");
        screen.click("Stop it");
        assert_eq!(screen.ops.len(), 2, "the mouse is asked, too");
    }
}

struct Unreadable;

impl TuiHost for Unreadable {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn sessions(&self) -> Result<Vec<SessionEntry>, String> {
        Err("the sessions cannot be read: permission denied".into())
    }

    fn projects(&self) -> Result<Vec<ProjectEntry>, String> {
        Err("the projects cannot be read: permission denied".into())
    }
}

#[test]
fn sessions_and_projects_that_cannot_be_read_are_not_shown_as_none() {
    let mut screen = idle();
    screen.app = App::new(options(), Arc::new(Unreadable));
    for what in ["sessions", "projects"] {
        screen.send_line(&format!("/{what}"));
        let expected = format!("the {what} cannot be read: permission denied");
        assert_eq!(screen.app.toast.as_deref(), Some(expected.as_str()));
        assert!(screen.app.modal.is_none());
    }
}
