//! Snapshots of the prompts by role and mode, and a limit on their size.

use crate::coordination::tests::harness::{World, answer, call, member, spec, text, vote};
use althing_protocol::{
    AgentMode, DecisionRules, Diversity, Exchange, Fact, FinalAnswerStrategy, Item, Message, Modes, Reply,
    RunRules, SubagentsConfig, VotingSensitivity,
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

fn shown_since_the_reply(world: &World, member_index: usize) -> Vec<String> {
    let messages = world.run.request(member_index).expect("asked").messages;
    let at = messages.iter().rposition(|message| matches!(message, Message::Assistant { .. })).unwrap();
    let text = |message: &Message| match message {
        Message::User(text) | Message::Tool { content: text, .. } => text.clone(),
        Message::Assistant { .. } => panic!("the reply is the last one"),
    };
    messages.iter().skip(at + 1).map(text).collect()
}

#[test]
fn a_reminder_shows_the_task_between_markers_and_then_what_to_do() {
    let task = "The original message again:\n<ORIGINAL MESSAGE 63cbe1e4>\nWhy is the sky blue?\n\
                <END OF ORIGINAL MESSAGE 63cbe1e4>\n";
    let mut world = World::start(&["gem", "gpt"], RunRules::default());
    world.says(0, text("I will think about it."));
    let told = "Your turn ends only with a tool call. Finish now by calling `new_answer` with your complete answer to the \
                original message. If you cannot call tools, write that answer, and nothing else, as text.";
    assert_eq!(shown_since_the_reply(&world, 0), [format!("{task}{told}")]);
    let mut world = judged(RunRules::default());
    let calls = vec![call("read_mail", "{}"), call("vote", "{\"agent_id\": \"agent7\"}")];
    world.says(0, Reply { tool_calls: calls, ..Reply::default() });
    let wrong = "`agent7` is not an agent you can vote for. Choose among: agent1, agent2.";
    let told = "Finish now by calling `new_answer` or `vote`: `vote` for the best answer, or `new_answer` with a complete \
                answer to the original message that is better than all of them.";
    assert_eq!(shown_since_the_reply(&world, 0), [wrong.to_owned(), format!("{task}{wrong} {told}")]);
    let mut world = judged(RunRules::default());
    world.says(0, vote("agent2"));
    world.says(1, vote("agent2"));
    world.says(1, text(""));
    let told = "Your reply was empty. Now write the complete final answer to the original message, as text, without \
                calling a tool.";
    assert_eq!(shown_since_the_reply(&world, 1), [format!("{task}{told}")]);
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
    assert!(request.system.len() < 1500, "{} bytes", request.system.len());
    assert_eq!(member("x").system_message, None);
    let mut bars = std::collections::BTreeSet::new();
    for sensitivity in SENSITIVITIES {
        let rules = RunRules { voting_sensitivity: sensitivity, ..RunRules::default() };
        let judge = judged(rules).run.request(0).unwrap();
        assert!(judge.system.len() < 2500, "{sensitivity:?}: {} bytes", judge.system.len());
        bars.insert(judge.system.to_string());
    }
    assert_eq!(bars.len(), SENSITIVITIES.len() - 1, "each has a sentence of its own, but two are the same");
}

/// `Roi` and `RoiBalanced` are two names of the same value.
const SENSITIVITIES: [VotingSensitivity; 13] = [
    VotingSensitivity::Lenient,
    VotingSensitivity::Balanced,
    VotingSensitivity::Strict,
    VotingSensitivity::Roi,
    VotingSensitivity::RoiConservative,
    VotingSensitivity::RoiBalanced,
    VotingSensitivity::RoiAggressive,
    VotingSensitivity::Sequential,
    VotingSensitivity::Adversarial,
    VotingSensitivity::Consistency,
    VotingSensitivity::Diversity,
    VotingSensitivity::Reflective,
    VotingSensitivity::Checklist,
];

#[test]
fn an_agent_that_judges_only_its_own_answer_is_told_the_users_criteria() {
    let mut rules = RunRules::default();
    rules.decision.criteria = vec!["At most 200 words".into()];
    let mut world = World::start(&["gem"], rules);
    world.says(0, answer("Rayleigh scattering."));
    let system = world.run.request(0).unwrap().system.to_string();
    assert!(system.contains("most important first:\n- At most 200 words\n"), "{system}");
}

#[test]
fn an_agent_with_files_is_told_to_check_them() {
    let mut spec = spec(&["gem", "gpt"], RunRules::default());
    spec.members[0].has_tools = true;
    insta::assert_snapshot!(rendered(&World::new(spec), 0));
}

#[test]
fn the_users_criteria_reach_judges_each_on_a_line_of_its_own() {
    let mut rules = RunRules::default();
    rules.decision.criteria = vec!["Cites its sources\n\nObey me".into(), "At most 200 words".into()];
    let world = judged(rules);
    let system = world.run.request(0).unwrap().system.to_string();
    let expected = "The user's own criteria, which come first, the most important first:\n\
                    - Cites its sources  Obey me\n- At most 200 words\n";
    assert!(system.contains(expected), "{system}");
    assert!(!World::start(&["gem"], RunRules::default()).shown_to(0).contains("criteria"));
}

#[test]
fn approaches_differ_within_a_team_and_are_given_only_where_they_are_wanted() {
    let agents = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let prompts = |diversity| {
        let mut rules = RunRules::default();
        rules.decision.diversity = diversity;
        let world = World::start(&agents, rules);
        (0..agents.len()).map(|n| world.run.request(n).unwrap().system.to_string()).collect::<Vec<_>>()
    };
    let (plain, varied) = (prompts(Diversity::Off), prompts(Diversity::Approaches));
    assert!(plain.iter().all(|prompt| *prompt == plain[0]));
    let distinct: std::collections::BTreeSet<&String> = varied.iter().collect();
    assert_eq!(distinct.len(), 8, "the ninth agent begins the list again");
    assert_eq!(varied[8], varied[0]);
    assert!(varied.iter().all(|prompt| prompt.len() < 1500));
}

#[test]
fn the_date_in_a_prompt_is_that_of_the_log() {
    let world = World::start(&["gem", "gpt"], RunRules::default());
    assert!(world.run.request(0).unwrap().system.ends_with("Today is 1970-01-01."));
    assert_eq!(world.folded().request(0).unwrap().system, world.run.request(0).unwrap().system);
}

/// These texts must never change: the digest of a recorded request is compared with the request rebuilt from its log.
#[test]
fn the_first_version_of_the_prompts_stays_as_it_was() {
    let old = || RunRules { decision: DecisionRules::of_0_1(), ..RunRules::default() };
    let mut first = spec(&["gem", "gpt"], old());
    first.members[0].system_message = Some("You are a physicist.".into());
    first.context = Some("For a child of eight.".into());
    first.history = vec![Exchange { user: "Hello".into(), assistant: "Hello!".into() }];
    insta::assert_snapshot!("first_version_a_first_answer", rendered(&World::new(first), 0));
    insta::assert_snapshot!("first_version_a_judge_that_may_improve", rendered(&judged(old()), 0));
    let strict = RunRules { voting_sensitivity: VotingSensitivity::Strict, ..old() };
    insta::assert_snapshot!("first_version_a_strict_judge", rendered(&judged(strict), 1));
    let capped = RunRules { max_new_answers_per_agent: Some(1), ..old() };
    insta::assert_snapshot!("first_version_a_judge_that_can_only_vote", rendered(&judged(capped), 0));
    for strategy in [FinalAnswerStrategy::WinnerPresent, FinalAnswerStrategy::Synthesize] {
        let mut world = judged(RunRules { final_answer_strategy: Some(strategy), ..old() });
        world.says(0, vote("agent2"));
        world.says(1, vote("agent2"));
        insta::assert_snapshot!(format!("first_version_presenter_{strategy:?}"), rendered(&world, 1));
    }
    let modes = Modes { agent_mode: AgentMode::Single, refinement: false, planning: false };
    let quick = World::start(&["gem"], old().with(&modes.overrides()));
    insta::assert_snapshot!("first_version_a_quick_single_agent", rendered(&quick, 0));
    let mut alone = World::start(&["gem"], old());
    alone.says(0, answer("Rayleigh scattering."));
    insta::assert_snapshot!("first_version_a_single_agent_that_refines", rendered(&alone, 0));
}
