//! The mode state and the mode bar.

use super::support::{TestScreen, options};
use crate::script::{self, Script};
use althing_protocol::{
    AgentMode, ChatState, Decision, Fact, FinalAnswerStrategy, ModeChoice, Op, PlanRef, RunEnd, RunOverrides,
    RunStatus, TaskStatus, Verdict,
};
use althing_tui::{OverrideState, PlanMode, TuiModeState, TuiOptions};
use crossterm::event::KeyCode;
use ratatui::style::Color;

fn idle() -> TestScreen {
    let mut script = Script::default();
    script.chat(true);
    TestScreen::showing(&script, 100, 30)
}

fn sent(screen: &TestScreen) -> &ModeChoice {
    match screen.ops.last() {
        Some(Op::SendMessage { modes, .. }) => modes,
        other => panic!("no message was sent: {other:?}"),
    }
}

// spec: modes/tui-mode-state/mode-state-initialization
#[test]
fn modes_start_as_normal_multi_and_refining() {
    let state = TuiModeState::default();
    assert_eq!(state.plan_mode, PlanMode::Normal);
    assert_eq!(state.agent_mode, AgentMode::Multi);
    assert!(state.refinement);
    assert_eq!(state.override_state, OverrideState::None);
    let screen = idle();
    assert!(screen.shows("Plan · Multi · Refine · Interactive"));
    assert!(screen.shows("Type a message..."));
}

// spec: interactive/tui-mode-state-extension/state-fields
#[test]
fn the_mode_state_tracks_the_conversation_and_its_run() {
    let state = TuiModeState::default();
    assert!(!state.interactive_mode && !state.pending_run_approval);
    assert_eq!((state.interactive_session, state.current_run_id), (None, None));

    let mut script = Script::default();
    script.chat(true);
    script.user_sends("Build it");
    script.turn(1);
    script.approval();
    let mut screen = TestScreen::showing(&script, 80, 24);
    assert!(screen.app.modes.interactive_mode && screen.app.modes.pending_run_approval);
    assert_eq!(screen.app.modes.interactive_session, Some("2026-11-15-auth".into()));
    assert_eq!(screen.app.modes.current_run_id, None);

    script.items.clear();
    script.answered("i-run", Decision::Approve { digest: None, edited: None, instructions: None });
    script.run("r1", Some("c1"), "Build it");
    screen.feed(&script.items);
    assert!(!screen.app.modes.pending_run_approval);
    assert_eq!(screen.app.modes.current_run_id, Some("r1".into()));
}

#[test]
fn what_is_toggled_becomes_overrides_and_goes_with_the_message() {
    let mut screen = idle();
    screen.send_line("as it is");
    assert_eq!(*sent(&screen), ModeChoice::default(), "what was not toggled is left to the agent");
    assert_eq!(screen.app.modes.overrides(), RunOverrides::default());

    screen.alt('r');
    let quick = screen.app.modes.overrides();
    assert_eq!(quick.max_new_answers_per_agent, Some(1));
    assert_eq!(quick.disable_injection, Some(true));
    assert_eq!(quick.defer_voting_until_all_answered, Some(true));
    assert_eq!(quick.final_answer_strategy, Some(FinalAnswerStrategy::Synthesize));
    screen.alt('a');
    assert_eq!(screen.app.modes.overrides().skip_voting, Some(true));
    screen.send_line("be quick, alone");
    let expected = ModeChoice { refinement: Some(false), ..script::single("gem") };
    assert_eq!(*sent(&screen), expected);
}

// spec: modes/mode-bar-widget/mode-bar-visibility
#[test]
fn the_mode_bar_stands_above_the_input_and_its_words_are_toggles() {
    let mut screen = idle();
    let (_, bar) = screen.find("Plan · Multi · Refine · Interactive");
    let (_, input) = screen.find("Type a message...");
    assert_eq!(bar + 1, input);
    screen.click("Refine");
    assert!(screen.shows("Refine off") && screen.is_dim("Refine off"));
    screen.click("Multi");
    assert!(screen.shows("Single"));
    screen.click("Plan");
    assert!(screen.shows("Plan on") && screen.shows("Describe what to plan..."));
    screen.click("Plan on");
    assert!(!screen.shows("Plan on") && screen.shows("Type a message..."));
}

// spec: modes/mode-bar-widget/mode-bar-disabled-during-execution
#[test]
fn modes_are_locked_while_agents_work() {
    let mut screen = TestScreen::showing(&script::conversation(), 100, 30);
    let before = screen.app.modes.choice();
    for word in ["Plan", "Multi", "Refine"] {
        let at = format!("{word} ");
        let (x, y) = screen.find("Plan · Multi · Refine");
        let offset =
            "Plan · Multi · Refine".find(word).map_or(0, |at| "Plan · Multi · Refine"[..at].chars().count());
        let cell = screen.buffer()[(x + u16::try_from(offset).unwrap(), y)].style();
        assert!(cell.add_modifier.contains(ratatui::style::Modifier::DIM), "{at} is dim");
    }
    screen.click("Plan · Multi");
    assert!(screen.shows("modes locked while agents work"));
    screen.press(KeyCode::BackTab);
    screen.alt('a');
    screen.alt('r');
    screen.alt('2');
    assert_eq!(screen.app.modes.choice(), before);
}

// spec: modes/plan-mode/enter-plan-mode
#[test]
fn shift_tab_enters_and_leaves_plan_mode() {
    let mut screen = idle();
    screen.press(KeyCode::BackTab);
    assert!(screen.shows("Plan on"));
    assert_eq!(screen.style_of("Plan on").fg, Some(Color::Cyan));
    assert!(screen.shows("Describe what to plan..."));
    screen.send_line("the refactoring");
    assert_eq!(sent(&screen).planning, Some(true));
    screen.press(KeyCode::BackTab);
    assert!(!screen.shows("Plan on"));
}

// spec: modes/agent-mode-toggle/single-agent-mode-activation
#[test]
fn in_single_agent_mode_one_tab_works_and_the_others_are_greyed() {
    let mut screen = idle();
    screen.click("Multi");
    assert!(screen.shows("1 gem works") && screen.is_bold("1 gem works"));
    assert!(screen.is_dim("2 gpt") && screen.is_dim("3 cc"));
    screen.send_line("hello");
    assert_eq!(*sent(&screen), script::single("gem"));
}

// spec: modes/agent-mode-toggle/tab-bar-agent-selection
#[test]
fn a_click_on_a_tab_chooses_who_works_alone() {
    let mut screen = idle();
    screen.click("Multi");
    screen.click("3 cc");
    assert!(screen.shows("3 cc works") && screen.is_bold("3 cc works"));
    assert!(screen.is_dim("1 gem") && screen.is_dim("2 gpt"));
    screen.send_line("hello");
    assert_eq!(*sent(&screen), script::single("cc"));
    screen.send_line("/single gpt");
    assert!(screen.shows("2 gpt works"));
    screen.send_line("/single nobody");
    assert!(screen.shows("there is no agent nobody; the agents are: gem, gpt, cc"));
}

// spec: interactive/tui-mode-state-extension/mode-indicator
#[test]
fn the_bar_says_whether_interactive_mode_is_on() {
    let screen = idle();
    assert!(screen.is_bold("Interactive") || screen.rows()[0].ends_with("Interactive"));
    let (_, bar) = screen.find("Plan · Multi");
    assert!(screen.rows()[usize::from(bar)].contains("Refine · Interactive"));
    assert!(!screen.shows("Interactive off"));
    let mut script = Script::default();
    script.chat(false);
    let screen = TestScreen::showing(&script, 100, 30);
    assert!(screen.shows("Interactive off"));
    assert!(screen.rows()[0].ends_with("Direct"));
}

// spec: modes/plan-mode/plan-execution-display
#[test]
fn while_a_plan_runs_its_directory_is_shown() {
    let mut screen = TestScreen::with(
        TuiOptions { modes: ModeChoice { planning: Some(true), ..ModeChoice::default() }, ..options() },
        100,
        30,
    );
    let mut script = Script::default();
    script.chat(true);
    script.plan_approval();
    script.answered("i-plan", Decision::Approve { digest: None, edited: None, instructions: None });
    script.run("r1", Some("c1"), "Carry out the plan");
    screen.feed(&script.items);
    assert!(screen.shows("Executing Plan  .althing/plans/2026-11-15-auth"));
    assert!(screen.shows("Status: Executing Plan"));
    assert_eq!(screen.app.modes.plan_mode, PlanMode::Execute);
    let mut narrow = TestScreen::with(options(), 64, 24);
    narrow.feed(&script.items);
    narrow.send_line("/find the");
    assert!(
        narrow.shows(" of ") && narrow.shows("n next"),
        "the matches are more important: {}",
        narrow.text()
    );

    script.items.clear();
    let result = Script::result("r1", "Carry out the plan", RunStatus::Completed);
    script.finishes("r1", result, RunEnd::Answered);
    script.state(ChatState::Idle);
    screen.feed(&script.items);
    assert!(!screen.shows("Executing Plan"));
    assert_eq!(screen.app.modes.plan_mode, PlanMode::Normal, "what is asked next is not planned again");
    screen.send_line("go on");
    assert_eq!(sent(&screen).planning, None);
}

// spec: modes/plan-mode/plan-execution-display
#[test]
fn a_plan_is_shown_as_executing_from_the_end_of_its_planning_run_to_the_end_of_its_execution() {
    for is_cancelled in [false, true] {
        let mut screen = TestScreen::with(options(), 100, 30);
        let mut script = Script::default();
        script.chat(true);
        script.run("r1", Some("c1"), "Plan and build it");
        let plan = PlanRef { id: "auth".into(), path: ".althing/plans/2026-11-15-auth".into() };
        let mut result = Script::result("r1", "Plan and build it", RunStatus::Completed);
        (result.plan, result.follow_up) = (Some(plan), Some("s1.r1.execution".into()));
        let finished = Verdict::Finished { end: RunEnd::Answered, result: Box::new(result) };
        script.fact(Some("r1"), Fact::Decided(finished));
        screen.feed(&script.items);
        let shown = "Executing Plan  .althing/plans/2026-11-15-auth";
        assert!(screen.shows(shown) && screen.shows("Status: Executing Plan"), "{}", screen.text());

        script.items.clear();
        let status = if is_cancelled {
            TaskStatus::Cancelled
        } else {
            script.run("r1.execution", Some("c1"), "Plan and build it");
            screen.feed(&script.items);
            assert!(screen.shows(shown), "{}", screen.text());
            script.items.clear();
            let executed = Script::result("r1.execution", "Plan and build it", RunStatus::Completed);
            script.finishes("r1.execution", executed, RunEnd::Answered);
            TaskStatus::Done
        };
        script.fact(Some("r1"), Fact::StatusChanged { status, why: None });
        script.state(ChatState::Idle);
        screen.feed(&script.items);
        assert!(!screen.shows("Executing Plan"), "{}", screen.text());
        assert!(screen.app.model.pending_plan.is_none());
    }
}

#[test]
fn what_was_toggled_before_is_still_toggled_when_a_session_goes_on() {
    let choice = ModeChoice { refinement: Some(false), ..script::single("gpt") };
    let mut script = Script::default();
    script.chat(true);
    script.user_sends_with("hello", choice.clone());
    let screen = TestScreen::showing(&script, 100, 30);
    assert_eq!(screen.app.model.choice, choice);
    assert_eq!(screen.app.modes.choice(), choice);
}

#[test]
fn a_resumed_session_has_the_modes_it_was_left_with() {
    let mut script = Script::default();
    script.chat(true);
    script.user_sends_with("Plan it", ModeChoice { planning: Some(true), ..ModeChoice::default() });
    script.plan_approval();
    let mut screen = TestScreen::showing(&script, 100, 30);
    assert!(screen.shows("Plan on"), "{}", screen.text());
    // The history arrives in pieces; its last state applies.
    script.items.clear();
    script.answered("i-plan", Decision::Approve { digest: None, edited: None, instructions: None });
    screen.feed(&script.items);
    assert!(!screen.shows("Plan on"), "{}", screen.text());
}
