//! Everyday use of the conversation: what waits, what is being written, what was stopped, searching and selecting.

use super::support::{TestScreen, options};
use crate::script::{self, Script, run_spec, work};
use althing_protocol::{
    ChatState, Decision, DeltaKind, Fact, FinalAnswerStrategy, Item, Modes, Op, Origin, Phase, PlanProgress,
    PlanRef, PlanRun, PlanStatus, PlanTask, Purpose, RunEnd, RunStatus, Seq, TaskId, TaskSpec, Timestamp,
};
use althing_tui::{Effect, TuiHost, TuiOptions};
use crossterm::event::{KeyCode, MouseButton, MouseEventKind};
use ratatui::style::Modifier;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn replying() -> Script {
    let mut script = Script::default();
    script.chat(true);
    script.user_sends("Tell me about keys");
    script.turn(1);
    script.delta("c1", DeltaKind::Text, "Keys rotate by id.\n\nThey");
    script
}

#[test]
fn a_queued_message_is_below_the_reply_that_is_being_written() {
    for (width, height) in [(40, 12), (80, 24), (160, 45)] {
        let mut script = replying();
        script.user_sends("and then this");
        let mut screen = TestScreen::showing(&script, width, height);
        assert!(screen.find("and then this").1 > screen.find("They").1, "{}", screen.text());
        assert!(screen.shows("queued") && screen.shows("del removes"), "{}", screen.text());
        script.items.clear();
        script.replies(1, "Keys rotate by id.\n\nThey do.");
        script.turn_ends(1);
        script.turn(2);
        screen.feed(&script.items);
        assert!(screen.find("and then this").1 > screen.find("They do.").1, "{}", screen.text());
        assert!(!screen.shows("queued"), "{}", screen.text());
    }
}

#[test]
fn every_queued_message_can_be_edited_and_removed() {
    for (width, height) in [(40, 12), (80, 24)] {
        let mut script = replying();
        let texts = ["the first", "the second", "the third", "the fourth", "the fifth", "the sixth"];
        let messages = texts.map(|text| script.user_sends(text));
        let screen = || TestScreen::showing(&script, width, height);
        for (ups, (message, text)) in messages.into_iter().zip(texts).rev().enumerate() {
            let mut edited = screen();
            for _ in 0..=ups {
                edited.press(KeyCode::Up);
            }
            assert!(edited.ops.is_empty() && edited.shows(text), "nothing is changed yet: {}", edited.text());
            edited.press(KeyCode::Enter);
            assert_eq!(edited.ops, [Op::Unqueue { message: Seq(message) }]);
            assert_eq!(edited.app.input.text(), text);

            let mut removed = screen();
            for _ in 0..=ups {
                removed.press(KeyCode::Up);
            }
            removed.press(KeyCode::Delete);
            assert_eq!(removed.ops, [Op::Unqueue { message: Seq(message) }]);
        }
        // Another key leaves the queue, and goes to the input.
        let mut left = screen();
        left.press(KeyCode::Up);
        left.press(KeyCode::Char('x'));
        left.press(KeyCode::Backspace);
        left.press(KeyCode::Enter);
        assert!(left.ops.is_empty() && left.app.input.is_empty(), "{:?}", left.ops);
    }
}

#[test]
fn esc_moves_queued_messages_into_the_input_where_they_wait_for_enter() {
    let mut script = replying();
    let queued = [script.user_sends("and then this"), script.user_sends("and that")];
    let mut screen = TestScreen::showing(&script, 80, 24);
    screen.press(KeyCode::Esc);
    let [first, second] = queued.map(|message| Op::Unqueue { message: Seq(message) });
    assert_eq!(screen.ops, [first, second, Op::StopReply], "none of them starts a turn");
    assert_eq!(screen.app.input.text(), "and then this\n\nand that");
    assert!(screen.shows("what was queued is in the input"), "{}", screen.text());
}

#[test]
fn esc_moves_queued_messages_before_a_draft() {
    let mut script = replying();
    script.user_sends("and then this");
    let mut screen = TestScreen::showing(&script, 80, 24);
    screen.write("a draft");
    screen.press(KeyCode::Esc);
    assert_eq!(screen.app.input.text(), "and then this\n\na draft");
}

#[test]
fn a_reply_that_is_being_written_is_searched() {
    let mut script = replying();
    script.delta("c1", DeltaKind::Text, &" and so on.\n\nMore.".repeat(30));
    script.delta("c1", DeltaKind::Text, "\n\nA zebra.");
    let mut screen = TestScreen::showing(&script, 80, 24);
    screen.send_line("/find Keys rotate");
    assert!(screen.shows("Keys rotate by id.") && screen.shows("1 of 1"), "{}", screen.text());
    screen.press(KeyCode::Esc);
    screen.press(KeyCode::Esc);
    screen.send_line("/find zebra");
    assert!(screen.shows("1 of 1"), "{}", screen.text());
}

#[test]
fn esc_stops_a_reply_but_never_a_run() {
    let mut screen = TestScreen::showing(&replying(), 80, 24);
    assert!(screen.shows("esc stops") && screen.shows("esc stop ·"), "{}", screen.text());
    screen.press(KeyCode::Esc);
    assert_eq!(screen.ops, [Op::StopReply]);

    let mut screen = TestScreen::showing(&script::conversation(), 80, 24);
    assert!(!screen.shows("esc stop"), "{}", screen.text());
    screen.press(KeyCode::Esc);
    assert!(screen.ops.is_empty());
}

#[test]
fn a_stopped_reply_keeps_its_words_and_says_who_stopped_it() {
    let mut script = replying();
    script.fact(Some("c1"), Fact::accepted(Op::StopReply, Origin::User));
    let ended = Fact::AttemptEnded {
        attempt: 1,
        outcome: althing_protocol::AttemptOutcome::Cancelled,
        usage: althing_protocol::Usage::default(),
        call: None,
    };
    script.fact(Some("c1"), ended);
    script.state(ChatState::Idle);
    let screen = TestScreen::showing(&script, 80, 24);
    assert!(screen.shows("Keys rotate by id."), "{}", screen.text());
    assert!(screen.find("stopped by you").1 > screen.find("They").1, "{}", screen.text());
    assert_eq!(screen.text().matches("stopped by you").count(), 1);
}

/// A host that says whether the chat agent's changes of files were undone.
struct UndoHost(AtomicBool);

impl TuiHost for UndoHost {
    fn now(&self) -> Timestamp {
        script::START
    }

    fn last_changed(&self) -> Result<TaskId, String> {
        Ok(TaskId::chat())
    }

    fn is_undone(&self, _: &TaskId) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn what_the_chat_agent_changed_is_called_undone_after_an_undo() {
    let mut script = Script::default();
    script.chat(true);
    script.user_sends("Change it");
    script.turn(1);
    script.edits(1, "t1", "src/paint.txt");
    let host = Arc::new(UndoHost(AtomicBool::new(false)));
    let mut screen = TestScreen::with_host(options(), host.clone(), 80, 24);
    screen.feed(&script.items);
    let row = |screen: &TestScreen| {
        let rows = screen.rows();
        rows.into_iter().find(|row| row.contains("paint.txt")).expect("the changed file")
    };
    assert!(row(&screen).contains("done ✓"), "{}", screen.text());
    host.0.store(true, Ordering::SeqCst);
    screen.app.find_undone_changes();
    screen.draw();
    assert!(row(&screen).contains("undone"), "{}", screen.text());
    // A second undo says so before it asks anything.
    screen.send_line("/undo");
    assert!(screen.shows("already undone") && !screen.shows("y confirm"), "{}", screen.text());
    // What is changed afterwards is not undone.
    host.0.store(false, Ordering::SeqCst);
    script.items.clear();
    script.edits(1, "t2", "src/other.txt");
    screen.feed(&script.items);
    let rows = screen.rows().into_iter().filter(|row| row.contains(".txt"));
    let states: Vec<bool> = rows.map(|row| row.contains("undone")).collect();
    assert_eq!(states, [true, false], "{}", screen.text());
    // The screen of a resumed session asks the host too.
    let mut resumed = Script::default();
    resumed.chat(true);
    resumed.edits(1, "t1", "src/paint.txt");
    let mut screen = TestScreen::with_host(options(), Arc::new(UndoHost(AtomicBool::new(true))), 80, 24);
    screen.feed(&resumed.items);
    assert!(row(&screen).contains("undone"), "{}", screen.text());
}

#[test]
fn a_rejected_run_leaves_a_card() {
    let mut script = replying();
    script.approval();
    script.answered("i-run", Decision::Reject { reason: None });
    script.state(ChatState::Chatting);
    let screen = TestScreen::showing(&script, 100, 30);
    assert!(screen.shows("▸ Run: Execute phase 1: replace JWT") && screen.shows("Not started"));
}

#[test]
fn the_hints_are_those_of_the_box_that_is_open() {
    let mut script = replying();
    script.approval();
    let mut screen = TestScreen::showing(&script, 100, 30);
    assert!(screen.shows("enter approve · esc reject") && !screen.shows("esc stop"), "{}", screen.text());
    screen.write("words");
    assert!(screen.shows("enter send · tab box"), "{}", screen.text());
}

fn executing() -> Script {
    let mut script = Script::default();
    script.chat(true);
    script.user_sends("Do it");
    script.turn(1);
    script.state(ChatState::Running);
    let task = |id: &str, description: &str| PlanTask {
        id: id.into(),
        description: description.into(),
        depends_on: Vec::new(),
        verification: None,
    };
    let plan = PlanRun {
        plan: PlanRef { id: "auth".into(), path: ".althing/plans/auth".into() },
        tasks: vec![
            task("a", "Add pasetors"),
            task("b", "Issue tokens"),
            task("c", "Rotate keys"),
            task("d", "Write docs"),
        ],
        progress: vec![PlanProgress { task: "a".into(), status: PlanStatus::Completed, note: None }],
        additions: None,
    };
    let mut spec = run_spec("Do it", Modes::default());
    spec.plan = Some(plan);
    let created =
        Fact::TaskCreated { id: "r1".into(), parent: Some("c1".into()), spec: TaskSpec::Run(Box::new(spec)) };
    script.fact(Some("c1"), created);
    let spec = TaskSpec::Work { agent: "gem".into() };
    script.fact(Some("r1"), Fact::TaskCreated { id: work("r1", 1), parent: Some("r1".into()), spec });
    script.begins("r1", 1, 1, Purpose::Present { strategy: FinalAnswerStrategy::WinnerPresent });
    for (task, status) in [("b", PlanStatus::Completed), ("c", PlanStatus::InProgress)] {
        let progress = PlanProgress { task: task.into(), status, note: None };
        script.item("r1", 1, 1, Item::PlanProgress(progress));
    }
    script
}

#[test]
fn the_progress_of_a_plan_is_pinned_above_the_input() {
    for (width, height) in [(40, 12), (80, 24), (160, 45)] {
        let screen = TestScreen::showing(&executing(), width, height);
        assert!(screen.shows("2 of 4 ✓ · now: Rotate keys"), "{}", screen.text());
        assert_eq!(screen.shows("▸ Rotate keys"), height >= 20, "{}", screen.text());
        assert!(screen.find("2 of 4").1 > screen.find("Run: Do it").1, "{}", screen.text());
    }
}

#[test]
fn the_final_answer_is_read_as_it_is_written_and_stays_under_its_card() {
    let mut script = script::conversation();
    script.all_answer("r2");
    script.vote("r2");
    script.fact(Some("r2"), Fact::PhaseChanged { phase: Phase::Presenting });
    script.begins("r2", 1, 3, Purpose::Present { strategy: FinalAnswerStrategy::WinnerPresent });
    script.delta("r2.a1", DeltaKind::Text, "Tokens are now Paseto **v4.local**.\n\n- keys");
    let mut screen = TestScreen::showing(&script, 100, 50);
    assert!(screen.shows("gem presents") && screen.shows("Tokens are now Paseto v4.local."));
    let row = screen.find("● gem presents").1;
    script.items.clear();
    let result = Script::result("r2", "Execute phase 1 - JWT", RunStatus::Completed);
    script.finishes("r2", result, RunEnd::Answered);
    script.state(ChatState::ProcessingResults);
    script.replies(1, "The summary.");
    screen.feed(&script.items);
    assert!(screen.shows("Tokens are now Paseto v4.local."), "{}", screen.text());
    let card = screen.find("Run: Execute phase 1 - JWT").1;
    let answers: Vec<usize> = screen
        .rows()
        .iter()
        .enumerate()
        .filter(|(_, row)| row.contains("gem presents"))
        .map(|(y, _)| y)
        .collect();
    assert!(answers.last().is_some_and(|y| *y > usize::from(card)), "{row} {}", screen.text());
    assert!(screen.find("The summary.").1 > screen.find("tests pass").1, "{}", screen.text());
}

#[test]
fn the_card_shows_the_beginning_of_what_an_agent_writes() {
    let mut script = script::conversation();
    script.delta("r2.a3", DeltaKind::ToolCall, "new_answer");
    script.delta("r2.a3", DeltaKind::Answer, "Use a CDN for ");
    script.delta("r2.a3", DeltaKind::Answer, "static files\n\nand more");
    let screen = TestScreen::showing(&script, 100, 30);
    assert!(screen.shows("writing: Use a CDN for static files"), "{}", screen.text());
}

#[test]
fn a_search_goes_through_the_whole_conversation() {
    let mut script = Script::default();
    script.chat(true);
    for n in 1..=30 {
        script.user_sends(&format!("question {n}"));
        script.turn(n);
        let word = if n % 10 == 0 { "a **needle** here" } else { "hay" };
        script.replies(n, &format!("reply {n}: {word}\n\nand more\n\nand more"));
        script.turn_ends(n);
    }
    for (width, height) in [(40, 12), (80, 24), (160, 45)] {
        let mut screen = TestScreen::showing(&script, width, height);
        screen.press(KeyCode::Tab);
        screen.press(KeyCode::Char('/'));
        screen.write("Needle here");
        assert!(screen.shows("Find: Needle here"), "{}", screen.text());
        screen.press(KeyCode::Enter);
        assert!(screen.shows("reply 30: a needle here") && screen.shows("3 of 3"), "{}", screen.text());
        assert!(screen.style_of("needle here").add_modifier.contains(Modifier::REVERSED));
        assert!(!screen.style_of("reply 30").add_modifier.contains(Modifier::REVERSED));
        screen.press(KeyCode::Char('N'));
        assert!(screen.shows("reply 20: a needle here") && screen.shows("2 of 3"), "{}", screen.text());
        screen.press(KeyCode::Char('n'));
        screen.press(KeyCode::Char('n'));
        assert!(screen.shows("reply 10: a needle here") && screen.shows("1 of 3"), "{}", screen.text());
        screen.press(KeyCode::Esc);
        assert!(screen.shows("reply 30") && !screen.shows("1 of 3"), "{}", screen.text());
        screen.send_line("/find straw");
        assert!(screen.shows("nothing matches: straw"), "{}", screen.text());
    }
}

#[test]
fn a_search_in_an_opened_text_highlights_words_and_jumps() {
    let mut script = Script::default();
    script.chat(true);
    let line = |n: u32| format!("line {n}{}", if n % 90 == 80 { " needle" } else { "" });
    let text = (0..200).map(line).collect::<Vec<_>>().join("\n");
    script.replies(1, &text);
    let mut screen = TestScreen::showing(&script, 80, 24);
    screen.press(KeyCode::Tab);
    screen.press(KeyCode::Enter);
    screen.press(KeyCode::Char('/'));
    screen.write("needle");
    screen.press(KeyCode::Enter);
    assert!(screen.shows("line 80 needle") && screen.shows("1 of 2"), "{}", screen.text());
    assert!(screen.style_of("needle").add_modifier.contains(Modifier::REVERSED));
    screen.press(KeyCode::Char('n'));
    assert!(screen.shows("line 170 needle") && screen.shows("2 of 2"), "{}", screen.text());
    screen.press(KeyCode::Char('/'));
    screen.write("straw");
    screen.press(KeyCode::Enter);
    assert!(screen.shows("not found: straw"), "{}", screen.text());
}

#[test]
fn what_is_new_below_is_counted_and_covers_no_text() {
    let mut script = Script::default();
    script.chat(true);
    for n in 1..=30 {
        script.user_sends(&format!("question {n}"));
        script.turn(n);
        script.replies(n, &format!("reply {n} {}", "with words to the very edge of the screen ".repeat(4)));
        script.turn_ends(n);
    }
    let mut screen = TestScreen::showing(&script, 80, 24);
    screen.press(KeyCode::PageUp);
    assert!(!screen.shows("↓"), "{}", screen.text());
    script.items.clear();
    for n in 31..=36 {
        script.user_sends(&format!("question {n}"));
        script.turn(n);
        script.replies(n, "more");
        script.turn_ends(n);
    }
    screen.feed(&script.items);
    let row = screen.rows().into_iter().find(|row| row.contains('↓')).unwrap_or_default();
    assert_eq!(row.trim(), "↓ 12 new", "{}", screen.text());
}

#[test]
fn dragging_marks_text_and_copies_it_without_opening_anything() {
    let mut screen = TestScreen::showing(&script::conversation(), 100, 40);
    let (x, y) = screen.find("The agents produced");
    screen.mouse(MouseEventKind::Down(MouseButton::Left), x, y);
    screen.mouse(MouseEventKind::Drag(MouseButton::Left), x + 9, y);
    assert!(screen.style_of("The agents").add_modifier.contains(Modifier::REVERSED));
    screen.mouse(MouseEventKind::Up(MouseButton::Left), x + 9, y);
    let effects = screen.app.take_effects();
    assert!(effects.contains(&Effect::Copy("The agents".into())), "{effects:?}");
    assert!(!screen.shows("‹ esc"), "{}", screen.text());
}

#[test]
fn a_copied_selection_has_no_margin_of_the_screen() {
    let mut script = Script::default();
    script.chat(true);
    script.replies(1, "First words.\n\n- one\n  - two\n\nLast words.");
    let copied = |from: &str, back: u16| {
        let mut screen = TestScreen::showing(&script, 80, 24);
        let (x, y) = screen.find(from);
        let (end, last) = screen.find("Last words.");
        screen.mouse(MouseEventKind::Down(MouseButton::Left), x - back, y);
        screen.mouse(MouseEventKind::Drag(MouseButton::Left), end + 10, last);
        screen.mouse(MouseEventKind::Up(MouseButton::Left), end + 10, last);
        screen.app.take_effects().into_iter().find_map(|effect| match effect {
            Effect::Copy(text) => Some(text),
            _ => None,
        })
    };
    let all = "First words.\n\n• one\n  • two\n\nLast words.";
    assert_eq!(copied("First words.", 0).as_deref(), Some(all));
    assert_eq!(copied("First words.", 2).as_deref(), Some(all), "the selection may begin in the margin");
    let rest = all.strip_prefix("First ");
    assert_eq!(copied("words.", 0).as_deref(), rest, "or inside a line");
}

#[test]
fn flags_are_drawn_as_letters_for_multiplexers() {
    let mut script = Script::default();
    script.chat(true);
    script.replies(1, "Hello 🇮🇸 and 👍🏽!");
    let mut screen = TestScreen::with(TuiOptions { simple_clusters: true, ..options() }, 80, 24);
    screen.feed(&script.items);
    assert!(screen.shows("Hello IS and 👍!"), "{}", screen.text());
}
