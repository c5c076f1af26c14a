//! What a person approves is what the person could see: no key grants anything before all of it was on the screen.

use super::support::{TestScreen, options};
use crate::script::Script;
use althing_protocol::{
    Ask, AskKind, AskOption, ChatState, Decision, EditPreview, FileChange, FileDiff, InteractionKind,
    LaunchRun, Op, PlanRef, Proposal, RunEnd, RunStatus,
};
use althing_tui::{Effect, TuiOptions};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseEvent, MouseEventKind};

const SIZES: [(u16, u16); 3] = [(40, 12), (80, 24), (160, 45)];

fn marker(screen: &TestScreen) -> Option<String> {
    let rows = screen.rows();
    // The marker is in the row whose frame character is `├`. No text inside the frame can reach that column.
    let (column, corner) =
        rows.iter().enumerate().find_map(|(n, row)| Some((row.chars().position(|c| c == '┌')?, n)))?;
    rows.into_iter().skip(corner).find(|row| row.chars().nth(column) == Some('├'))
}

fn more_below(screen: &TestScreen) -> bool {
    marker(screen).is_some_and(|row| row.contains('↓'))
}

fn asked(change: impl FnOnce(&mut Proposal), (width, height): (u16, u16)) -> TestScreen {
    let mut proposal = Script::proposal();
    change(&mut proposal);
    let mut script = Script::default();
    script.chat(true);
    script.state(ChatState::AwaitingApproval);
    script.asks(Some("c1"), "i-run", InteractionKind::RunApproval { proposal: Box::new(proposal) }, None);
    TestScreen::showing(&script, width, height)
}

fn program_asks(text: &str, labels: &[&str], (width, height): (u16, u16)) -> TestScreen {
    let mut script = Script::default();
    script.workflow();
    let option = |label: &&str| AskOption { id: (*label).into(), label: (*label).into() };
    let options_of_ask = labels.iter().map(option).collect();
    let ask = Ask { about: AskKind::Permission, text: text.into(), options: options_of_ask, native: None };
    script.asks(Some("w1.ask"), "i-program", InteractionKind::Program(ask), None);
    let mut screen = TestScreen::with(TuiOptions { workflow: true, ..options() }, width, height);
    screen.feed(&script.items);
    screen.press(KeyCode::Char('a'));
    // `a` opened the question. As an answer, the same key counts only after a pause.
    screen.wait(1000);
    screen
}

/// Pages to the end of what must be shown. Returns all rows that were on the screen.
fn read_on(screen: &mut TestScreen) -> Vec<String> {
    let mut rows = screen.rows();
    for _ in 0..2_000 {
        if !more_below(screen) {
            return rows;
        }
        screen.press(KeyCode::PageDown);
        rows.extend(screen.rows());
    }
    panic!("the end is never reached:\n{}", screen.text());
}

/// Checks that no key and no click grants anything now, and that the dialog says why.
fn nothing_is_granted(screen: &mut TestScreen, click: Option<&str>) {
    screen.press(KeyCode::Enter);
    assert!(screen.ops.is_empty(), "Enter: {:?}\n{}", screen.ops, screen.text());
    let why = marker(screen).unwrap_or_default();
    assert!(why.contains("first read ↓") || why.contains("before you approve: ↓"), "{}", screen.text());
    screen.press_alone('a');
    screen.wait(5_000);
    assert!(screen.ops.is_empty(), "a: {:?}", screen.ops);
    if let Some(button) = click {
        screen.click(button);
        assert!(screen.ops.is_empty(), "click: {:?}", screen.ops);
    }
    // Keys that arrive before the next frame cannot skip what was not shown yet.
    let key = |code: KeyCode| Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
    let mut keys = vec![KeyCode::PageDown; 300];
    keys.extend([KeyCode::End, KeyCode::Enter]);
    for code in keys {
        let effects = screen.app.handle(&key(code), screen.now);
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Submit(_))), "{code:?}");
    }
    screen.press(KeyCode::Home);
}

#[test]
fn a_run_with_two_hundred_paths_is_approved_only_after_all_were_shown() {
    for size in SIZES {
        for dangerous in [0, 100, 199] {
            let path = |n: usize| {
                if n == dangerous { "/srv/.envrc".to_owned() } else { format!("/srv/data/n{n:03}") }
            };
            let mut screen = asked(
                |proposal| {
                    proposal.may_write = (0..200).map(path).collect();
                    proposal.may_read = (0..50).map(|n| format!("/srv/read/r{n:03}")).collect();
                },
                size,
            );
            assert!(screen.shows("/srv/.envrc (runs code"), "it comes first:\n{}", screen.text());
            nothing_is_granted(&mut screen, Some("Approve"));
            let rows = read_on(&mut screen);
            let listed = (0..200).map(path).chain((0..50).map(|n| format!("/srv/read/r{n:03}")));
            for path in listed {
                assert!(rows.iter().any(|row| row.contains(&path)), "{path} at {size:?}");
            }
            screen.press(KeyCode::Enter);
            assert!(
                matches!(
                    screen.ops.as_slice(),
                    [Op::Answer { decision: Decision::Approve { edited: None, .. }, .. }]
                ),
                "{:?}\n{}",
                screen.ops,
                screen.text()
            );
        }
    }
}

#[test]
fn long_prompts_and_rules_of_a_run_are_shown_before_it_is_approved() {
    for size in SIZES {
        let mut screen = asked(
            |proposal| {
                let text = format!("{}\nsecret orders", "be kind\n".repeat(80));
                proposal.launch.agent_system_prompts = [("gem".into(), text)].into_iter().collect();
            },
            size,
        );
        nothing_is_granted(&mut screen, None);
        let rows = read_on(&mut screen);
        assert!(rows.iter().any(|row| row.contains("secret orders")), "{size:?}");
        screen.press(KeyCode::Enter);
        assert_eq!(screen.ops.len(), 1, "{}", screen.text());
    }
}

#[test]
fn the_long_text_of_a_task_comes_after_what_the_run_may_do_and_its_length_is_stated() {
    let lines = (0..300).map(|n| format!("step {n:03}")).collect::<Vec<_>>().join("\n");
    for size in [(80, 24), (160, 45)] {
        let mut screen = asked(|proposal| proposal.launch.task.clone_from(&lines), size);
        assert!(screen.shows("May write ./my-app, by the presenter after the vote"), "{}", screen.text());
        assert!(screen.shows("step 000") && screen.shows("+ 299 lines"), "{}", screen.text());
        let stated = marker(&screen).unwrap();
        let rest: usize = stated.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
        assert!((200..=310).contains(&rest), "{stated}");
        let rows = read_on(&mut screen);
        assert!(rows.iter().any(|row| row.contains("step 299")));
        let mut screen = asked(|proposal| proposal.launch.task.clone_from(&lines), size);
        screen.press(KeyCode::Enter);
        assert_eq!(screen.ops.len(), 1, "everything that is granted was shown:\n{}", screen.text());
    }
}

/// Long questions that try to hide their dangerous part.
fn hiding_questions() -> Vec<(&'static str, String)> {
    let spread = |filler: &str| format!("Bash: ls {} ;DANGER; {}", filler.repeat(70), filler.repeat(70));
    vec![
        ("newlines", format!("Bash: ls{}DANGER{}", "\n".repeat(500), "\n".repeat(500))),
        ("one long line", format!("Bash: ls {}DANGER{}", "x".repeat(2_500), "x".repeat(2_500))),
        ("words", spread("ls -l /home; ")),
        ("spaces", format!("Bash: ls{}DANGER{}!", " ".repeat(2_500), " ".repeat(2_500))),
        ("zero width", spread(&"\u{200b}\u{2060}\u{feff}".repeat(7))),
        ("wide", spread("日本語日本語日本語日")),
        ("ligatures that count once", spread("لالالالالالالالالالا ")),
        ("marks that prepend themselves", spread(&format!("{}z ", "\u{600}".repeat(60)))),
        ("blank letters", spread(&"\u{2800}".repeat(20))),
        ("a forged marker", spread("\n├─ ↓ 1 more line · pgdn ─┤\n  1 Allow\n  2 Deny\n")),
        ("a forged end", spread("\n└──────────────┘\n↑↓ choose · enter answer · esc later\n")),
        ("carriage returns", spread("\rls -l /home; \r")),
    ]
}

#[test]
fn no_part_of_a_long_line_in_a_question_looks_like_a_line_of_its_own() {
    /// What the rows inside the frame show, each with whether it continues the row above.
    fn shown(screen: &TestScreen, mark: &str) -> Vec<(bool, String)> {
        let rows = screen.rows();
        let inside = rows.iter().filter_map(|row| row.split_once("│ ")?.1.rsplit_once('│'));
        inside.map(|(row, _)| (row.trim_start().starts_with(mark), row.trim().to_owned())).collect()
    }
    for spaces in 0..160 {
        let gap = " ".repeat(spaces);
        let text = format!("Bash: ls{gap}rm -rf ~\nmode: x");
        let mut screen = program_asks(&text, &[&format!("Allow{gap}2 Deny"), "Deny"], (80, 30));
        screen.draw();
        let rows = shown(&screen, "↳");
        for (is_marked, row) in &rows {
            let is_apart = !row.contains("Bash: ls") && row.contains("rm");
            assert!(!is_apart || *is_marked, "{spaces}:\n{}", screen.text());
            let is_apart = !row.contains("1 Allow") && row.contains("Deny") && !row.ends_with(" 2 Deny");
            assert!(!is_apart || *is_marked || row == "2 Deny", "{spaces}:\n{}", screen.text());
        }
        assert_eq!(rows.iter().filter(|(_, row)| row == "2 Deny").count(), 1, "{spaces}:\n{}", screen.text());
        let path = format!("/srv/x{gap}/etc");
        let screen = asked(|proposal| proposal.may_write = vec![path], (80, 30));
        let labeled = screen.find("May write").0 + 10;
        let apart = screen.rows().iter().position(|row| row.contains("/etc") && !row.contains("/srv/x"));
        if apart.is_some() {
            assert!(screen.find("/etc").0 > labeled, "{spaces}:\n{}", screen.text());
        }
    }
}

#[test]
fn no_part_of_a_long_changed_line_looks_like_a_line_of_its_own() {
    for spaces in 40..160 {
        let file = FileDiff {
            path: "a.sh".into(),
            change: FileChange::Modified,
            added: 1,
            removed: 0,
            diff: format!("@@ -1 +1 @@\n+ls{}evil\n", " ".repeat(spaces)),
            omitted: 0,
            note: None,
        };
        let preview = EditPreview { project: "/p".into(), files: vec![file], ask: true, digest: "d".into() };
        let mut script = Script::default();
        script.chat(true);
        script.asks(Some("c1"), "i1", InteractionKind::EditApproval { call: "t1".into(), preview }, None);
        let screen = TestScreen::showing(&script, 80, 24);
        let row = screen.rows().into_iter().find(|row| row.contains("evil")).unwrap();
        assert!(row.contains("+ls") || row.contains('↳'), "{spaces}:\n{}", screen.text());
    }
}

#[test]
fn no_question_of_a_program_hides_its_dangerous_part_from_the_person_who_answers() {
    for size in SIZES {
        for (how, text) in hiding_questions() {
            for code in [KeyCode::Char('1'), KeyCode::Char('a'), KeyCode::Enter] {
                // Keys other than Enter are tried only on small screens, and not with the question that has most rows.
                if code != KeyCode::Enter && (size.1 > 12 || how == "newlines") {
                    continue;
                }
                let mut screen = program_asks(&text, &["Allow", "Deny"], size);
                let mut seen = false;
                for _ in 0..3_000 {
                    seen |= screen.shows("DANGER");
                    if !more_below(&screen) {
                        break;
                    }
                    screen.wait(500);
                    screen.press(code);
                    screen.wait(1000);
                    assert!(screen.ops.is_empty(), "{how} at {size:?}:\n{}", screen.text());
                    screen.press(KeyCode::PageDown);
                }
                assert!(seen, "{how} at {size:?} hid it:\n{}", screen.text());
                assert!(screen.shows("1 Allow") && screen.shows("2 Deny"), "{}", screen.text());
                screen.wait(500);
                screen.press(code);
                screen.wait(1000);
                let allow = Decision::Choose { option: "Allow".into() };
                let answer = Op::Answer { interaction: "i-program".into(), decision: allow };
                assert_eq!(screen.ops, [answer], "{how} at {size:?}:\n{}", screen.text());
            }
        }
    }
}

#[test]
fn many_and_long_options_are_all_shown_before_one_is_chosen() {
    for size in SIZES {
        let labels: Vec<String> =
            (0..60).map(|n| format!("choice {n:02} {}and GO{n:02}", "of many ".repeat(9))).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let mut screen = program_asks("Which one?", &labels, size);
        nothing_is_granted(&mut screen, None);
        let rows = read_on(&mut screen);
        for n in 0..60 {
            assert!(rows.iter().any(|row| row.contains(&format!("GO{n:02}"))), "{n} at {size:?}");
        }
        for _ in 0..41 {
            screen.press(KeyCode::Down);
        }
        assert!(screen.shows("› 42 choice 41"), "the chosen one is visible:\n{}", screen.text());
        screen.press(KeyCode::Enter);
        let choice = Decision::Choose { option: labels[41].into() };
        assert!(matches!(screen.ops.as_slice(), [Op::Answer { decision, .. }] if *decision == choice));
    }
}

#[test]
fn a_plan_is_approved_only_after_every_task_was_shown_whole() {
    for size in SIZES {
        for instructed in [false, true] {
            let text = |n: usize| format!("t{n}: step {} · verify: CHECK{n:02}", "and more ".repeat(20));
            let plan = PlanRef { id: "big".into(), path: "/plans/big".into() };
            let preview = (0..40).map(text).collect();
            let mut script = Script::default();
            script.chat(true);
            script.asks(Some("c1"), "i-plan", InteractionKind::PlanApproval { plan, preview }, None);
            let mut screen = TestScreen::showing(&script, size.0, size.1);
            if instructed {
                screen.press(KeyCode::Tab);
                screen.write("be quick");
                screen.press(KeyCode::Enter);
                assert!(screen.ops.is_empty(), "{}", screen.text());
                assert!(screen.shows("be quick"), "what was typed is kept:\n{}", screen.text());
            } else {
                nothing_is_granted(&mut screen, Some("Approve"));
            }
            let rows = read_on(&mut screen);
            for n in 0..40 {
                assert!(rows.iter().any(|row| row.contains(&format!("CHECK{n:02}"))), "{n} at {size:?}");
            }
            screen.press(KeyCode::Enter);
            let instructions = instructed.then(|| "be quick".to_owned());
            let approved = Decision::Approve { digest: None, edited: None, instructions };
            assert!(
                matches!(screen.ops.as_slice(), [Op::Answer { decision, .. }] if *decision == approved),
                "{:?}",
                screen.ops
            );
        }
    }
}

#[test]
fn an_undo_is_confirmed_only_after_every_file_was_shown() {
    for size in SIZES {
        let mut script = Script::default();
        script.chat(true);
        script.run("r1", Some("c1"), "Write");
        let mut result = Script::result("r1", "Write", RunStatus::Completed);
        result.context_path_writes = Script::writes(150);
        script.finishes("r1", result, RunEnd::Answered);
        let mut screen = TestScreen::showing(&script, size.0, size.1);
        screen.enter_run();
        screen.press(KeyCode::Char('u'));
        assert!(screen.shows("Undo what this run wrote?"), "{}", screen.text());
        let undone =
            |screen: &TestScreen| screen.effects.iter().any(|effect| matches!(effect, Effect::Undo(_)));
        screen.press_after_reading('y');
        assert!(!undone(&screen) && screen.shows("Undo what this run wrote?"), "{}", screen.text());
        let rows = read_on(&mut screen);
        for n in 0..150 {
            assert!(rows.iter().any(|row| row.contains(&format!("file{n}.rs"))), "{n} at {size:?}");
        }
        screen.press_after_reading('y');
        assert!(undone(&screen));
    }
}

#[test]
fn a_changed_run_or_a_changed_window_has_to_be_shown_again() {
    let many = |proposal: &mut Proposal| {
        proposal.may_write = (0..60).map(|n| format!("/srv/data/n{n:03}")).collect();
    };
    let mut screen = asked(many, (80, 24));
    read_on(&mut screen);
    screen.press_alone('m');
    screen.press(KeyCode::Enter);
    assert!(screen.ops.is_empty(), "the agents are others now:\n{}", screen.text());
    read_on(&mut screen);
    screen.resize(60, 16);
    screen.press(KeyCode::Enter);
    assert!(screen.ops.is_empty(), "the lines are others now:\n{}", screen.text());
    read_on(&mut screen);
    screen.press(KeyCode::Enter);
    let edited = match screen.ops.as_slice() {
        [Op::Answer { decision: Decision::Approve { edited: Some(edited), .. }, .. }] => edited,
        other => panic!("{other:?}"),
    };
    let LaunchRun { agents, .. } = &**edited;
    assert_eq!(agents.as_ref().map(Vec::len), Some(1));
    // In a window that can show nothing, nothing can be approved.
    let mut screen = asked(|_| {}, (14, 4));
    screen.press(KeyCode::Enter);
    screen.press_alone('a');
    assert!(screen.ops.is_empty(), "{}", screen.text());
    screen.resize(100, 30);
    screen.press(KeyCode::Enter);
    assert_eq!(screen.ops.len(), 1);
}

#[test]
fn the_wheel_and_every_key_that_scrolls_reach_the_end() {
    let wheel = Event::Mouse(MouseEvent {
        kind: MouseEventKind::ScrollDown,
        column: 10,
        row: 6,
        modifiers: KeyModifiers::NONE,
    });
    let key = |code: KeyCode| Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
    for event in [wheel, key(KeyCode::Down), key(KeyCode::End), key(KeyCode::PageDown)] {
        for typed in ["", "a message"] {
            if !typed.is_empty()
                && matches!(event, Event::Key(KeyEvent { code: KeyCode::Down | KeyCode::End, .. }))
            {
                continue;
            }
            let mut screen = asked(
                |proposal| proposal.may_write = (0..90).map(|n| format!("/srv/data/n{n:03}")).collect(),
                (80, 24),
            );
            if !typed.is_empty() {
                screen.write(typed);
            }
            for _ in 0..200 {
                screen.send(event.clone());
            }
            assert!(!more_below(&screen), "{event:?}:\n{}", screen.text());
            assert_eq!(screen.app.input.text(), typed);
            screen.control('c');
            screen.wait(1000);
            screen.press(KeyCode::Enter);
            assert!(screen.ops.iter().any(|op| matches!(op, Op::Answer { .. })) || typed.is_empty());
        }
    }
}

struct Keys(u64);

impl Keys {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }

    /// Letters, digits, spaces, deleting and moving. Keys that answer by design (Enter, Esc, Ctrl+C) are left out.
    fn key(&mut self) -> KeyCode {
        const MOVES: [KeyCode; 10] = [
            KeyCode::Backspace,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::Delete,
        ];
        if self.below(8) == 0 {
            return MOVES[self.below(MOVES.len())];
        }
        KeyCode::Char(char::from(b' ' + self.below(95) as u8))
    }
}

#[test]
fn ten_thousand_random_keys_while_dialogs_come_and_go_grant_cancel_and_undo_nothing() {
    let mut keys = Keys(7);
    let mut pressed = 0;
    while pressed < 10_000 {
        let mut script = Script::default();
        script.chat(true);
        script.user_sends("Build phase 1");
        let mut screen = TestScreen::showing(&script, 80, 24);
        for round in 0..5 {
            for _ in 0..20 + keys.below(40) {
                // Someone who types pauses for less than half a second.
                screen.now.0 += keys.below(400) as u64;
                screen.wait(0);
                let key = keys.key();
                screen.press(key);
                pressed += 1;
            }
            // Two more letters follow at once, because a letter that is typed alone may act as a shortcut.
            screen.write("zz");
            script.items.clear();
            match (round + keys.below(3)) % 3 {
                0 => script.approval(),
                1 => script.plan_approval(),
                _ => {
                    let kind = InteractionKind::Budget {
                        spent_micro_usd: 5_040_000,
                        budget_micro_usd: 5_000_000,
                        raised_micro_usd: Some(10_040_000),
                    };
                    script.asks(Some("c1"), "i-budget", kind, None);
                }
            }
            screen.feed(&script.items);
        }
        let is_harmless = |effect: &Effect| match effect {
            Effect::Submit(op) => !matches!(op, Op::Answer { .. } | Op::Cancel { .. }),
            Effect::Undo(_) | Effect::Leave(_) => false,
            _ => true,
        };
        let harmful: Vec<&Effect> = screen.effects.iter().filter(|effect| !is_harmless(effect)).collect();
        assert!(harmful.is_empty(), "{harmful:?}");
    }
}
