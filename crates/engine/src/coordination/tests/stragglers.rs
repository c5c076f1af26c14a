//! Tests of agents that send nothing while all others are done.

use super::harness::{World, answer, call, spec, text, vote};
use super::rules::everyone_answers;
use althing_protocol::{AgentOutcome, Fact, Millis, NoticeLevel, Reply, RunRules, RunStatus, Timer};

fn straggler(agent: &str, attempt: u32) -> Timer {
    Timer::Straggler { agent: agent.into(), attempt, step: 0 }
}

fn stragglers(world: &World) -> Vec<String> {
    let timer = world.run.wanted().silence_timer.map(|silence| silence.timer);
    let Some(Timer::Straggler { agent, .. }) = timer else { return Vec::new() };
    vec![agent.to_string()]
}

#[test]
fn a_run_goes_on_without_a_judge_that_sends_nothing_while_all_others_are_done() {
    let mut world = World::start(&["a", "b", "c"], RunRules::default());
    everyone_answers(&mut world);
    world.says(0, vote("agent2"));
    assert!(stragglers(&world).is_empty(), "two agents still judge, and one could answer");
    world.says(1, vote("agent2"));
    assert_eq!(stragglers(&world), ["c"]);
    assert_eq!(world.run.wanted().silence_timer.unwrap().after, Millis::from_secs(60));
    world.fires(straggler("c", 2));
    assert_eq!(world.asked(), [1], "the winner presents");
    world.says(1, text("final"));
    let result = world.run.result().unwrap();
    assert_eq!((result.status, result.final_answer.as_deref()), (RunStatus::Completed, Some("final")));
    let out = &result.coordination_summary.agents[2];
    assert_eq!((out.status, out.answers), (AgentOutcome::TimedOut, 1), "its answer stays a candidate");
    assert!(out.error.as_ref().unwrap().contains("sent nothing"), "{out:?}");
    let said = world.log.iter().any(|event| match &event.fact {
        Fact::Notice(notice) => {
            notice.level == NoticeLevel::Warning && notice.text.contains("c sent nothing for 1m00s")
        }
        _ => false,
    });
    assert!(said, "people are told");
}

#[test]
fn a_straggler_is_waited_for_as_long_as_someone_else_works_or_waits_for_first_answers() {
    let mut world = World::start(&["a", "b", "c"], RunRules::default());
    world.says(0, answer("one"));
    assert!(stragglers(&world).is_empty(), "the second works too; both may be slow");
    world.says(1, answer("two"));
    assert!(
        stragglers(&world).is_empty(),
        "the others have something to judge, and wait for the first answer"
    );
    world.fires(Timer::FirstAnswers { wait: 1 });
    assert!(stragglers(&world).is_empty(), "the others judge");
    world.says(0, vote("agent2"));
    world.says(1, vote("agent2"));
    assert_eq!(stragglers(&world), ["c"]);
    world.fires(straggler("c", 1));
    assert_eq!(world.asked(), [1]);
}

#[test]
fn a_reply_that_arrives_together_with_the_timer_counts() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    world.says(0, answer("one"));
    assert_eq!(stragglers(&world), ["b"]);
    let call = world.call_of(1).unwrap();
    let item = althing_protocol::Item::Reply(answer("two"));
    world.record(Some(world.run.work(1)), Fact::ItemAdded { attempt: call.attempt, item });
    world.fires(straggler("b", 1));
    assert_eq!(world.run.answers().len(), 2);
    assert!(world.run.state.members[1].is_live());
}

#[test]
fn where_voting_is_deferred_a_first_answer_is_waited_for_however_long_it_takes() {
    let deferred = RunRules { defer_voting_until_all_answered: true, ..RunRules::default() };
    let independent = RunRules { disable_injection: true, ..RunRules::default() };
    let unvoted = RunRules { skip_voting: true, ..RunRules::default() };
    for rules in [deferred, independent, unvoted] {
        let skips = rules.skip_voting;
        let mut world = World::start(&["a", "b", "c"], rules);
        world.says(0, answer("one"));
        world.says(1, answer("two"));
        assert!(stragglers(&world).is_empty(), "the first answers are not in");
        world.says(2, answer("three"));
        if !skips {
            world.says(0, vote("agent2"));
            world.says(1, vote("agent1"));
            assert_eq!(stragglers(&world), ["c"], "now they are");
        }
    }
}

#[test]
fn nobody_is_a_straggler_if_no_other_could_go_on_or_if_it_uses_a_tool_or_the_limit_is_off() {
    let world = World::start(&["a"], RunRules::default());
    assert!(stragglers(&world).is_empty(), "a single agent");
    let mut world = World::start(&["a", "b"], RunRules::default());
    world.fails(0);
    assert!(stragglers(&world).is_empty(), "the only one that is left");
    let mut with_tools = spec(&["a", "b"], RunRules::default());
    with_tools.members[1].has_tools = true;
    let mut world = World::new(with_tools);
    world.says(0, answer("one"));
    world.says(1, Reply { tool_calls: vec![call("read_file", "{}")], ..Reply::default() });
    assert!(stragglers(&world).is_empty(), "it uses a tool");
    let off = RunRules { straggler_wait: None, ..RunRules::default() };
    let mut world = World::start(&["a", "b"], off);
    world.says(0, answer("one"));
    assert!(stragglers(&world).is_empty());
}
