//! Tests of restarts: which agent evaluates the final answer, what a restart preserves, and how the run ends.

use super::harness::{World, answer, call, spec, text, vote};
use althing_protocol::{
    ContextPath, Fact, FileChange, FileWrite, FinalAnswerStrategy, Item, Millis, Op, Phase, Purpose, Reply,
    RunLimits, RunRules, RunStatus, Timer, Usage, Verdict,
};

fn rules(max_restarts: u32) -> RunRules {
    RunRules { max_restarts, ..RunRules::default() }
}

fn submit() -> Reply {
    Reply { tool_calls: vec![call("submit", r#"{"confirmed": true}"#)], ..Reply::default() }
}

fn restart(instructions: &str) -> Reply {
    let arguments = serde_json::json!({"reason": "too short", "instructions": instructions}).to_string();
    Reply { tool_calls: vec![call("restart_orchestration", &arguments)], ..Reply::default() }
}

fn presented(world: &mut World, nth: u32) {
    world.says(0, answer(&format!("first, try {nth}")));
    world.says(1, answer(&format!("second, try {nth}")));
    world.says(0, vote("agent2"));
    world.says(1, vote("agent2"));
    world.says(1, text(&format!("final, try {nth}")));
}

fn final_answer(world: &World) -> &str {
    world.run.result().and_then(|result| result.final_answer.as_deref()).expect("a final answer")
}

fn restarts(world: &World) -> usize {
    let restarted = |fact: &Fact| matches!(fact, Fact::Decided(Verdict::Restarted { .. }));
    world.log.iter().filter(|event| restarted(&event.fact)).count()
}

#[test]
fn the_answer_of_a_run_without_restarts_is_not_evaluated() {
    let mut world = World::start(&["a", "b"], rules(0));
    presented(&mut world, 1);
    assert_eq!(final_answer(&world), "final, try 1");
}

#[test]
fn the_presenter_evaluates_the_answer_and_may_accept_it() {
    let mut world = World::start(&["a", "b"], rules(1));
    presented(&mut world, 1);
    assert_eq!(world.asked(), [1]);
    assert_eq!(world.tools_of(1), ["submit", "restart_orchestration"]);
    assert!(world.shown_to(1).contains("final, try 1"));
    world.says(1, submit());
    assert_eq!(final_answer(&world), "final, try 1");
    assert_eq!(
        world.run.result().unwrap().coordination_summary.rounds,
        2,
        "an evaluation does not count as a round"
    );
}

#[test]
fn a_rejected_answer_restarts_the_run_with_the_answer_and_the_instructions() {
    let mut world = World::start(&["a", "b"], rules(1));
    presented(&mut world, 1);
    world.says(1, restart("Name the fourth power."));
    assert_eq!(world.run.phase, Phase::Answering);
    assert_eq!(world.asked(), [0, 1]);
    for member_index in [0, 1] {
        let shown = world.shown_to(member_index);
        for words in ["too short", "Name the fourth power.", "final, try 1"] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        assert!(!shown.contains("first, try 1"), "only the presented answer is shown: {shown}");
        assert_eq!(world.tools_of(member_index), ["new_answer"]);
    }
    // After the restart, an agent may submit the text of an earlier answer again.
    world.says(0, answer("first, try 1"));
    world.says(1, answer("second, try 2"));
    assert!(
        !world.shown_to(0).contains("second, try 1"),
        "answers from before the restart are not candidates"
    );
    assert!(
        world.shown_to(0).contains("agent2.2"),
        "labels continue, because snapshots are named after them"
    );
    world.says(0, vote("agent1"));
    world.says(1, vote("agent1"));
    world.says(0, text("final, try 2"));
    assert_eq!(final_answer(&world), "final, try 2", "the last try is not judged");
    let summary = &world.run.result().unwrap().coordination_summary;
    assert_eq!((summary.restarts, summary.winner.as_ref().unwrap().as_str()), (1, "a"));
    assert_eq!(summary.agents[0].answers, 2);
}

#[test]
fn a_run_starts_over_at_most_max_restarts_times() {
    let mut world = World::start(&["a", "b"], rules(2));
    for nth in 1..=2 {
        presented(&mut world, nth);
        world.says(1, restart("Again."));
    }
    presented(&mut world, 3);
    assert_eq!((final_answer(&world), restarts(&world)), ("final, try 3", 2));
}

#[test]
fn a_failed_or_empty_evaluation_accepts_the_answer() {
    let mut failed = World::start(&["a", "b"], rules(1));
    presented(&mut failed, 1);
    failed.fails(1);
    let mut silent = World::start(&["a", "b"], rules(1));
    presented(&mut silent, 1);
    silent.says(1, text("Looks fine to me."));
    let mut late = World::start(&["a", "b"], rules(1));
    presented(&mut late, 1);
    late.fires(Timer::RoundHard { agent: "b".into(), attempt: 4 });
    let mut confused = World::start(&["a", "b"], rules(1));
    presented(&mut confused, 1);
    for _ in 0..3 {
        confused.says(1, Reply { tool_calls: vec![call("restart_orchestration", "{}")], ..Reply::default() });
    }
    for world in [&failed, &silent, &late, &confused] {
        assert_eq!(final_answer(world), "final, try 1");
        assert_eq!(world.run.result().unwrap().status, RunStatus::Completed, "{}", world.story());
    }
    assert!(failed.story().contains("could not be evaluated"));
}

#[test]
fn a_winner_evaluates_its_reused_answer_and_a_failed_presenter_is_not_asked_again() {
    let reuse = Some(FinalAnswerStrategy::WinnerReuse);
    let mut world = World::start(&["a"], RunRules { final_answer_strategy: reuse, ..rules(1) });
    world.says(0, answer("mine"));
    world.says(0, vote("agent1"));
    assert_eq!(world.tools_of(0), ["submit", "restart_orchestration"]);
    world.says(0, submit());
    assert_eq!(final_answer(&world), "mine");

    let mut world = World::start(&["a"], rules(1));
    world.says(0, answer("mine"));
    world.says(0, vote("agent1"));
    world.fails(0);
    assert_eq!(final_answer(&world), "mine");
}

#[test]
fn the_rejected_answer_is_the_result_if_the_restart_produces_nothing() {
    let mut world = World::start(&["a", "b"], rules(1));
    presented(&mut world, 1);
    world.says(1, restart("Again."));
    let mut limited = world.clone();
    world.fails(0);
    world.fails(1);
    let result = world.run.result().unwrap();
    assert_eq!((final_answer(&world), result.status), ("final, try 1", RunStatus::Completed));
    assert_eq!(result.coordination_summary.winner.as_ref().unwrap().as_str(), "b");
    limited.fires(Timer::Orchestrator);
    let result = limited.run.result().unwrap();
    assert_eq!((final_answer(&limited), result.status), ("final, try 1", RunStatus::Partial));
}

#[test]
fn a_limit_during_the_evaluation_does_not_make_the_result_partial() {
    let mut timed = World::start(&["a", "b"], rules(1));
    presented(&mut timed, 1);
    timed.fires(Timer::Orchestrator);
    let limits = RunLimits { cost_micro_usd: Some(1_000_000), ..RunLimits::default() };
    let mut dear = World::start(&["a", "b"], RunRules { limits, ..rules(1) });
    presented(&mut dear, 1);
    let usage = Usage { cost_usd: 2.0, calls: 1, ..Usage::default() };
    dear.says(1, Reply { usage, ..restart("Again.") });
    for world in [&timed, &dear] {
        assert_eq!(final_answer(world), "final, try 1");
        assert_eq!(world.run.result().unwrap().status, RunStatus::Completed);
        assert_eq!(restarts(world), 0);
    }
    assert!(dear.run.result().unwrap().usage.cost_usd > 1.9, "what judging costs is counted");
}

#[test]
fn a_crash_at_any_point_of_a_restart_does_not_change_it() {
    let play = |world: &mut World| {
        presented(world, 1);
        world.says(1, restart("Again."));
    };
    let mut whole = World::start(&["a", "b"], rules(1));
    play(&mut whole);
    for left in 0..=whole.last_batch() {
        let mut world = World::start(&["a", "b"], rules(1));
        play(&mut world);
        world.crashes(left);
        world.op(Op::Resume);
        if left == 0 {
            world.says(1, restart("Again."));
        }
        assert_eq!((world.asked(), restarts(&world)), (vec![0, 1], 1), "{left} left:\n{}", world.story());
        presented(&mut world, 2);
        assert_eq!(final_answer(&world), "final, try 2");
    }
}

#[test]
fn context_paths_are_closed_while_the_answer_is_judged_and_opened_to_the_next_presenter() {
    let mut spec = spec(&["a"], rules(1));
    spec.members[0].has_tools = true;
    let path = ContextPath { path: "/project".into(), writable: true, protected: Vec::new() };
    spec.context_paths.push(path);
    let mut world = World::new(spec);
    let done = |world: &mut World, item: Item| {
        let side_task = world.run.wanted().side_tasks.pop().expect("a side task");
        world.happens(
            world.run.work(side_task.member_index),
            Fact::ItemAdded { attempt: side_task.attempt, item },
        );
    };
    let write = |change| FileWrite { path: "/project/a".into(), change, note: None };
    for change in [FileChange::New, FileChange::Modified] {
        world.says(0, answer(&format!("{change:?}")));
        done(&mut world, Item::WorkspaceKept { error: None });
        world.says(0, vote("agent1"));
        done(&mut world, Item::ContextOpened { error: None });
        world.says(0, text("final"));
        assert_eq!(world.asked(), [] as [usize; 0], "first the paths are closed");
        done(&mut world, Item::ContextClosed { writes: vec![write(change)], error: None });
        if change == FileChange::New {
            world.says(0, restart("Again."));
        }
    }
    assert_eq!(world.run.result().unwrap().context_path_writes, [write(FileChange::Modified)]);
}

#[test]
fn a_person_may_override_the_winner_after_every_restart() {
    let mut spec = spec(&["a", "b"], rules(1));
    spec.rules.override_window = Some(Millis(60_000));
    let mut world = World::new(spec);
    for nth in 1..=2 {
        world.says(0, answer(&format!("first {nth}")));
        world.says(1, answer(&format!("second {nth}")));
        world.says(0, vote("agent2"));
        world.says(1, vote("agent2"));
        assert!(world.wants_timer(&Timer::OverrideWindow), "try {nth}");
        world.fires(Timer::OverrideWindow);
        world.says(1, text("final"));
        if nth == 1 {
            world.says(1, restart("Again."));
        }
    }
    let opened = world.log.iter().filter_map(|event| match &event.fact {
        Fact::InteractionOpened(interaction) => Some(interaction.id.as_str().to_owned()),
        _ => None,
    });
    assert_eq!(opened.collect::<Vec<_>>(), ["r1.override", "r1.override1"]);
    let judged = |fact: &Fact| matches!(fact, Fact::AttemptStarted { purpose: Purpose::Evaluate, .. });
    assert_eq!(world.log.iter().filter(|event| judged(&event.fact)).count(), 1);
}
