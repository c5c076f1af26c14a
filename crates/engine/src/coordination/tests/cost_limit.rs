//! Tests of a run in which a call was not made, because it would have exceeded the cost limit.

use super::harness::{World, answer, vote};
use althing_protocol::{
    AgentOutcome, AttemptOutcome, BackendErrorKind, Fact, Op, RunLimits, RunRules, RunStatus, Usage,
};

fn rules() -> RunRules {
    let limits = RunLimits { cost_micro_usd: Some(1_000_000), ..RunLimits::default() };
    RunRules { limits, ..RunRules::default() }
}

/// The session does not make a member's call.
fn is_refused(world: &mut World, member_index: usize) {
    let call = world.call_of(member_index).expect("the member is asked");
    let (error, kind) = ("the call was not made".to_owned(), Some(BackendErrorKind::CostLimit));
    let outcome = AttemptOutcome::Failed { error, hint: None, kind };
    let ended = Fact::AttemptEnded { attempt: call.attempt, outcome, usage: Usage::default(), call: None };
    world.happens(world.run.work(member_index), ended);
}

#[test]
fn replies_of_running_calls_count_and_nothing_new_begins() {
    let mut world = World::start(&["a", "b", "c"], rules());
    is_refused(&mut world, 1);
    assert_eq!(world.asked(), [0, 2], "the calls of the others continue");
    world.says(0, answer("one"));
    assert_eq!(world.asked(), [2]);
    world.says(2, answer("three"));
    assert!(world.asked().is_empty(), "nobody judges");
    let result = world.run.result().expect("the run is over");
    assert_eq!(result.status, RunStatus::Partial);
    assert!(result.error.as_deref().unwrap().contains("the call was not made"), "{:?}", result.error);
    assert!(result.final_answer.is_some());
    let agents = &result.coordination_summary.agents;
    assert_eq!(agents[1].status, AgentOutcome::Cancelled, "the agent is not at fault");
    assert_eq!(world.folded(), world.run);
}

#[test]
fn the_winners_answer_is_the_result_if_the_presentation_is_not_made() {
    let mut world = World::start(&["a", "b"], rules());
    for (member_index, text) in [(0, "one"), (1, "two")] {
        world.says(member_index, answer(text));
    }
    for member_index in [0, 1] {
        world.says(member_index, vote("agent2"));
    }
    is_refused(&mut world, 1);
    let result = world.run.result().expect("the run is over");
    assert_eq!((result.status, result.final_answer.as_deref()), (RunStatus::Partial, Some("two")));
    assert_eq!(world.folded(), world.run);
}

#[test]
fn a_run_that_was_interrupted_meanwhile_finishes_the_calls_that_were_running() {
    let mut world = World::start(&["a", "b"], rules());
    is_refused(&mut world, 1);
    world.op(Op::Shutdown);
    world.op(Op::Resume);
    assert_eq!(world.asked(), [0]);
    world.says(0, answer("one"));
    assert_eq!(world.run.result().and_then(|result| result.final_answer.as_deref()), Some("one"));
}
