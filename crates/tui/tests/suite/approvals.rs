//! Approving, editing and refusing runs and plans.

use super::support::Screen;
use crate::script::Script;
use althing_protocol::{AgentMode, Decision, LaunchRun, Op};
use crossterm::event::KeyCode;

fn asked() -> Screen {
    let mut script = Script::default();
    script.chat(true);
    script.says("Build phase 1");
    script.turn(1);
    script.approval();
    Screen::showing(&script, 100, 30)
}

fn decision(screen: &Screen) -> &Decision {
    match screen.ops.last() {
        Some(Op::Answer { decision, .. }) => decision,
        other => panic!("nothing was answered: {other:?}"),
    }
}

fn approved() -> Decision {
    Decision::Approve { digest: Some("d1g3st".into()), edited: None, instructions: None }
}

// spec: interactive/run-approval-flow/approval-required
#[test]
fn the_modal_shows_task_context_agents_and_three_buttons() {
    let screen = asked();
    for text in [
        "Launch this run?",
        "Task      Execute phase 1: replace JWT issue and verify with Paseto",
        "Context   plan auth, phase 1 of 3; keep the public API; tests must pass",
        "Agents    gem gemini-2.5-flash · gpt gpt-5-mini · cc Claude Code",
        "May write ./my-app, by the presenter after the vote",
        "Approve",
        "Edit",
        "Cancel",
    ] {
        assert!(screen.shows(text), "{text} in\n{}", screen.text());
    }
    assert!(screen.shows("Status: Awaiting approval"));
}

// spec: design/approval/shortcut
#[test]
fn a_single_key_approves_exactly_what_was_shown() {
    for key in [KeyCode::Enter, KeyCode::Char('a')] {
        let mut screen = asked();
        screen.press(key);
        assert_eq!(*decision(&screen), approved());
        assert!(!screen.shows("Launch this run?"), "the answer closes the question at once");
    }
    let mut screen = asked();
    screen.click("Approve");
    assert_eq!(*decision(&screen), approved());
}

#[test]
fn esc_and_cancel_refuse_the_run() {
    let mut screen = asked();
    screen.press(KeyCode::Esc);
    assert_eq!(*decision(&screen), Decision::Reject { reason: None });
    let mut screen = asked();
    screen.click("Cancel");
    assert_eq!(*decision(&screen), Decision::Reject { reason: None });
}

#[test]
fn an_edited_run_is_approved_with_what_the_user_wrote() {
    let mut screen = asked();
    screen.click("Edit");
    screen.write(", carefully");
    screen.press(KeyCode::Tab);
    screen.write("; no new crates");
    screen.press(KeyCode::Enter);
    screen.press(KeyCode::Char('m'));
    assert!(screen.shows("Single · Refine"));
    screen.press(KeyCode::Enter);
    let Decision::Approve { digest, edited: Some(edited), .. } = decision(&screen) else {
        panic!("{:?}", screen.ops)
    };
    let before = Script::proposal().launch;
    let expected = LaunchRun {
        task: format!("{}, carefully", before.task),
        context: before.context.clone().map(|text| format!("{text}; no new crates")),
        agent_mode: Some(AgentMode::Single),
        ..before
    };
    assert_eq!(**edited, expected);
    assert_eq!(digest.as_deref(), Some("d1g3st"));
}

#[test]
fn a_question_does_not_take_the_keys_of_someone_who_is_typing() {
    let mut script = Script::default();
    script.chat(true);
    let mut screen = Screen::showing(&script, 100, 30);
    screen.write("and also the doc");
    script.items.clear();
    script.approval();
    screen.feed(&script.items);
    assert!(screen.shows("Launch this run?"));
    screen.write("s");
    screen.press(KeyCode::Enter);
    assert!(matches!(screen.ops.last(), Some(Op::SendMessage { text, .. }) if text == "and also the docs"));
    screen.now = althing_protocol::Timestamp(screen.now.0 + 2_000);
    screen.press(KeyCode::Enter);
    assert_eq!(*decision(&screen), approved());
}

#[test]
fn a_plan_is_approved_with_more_instructions() {
    let plan = || {
        let mut script = Script::default();
        script.chat(true);
        script.plan_approval();
        Screen::showing(&script, 100, 30)
    };
    let mut screen = plan();
    assert!(screen.shows("Plan: auth · 3 tasks"));
    assert!(screen.shows("1 Add pasetors, keep jsonwebtoken · verify: cargo test -p auth"));
    screen.press(KeyCode::Tab);
    screen.write("also update the docs");
    screen.press(KeyCode::Enter);
    let instructions = Some("also update the docs".to_owned());
    assert_eq!(*decision(&screen), Decision::Approve { digest: None, edited: None, instructions });

    let mut screen = plan();
    screen.press(KeyCode::Char('c'));
    screen.write("fewer tasks");
    screen.press(KeyCode::Enter);
    assert_eq!(*decision(&screen), Decision::Change { text: "fewer tasks".into() });

    let mut screen = plan();
    screen.press(KeyCode::Enter);
    assert_eq!(*decision(&screen), Decision::Approve { digest: None, edited: None, instructions: None });

    let mut screen = plan();
    screen.press(KeyCode::Esc);
    assert_eq!(*decision(&screen), Decision::Reject { reason: None });
}
