//! The conversation: layout, queued messages, streaming.

use super::support::TestScreen;
use crate::script::{self, Script};
use althing_protocol::{ChatState, DeltaKind, Fact, FeedItem, Notice, NoticeLevel, Op, Origin, Seq};
use crossterm::event::KeyCode;
use std::sync::Arc;

// spec: design/ui/alignment
#[test]
fn agents_and_cards_stand_left_the_user_right_and_the_input_below() {
    let screen = TestScreen::showing(&script::conversation(), 100, 36);
    assert_eq!(screen.find("● Althing").0, 1);
    assert_eq!(screen.find("▸ Run: Plan JWT auth refactor").0, 1);
    assert_eq!(screen.find("▾ Run: Execute phase 1 - JWT").0, 1);
    let (x, y) = screen.find("Replace our JWT auth with something safer");
    assert!(x > 20, "the user's words stand right, at {x}");
    assert!(screen.rows()[usize::from(y)].ends_with("You"));
    let queued = screen.find("Actually, use Paseto instead of JWT").1;
    assert_eq!(queued, 32, "what waits is above the mode bar:\n{}", screen.text());
    assert_eq!(screen.find("Type a message...").1, 35, "the input is the last row");
}

// spec: design/ui/context-bar
#[test]
fn the_context_bar_names_project_status_and_mode() {
    let mut script = Script::default();
    script.chat(true);
    let mut screen = TestScreen::showing(&script, 80, 24);
    let bar = screen.rows()[0].clone();
    assert!(
        bar.contains("Project: my-app") && bar.contains("Status: Idle") && bar.ends_with("Interactive"),
        "{bar}"
    );
    for (state, word) in [
        (ChatState::Chatting, "Chatting"),
        (ChatState::AwaitingApproval, "Awaiting approval"),
        (ChatState::Running, "Running"),
        (ChatState::ProcessingResults, "Processing results"),
        (ChatState::ProcessingPartial, "Processing partial results"),
        (ChatState::ProcessingCancelled, "Processing a cancelled run"),
    ] {
        script.items.clear();
        script.state(state);
        screen.feed(&script.items);
        assert!(screen.rows()[0].contains(&format!("Status: {word}")), "{}", screen.rows()[0]);
    }
    assert!(TestScreen::new(80, 24).rows()[0].contains("Project: none"));
}

// spec: design/ui/run-card
#[test]
fn a_run_card_shows_status_agents_rounds_and_time_and_opens_and_cancels() {
    let mut screen = TestScreen::showing(&script::conversation(), 100, 40);
    let (_, y) = screen.find("Run: Plan JWT auth refactor");
    assert!(screen.rows()[usize::from(y)].ends_with("Complete ✓"));
    assert!(screen.shows("3 agents · 2 rounds · 4m12s · $0.31 · winner gem, 2 of 3 votes"));
    let (_, y) = screen.find("Run: Execute phase 1 - JWT");
    assert!(screen.rows()[usize::from(y)].ends_with("Running..."));
    assert!(screen.shows("gpt   answered (agent2.1)"));
    assert!(screen.shows("gem   calling write_file"));

    screen.click("Run: Execute phase 1 - JWT");
    assert!(screen.shows("‹ esc   Run: Execute phase 1 - JWT"));
    screen.press(KeyCode::Tab);
    screen.press(KeyCode::Char('x'));
    screen.press_after_reading('y');
    assert_eq!(screen.ops, [Op::Cancel { task: "r2".into() }]);
    screen.press(KeyCode::Esc);
    assert!(screen.shows("Type a message..."));

    screen.press(KeyCode::Tab);
    screen.press(KeyCode::Char('x'));
    screen.press_after_reading('y');
    assert_eq!(screen.ops.len(), 2, "and from the card itself");
}

#[test]
fn a_message_sent_during_a_run_is_shown_as_queued_and_can_be_taken_back() {
    let mut script = script::conversation();
    let message = script.seq;
    let mut screen = TestScreen::showing(&script, 100, 30);
    assert!(screen.shows("queued, delivered after this run · ↑ chooses · del removes"));
    screen.press(KeyCode::Delete);
    assert_eq!(screen.ops, [Op::Unqueue { message: Seq(message) }]);
    script.items.clear();
    let op = Op::Unqueue { message: Seq(message) };
    script.fact(Some("c1"), Fact::accepted(op, Origin::User));
    screen.feed(&script.items);
    assert!(!screen.shows("Actually, use Paseto"));
}

#[test]
fn a_queued_message_is_plain_once_its_turn_comes() {
    let mut script = script::conversation();
    let mut screen = TestScreen::showing(&script, 100, 30);
    script.items.clear();
    script.turn_ends(1);
    script.turn(2);
    screen.feed(&script.items);
    assert!(screen.shows("Actually, use Paseto") && !screen.shows("queued"));
}

#[test]
fn streaming_text_never_moves_what_stands_above_it() {
    let mut script = Script::default();
    script.chat(true);
    script.user_sends("Tell me");
    script.turn(1);
    let mut screen = TestScreen::showing(&script, 80, 40);
    let text = "First **words**.\n\n- one\n- two\n\n```rust\nlet a = 1;\n```\n\nThe end of it, at last.";
    let mut before: Vec<String> = Vec::new();
    for piece in text.split_inclusive(' ') {
        script.items.clear();
        script.delta("c1", DeltaKind::Text, piece);
        screen.feed(&script.items);
        // The time since the reply began and the number of tokens change, so the row of the status is not compared.
        let status = screen.find("● Althing  writing 3m19s · ~").1;
        let mut rows = screen.rows();
        rows[usize::from(status)] = " ● Althing".into();
        // Only the last six rows above the input may change: the last block is there.
        let changed = before.iter().zip(&rows).position(|(old, new)| old != new);
        let last = rows.iter().take(36).rposition(|row| !row.is_empty()).unwrap();
        assert!(
            changed.is_none_or(|at| at + 5 >= last),
            "row {changed:?} of {last} moved:\n{}",
            screen.text()
        );
        before = rows;
    }
    script.items.clear();
    script.replies(1, text);
    screen.feed(&script.items);
    assert!(before[5].contains("● Althing") && before[13].contains("at last"), "{before:#?}");
    assert_eq!(screen.rows()[1..14], before[1..14], "the finished reply looks as it did when it streamed");
}

#[test]
fn the_view_stays_where_the_user_reads_and_says_what_is_new() {
    let mut script = Script::default();
    script.chat(true);
    for n in 0..40 {
        script.user_sends(&format!("message {n}"));
        script.turn(n);
        script.replies(n, &format!("reply {n}"));
        script.turn_ends(n);
    }
    let mut screen = TestScreen::showing(&script, 80, 24);
    assert!(screen.shows("reply 39"));
    screen.press(KeyCode::PageUp);
    screen.press(KeyCode::PageUp);
    let before = screen.rows();
    assert!(!screen.shows("reply 39"));
    script.items.clear();
    script.turn(40);
    script.replies(40, "something new");
    screen.feed(&script.items);
    assert!(screen.shows("↓ 1 new") || screen.shows("↓ 2 new"), "{}", screen.text());
    assert_eq!(screen.rows()[2..19], before[2..19], "what was read stays where it was");
    screen.press(KeyCode::Esc);
    assert!(screen.shows("something new"));
}

#[test]
fn notices_say_how_serious_they_are() {
    let mut script = Script::default();
    script.chat(true);
    let notice = Notice {
        level: NoticeLevel::Warning,
        text: "Commands run without a sandbox.".into(),
        hint: Some("Install bubblewrap.".into()),
    };
    script.fact(None, Fact::Notice(notice));
    let screen = TestScreen::showing(&script, 80, 24);
    assert!(screen.shows("warning: Commands run without a sandbox. Install bubblewrap."));
}

#[test]
fn a_repeated_fact_is_folded_once() {
    let mut script = Script::default();
    script.chat(true);
    script.user_sends("only once");
    let mut screen = TestScreen::showing(&script, 80, 24);
    screen.feed(&script.items);
    assert_eq!(screen.rows().iter().filter(|row| row.contains("only once")).count(), 1);
}

#[test]
fn the_offline_model_is_called_what_it_is() {
    let mut script = Script::default();
    script.chat(true);
    for item in &mut script.items {
        let FeedItem::Event(event) = item else { continue };
        let mut changed = (**event).clone();
        if let Fact::OpAccepted { op: Op::StartChat { spec }, .. } = &mut changed.fact {
            spec.agent.as_mut().unwrap().member.offline = true;
        }
        if let Fact::TaskCreated { spec: althing_protocol::TaskSpec::Chat(spec), .. } = &mut changed.fact {
            spec.agent.as_mut().unwrap().member.offline = true;
        }
        *event = Arc::new(changed);
    }
    script.turn(1);
    script.replies(1, "I only repeat.");
    let screen = TestScreen::showing(&script, 80, 24);
    assert!(screen.rows()[0].contains("offline"));
    assert!(screen.shows("● Althing (offline, not an AI)"));
}

#[test]
fn an_opened_message_shows_its_own_text_after_another_was_opened() {
    let mut script = Script::default();
    script.chat(true);
    for n in 1..=3 {
        script.user_sends(&format!("question {n}"));
        script.turn(n);
        script.replies(n, &format!("reply {n}"));
        script.turn_ends(n);
    }
    let mut screen = TestScreen::showing(&script, 80, 24);
    screen.press(KeyCode::Tab);
    for text in ["reply 3", "question 3", "reply 2", "question 2", "reply 1", "question 1"] {
        screen.press(KeyCode::Enter);
        assert!(screen.shows("‹ esc") && screen.shows(text), "{text}:\n{}", screen.text());
        screen.press(KeyCode::Esc);
        screen.press(KeyCode::Up);
    }
}

#[test]
fn taking_back_a_queued_message_leaves_the_later_ones_as_they_were() {
    let mut script = script::conversation();
    let first = script.user_sends("the first that waits");
    script.user_sends("the second that waits");
    let mut screen = TestScreen::showing(&script, 100, 40);
    assert!(screen.shows("the first that waits") && screen.shows("the second that waits"));
    script.items.clear();
    let op = Op::Unqueue { message: Seq(first) };
    script.fact(Some("c1"), Fact::accepted(op, Origin::User));
    screen.feed(&script.items);
    assert!(!screen.shows("the first that waits"), "{}", screen.text());
    assert!(screen.shows("the second that waits"), "{}", screen.text());
}
