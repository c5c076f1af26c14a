//! Snapshots of the prompts by role and mode, and a limit on their size.

use crate::coordination::tests::harness::{World, answer, call, member, spec, text, vote};
use althing_protocol::{
    AgentMode, Exchange, Fact, FinalAnswerStrategy, Item, Message, Modes, Reply, RunRules, SubagentsConfig,
    VotingSensitivity,
};
use std::fmt::Write;

fn rendered(world: &World, member_index: usize) -> String {
    let request = world.run.request(member_index).expect("asked");
    let mut out = format!("=== system\n{}\n", request.system);
    for message in &request.messages {
        match message {
            Message::User(text) => writeln!(out, "=== user\n{text}"),
            Message::Assistant { text, tool_calls } => writeln!(out, "=== assistant\n{text}{tool_calls:?}"),
            Message::Tool { call, content, is_error } => {
                writeln!(out, "=== tool {call} error={is_error}\n{content}")
            }
        }
        .unwrap();
    }
    for tool in &request.tools {
        writeln!(out, "=== tool offered: {}\n{}\n{}", tool.name, tool.description, tool.parameters).unwrap();
    }
    out
}

fn judged(rules: RunRules) -> World {
    let mut world = World::start(&["gem", "gpt"], rules);
    world.says(0, answer("Rayleigh scattering."));
    world.says(1, answer("Short waves scatter more."));
    world
}

#[test]
fn a_first_answer() {
    let mut spec = spec(&["gem", "gpt"], RunRules::default());
    spec.members[0].system_message = Some("You are a physicist.".into());
    spec.context = Some("For a child of eight.".into());
    spec.history = vec![Exchange { user: "Hello".into(), assistant: "Hello!".into() }];
    insta::assert_snapshot!(rendered(&World::new(spec), 0));
}

// spec: interactive/launch-run-tool/planning-mode-run
#[test]
fn a_planner_is_told_to_describe_its_approach_and_to_change_nothing() {
    let mut spec = spec(&["gem", "gpt"], RunRules::default());
    spec.modes.planning = true;
    insta::assert_snapshot!(rendered(&World::new(spec), 0));
}

#[test]
fn a_judge_that_may_improve() {
    insta::assert_snapshot!(rendered(&judged(RunRules::default()), 0));
}

#[test]
fn a_strict_judge() {
    let rules = RunRules { voting_sensitivity: VotingSensitivity::Strict, ..RunRules::default() };
    insta::assert_snapshot!(rendered(&judged(rules), 1));
}

#[test]
fn a_judge_that_can_only_vote() {
    let rules = RunRules { max_new_answers_per_agent: Some(1), ..RunRules::default() };
    insta::assert_snapshot!(rendered(&judged(rules), 0));
}

#[test]
fn a_single_agent_that_refines() {
    let mut world = World::start(&["gem"], RunRules::default());
    world.says(0, answer("Rayleigh scattering."));
    insta::assert_snapshot!(rendered(&world, 0));
}

#[test]
fn a_quick_single_agent() {
    let modes = Modes { agent_mode: AgentMode::Single, refinement: false, planning: false };
    insta::assert_snapshot!(rendered(
        &World::start(&["gem"], RunRules::default().with(&modes.overrides())),
        0
    ));
}

#[test]
fn a_judge_that_is_shown_a_newer_answer_before_its_next_call() {
    let mut spec = spec(&["gem", "gpt"], RunRules::default());
    spec.members[1].has_tools = true;
    let mut world = World::new(spec);
    world.says(0, answer("Rayleigh scattering."));
    world.says(1, answer("Short waves scatter more."));
    let item = Item::WorkspaceKept { error: None };
    world.happens(world.run.work(1), Fact::ItemAdded { attempt: 1, item });
    world.says(1, Reply { tool_calls: vec![call("read_file", "{}")], ..Reply::default() });
    world.says(0, answer("Rayleigh scattering, with the inverse fourth power."));
    let item = Item::ToolResult { call: "call-read_file".into(), content: "blue".into(), is_error: false };
    world.happens(world.run.work(1), Fact::ItemAdded { attempt: 2, item });
    insta::assert_snapshot!(rendered(&world, 1));
}

#[test]
fn a_presenter_by_strategy() {
    for strategy in [FinalAnswerStrategy::WinnerPresent, FinalAnswerStrategy::Synthesize] {
        let mut world = judged(RunRules { final_answer_strategy: Some(strategy), ..RunRules::default() });
        world.says(0, vote("agent2"));
        world.says(1, vote("agent2"));
        insta::assert_snapshot!(format!("presenter_{strategy:?}"), rendered(&world, 1));
    }
}

#[test]
fn an_evaluator_and_an_agent_after_a_restart() {
    let mut world = judged(RunRules { max_restarts: 1, ..RunRules::default() });
    world.says(0, vote("agent2"));
    world.says(1, vote("agent2"));
    world.says(1, text("Short waves scatter most."));
    insta::assert_snapshot!("an_evaluation", rendered(&world, 1));
    let arguments = r#"{"reason": "It gives no law.", "instructions": "Name the law."}"#;
    let restart = call("restart_orchestration", arguments);
    world.says(1, Reply { tool_calls: vec![restart], ..Reply::default() });
    insta::assert_snapshot!("an_answer_after_a_restart", rendered(&world, 0));
}

#[test]
fn an_agent_that_may_start_subagents() {
    let rules = RunRules { subagents: Some(SubagentsConfig::default()), ..RunRules::default() };
    insta::assert_snapshot!(rendered(&World::start(&["gem", "gpt"], rules), 0));
}

#[test]
fn a_simple_question_does_not_cost_a_long_prompt() {
    let world = World::start(&["gem", "gpt", "cc"], RunRules::default());
    let request = world.run.request(0).unwrap();
    assert!(request.system.len() < 1000, "{} bytes", request.system.len());
    assert_eq!(member("x").system_message, None);
}
