//! An attached program: keys, screen, and detaching.

use super::support::TestScreen;
use crate::script::Script;
use althing_protocol::{Fact, Op, Screen as ProgramScreen, ScreenCell, ScreenColor, TaskStatus};
use crossterm::event::{Event, KeyCode};
use ratatui::style::Color;

fn attached() -> (TestScreen, Script) {
    let mut script = Script::default();
    script.workflow();
    let mut screen = TestScreen::showing(&script, 80, 24);
    screen.control('t');
    screen.press(KeyCode::Down);
    screen.press(KeyCode::Enter);
    script.items.clear();
    (screen, script)
}

fn cells(text: &str, fg: ScreenColor) -> Vec<ScreenCell> {
    text.chars().map(|c| ScreenCell { text: c.to_string(), fg, ..ScreenCell::default() }).collect()
}

fn input(text: &str) -> Op {
    Op::Input { task: "w1.ask".into(), bytes: text.as_bytes().to_vec() }
}

#[test]
fn keys_and_pastes_reach_the_program_and_only_it() {
    let (mut screen, _) = attached();
    assert_eq!(screen.ops, [Op::Resize { task: "w1.ask".into(), cols: 80, rows: 23 }]);
    screen.write("y");
    screen.press(KeyCode::Enter);
    screen.control('c');
    screen.control('d');
    screen.press(KeyCode::Up);
    assert_eq!(screen.ops[1..], [input("y"), input("\r"), input("\x03"), input("\x04"), input("\x1b[A")]);
    screen.app.show_attached(Some(ProgramScreen { bracketed_paste: true, ..ProgramScreen::default() }));
    screen.send(Event::Paste("two\nlines\x1b[201~rm".into()));
    assert_eq!(screen.ops.last(), Some(&input("\x1b[200~two\rlines[201~rm\x1b[201~")));
    assert!(screen.app.input.is_empty());
}

#[test]
fn its_colors_and_cursor_are_shown() {
    let (mut screen, _) = attached();
    screen.app.show_attached(Some(ProgramScreen {
        cols: 80,
        rows: vec![cells("green", ScreenColor::Indexed(2)), cells("gray", ScreenColor::Rgb(1, 2, 3))],
        cursor: Some((5, 1)),
        ..ProgramScreen::default()
    }));
    screen.draw();
    assert_eq!(screen.style_of("green").fg, Some(Color::Indexed(2)));
    assert_eq!(screen.style_of("gray").fg, Some(Color::Rgb(1, 2, 3)));
    assert_eq!((screen.cursor().x, screen.cursor().y), (5, 1));
}

#[test]
fn the_detach_key_always_works() {
    let (mut screen, script) = attached();
    for n in 0..500 {
        let rows = vec![cells(&format!("\x1b]52;c;{n}\x07"), ScreenColor::Default); 50];
        screen.app.show_attached(Some(ProgramScreen { cols: 200, rows, ..ProgramScreen::default() }));
        screen.feed(&script.items);
    }
    let before = screen.ops.len();
    screen.control(']');
    assert!(screen.shows("Tasks") && screen.app.attached_task().is_none());
    assert_eq!(screen.ops.len(), before, "the key itself is not typed");
}

#[test]
fn a_program_that_ends_closes_its_screen() {
    let (mut screen, mut script) = attached();
    script.fact(Some("w1.ask"), Fact::StatusChanged { status: TaskStatus::Done, why: None });
    screen.feed(&script.items);
    assert!(screen.shows("Tasks") && screen.shows("the program has ended"));
}

#[test]
fn the_program_is_told_its_size_when_the_screen_changes() {
    let (mut screen, _) = attached();
    screen.resize(120, 40);
    assert_eq!(screen.ops.last(), Some(&Op::Resize { task: "w1.ask".into(), cols: 120, rows: 39 }));
}

#[test]
fn what_is_still_typed_for_a_program_that_has_ended_does_not_act_on_the_tasks() {
    let (mut screen, mut script) = attached();
    screen.write("yes");
    screen.press(KeyCode::Enter);
    script.fact(Some("w1.ask"), Fact::StatusChanged { status: TaskStatus::Done, why: None });
    screen.feed(&script.items);
    assert!(screen.shows("the program has ended"), "{}", screen.text());
    let typed = screen.ops.len();
    for key in [KeyCode::Enter, KeyCode::Char('x'), KeyCode::Char('r'), KeyCode::Enter] {
        screen.wait(300);
        screen.press(key);
        assert!(screen.app.modal.is_none() && !screen.shows("Task: "), "{key:?}:\n{}", screen.text());
    }
    assert_eq!(screen.ops.len(), typed);
    // After a pause, Enter opens the task.
    screen.wait(1_000);
    screen.press(KeyCode::Enter);
    assert!(screen.shows("Task: "), "{}", screen.text());
}
