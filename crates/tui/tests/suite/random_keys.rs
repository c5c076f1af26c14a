//! Random keys of someone who types, while dialogs come and go, panels open and close, and the focus moves: nothing is
//! approved, cancelled or undone.

use super::support::{TestScreen, options};
use crate::script::Script;
use althing_protocol::{
    Ask, AskKind, AskOption, Decision, EditPreview, InteractionKind, Op, PlanRef, RunEnd, RunStatus,
};
use althing_tui::{Effect, TuiOptions};
use crossterm::event::{Event, KeyCode};

struct Keys(u64);

impl Keys {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }

    /// Letters, digits and signs, and keys that move the cursor or the focus. Keys that answer by design (Enter, Esc,
    /// Ctrl+C) are left out.
    fn key(&mut self) -> KeyCode {
        const SHORTCUTS: &[u8] = b"xuyacermdeopq1";
        const MOVES: [KeyCode; 12] = [
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
            KeyCode::Tab,
            KeyCode::BackTab,
        ];
        if self.below(6) == 0 {
            return MOVES[self.below(MOVES.len())];
        }
        // Letters that are shortcuts somewhere come often.
        if self.below(3) == 0 {
            return KeyCode::Char(char::from(SHORTCUTS[self.below(SHORTCUTS.len())]));
        }
        KeyCode::Char(char::from(b' ' + self.below(95) as u8))
    }
}

fn is_harmless(effect: &Effect) -> bool {
    match effect {
        Effect::Submit(op) => !matches!(op, Op::Answer { .. } | Op::Cancel { .. } | Op::Retry { .. }),
        Effect::Undo(_) | Effect::Leave(_) => false,
        _ => true,
    }
}

/// A conversation with a finished run that wrote files, a live run and a program that asks for permission.
fn scene() -> Script {
    let mut script = Script::default();
    script.chat(true);
    script.user_sends("Build phase 1");
    script.turn(1);
    script.run("r1", Some("c1"), "Replace JWT");
    script.all_answer("r1");
    script.vote("r1");
    let mut result = Script::result("r1", "Replace JWT", RunStatus::Completed);
    result.context_path_writes = Script::writes(3);
    script.finishes("r1", result, RunEnd::Answered);
    script.run("r2", Some("c1"), "Execute phase 1");
    script.all_answer("r2");
    script.program_asks("r2.a1");
    script
}

#[test]
fn random_keys_approve_cancel_and_undo_nothing_while_the_focus_moves() {
    let mut keys = Keys(11);
    let mut pressed = 0;
    while pressed < 10_000 {
        let mut script = scene();
        let mut screen = TestScreen::showing(&script, [80, 80, 80, 160][keys.below(4)], 24);
        for round in 0..4 {
            match keys.below(5) {
                0 => screen.control('r'),
                1 => screen.control('t'),
                2 => screen.press(KeyCode::Tab),
                _ => {}
            }
            for _ in 0..30 + keys.below(60) {
                screen.now.0 += keys.below(400) as u64;
                screen.wait(0);
                let key = keys.key();
                screen.press(key);
                pressed += 1;
            }
            // Two more letters follow at once, because a letter that is typed alone may act as a shortcut.
            screen.write("zz");
            script.items.clear();
            let id = format!("i{round}");
            match keys.below(4) {
                0 => {
                    let kind = InteractionKind::RunApproval { proposal: Box::new(Script::proposal()) };
                    script.asks(Some("c1"), &id, kind, None);
                }
                1 => {
                    let kind = InteractionKind::Budget {
                        spent_micro_usd: 5_040_000,
                        budget_micro_usd: 5_000_000,
                        raised_micro_usd: None,
                    };
                    script.asks(Some("c1"), &id, kind, None);
                }
                2 if round > 0 => {
                    script.answered(&format!("i{}", round - 1), Decision::Reject { reason: None });
                }
                _ => {}
            }
            screen.feed(&script.items);
        }
        let harmful: Vec<&Effect> = screen.effects.iter().filter(|effect| !is_harmless(effect)).collect();
        assert!(harmful.is_empty(), "{harmful:?}\n{}", screen.text());
    }
}

/// Sentences in which letters that are shortcuts somewhere come early and late.
const SENTENCES: &[&str] = &[
    "and then explain it to me",
    "compare a and b",
    "execute my plan, please",
    "try again",
    "are you sure? y/n",
    "cancel that, use the first one",
    "undo what you did",
    "please do a",
    "1 or 2?",
    "no, option 3",
    "yes, please do that",
    "question it first",
    "fix it",
    "retry",
    "exactly",
    "okay",
];

fn program(text: &str, options: &[&str]) -> InteractionKind {
    let option = |label: &&str| AskOption { id: (*label).into(), label: (*label).into() };
    let options: Vec<AskOption> = options.iter().map(option).collect();
    let about = if options.is_empty() { AskKind::Question } else { AskKind::Permission };
    InteractionKind::Program(Ask { about, text: text.into(), options, native: None })
}

/// Opens or closes a question of some kind, as programs, agents and other front ends do.
fn something_happens(keys: &mut Keys, script: &mut Script, number: usize) {
    let id = format!("q{number}");
    let budget = InteractionKind::Budget {
        spent_micro_usd: 5_040_000,
        budget_micro_usd: 5_000_000,
        raised_micro_usd: Some(10_040_000),
    };
    let edit = InteractionKind::EditApproval {
        call: "c".into(),
        preview: EditPreview { project: "/p".into(), files: Vec::new(), ask: true, digest: "d".into() },
    };
    match keys.below(10) {
        0 => {
            let kind = InteractionKind::RunApproval { proposal: Box::new(Script::proposal()) };
            script.asks(Some("c1"), &id, kind, None);
        }
        1 => {
            let plan = PlanRef { id: "auth".into(), path: "/plans/auth".into() };
            let kind = InteractionKind::PlanApproval { plan, preview: vec!["Add pasetors".into()] };
            script.asks(Some("c1"), &id, kind, None);
        }
        2 => script.asks(Some("c1"), &id, budget, None),
        3 => script.asks(Some("c1"), &id, edit, None),
        4 => script.asks(Some("r2.a1"), &id, program("Run `cargo test`?", &["Yes", "Always", "No"]), None),
        5 => script.asks(Some("r2.a2"), &id, program("Which branch?", &[]), None),
        6 => script.asks(Some("r2.a3"), &id, InteractionKind::Interrupted, None),
        7 => script.override_window("r2"),
        _ => {
            for past in number.saturating_sub(4)..number {
                script.answered(&format!("q{past}"), Decision::Reject { reason: None });
            }
            script.answered("i-override", Decision::Continue);
        }
    }
}

/// Types one sentence without a pause, in one of the ways in which people and terminals do it, and ends it.
fn type_sentence(keys: &mut Keys, screen: &mut TestScreen, script: &mut Script, number: &mut usize) -> usize {
    let sentence = SENTENCES[keys.below(SENTENCES.len())];
    // By hand, or at the speed of a terminal that pastes as if it were typed.
    let gap = [380, 150, 3][keys.below(3)];
    let happens_at = keys.below(sentence.len() * 2);
    let mut codes: Vec<KeyCode> = sentence.chars().map(KeyCode::Char).collect();
    let moves = [KeyCode::Left, KeyCode::Right, KeyCode::Up, KeyCode::Down, KeyCode::Backspace, KeyCode::Tab];
    if keys.below(3) == 0 {
        codes.insert(3 + keys.below(codes.len() - 3), moves[keys.below(moves.len())]);
    }
    codes.push([KeyCode::Enter, KeyCode::Enter, KeyCode::Esc, KeyCode::Tab][keys.below(4)]);
    if keys.below(4) == 0 {
        codes.push(KeyCode::Enter);
    }
    if keys.below(5) == 0 {
        screen.send(Event::Paste(sentence.into()));
        codes = vec![KeyCode::Enter];
    }
    let pressed = codes.len();
    for (at, code) in codes.into_iter().enumerate() {
        if at == happens_at {
            *number += 1;
            script.items.clear();
            something_happens(keys, script, *number);
            screen.feed_at_once(&script.items);
        }
        screen.wait(keys.below(gap) as u64);
        screen.press(code);
    }
    pressed
}

/// Whether an effect does harm: an answer, a cancellation, a retry, an undo, leaving, or keys for a program. Stopping a
/// reply with Esc does no harm.
fn is_harmful(effect: &Effect) -> bool {
    !is_harmless(effect) || matches!(effect, Effect::Submit(Op::Input { .. }))
}

/// Whether a dialog is open that appears only if the person presses a key.
fn is_opened_by_a_key(screen: &TestScreen) -> bool {
    ["esc later", "esc keep", "esc no"].iter().any(|hint| screen.shows(hint))
}

#[track_caller]
fn expect_unharmed(screen: &TestScreen, log: &str) {
    let harmful: Vec<&Effect> = screen.effects.iter().filter(|effect| is_harmful(effect)).collect();
    assert!(harmful.is_empty(), "{log}: {harmful:?}\n{}", screen.text());
}

#[test]
fn sentences_answer_no_question_of_any_kind_that_comes_while_they_are_typed() {
    let mut keys = Keys(5);
    let mut pressed = 0;
    while pressed < 10_000 {
        let mut script = scene();
        let mut screen = TestScreen::showing(&script, [80, 80, 160][keys.below(3)], 24);
        let mut number = 0;
        for round in 0..8 {
            // The person looks at the screen for a while, with an empty input, as after sending or clearing what was
            // typed.
            screen.wait(1200 + keys.below(4000) as u64);
            screen.app.input.set("");
            // The person closes a dialog that the person opened and does not answer.
            if is_opened_by_a_key(&screen) {
                screen.press(KeyCode::Esc);
                screen.wait(1200);
            }
            match keys.below(8) {
                // While a dialog is open, the keys below are not pressed: they would turn to the dialog on purpose.
                _ if screen.app.modal.is_some() => {}
                0 => screen.control('r'),
                1 => screen.control('t'),
                2 => screen.press(KeyCode::Tab),
                3 => screen.control('o'),
                _ => {}
            }
            if keys.below(2) == 0 {
                number += 1;
                script.items.clear();
                something_happens(&mut keys, &mut script, number);
                screen.feed_at_once(&script.items);
                screen.wait(keys.below(3000) as u64);
            }
            pressed += type_sentence(&mut keys, &mut screen, &mut script, &mut number);
            expect_unharmed(&screen, &format!("round {round}, {pressed} keys"));
        }
    }
}

#[test]
fn sentences_answer_no_question_about_trust_or_leaving() {
    let mut keys = Keys(9);
    for round in 0..500 {
        let mut script = Script::default();
        if keys.below(2) == 0 {
            let mut screen = TestScreen::new(80, 24);
            screen.app.ask_trust(vec!["start the program /tmp/x".into()]);
            screen.app.note_question_shown(screen.now);
            screen.draw();
            screen.wait(keys.below(3000) as u64);
            let sentence = SENTENCES[keys.below(SENTENCES.len())];
            for letter in sentence.chars() {
                screen.wait(keys.below(900) as u64);
                screen.press(KeyCode::Char(letter));
            }
            screen.press(KeyCode::Enter);
            screen.press(KeyCode::Esc);
            assert_eq!(screen.app.trust_choice(), None, "round {round}");
        } else {
            script.workflow();
            let options = TuiOptions { workflow: true, ..options() };
            let mut screen = TestScreen::with(options, 80, 24);
            screen.feed(&script.items);
            screen.control('d');
            assert!(screen.shows("Leave while agents work?") || screen.app.modal.is_some());
            screen.wait(keys.below(3000) as u64);
            let mut number = 0;
            type_sentence(&mut keys, &mut screen, &mut Script::default(), &mut number);
            expect_unharmed(&screen, &format!("round {round}"));
        }
    }
}
