//! Tests of replies that do not end a turn correctly, and of the usage that is recorded for an attempt.

use super::harness::{World, answer, call, spec, text, vote};
use super::rules::{calls_made, everyone_answers, final_answer};
use althing_protocol::{AgentOutcome, Fact, Item, Reply, RunRules, RunStatus, Usage};

#[test]
fn an_agent_that_never_ends_its_turn_is_reminded_and_drops_out_after_three_tries() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    world.says(0, text(""));
    assert!(world.shown_to(0).contains("`new_answer`"));
    world.says(0, text("  "));
    world.says(0, Reply { tool_calls: vec![call("rm_rf", "{}")], ..Reply::default() });
    assert_eq!(world.asked(), [1], "out after the third");
    world.says(1, answer("one"));
    world.says(1, vote("agent2"));
    world.says(1, text("final"));
    let result = world.run.result().unwrap();
    assert_eq!(result.status, RunStatus::Completed);
    let out = &result.coordination_summary.agents[0];
    assert_eq!((out.status, out.answers), (AgentOutcome::Failed, 0));
    assert!(out.error.as_ref().unwrap().contains("3 tries"), "{out:?}");
}

#[test]
fn the_text_of_an_agent_that_calls_no_tool_is_its_answer_after_one_reminder() {
    for has_tools in [false, true] {
        let mut spec = spec(&["a", "b"], RunRules::default());
        spec.members[0].has_tools = has_tools;
        let mut world = World::new(spec);
        world.says(0, text("Because of scattering."));
        assert!(
            world.run.answers().is_empty() && world.shown_to(0).contains("`new_answer`"),
            "reminded once"
        );
        world.says(0, text("Because of Rayleigh scattering."));
        if has_tools {
            let kept = Fact::ItemAdded { attempt: 1, item: Item::WorkspaceKept { error: None } };
            world.happens(world.run.work(0), kept);
        }
        assert_eq!(world.run.answers()[0].content, "Because of Rayleigh scattering.");
        assert_eq!(world.asked(), [1]);
    }
}

#[test]
fn a_judge_that_calls_no_tool_abstains_after_one_reminder_until_there_is_a_new_answer() {
    let mut world = World::start(&["a", "b", "c"], RunRules::default());
    everyone_answers(&mut world);
    world.says(0, text("The second is best."));
    assert!(world.shown_to(0).contains("`new_answer` or `vote`"));
    world.says(0, text("I like the second."));
    assert_eq!(world.asked(), [1, 2], "it is not asked again");
    world.says(1, answer("better"));
    world.says(2, vote("agent2"));
    assert_eq!(world.asked(), [0, 1], "there is a new answer");
    for _ in 0..2 {
        world.says(0, text("Still the second."));
    }
    world.says(1, vote("agent2"));
    assert_eq!(world.asked(), [1], "the second presents");
    world.says(1, text("final"));
    let result = world.run.result().unwrap();
    assert_eq!((result.status, result.final_answer.as_deref()), (RunStatus::Completed, Some("final")));
    let agents = &result.coordination_summary.agents;
    assert_eq!(agents[0].status, AgentOutcome::Answered, "it did not drop out");
    assert_eq!(result.coordination_summary.ballots.len(), 2);
}

#[test]
fn a_run_of_models_that_only_write_text_has_an_answer() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    while world.run.result().is_none() {
        let member_index = world.asked()[0];
        world.says(member_index, text(&format!("text {member_index}")));
    }
    let result = world.run.result().unwrap();
    assert_eq!(result.status, RunStatus::Completed);
    assert_eq!(
        final_answer(&world),
        "text 1",
        "nobody voted: the newest answer wins, and its author presents"
    );
    assert_eq!(calls_made(&world), 9, "a reminder for each turn, and the presentation");
}

#[test]
fn a_run_whose_votes_became_invalid_does_not_say_that_nobody_voted() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    world.says(0, answer("one"));
    world.says(1, answer("two"));
    world.says(0, vote("agent1"));
    world.says(1, answer("better"));
    while world.run.result().is_none() {
        let member_index = world.asked()[0];
        world.says(member_index, text("Both are good."));
    }
    let summary = &world.run.result().unwrap().coordination_summary;
    assert!(summary.ballots.is_empty(), "{summary:?}");
    let explanation = &summary.decision.as_ref().unwrap().explanation;
    let expected =
        "no vote is valid, because newer answers came after the votes; the newest answer, by b, wins";
    assert_eq!(explanation, expected);
}

#[test]
fn the_end_of_an_attempt_says_what_its_replies_used() {
    let used = |calls| Usage { input_tokens: 10 * calls, cost_usd: 0.5, calls, ..Usage::default() };
    let mut world = World::start(&["a"], RunRules::default());
    world.says(0, Reply { usage: used(1), ..text("hm") });
    world.says(0, Reply { usage: used(2), ..answer("one") });
    world.says(0, Reply { usage: used(1), ..vote("agent1") });
    world.says(0, Reply { usage: used(1), ..text("final") });
    let ended: Vec<u64> = world
        .log
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::AttemptEnded { usage, .. } => Some(usage.calls),
            _ => None,
        })
        .collect();
    assert_eq!(ended, [3, 1, 1]);
    let total = world.run.result().unwrap().usage;
    assert_eq!((total.calls, total.input_tokens), (5, 50), "and nothing is counted twice");
}
