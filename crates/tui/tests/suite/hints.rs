//! Key hints at every width: whole items are left out, and the key that leads out stays.

use super::support::{TestScreen, options};
use crate::script::{self, Script};
use althing_protocol::{
    DeltaKind, EditPreview, FileChange, FileDiff, InteractionKind, ModeChoice, RunEnd, RunStatus,
};
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

/// A conversation with a finished run that changed this many files.
fn finished(changed: usize) -> Script {
    let mut script = Script::default();
    script.chat(true);
    script.run("r1", Some("c1"), "Replace JWT");
    script.all_answer("r1");
    let mut result = Script::result("r1", "Replace JWT", RunStatus::Completed);
    result.context_path_writes = Script::writes(changed);
    script.finishes("r1", result, RunEnd::Answered);
    script
}

#[test]
fn the_keys_of_changes_are_shown_only_if_there_are_changes() {
    for (changed, shown) in [(0, false), (2, true)] {
        let mut screen = TestScreen::showing(&finished(changed), 120, 30);
        screen.press(KeyCode::Tab);
        assert!(screen.shows("enter open"), "{}", screen.text());
        assert_eq!(screen.shows("u undo"), shown, "{}", screen.text());
        screen.press(KeyCode::Esc);
        screen.enter_run();
        assert!(screen.shows("↑↓ scroll"), "{}", screen.text());
        assert_eq!(screen.shows("d diff · u undo"), shown, "{}", screen.text());
    }
    // The card of a run that has ended offers nothing that only a live run can do.
    let mut screen = TestScreen::showing(&finished(0), 120, 30);
    screen.press(KeyCode::Tab);
    screen.press(KeyCode::Home);
    assert!(!screen.shows("x cancel"), "{}", screen.text());
}

#[test]
fn while_a_search_is_typed_the_hint_says_what_its_keys_do() {
    let mut script = Script::default();
    script.chat(true);
    script.replies(1, "one needle\n\ntwo needles");
    let mut text = TestScreen::showing(&script, 120, 30);
    text.press(KeyCode::Tab);
    text.press(KeyCode::Enter);
    let mut run = TestScreen::showing(&finished(0), 120, 30);
    run.enter_run();
    for (screen, word) in [(&mut text, "needle"), (&mut run, "Paseto")] {
        screen.press(KeyCode::Char('/'));
        assert!(screen.shows("enter search · esc close"), "{}", screen.text());
        assert!(!screen.shows("tab input"), "{}", screen.text());
        screen.write(word);
        screen.press(KeyCode::Enter);
        assert!(screen.shows("n next"), "{}", screen.text());
        // After Esc there is no search, so nothing has a next place.
        screen.wait(2_000);
        screen.press(KeyCode::Char('/'));
        screen.press(KeyCode::Esc);
        assert!(!screen.shows("n next"), "{}", screen.text());
    }
}

const EDITING: [(&str, KeyCode, &str); 3] = [
    ("run", KeyCode::Char('e'), "enter done"),
    ("plan", KeyCode::Char('c'), "enter"),
    ("plan", KeyCode::Tab, "enter approve"),
];

/// A workflow, questions other than those of a proposed run, plan or budget, and a call that waits: each with its name
/// and the hint that must stay.
fn questions() -> Vec<(&'static str, Script, &'static str)> {
    let mut dialogs = Vec::new();
    let mut script = Script::default();
    script.workflow();
    dialogs.push(("a workflow", script, ""));
    let mut script = Script::default();
    script.workflow();
    script.program_asks("w1.ask");
    dialogs.push(("a program", script, ""));
    let mut script = Script::default();
    script.workflow();
    script.asks(Some("w1.ask"), "i1", InteractionKind::Interrupted, None);
    dialogs.push(("an interrupted program", script, ""));
    let mut script = Script::default();
    script.chat(true);
    let file = FileDiff {
        path: "src/a.rs".into(),
        change: FileChange::Modified,
        added: 1,
        removed: 1,
        diff: "@@ -1 +1 @@\n-a\n+b\n".into(),
        omitted: 0,
        note: None,
    };
    let preview = EditPreview { project: "/p".into(), files: vec![file], ask: true, digest: "d".into() };
    let edit = InteractionKind::EditApproval { call: "t1".into(), preview };
    script.asks(Some("c1"), "i1", edit, None);
    dialogs.push(("a change of files", script, "esc reject"));
    let mut script = Script::default();
    script.chat(true);
    script.run("r1", Some("c1"), "Plan it");
    script.all_answer("r1");
    script.vote("r1");
    script.override_window("r1");
    dialogs.push(("the vote", script, ""));
    let mut script = Script::default();
    script.chat(true);
    script.user_sends("Tell me");
    script.turn(1);
    let reason = "rate limited, 42 s: 429 Too Many Requests: too many tokens a minute for this organization";
    script.delta("c1", DeltaKind::Retry, reason);
    dialogs.push(("a call that waits", script, "esc stop"));
    dialogs
}

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
    dialogs.extend(questions());
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

#[test]
fn an_offered_command_shows_whole_parts_of_its_description_or_says_that_it_is_cut() {
    let offers = |width: u16| {
        let mut screen = TestScreen::new(width, 24);
        screen.write("/");
        let rows = screen.rows().into_iter().map(|row| row.trim_end().to_owned());
        rows.filter(|row| row.starts_with("  /")).collect::<Vec<String>>()
    };
    let whole = offers(200);
    assert!(whole.len() > 5, "{whole:?}");
    for width in [40, 50, 60, 80] {
        for (row, whole) in offers(width).iter().zip(&whole) {
            let rest = whole.strip_prefix(row.as_str());
            let is_whole = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" · "));
            assert!(is_whole || row.ends_with('…'), "{width}: {row}");
        }
    }
}
