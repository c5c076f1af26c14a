//! Output of programs in terminals: the emulator draws it, and only letters, colors and our own cursor moves reach the
//! terminal of an attached user.

use crate::cut::{choice, pieces};
use crate::foreign::{foreign, written};
use crate::script::Script;
use althing_protocol::{Screen, Timestamp};
use althing_runner::{FuzzTerminal, ScreenReaders};
use althing_tui::{App, TuiHost, TuiOptions};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use regex::bytes::Regex;
use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

/// All responses that a program may get from its terminal. None contains text of the program itself.
static ANSWERS: LazyLock<Regex> = LazyLock::new(|| {
    let answers = [
        r"\x1b\[\?62;22c",
        r"\x1b\[>1;10;0c",
        r"\x1bP>\|althing\([0-9.]+\)\x1b\\",
        r"\x1b\[0n",
        r"\x1b\[\??[0-9]+;[0-9]+R",
        r"\x1b\[\?997;1n",
        r"\x1b\[\?[0-9]+;[012]\$y",
        r"\x1b\[8;[0-9]+;[0-9]+t",
        r"\x1b\]1[01];rgb:[0-9a-f/]+\x1b\\",
        r"\x1b\]7501;\?\x1b\\",
    ];
    Regex::new(&format!("^(?:{})*$", answers.join("|"))).expect("a pattern")
});
/// Responses of this many bytes or more are not compared, because a terminal drops responses that are too long in
/// total.
const MOST_ANSWERS: usize = 8 * 1024;

pub(crate) struct NullHost;

impl TuiHost for NullHost {
    fn now(&self) -> Timestamp {
        crate::script::START
    }
}

thread_local! {
    static READERS: ScreenReaders = ScreenReaders::built_in().expect("built-in patterns are patterns");
    /// Our screen, attached to a program. The check sets the program's screen.
    static ATTACHED: RefCell<App> = RefCell::new(attached());
}

pub(crate) fn check(bytes: &[u8]) {
    let (how, bytes) = choice(bytes);
    let mut whole = FuzzTerminal::new(80, 24);
    let (_, answers) = whole.feed(bytes);
    let screen = check_screen(&whole);
    assert!(ANSWERS.is_match(&answers), "{:?}", String::from_utf8_lossy(&answers));

    let mut cut = FuzzTerminal::new(80, 24);
    let in_pieces: Vec<u8> = pieces(bytes, how).iter().flat_map(|piece| cut.feed(piece).1).collect();
    assert_eq!(check_screen(&cut), screen, "cut another way it is drawn in another way");
    if in_pieces.len() < MOST_ANSWERS {
        assert_eq!(in_pieces, answers);
    }

    let mut sized = FuzzTerminal::new(u16::from(how), 3);
    for (n, piece) in (0..).zip(pieces(bytes, how.max(8))) {
        let (clean, _) = sized.feed(piece);
        only_letters(&clean);
        only_letters(&sized.resize(1 + u16::from(how) * n % 97, n % 31));
    }
    only_letters(&sized.at_rest());
    check_screen(&sized);
    for line in sized.history() {
        assert!(!line.contains('\n'));
        only_letters(&line);
    }
    show(&screen);
}

/// Checks that the cursor is on the screen and that no text on it contains control characters.
fn check_screen(drawn: &FuzzTerminal) -> Screen {
    let screen = drawn.screen();
    assert!(screen.cursor.is_none_or(|(col, row)| col < screen.cols && usize::from(row) < screen.rows.len()));
    for cell in screen.rows.iter().flatten() {
        only_letters(&cell.text);
        assert!(!cell.text.contains('\n'));
    }
    only_letters(&screen.title);
    assert!(screen.title.chars().count() <= 200);
    only_letters(&drawn.text());
    READERS.with(|readers| drawn.asks(readers).iter().for_each(|question| only_letters(question)));
    screen
}

fn only_letters(text: &str) {
    let acts = |c: char| {
        (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(acts), "{text:?}");
}

fn show(screen: &Screen) {
    ATTACHED.with_borrow_mut(|app| {
        app.show_attached(Some(screen.clone()));
        let bytes = written(app, 80, 24);
        assert_eq!(foreign(&bytes), None, "{:?}", String::from_utf8_lossy(&bytes));
        assert!(String::from_utf8_lossy(&bytes).contains("attached to"), "the last line is ours");
    });
}

fn attached() -> App {
    let mut script = Script::default();
    script.workflow();
    let mut app = App::new(TuiOptions::default(), Arc::new(NullHost));
    for item in &script.items {
        app.apply(item);
    }
    app.sync();
    written(&mut app, 80, 24);
    for (code, modifiers) in [
        (KeyCode::Char('t'), KeyModifiers::CONTROL),
        (KeyCode::Down, KeyModifiers::NONE),
        (KeyCode::Enter, KeyModifiers::NONE),
    ] {
        app.handle(&Event::Key(KeyEvent::new(code, modifiers)), Timestamp(0));
    }
    assert!(app.attached_task().is_some(), "it is attached");
    app
}
