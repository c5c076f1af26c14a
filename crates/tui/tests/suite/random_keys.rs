//! Random keys of someone who types, while dialogs come and go, panels open and close, and the focus moves: nothing is
//! approved, cancelled or undone.

use super::support::TestScreen;
use crate::script::Script;
use althing_protocol::{Decision, InteractionKind, Op, RunEnd, RunStatus};
use althing_tui::Effect;
use crossterm::event::KeyCode;

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
            // The typed text is completed to a whole word, so that no letter stands alone.
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
