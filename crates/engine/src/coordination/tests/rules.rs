//! Tests of each rule, by the calls that agents get, the prompts that they are shown and the tools that they are
//! offered.

use super::harness::{World, answer, call, spec, text, vote};
use althing_protocol::{
    AgentMode, AgentOutcome, AnswerNovelty, Decision, Fact, FinalAnswerStrategy, InteractionKind, Item,
    Millis, Modes, Op, Phase, Reply, RunLimits, RunRules, RunStatus, Timer, Usage, Verdict,
};

fn quick(agents: &[&str]) -> World {
    let agent_mode = if agents.len() == 1 { AgentMode::Single } else { AgentMode::Multi };
    let modes = Modes { agent_mode, refinement: false, planning: false };
    let mut rules = RunRules::default().with(&modes.overrides());
    rules.decision.stop_when_decided = false;
    World::start(agents, rules)
}

pub(super) fn everyone_answers(world: &mut World) {
    for member_index in world.asked() {
        world.says(member_index, answer(&format!("answer of member {member_index}")));
    }
}

pub(super) fn calls_made(world: &World) -> usize {
    world
        .log
        .iter()
        .filter(|event| matches!(event.fact, Fact::ItemAdded { item: Item::Reply(_), .. }))
        .count()
}

pub(super) fn final_answer(world: &World) -> &str {
    world.run.result().and_then(|result| result.final_answer.as_deref()).expect("a final answer")
}

#[test]
fn a_unanimous_run_takes_two_calls_per_agent_and_one_to_present() {
    for agents in 1..6 {
        let ids = ["a", "b", "c", "d", "e"];
        let mut world = World::start(&ids[..agents], RunRules::default());
        everyone_answers(&mut world);
        for member_index in world.asked() {
            world.says(member_index, vote("agent1"));
        }
        assert_eq!(world.asked(), [0], "the winner presents");
        world.says(0, text("final"));
        assert_eq!(calls_made(&world), 2 * agents + 1);
        assert_eq!(final_answer(&world), "final");
    }
}

#[test]
fn nobody_is_asked_to_judge_before_everyone_has_answered() {
    let mut world = World::start(&["a", "b", "c"], RunRules::default());
    world.says(0, answer("scattering"));
    world.says(1, answer("two"));
    assert_eq!(world.asked(), [2]);
    assert_eq!(world.tools_of(2), ["new_answer"]);
    assert!(!world.shown_to(2).contains("scattering"), "undisturbed before its first answer");
    world.says(2, answer("three"));
    assert_eq!(world.asked(), [0, 1, 2]);
    assert_eq!(world.tools_of(0), ["new_answer", "vote"]);
}

#[test]
fn a_slow_agent_delays_the_others_only_for_the_wait() {
    let mut world = World::start(&["a", "b", "c"], RunRules::default());
    world.says(0, answer("one"));
    assert!(!world.wants_timer(&Timer::FirstAnswers { wait: 1 }), "nobody has anything new to judge yet");
    world.says(1, answer("two"));
    assert!(world.wants_timer(&Timer::FirstAnswers { wait: 1 }));
    world.fires(Timer::FirstAnswers { wait: 1 });
    assert_eq!(world.asked(), [0, 1, 2]);
    world.says(0, vote("agent2"));
    world.says(1, vote("agent2"));
    assert_eq!(world.asked(), [2], "the vote waits for the slow one");
    world.says(2, answer("three"));
    assert_eq!(world.asked(), [0, 1, 2], "its answer invalidates the votes");
}

#[test]
fn deferred_voting_waits_however_long_it_takes() {
    for cap in [None, Some(1)] {
        let rules = RunRules {
            defer_voting_until_all_answered: true,
            max_new_answers_per_agent: cap,
            ..RunRules::default()
        };
        let mut world = World::start(&["a", "b", "c"], rules);
        world.says(0, answer("one"));
        world.says(1, answer("two"));
        assert_eq!(world.asked(), [2]);
        assert!(
            !world.run.wanted().timers.iter().any(|(timer, _)| matches!(timer, Timer::FirstAnswers { .. }))
        );
        world.fails(2);
        assert_eq!(world.asked(), [0, 1], "who is out is not waited for");
    }
}

#[test]
fn of_several_votes_in_a_reply_the_last_counts() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    everyone_answers(&mut world);
    let both = [vote("agent1").tool_calls, vote("agent2").tool_calls].concat();
    world.says(0, Reply { tool_calls: both, ..Reply::default() });
    assert_eq!(world.run.state.members[0].vote.as_ref().unwrap().target.as_str(), "b");
}

#[test]
fn a_vote_and_an_answer_in_one_reply_are_both_refused() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    everyone_answers(&mut world);
    let both = [answer("new").tool_calls, vote("agent2").tool_calls].concat();
    world.says(0, Reply { tool_calls: both, ..Reply::default() });
    assert_eq!(world.run.answers().len(), 2);
    assert!(world.run.state.members[0].vote.is_none());
    let request = world.run.request(0).unwrap();
    assert_eq!(request.messages.len(), 4, "each of its two calls is answered");
}

#[test]
fn an_exact_duplicate_of_a_known_answer_is_not_stored() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    everyone_answers(&mut world);
    world.says(0, answer("  answer of member 1\n"));
    assert_eq!(world.run.answers().len(), 2);
    assert!(world.shown_to(0).contains("repeats agent2.1 word for word"));
    world.says(0, answer("answer of member 0"));
    assert_eq!(world.run.answers().len(), 2, "its own neither");
}

#[test]
fn two_agents_may_give_the_same_first_answer() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    world.says(0, answer("4"));
    world.says(1, answer("4"));
    assert_eq!(world.run.answers().len(), 2);
}

#[test]
fn an_agent_at_its_cap_can_only_vote_and_so_can_all_at_the_global_cap() {
    let per_agent = RunRules { max_new_answers_per_agent: Some(1), ..RunRules::default() };
    let mut world = World::start(&["a", "b"], per_agent);
    everyone_answers(&mut world);
    assert_eq!(world.tools_of(0), ["vote"]);

    let global = RunRules { max_new_answers_global: Some(2), ..RunRules::default() };
    let mut world = World::start(&["a", "b", "c"], global);
    world.says(1, answer("first"));
    world.says(2, answer("second"));
    assert_eq!(world.asked(), [0, 1, 2]);
    for member_index in 0..3 {
        assert_eq!(world.tools_of(member_index), ["vote"], "who has not answered votes too");
    }
}

#[test]
fn an_invalid_vote_is_explained_with_the_valid_names() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    everyone_answers(&mut world);
    world.says(0, vote("gpt-5"));
    assert!(world.shown_to(0).contains("agent1, agent2"));
    world.says(0, Reply { tool_calls: vec![call("vote", "{\"agent_id\": 1}")], ..Reply::default() });
    assert!(world.shown_to(0).contains("must be a text"));
}

// spec: modes/skip-voting-configuration/skip-voting-enabled
#[test]
fn skip_voting_offers_no_vote_does_not_mention_it_and_goes_straight_to_the_end() {
    let rules = RunRules { skip_voting: true, ..RunRules::default() };
    let mut world = World::start(&["a", "b"], rules);
    for member_index in world.asked() {
        assert_eq!(world.tools_of(member_index), ["new_answer"]);
        assert!(!world.shown_to(member_index).to_lowercase().contains("vote"));
    }
    everyone_answers(&mut world);
    assert_eq!(world.run.phase, Phase::Presenting);
    let presenter = world.asked()[0];
    world.says(presenter, text("final"));
    assert_eq!(calls_made(&world), 3);
    assert!(world.run.result().unwrap().coordination_summary.ballots.is_empty());
}

// spec: modes/refinement-mode-toggle/refinement-off-with-single-agent
#[test]
fn a_quick_single_run_is_one_call_and_accepts_plain_text() {
    let mut world = quick(&["a"]);
    assert!(world.run.request(0).unwrap().tools.is_empty());
    assert!(!world.shown_to(0).to_lowercase().contains("vote"));
    world.says(0, text("42"));
    assert_eq!(calls_made(&world), 1);
    assert_eq!(final_answer(&world), "42");
    assert!(!world.log.iter().any(|event| matches!(event.fact, Fact::ItemAdded { item: Item::Vote(_), .. })));
}

// spec: modes/refinement-mode-toggle/refinement-off-with-multi-agent
// spec: modes/final-answer-strategy/multi-agent-quick-mode-defaults-to-synthesis
#[test]
fn a_quick_run_of_several_agents_answers_once_votes_once_and_synthesizes() {
    let mut world = quick(&["a", "b", "c"]);
    everyone_answers(&mut world);
    for member_index in world.asked() {
        assert_eq!(world.tools_of(member_index), ["vote"], "one answer each");
        world.says(member_index, vote("agent2"));
    }
    assert_eq!(world.asked(), [1], "the vote chose the presenter");
    let shown = world.shown_to(1);
    for member_index in 0..3 {
        assert!(shown.contains(&format!("answer of member {member_index}")), "{shown}");
    }
    world.says(1, text("made of all three"));
    let result = world.run.result().unwrap();
    assert_eq!(calls_made(&world), 7);
    assert_eq!(result.final_answer.as_deref(), Some("made of all three"));
    assert_eq!(result.coordination_summary.strategy, FinalAnswerStrategy::Synthesize);
    assert_eq!(result.coordination_summary.winner.as_ref().unwrap().as_str(), "b");
}

// spec: modes/independent-agent-execution/injection-disabled
#[test]
fn independent_agents_neither_see_nor_disturb_each_other_while_they_answer() {
    let rules = RunRules { disable_injection: true, ..RunRules::default() };
    let mut world = World::start(&["a", "b", "c"], rules);
    let before = (world.call_of(1), world.call_of(2));
    world.says(0, answer("a secret of the first"));
    assert_eq!((world.call_of(1), world.call_of(2)), before, "no restart");
    assert!(!world.shown_to(1).contains("secret"), "no injection");
    assert_eq!(world.asked(), [1, 2], "and the first is not asked anew");
    world.says(1, answer("two"));
    world.says(2, answer("three"));
    assert_eq!(world.tools_of(0), ["vote"], "it sees the others' answers only to vote on them");
    assert!(
        !world
            .log
            .iter()
            .any(|event| matches!(event.fact, Fact::ItemAdded { item: Item::Update { .. }, .. }))
    );
}

// spec: modes/deferred-voting/single-agent-with-refinement-on
#[test]
fn a_single_agent_with_refinement_refines_until_it_votes_that_it_is_done() {
    let mut world = World::start(&["a"], RunRules::default());
    world.says(0, answer("draft"));
    assert_eq!(world.tools_of(0), ["new_answer", "vote"]);
    world.says(0, answer("better"));
    assert_eq!(world.tools_of(0), ["new_answer", "vote"]);
    world.says(0, vote("agent1"));
    world.says(0, text("final"));
    assert_eq!(final_answer(&world), "final");
    assert_eq!(world.run.result().unwrap().coordination_summary.rounds, 3);
}

#[test]
fn a_single_agent_at_its_cap_is_not_asked_to_vote_for_itself() {
    let rules = RunRules { max_new_answers_per_agent: Some(1), ..RunRules::default() };
    let mut world = World::start(&["a"], rules);
    world.says(0, answer("draft"));
    assert_eq!(world.run.phase, Phase::Presenting);
}

// spec: modes/final-answer-strategy/winner-reuse-strategy
#[test]
fn winner_reuse_returns_the_winners_answer_without_another_call() {
    let rules =
        RunRules { final_answer_strategy: Some(FinalAnswerStrategy::WinnerReuse), ..RunRules::default() };
    let mut world = World::start(&["a", "b"], rules);
    everyone_answers(&mut world);
    world.says(0, vote("agent2"));
    world.says(1, vote("agent2"));
    assert_eq!(calls_made(&world), 4);
    assert_eq!(final_answer(&world), "answer of member 1");
    let summary = &world.run.result().unwrap().coordination_summary;
    assert_eq!(summary.presenter.as_ref().unwrap().as_str(), "b");
}

#[test]
fn ties_go_to_votes_from_others_then_to_a_random_number_independent_of_the_order() {
    let vote_all = |tie_break_seed: u64, votes: &[&str]| {
        let ids: Vec<String> = (0..votes.len()).map(|n| format!("a{n}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut spec = spec(&ids, RunRules::default());
        spec.tie_break_seed = tie_break_seed;
        let mut world = World::new(spec);
        everyone_answers(&mut world);
        for (member_index, target) in votes.iter().enumerate() {
            world.says(member_index, vote(target));
        }
        world.winner().unwrap().to_string()
    };
    // Each has two votes: agent1 from itself and one other agent, agent2 from two other agents. So agent2 (a1) wins.
    assert_eq!(vote_all(1, &["agent1", "agent1", "agent2", "agent2"]), "a1");
    let wins =
        (0..200).filter(|tie_break_seed| vote_all(*tie_break_seed, &["agent2", "agent1"]) == "a0").count();
    assert!((70..130).contains(&wins), "a draw falls about evenly: {wins} of 200");
    assert_eq!(vote_all(5, &["agent2", "agent1"]), vote_all(5, &["agent2", "agent1"]));
}

// spec: modes/human-override/override-selection
#[test]
fn an_override_makes_another_agent_present() {
    let mut spec = spec(&["a", "b"], RunRules::default());
    spec.rules.override_window = Some(Millis(60_000));
    let mut world = World::new(spec);
    everyone_answers(&mut world);
    world.says(0, vote("agent1"));
    world.says(1, vote("agent1"));
    assert!(
        world.asked().is_empty() && world.wants_timer(&Timer::OverrideWindow),
        "it waits, with a countdown"
    );
    assert!(!world.wants_timer(&Timer::Orchestrator), "and a person's time is not the run's");
    let opened = world.log.iter().find_map(|event| match &event.fact {
        Fact::InteractionOpened(interaction) => Some(interaction.clone()),
        _ => None,
    });
    let opened = opened.expect("an interaction is open");
    let InteractionKind::WinnerOverride { candidates, .. } = &opened.kind else {
        panic!("another interaction: {opened:?}")
    };
    assert_eq!(candidates.len(), 2, "all agents with answers can be chosen");
    let unknown = Decision::Presenter { agent: "nobody".into() };
    assert!(world.run.answer_override(&opened.id, &unknown).is_err());
    let choice = Decision::Presenter { agent: "b".into() };
    for (task, fact) in world.run.answer_override(&opened.id, &choice).unwrap() {
        world.happens(task, fact);
    }
    assert_eq!(world.asked(), [1], "the chosen one presents");
    world.says(1, text("final of b"));
    let summary = &world.run.result().unwrap().coordination_summary;
    assert!(summary.overridden);
    assert_eq!(summary.winner.as_ref().unwrap().as_str(), "a");
    assert_eq!(summary.presenter.as_ref().unwrap().as_str(), "b");
    assert!(world.run.answer_override(&opened.id, &choice).is_err(), "it can be answered once");
}

#[test]
fn the_override_window_closes_by_itself() {
    let mut spec = spec(&["a", "b"], RunRules::default());
    spec.rules.override_window = Some(Millis(60_000));
    let mut world = World::new(spec);
    everyone_answers(&mut world);
    world.says(0, vote("agent1"));
    world.says(1, vote("agent1"));
    world.fires(Timer::OverrideWindow);
    assert_eq!(world.asked(), [0]);
}

#[test]
fn a_presenter_that_fails_leaves_its_own_answer_as_the_final_one() {
    let mut world = World::start(&["a"], RunRules::default());
    world.says(0, answer("good enough"));
    world.says(0, vote("agent1"));
    world.fails(0);
    let result = world.run.result().unwrap();
    assert_eq!((result.status, result.final_answer.as_deref()), (RunStatus::Completed, Some("good enough")));
    assert!(world.log.iter().any(|event| matches!(event.fact, Fact::Notice(_))), "and people are told");
}

#[test]
fn the_runs_limit_ends_it_with_the_best_answer_so_far() {
    let mut world = World::start(&["a", "b", "c"], RunRules::default());
    world.says(0, answer("first"));
    world.says(1, answer("second"));
    world.fires(Timer::Orchestrator);
    let result = world.run.result().unwrap();
    assert_eq!((result.status, result.final_answer.as_deref()), (RunStatus::Partial, Some("second")));
    assert!(world.asked().is_empty());
    let mut world = World::start(&["a"], RunRules::default());
    world.fires(Timer::Orchestrator);
    assert_eq!(world.run.result().unwrap().status, RunStatus::Failed);
}

#[test]
fn a_rounds_limit_warns_first_and_then_ends_even_a_silent_call() {
    let limits = RunLimits { initial_round: Some(Millis(1000)), ..RunLimits::default() };
    let mut world = World::start(&["a", "b"], RunRules { limits, ..RunRules::default() });
    let soft = Timer::RoundSoft { agent: "a".into(), attempt: 1 };
    let hard = Timer::RoundHard { agent: "a".into(), attempt: 1 };
    assert!(world.wants_timer(&soft) && world.wants_timer(&hard));
    let silent = world.call_of(0);
    world.fires(soft);
    assert_eq!(world.call_of(0), silent, "a call under way is not disturbed by the warning");
    world.says(0, text("hm"));
    assert!(world.shown_to(0).contains("time is nearly up"));
    world.fires(hard);
    assert_eq!(world.asked(), [1]);
    world.fails(1);
    let result = world.run.result().unwrap();
    assert_eq!(result.coordination_summary.agents[0].status, AgentOutcome::TimedOut);
}

#[test]
fn a_run_in_which_everyone_fails_says_why_agent_by_agent() {
    let mut world = World::start(&["gem", "gpt"], RunRules::default());
    world.fails(0);
    world.fails(1);
    let result = world.run.result().unwrap();
    assert_eq!(result.status, RunStatus::Failed);
    let error = result.error.as_ref().unwrap();
    assert!(error.contains("gem: HTTP 500") && error.contains("gpt: HTTP 500"), "{error}");
}

#[test]
fn a_cancelled_run_stops_at_once_with_its_partial_result() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    world.says(0, answer("partial"));
    world.op(Op::Cancel { task: "r1".into() });
    let result = world.run.result().unwrap();
    assert_eq!((result.status, result.final_answer.as_deref()), (RunStatus::Cancelled, Some("partial")));
    assert!(world.asked().is_empty());
}

#[test]
fn after_a_crash_a_recorded_reply_is_processed_and_not_requested_again() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    let call = world.call_of(0).unwrap();
    // The process dies right after the reply is durable.
    world.record(
        Some(world.run.work(0)),
        Fact::ItemAdded { attempt: call.attempt, item: Item::Reply(answer("saved")) },
    );
    world.run = world.folded();
    world.op(Op::Resume);
    assert_eq!(world.run.answers()[0].content, "saved");
    assert_eq!(world.asked(), [1]);
}

#[test]
fn an_interrupted_attempt_is_continued_by_a_new_attempt_with_the_same_conversation() {
    let mut world = World::start(&["a"], RunRules::default());
    world.says(0, text("thinking"));
    let seen = |world: &World| {
        let request = world.run.request(0).unwrap();
        (request.system, request.messages, request.tools)
    };
    let before = seen(&world);
    world.op(Op::Shutdown);
    assert!(world.asked().is_empty(), "nothing runs after a shutdown");
    world.run = world.folded();
    world.op(Op::Resume);
    assert_eq!(world.call_of(0).unwrap().attempt, 2);
    assert_eq!(seen(&world), before);
    assert_eq!(world.run.state.members[0].rounds, 1, "an interruption is not a round");
}

#[test]
fn answers_are_shown_anonymously_in_order_with_ones_own_last() {
    let mut world = World::start(&["gem", "gpt", "cc"], RunRules::default());
    everyone_answers(&mut world);
    let shown = world.shown_to(0);
    let at = |label: &str| shown.find(&format!("<{label} ")).expect("shown");
    assert!(at("agent2.1") < at("agent3.1") && at("agent3.1") < at("agent1.1"));
    for member_index in 0..3 {
        world.says(member_index, vote("agent2"));
    }
    let shown = world.shown_to(1);
    assert!(!shown.contains("gem") && !shown.contains("gpt"), "in the presentation too: {shown}");
}

#[test]
fn the_log_says_who_won_with_which_votes() {
    let mut world = World::start(&["a", "b", "c"], RunRules::default());
    everyone_answers(&mut world);
    for (member_index, target) in ["agent2", "agent2", "agent1"].into_iter().enumerate() {
        world.says(member_index, vote(target));
    }
    let verdict = world.log.iter().find_map(|event| match &event.fact {
        Fact::Decided(Verdict::Winner { winner, votes, tie_break, .. }) => {
            Some((winner.to_string(), votes.len(), tie_break.clone()))
        }
        _ => None,
    });
    assert_eq!(verdict, Some(("b".into(), 2, None)));
}

#[test]
fn an_agent_too_far_ahead_of_the_slowest_has_to_wait() {
    let mut world = World::start(&["a", "b"], RunRules { fairness_lead_cap: Some(1), ..RunRules::default() });
    everyone_answers(&mut world);
    world.says(0, answer("a better one"));
    assert_eq!(world.tools_of(1), ["new_answer", "vote"]);
    world.says(1, vote("agent2"));
    assert_eq!(world.tools_of(0), ["vote"], "one ahead is as far as it may go");
    assert_eq!(world.tools_of(1), ["new_answer", "vote"]);
}

#[test]
fn an_answer_too_close_to_a_known_one_is_not_stored_if_novelty_is_required() {
    let rules = RunRules { answer_novelty: AnswerNovelty::Balanced, ..RunRules::default() };
    let mut world = World::start(&["a", "b"], rules);
    everyone_answers(&mut world);
    world.says(0, answer("Answer of my own, for another member 1"));
    assert_eq!(world.run.answers().len(), 3, "enough of its words are its own");
    world.says(1, answer("answer of member 1 x"));
    assert_eq!(world.run.answers().len(), 3);
    assert!(world.shown_to(1).contains("too close to"));
}

#[test]
fn a_run_that_reaches_its_cost_limit_ends_with_its_partial_result() {
    let limits = RunLimits { cost_micro_usd: Some(1000), ..RunLimits::default() };
    let mut world = World::start(&["a", "b"], RunRules { limits, ..RunRules::default() });
    let dear = Reply { usage: Usage { cost_usd: 0.002, ..Usage::default() }, ..answer("dear") };
    world.says(0, dear);
    let result = world.run.result().unwrap();
    assert_eq!((result.status, result.final_answer.as_deref()), (RunStatus::Partial, Some("dear")));
    assert!(result.error.as_ref().unwrap().contains("cost limit"));
}
