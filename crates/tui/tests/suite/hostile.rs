//! No text from outside Althing can act on the terminal: the bytes that a real terminal would get are checked.

use super::support::{FakeHost, options};
use crate::foreign::{foreign, written};
use crate::script::{self, Script};
use althing_protocol::{
    AnswerLabel, Candidate, ChatState, DeltaKind, Fact, InteractionKind, Item, Modes, Notice, NoticeLevel,
    Progress, Screen as ProgramScreen, ScreenCell, Seq, TaskSpec, Timestamp,
};
use althing_tui::App;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use std::sync::Arc;

/// The same seed gives the same bytes.
struct Rng(u64);

impl Rng {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.roll() % most as u64) as usize
    }

    /// Text made of what attackers use, and of arbitrary characters.
    fn text(&mut self) -> String {
        const PARTS: &[&str] = &[
            "\x1b]0;title\x07",
            "\x1b]52;c;aGk=\x07",
            "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
            "\x1b[2J\x1b[H",
            "\x1bP+q\x1b\\",
            "\x1b[?1049l",
            "\x1bc",
            "\u{9b}31m",
            "\u{90}q\u{9c}",
            "\u{9d}52;c;eA==\u{9c}",
            "\u{202e}drow",
            "\u{2066}x\u{2069}",
            "\u{200f}\u{200b}\u{feff}",
            "\x07\x08\x0b\x0c\x0e",
            "\r\n",
            "\n\n",
            "\t",
            "日本語",
            "👩‍👩‍👧‍👦",
            "שלום עולם",
            "e\u{301}\u{301}\u{301}\u{301}",
            "```rust\nfn \x1b[31m",
            "| a | \x1b[5m |\n|---|---|\n",
            "# ",
            "- ",
            "> ",
            "**b**",
            "`\x1b`",
            "[l](\x1b]8;;x)",
            "plain words ",
            "\u{e0041}\u{e007f}",
            "\u{2028}\u{2029}",
            "\u{7f}\u{80}\u{85}",
            "\u{fff9}\u{ad}",
            "a\u{200d}b",
        ];
        let mut text = String::new();
        for _ in 0..=self.below(6) {
            if self.below(4) == 0 {
                let c = char::from_u32((self.roll() % 0x11_0000) as u32).unwrap_or('\x1b');
                text.push(c);
            } else {
                text.push_str(PARTS[self.below(PARTS.len())]);
            }
        }
        text
    }
}

/// A session in which every text from outside Althing is hostile.
fn hostile(rng: &mut Rng) -> Script {
    let mut script = Script::default();
    script.chat(true);
    let evil = |rng: &mut Rng| format!("{}{}{}{}", rng.text(), rng.text(), rng.text(), rng.text());
    script.user_sends(&evil(rng));
    script.turn(1);
    script.replies(1, &evil(rng));
    let notice = Notice { level: NoticeLevel::Error, text: evil(rng), hint: Some(evil(rng)) };
    script.fact(None, Fact::Notice(notice));
    let mut spec = script::run_spec(&evil(rng), Modes::default());
    for member in &mut spec.members {
        member.model = evil(rng);
    }
    spec.members[0].id = evil(rng).as_str().into();
    let first = spec.members[0].id.clone();
    let created =
        Fact::TaskCreated { id: "r1".into(), parent: Some("c1".into()), spec: TaskSpec::Run(Box::new(spec)) };
    script.fact(Some("c1"), created);
    let works = Fact::TaskCreated {
        id: "r1.a1".into(),
        parent: Some("r1".into()),
        spec: TaskSpec::Work { agent: first.clone() },
    };
    script.fact(Some("r1"), works);
    let call = althing_protocol::ToolCall { id: "t".into(), name: evil(rng), arguments: evil(rng) };
    let reply = althing_protocol::Reply {
        text: evil(rng),
        reasoning: evil(rng),
        tool_calls: vec![call],
        ..althing_protocol::Reply::default()
    };
    script.item("r1", 1, 1, Item::Reply(reply));
    script.item("r1", 1, 1, Item::ToolResult { call: "t".into(), content: evil(rng), is_error: true });
    script.item("r1", 1, 1, Item::Reminder { call: None, text: evil(rng), restates_task: true });
    script.delta("r1.a1", DeltaKind::Text, &evil(rng));
    script.delta("r1.a1", DeltaKind::ToolCall, &evil(rng));
    script.delta("c1", DeltaKind::Text, &evil(rng));
    script.state(ChatState::Running);
    let mut program = Script::program("claude", althing_protocol::ExecutionMode::Headless);
    program.adapter = evil(rng);
    let id = evil(rng);
    let created = Fact::TaskCreated {
        id: id.as_str().into(),
        parent: None,
        spec: TaskSpec::Program(Box::new(program)),
    };
    script.fact(None, created);
    let output = Progress::Output {
        after: Seq(script.seq),
        task: id.as_str().into(),
        raw: String::new(),
        clean: evil(rng),
    };
    script.pass(output);
    let did = Item::Did { tool: evil(rng), detail: evil(rng), result: Some(evil(rng)), is_error: false };
    script.fact(Some(&id), Fact::ItemAdded { attempt: 1, item: did });
    question(rng, &mut script, first);
    let reason = evil(rng);
    script.pass(Progress::Stalled { after: Seq(script.seq), reason, hint: Some(evil(rng)) });
    script
}

fn question(rng: &mut Rng, script: &mut Script, first: althing_protocol::AgentId) {
    let evil = |rng: &mut Rng| rng.text();
    match rng.below(4) {
        0 => {
            let mut proposal = Script::proposal();
            proposal.launch.task = evil(rng);
            proposal.launch.context = Some(evil(rng));
            proposal.may_write = vec![evil(rng)];
            script.asks(Some("c1"), "i", InteractionKind::RunApproval { proposal: Box::new(proposal) }, None);
        }
        1 => {
            let plan = althing_protocol::PlanRef { id: evil(rng), path: evil(rng) };
            script.asks(
                Some("c1"),
                "i",
                InteractionKind::PlanApproval { plan, preview: vec![evil(rng)] },
                None,
            );
        }
        2 => {
            let candidate = Candidate {
                agent: first.clone(),
                label: AnswerLabel { agent: 1, nth: 1 },
                votes: 1,
                preview: evil(rng),
            };
            let kind = InteractionKind::WinnerOverride { winner: first, candidates: vec![candidate] };
            script.asks(Some("r1"), "i", kind, Some(60));
        }
        _ => {
            let mut result = Script::result("r1", &evil(rng), althing_protocol::RunStatus::Completed);
            result.final_answer = Some(evil(rng));
            result.context_path_writes = vec![althing_protocol::FileWrite {
                path: evil(rng),
                change: althing_protocol::FileChange::New,
                note: Some(evil(rng)),
            }];
            script.finishes("r1", result, althing_protocol::RunEnd::Answered);
        }
    }
}

fn press(app: &mut App, code: KeyCode, modifiers: KeyModifiers) {
    app.handle(&Event::Key(KeyEvent::new(code, modifiers)), Timestamp(0));
}

#[test]
fn a_hundred_thousand_hostile_texts_reach_the_terminal_as_text() {
    let nightly = std::env::var("ALTHING_TEST_SCALE").is_ok_and(|scale| scale == "nightly");
    let wanted = if nightly { 10_000_000 } else { 100_000 };
    let mut rng = Rng(7);
    let mut texts = 0;
    let mut round = 0;
    while texts < wanted {
        round += 1;
        let script = hostile(&mut rng);
        texts += 120;
        let mut app = App::new(options(), Arc::new(FakeHost));
        for item in &script.items {
            app.apply(item);
        }
        app.sync();
        // The screen is small, so that drawing is fast. Different rounds open different screens.
        let (width, height) = (60 + (round % 50) as u16, 16 + (round % 9) as u16);
        let check = |app: &mut App, what: &str| {
            let bytes = written(app, width, height);
            if let Some(found) = foreign(&bytes) {
                panic!("round {round}, {what}: {found} in {:?}", String::from_utf8_lossy(&bytes));
            }
        };
        check(&mut app, "conversation");
        match round % 5 {
            0 => {
                app.modal = None;
                press(&mut app, KeyCode::Char('r'), KeyModifiers::CONTROL);
                check(&mut app, "run");
                press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
                check(&mut app, "reader");
            }
            1 => {
                app.modal = None;
                press(&mut app, KeyCode::Char('t'), KeyModifiers::CONTROL);
                check(&mut app, "tasks");
                press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
                check(&mut app, "task");
            }
            2 => {
                app.modal = None;
                app.handle(&Event::Paste(rng.text()), Timestamp(0));
                check(&mut app, "input");
            }
            3 => {
                press(&mut app, KeyCode::Char('o'), KeyModifiers::CONTROL);
                check(&mut app, "override");
            }
            _ => {}
        }
    }
}

#[test]
fn a_hostile_program_screen_is_drawn_and_not_obeyed() {
    let mut rng = Rng(11);
    let mut script = Script::default();
    script.workflow();
    let mut app = App::new(options(), Arc::new(FakeHost));
    for item in &script.items {
        app.apply(item);
    }
    app.sync();
    written(&mut app, 80, 24);
    press(&mut app, KeyCode::Char('t'), KeyModifiers::CONTROL);
    press(&mut app, KeyCode::Down, KeyModifiers::NONE);
    press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    assert!(app.attached_task().is_some());
    for _ in 0..100 {
        let rows = (0..30)
            .map(|_| (0..90).map(|_| ScreenCell { text: rng.text(), ..ScreenCell::default() }).collect())
            .collect();
        app.show_attached(Some(ProgramScreen {
            cols: 90,
            rows,
            title: rng.text(),
            ..ProgramScreen::default()
        }));
        let bytes = written(&mut app, 80, 24);
        assert_eq!(foreign(&bytes), None);
        assert!(String::from_utf8_lossy(&bytes).contains("attached to"), "the last line is ours");
    }
}

#[test]
fn the_check_finds_foreign_sequences() {
    for bad in ["\x1b]52;c;aGk=\x07", "\x1b[2J", "\x1b[?1049h", "a\u{202e}b", "\u{9b}1m", "\x07"] {
        assert!(foreign(bad.as_bytes()).is_some(), "{bad:?}");
    }
    assert_eq!(foreign("\x1b[1;31mred\x1b[0m \x1b[3;4H\x1b[?25l".as_bytes()), None);
}
