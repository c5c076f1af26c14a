//! Tests of turn-taking: who is asked when, and which votes count after a new answer.

use super::harness::{World, answer, call, spec, vote};
use super::rules::everyone_answers;
use althing_protocol::{Fact, Item, Op, Reply, RunRules, Timer};

fn has_stale_vote(world: &World) -> bool {
    world.log.iter().any(|event| matches!(event.fact, Fact::ItemAdded { item: Item::StaleVote(_), .. }))
}

#[test]
fn a_newer_answer_stops_no_running_call_and_is_judged_when_nobody_else_judges() {
    let mut world = World::start(&["a", "b", "c"], RunRules::default());
    everyone_answers(&mut world);
    let before = (world.call_of(1), world.call_of(2));
    world.says(0, answer("a better one"));
    assert_eq!((world.call_of(1), world.call_of(2)), before, "both calls go on");
    assert_eq!(world.asked(), [1, 2], "the first waits for the others");
    world.says(1, answer("an even better one"));
    assert_eq!(world.asked(), [2]);
    world.says(2, vote("agent1"));
    assert_eq!(world.asked(), [0, 1, 2], "everyone judges both new answers, in one call each");
    let shown = world.shown_to(2);
    assert!(shown.contains("a better one") && shown.contains("an even better one"), "{shown}");
    assert!(!shown.contains("agent1.1"), "and only the newest of each: {shown}");
}

#[test]
fn a_vote_overtaken_by_another_agents_answer_is_not_counted() {
    let mut world = World::start(&["a", "b", "c"], RunRules::default());
    everyone_answers(&mut world);
    world.says(1, vote("agent1"));
    world.says(2, vote("agent2"));
    world.says(0, answer("better"));
    let votes: Vec<bool> = world.run.state.members.iter().map(|member| member.vote.is_some()).collect();
    assert_eq!(votes, [false, true, false], "only a vote for the agent that improved its own answer stands");
    assert_eq!(world.asked(), [0, 2]);
    world.says(0, answer("better still"));
    assert_eq!(world.asked(), [2], "the improver waits: the third has not seen everything");
    world.says(2, vote("agent2"));
    assert!(has_stale_vote(&world), "cast without knowing the newest answer");
    assert_eq!(world.asked(), [0, 2]);
    assert!(world.shown_to(2).contains("better still"), "it judges what it did not know");
}

#[test]
fn a_vote_for_an_agent_that_improved_in_the_meantime_counts() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    everyone_answers(&mut world);
    let calls: Vec<_> = world.run.wanted().calls;
    // Both replies are recorded before the rules are applied to either.
    for (call, reply) in calls.iter().zip([answer("newer"), vote("agent1")]) {
        world.record(
            Some(world.run.work(call.member_index)),
            Fact::ItemAdded { attempt: call.attempt, item: Item::Reply(reply) },
        );
    }
    world.settle();
    assert!(!has_stale_vote(&world));
    assert!(world.run.state.members[1].vote.is_some());
    assert_eq!(world.asked(), [0], "only the improver has not voted");
}

#[test]
fn a_judge_with_tools_is_shown_newer_answers_before_its_next_call() {
    let mut spec = spec(&["a", "b"], RunRules::default());
    spec.members[1].has_tools = true;
    let mut world = World::new(spec);
    world.says(0, answer("one"));
    world.says(1, answer("two"));
    let kept = Fact::ItemAdded { attempt: 1, item: Item::WorkspaceKept { error: None } };
    world.happens(world.run.work(1), kept);
    world.says(1, Reply { tool_calls: vec![call("read_file", "{}")], ..Reply::default() });
    world.says(0, answer("a better one"));
    assert!(world.asked().is_empty(), "the second uses its tool, the first waits for it");
    let read = Item::ToolResult { call: "call-read_file".into(), content: "done".into(), is_error: false };
    world.happens(world.run.work(1), Fact::ItemAdded { attempt: 2, item: read });
    assert_eq!(world.asked(), [1]);
    assert!(world.shown_to(1).contains("a better one"));
    world.says(1, vote("agent2"));
    assert!(!has_stale_vote(&world), "it knew the newest answer");
}

#[test]
fn agents_wait_for_a_slow_judge_only_for_the_wait() {
    let mut world = World::start(&["a", "b", "c"], RunRules::default());
    everyone_answers(&mut world);
    world.says(0, vote("agent2"));
    assert!(!world.wants_timer(&Timer::FirstAnswers { wait: 1 }), "nobody has anything new to judge");
    world.says(1, answer("better"));
    assert_eq!(world.asked(), [2], "a new answer of the agent that the first voted for");
    assert!(!world.wants_timer(&Timer::FirstAnswers { wait: 1 }));
    let mut world = World::start(&["a", "b", "c"], RunRules::default());
    everyone_answers(&mut world);
    world.says(0, vote("agent3"));
    world.says(1, answer("better"));
    assert_eq!(world.asked(), [2], "the first has something new to judge, and waits");
    assert!(world.wants_timer(&Timer::FirstAnswers { wait: 1 }));
    world.fires(Timer::FirstAnswers { wait: 1 });
    assert_eq!(world.asked(), [0, 2]);
    assert!(world.shown_to(0).contains("better"));
    world.says(0, vote("agent2"));
    assert_eq!(world.asked(), [2], "it is asked once, however long the slow judge takes");
    assert!(!world.wants_timer(&Timer::FirstAnswers { wait: 2 }));
}

#[test]
fn an_interrupted_call_of_a_judge_is_repeated_with_the_newest_answers() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    everyone_answers(&mut world);
    world.says(0, answer("a better one"));
    assert!(!world.shown_to(1).contains("a better one"));
    world.op(Op::Shutdown);
    world.run = world.folded();
    world.op(Op::Resume);
    assert_eq!(world.asked(), [1]);
    assert!(world.shown_to(1).contains("a better one"), "the call is made again anyway");
}
