//! Key hints at every width: whole items are left out, and the key that leads out stays.

use super::support::{TestScreen, options};
use crate::script::{self, Script};
use althing_protocol::{DeltaKind, InteractionKind, ModeChoice};
use althing_tui::TuiOptions;
use crossterm::event::KeyCode;

type Steps = fn(&mut TestScreen);

/// Ways to every focus, and the hint that must stay.
const STATES: &[(&str, Steps, &str)] = &[
    ("the input", |_| {}, ""),
    ("completing", |screen| screen.write("/c"), "esc close"),
    ("browsing", |screen| screen.press(KeyCode::Tab), "esc back"),
    (
        "browsing a message",
        |screen| (0..5).for_each(|n| screen.press(if n == 0 { KeyCode::Tab } else { KeyCode::Up })),
        "esc back",
    ),
    ("searching", |screen| screen.send_line("/find"), "esc close"),
    ("found", |screen| screen.send_line("/find the"), "esc ends"),
    ("a run, input", |screen| screen.control('r'), "esc close"),
    ("a run", TestScreen::enter_run, "esc back"),
    (
        "a text",
        |screen| {
            for key in [KeyCode::Tab, KeyCode::Up, KeyCode::Up, KeyCode::Enter] {
                screen.press(key);
            }
        },
        "esc",
    ),
    ("tasks", |screen| screen.control('t'), "esc back"),
    ("help", |screen| screen.control('g'), "esc close"),
    ("sessions", |screen| screen.send_line("/sessions"), "esc close"),
    ("projects", |screen| screen.send_line("/projects"), "esc close"),
    ("themes", |screen| screen.send_line("/theme"), "esc close"),
    ("a confirmation", |screen| screen.send_line("/cancel"), "esc no"),
    ("a missing file", |screen| screen.write("see @a/very/long/path/that/is/not/there.md now"), ""),
];

/// The hints on the screen, such as `enter send`.
fn hints(screen: &TestScreen) -> Vec<String> {
    const KEYS: [&str; 9] = ["esc ", "enter ", "tab ", "alt+enter ", "↑↓ ", "space ", "^C ", "^G ", "^R "];
    let rows = screen.rows();
    let words =
        rows.iter().flat_map(|row| row.split(['·', '│', '─', '┤', '├']).flat_map(|part| part.split("  ")));
    let words = words.map(str::trim).filter(|word| KEYS.iter().any(|key| word.starts_with(key)));
    words.map(str::to_owned).collect()
}

/// `whole`: the same screen with much room.
fn no_hint_is_cut(screen: &TestScreen, whole: &TestScreen, state: &str, kept: &str) {
    let rows = screen.rows();
    let is_hint =
        |row: &&String| ["esc ", "enter ", "tab ", "^C ", "pgdn"].iter().any(|key| row.contains(key));
    for row in rows.iter().filter(is_hint) {
        let row = row.trim_end_matches(['│', ' ']);
        assert!(!row.ends_with(['…', '·']), "{state}: {row}\n{}", screen.text());
    }
    let whole = hints(whole);
    for hint in hints(screen) {
        let is_cut = whole.iter().any(|other| other.len() > hint.len() && other.starts_with(&hint));
        assert!(!is_cut || whole.contains(&hint), "{state}: `{hint}` is cut\n{}", screen.text());
    }
    assert!(kept.is_empty() || screen.shows(kept), "{state}: {kept} is missing\n{}", screen.text());
}

#[test]
fn no_hint_is_cut_at_any_width_and_the_way_out_stays() {
    for width in [40, 60, 80, 160] {
        for single in [false, true] {
            for (state, steps, kept) in STATES {
                let mut options = TuiOptions { interactive: !single, ..options() };
                if single {
                    options.modes =
                        ModeChoice { refinement: Some(false), planning: Some(true), ..script::single("one") };
                }
                let show = |width: u16| {
                    let mut screen = TestScreen::with(options.clone(), width, 24);
                    screen.feed(&script::conversation().items);
                    steps(&mut screen);
                    screen
                };
                no_hint_is_cut(&show(width), &show(200), &format!("{state}, {width} columns"), kept);
            }
        }
    }
}

const EDITING: [(&str, KeyCode, &str); 3] = [
    ("run", KeyCode::Char('e'), "enter done"),
    ("plan", KeyCode::Char('c'), "enter"),
    ("plan", KeyCode::Tab, "enter approve"),
];

#[test]
fn no_hint_of_a_dialog_or_of_a_reply_is_cut_at_any_width() {
    let budget = InteractionKind::Budget {
        spent_micro_usd: 5_040_000,
        budget_micro_usd: 5_000_000,
        raised_micro_usd: None,
    };
    let mut dialogs: Vec<(&str, Script, &str)> = Vec::new();
    let mut script = Script::default();
    script.chat(true);
    script.approval();
    dialogs.push(("run", script, "esc reject"));
    let mut script = Script::default();
    script.chat(true);
    script.plan_approval();
    dialogs.push(("plan", script, "esc reject"));
    let mut script = Script::default();
    script.chat(true);
    script.asks(Some("c1"), "i1", budget, None);
    dialogs.push(("budget", script, "esc reject"));
    let mut script = Script::default();
    script.chat(true);
    script.user_sends("Tell me");
    script.turn(1);
    script.delta("c1", DeltaKind::Text, "Keys rotate");
    dialogs.push(("a reply", script, "esc stop"));
    for width in [40, 60, 80, 160] {
        for (name, script, kept) in &dialogs {
            let (screen, whole) =
                (TestScreen::showing(script, width, 24), TestScreen::showing(script, 200, 24));
            no_hint_is_cut(&screen, &whole, &format!("{name}, {width} columns"), kept);
            for (_, key, kept) in EDITING.iter().filter(|(dialog, ..)| dialog == name) {
                let show = |width: u16| {
                    let mut screen = TestScreen::showing(script, width, 24);
                    screen.press(*key);
                    screen.wait(1000);
                    screen
                };
                let state = format!("{name}, editing after {key:?}, {width} columns");
                no_hint_is_cut(&show(width), &show(200), &state, kept);
            }
        }
    }
}
