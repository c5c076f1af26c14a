//! An opened run: timelines, votes, the final answer and its files.

use super::support::TestScreen;
use crate::script::Script;
use althing_protocol::{
    DeltaKind, FileChange, FileWrite, Item, PlanRef, Purpose, Revision, RunEnd, RunStatus, Usage,
};
use althing_tui::Effect;
use crossterm::event::KeyCode;

fn run() -> Script {
    let mut script = Script::default();
    script.chat(false);
    script.user_sends("Replace JWT");
    script.state(althing_protocol::ChatState::Chatting);
    script.state(althing_protocol::ChatState::Running);
    script.run("r1", Some("c1"), "Replace JWT");
    script.all_answer("r1");
    script
}

fn finished(writes: Vec<FileWrite>) -> TestScreen {
    let mut script = run();
    script.vote("r1");
    let mut result = Script::result("r1", "Replace JWT", RunStatus::Completed);
    result.context_path_writes = writes;
    script.finishes("r1", result, RunEnd::Answered);
    TestScreen::showing(&script, 100, 40)
}

#[test]
fn the_cost_of_a_run_without_prices_is_unknown_and_not_nothing() {
    let mut script = Script::default();
    script.chat(true);
    script.run("r1", Some("c1"), "Write");
    let mut result = Script::result("r1", "Write", RunStatus::Completed);
    result.usage = Usage { input_tokens: 900, calls: 3, unpriced_calls: 3, ..Usage::default() };
    script.finishes("r1", result, RunEnd::Answered);
    let mut screen = TestScreen::showing(&script, 100, 30);
    assert!(screen.shows("· cost unknown"), "{}", screen.text());
    assert!(screen.shows("cost unknown of $5"), "{}", screen.text());
    screen.send_line("/cost");
    let row = screen.rows().into_iter().find(|row| row.contains("Run: Write") && row.contains("tokens"));
    assert!(row.is_some_and(|row| row.contains("unknown")), "{}", screen.text());
}

#[test]
fn the_answer_key_on_a_run_opens_no_question_of_another_run() {
    let mut script = Script::default();
    script.chat(true);
    script.run("r1", Some("c1"), "The first");
    let mut screen = TestScreen::showing(&script, 100, 30);
    screen.enter_run();
    script.items.clear();
    script.run("r10", Some("c1"), "The tenth");
    script.override_window("r10");
    screen.feed(&script.items);
    screen.press(KeyCode::Char('a'));
    assert!(screen.shows("nothing is waiting for you here"), "{}", screen.text());
}

#[test]
fn a_timeline_tells_what_an_agent_did_in_order() {
    let mut script = run();
    script.item("r1", 2, 2, Item::Update { revision: Revision(3) });
    script.votes("r1", 2, "gem", "handles key rotation");
    let mut screen = TestScreen::showing(&script, 100, 40);
    screen.enter_run();
    screen.press(KeyCode::Char('2'));
    let order = [
        "began       answering",
        "reasoning   Compared both token layouts.",
        "I looked at both token layouts.",
        "search      \"pattern\": \"jwt::encode\"",
        "answer      agent2.1   Write a thin trait",
        "began       judging",
        "update      agent1.1 and agent3.1 arrived",
        "vote        → gem   \"handles key rotation\"",
    ];
    let rows: Vec<u16> = order.iter().map(|text| screen.find(text).1).collect();
    assert!(rows.is_sorted(), "{}", screen.text());
    assert!(screen.shows("gpt · gpt-5-mini · round 2 · 8.0k tokens · $0.03"));
    assert!(screen.shows("gem █ 1  waiting: gem, cc"), "{}", screen.text());
}

#[test]
fn everything_on_a_timeline_opens_and_esc_goes_back_to_it() {
    let mut screen = TestScreen::showing(&run(), 100, 40);
    screen.control('r');
    screen.click("reasoning   Compared");
    assert!(screen.shows("The second is smaller."));
    screen.press(KeyCode::Esc);
    screen.click("answer      agent1.1");
    assert!(screen.shows("Keep tests."));
    screen.press(KeyCode::Char('c'));
    assert!(
        screen
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Copy(text) if text.contains("Keep tests.")))
    );
    screen.press(KeyCode::Char('o'));
    assert!(screen.effects.iter().any(|effect| matches!(effect, Effect::Page(_))));
    screen.press(KeyCode::Esc);
    assert!(screen.shows("‹ esc   Run: Replace JWT"));
}

#[test]
fn what_an_agent_says_streams_into_its_timeline() {
    let mut script = run();
    script.begins("r1", 1, 3, Purpose::Answer);
    script.delta("r1.a1", DeltaKind::Reasoning, "weighing it");
    let mut screen = TestScreen::showing(&script, 100, 40);
    screen.control('r');
    assert!(screen.shows("thinking  weighing it"));
    script.items.clear();
    script.delta("r1.a1", DeltaKind::Text, "Now I **write**");
    screen.feed(&script.items);
    assert!(screen.shows("Now I write") && screen.shows("1 gem writing"));
    script.items.clear();
    script.delta("r1.a1", DeltaKind::Retry, "the server is busy");
    screen.feed(&script.items);
    assert!(!screen.shows("Now I write"), "what streamed before a retry is void");
    assert!(screen.shows("retrying: the server"));
}

// spec: modes/context-path-write-tracking/display-written-files-in-final-answer-few-files
#[test]
fn few_written_files_are_listed_under_the_final_answer() {
    let screen = finished(Script::writes(5));
    assert!(screen.shows("Files written to context paths:"));
    for n in 0..5 {
        assert!(screen.shows(&format!("my-app/src/file{n}.rs")), "{}", screen.text());
    }
    assert!(screen.shows("my-app/src/file0.rs (modified)") && screen.shows("my-app/src/file1.rs (new)"));
}

// spec: modes/context-path-write-tracking/display-written-files-in-final-answer-many-files
#[test]
fn many_written_files_are_counted_and_listed_elsewhere() {
    let screen = finished(Script::writes(6));
    assert!(screen.shows("6 files written to context paths"));
    assert!(screen.shows(".althing/sessions/s1/tasks/r1/context_path_writes.txt"));
    assert!(!screen.shows("my-app/src/file1.rs"));
}

// spec: modes/context-path-write-tracking/no-footer-when-no-writes
#[test]
fn without_written_files_there_is_no_footer() {
    let screen = finished(Vec::new());
    assert!(screen.shows("gem presents") && !screen.shows("written to context paths"));
}

// spec: modes/context-path-write-tracking/no-footer-when-no-writes
#[test]
fn deleted_files_are_in_the_footer_of_a_run_that_wrote_and_else_in_a_note_above_the_answer() {
    let gone = FileWrite { path: "my-app/old.rs".into(), change: FileChange::Deleted, note: None };
    let screen = finished(vec![gone.clone()]);
    assert!(!screen.shows("context paths") && !screen.shows("d diff · u undo"), "{}", screen.text());
    let (_, note) = screen.find("note: the run deleted 1 file: my-app/old.rs");
    let (_, answer) = screen.find("Tokens are now Paseto");
    assert!(note < answer, "the note is no footer:\n{}", screen.text());
    assert_eq!(screen.text().matches("old.rs").count(), 1, "{}", screen.text());
    let mut writes = Script::writes(5);
    writes.push(gone);
    let screen = finished(writes);
    assert!(
        screen.shows("Files written to context paths:") && screen.shows("deleted: my-app/old.rs (deleted)")
    );
    assert!(!screen.shows("note:"), "{}", screen.text());
}

#[test]
fn a_written_file_that_runs_code_later_is_pointed_out_however_many_there_are() {
    for count in [1, 9] {
        let mut writes = Script::writes(count);
        writes.push(FileWrite::new("my-app/Makefile".into(), FileChange::New, "Makefile".as_ref()));
        let screen = finished(writes);
        assert!(screen.shows("my-app/Makefile (new; runs code when make runs)"), "{count}");
    }
}

#[test]
fn cards_say_how_runs_ended() {
    for (status, end, word) in [
        (RunStatus::Failed, RunEnd::NoAnswer, "Failed ✗"),
        (RunStatus::Cancelled, RunEnd::Cancelled, "Cancelled"),
        (RunStatus::Partial, RunEnd::Limit, "Partial"),
    ] {
        let mut script = run();
        let mut result = Script::result("r1", "Replace JWT", status);
        result.error = Some("all agents failed".into());
        script.finishes("r1", result, end);
        let screen = TestScreen::showing(&script, 100, 40);
        let (_, y) = screen.find("Run: Replace JWT");
        assert!(screen.rows()[usize::from(y)].ends_with(word), "{}", screen.text());
        assert!(screen.shows("all agents failed"));
    }
}

#[test]
fn undo_is_one_key_at_the_final_answer_and_is_asked_about() {
    let mut screen = finished(Script::writes(2));
    screen.enter_run();
    assert!(screen.shows("f final answer"));
    screen.press(KeyCode::Char('u'));
    assert!(screen.shows("Undo what this run wrote?") && screen.effects.is_empty());
    screen.press(KeyCode::Enter);
    assert!(!screen.shows("Undo what this run wrote?") && screen.effects.is_empty(), "Enter keeps them");
    screen.press(KeyCode::Char('u'));
    screen.press_after_reading('y');
    assert_eq!(screen.effects.last(), Some(&Effect::Undo("r1".into())));
}

#[test]
fn search_goes_through_a_timeline_in_a_circle() {
    let mut screen = TestScreen::showing(&run(), 100, 40);
    screen.enter_run();
    screen.press(KeyCode::Char('/'));
    screen.write("token");
    screen.press(KeyCode::Enter);
    let first = screen.find("▎").1;
    screen.press(KeyCode::Char('n'));
    assert_ne!(screen.find("▎").1, first);
    screen.press(KeyCode::Char('/'));
    screen.write("nowhere to be found");
    screen.press(KeyCode::Enter);
    assert!(screen.shows("not found: nowhere to be found"));
}

#[test]
fn a_plan_is_shown_as_text_without_its_json() {
    let mut script = Script::default();
    script.chat(false);
    script.user_sends("Plan it");
    script.run("r1", Some("c1"), "Plan it");
    let mut result = Script::result("r1", "Plan it", RunStatus::Completed);
    result.modes.planning = true;
    result.plan = Some(PlanRef { id: "auth".into(), path: ".althing/plans/auth".into() });
    result.final_answer =
        Some("Three steps.\n\n```json\n{\"tasks\": []}\n```\n\n```sh\ncargo test\n```\n".into());
    script.finishes("r1", result, RunEnd::Answered);
    let screen = TestScreen::showing(&script, 100, 40);
    for text in ["Three steps.", "cargo test", "The plan is stored in .althing/plans/auth"] {
        assert!(screen.shows(text), "{text}:\n{}", screen.text());
    }
    assert!(!screen.shows("\"tasks\""), "{}", screen.text());
}

#[test]
fn an_opened_timeline_entry_shows_its_own_text() {
    let mut script = run();
    for (attempt, text) in [(3, "the first remark"), (4, "the second remark")] {
        let reply = althing_protocol::Reply { text: text.into(), ..Default::default() };
        script.item("r1", 1, attempt, Item::Reply(reply));
    }
    let mut screen = TestScreen::showing(&script, 100, 40);
    screen.enter_run();
    for text in ["the second remark", "the first remark"] {
        screen.press(KeyCode::Up);
        screen.press(KeyCode::Enter);
        assert!(screen.shows("‹ esc   text") && screen.shows(text), "{text}:\n{}", screen.text());
        screen.press(KeyCode::Esc);
    }
}
