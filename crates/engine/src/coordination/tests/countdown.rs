//! The override window: its countdown can be paused, and it closes with its run.

use super::harness::{World, answer, spec, vote};
use althing_protocol::{
    Decision, Fact, InteractionId, Millis, Op, RunEnd, RunRules, TaskStatus, Timer, Verdict,
};

fn voted() -> (World, InteractionId) {
    let mut spec = spec(&["a", "b"], RunRules::default());
    spec.rules.override_window = Some(Millis(60_000));
    let mut world = World::new(spec);
    world.says(0, answer("one"));
    world.says(1, answer("two"));
    world.says(0, vote("agent1"));
    world.says(1, vote("agent1"));
    let opened = world.log.iter().find_map(|event| match &event.fact {
        Fact::InteractionOpened(interaction) => Some(interaction.id.clone()),
        _ => None,
    });
    (world, opened.expect("an interaction is open"))
}

fn left(world: &World) -> Option<Millis> {
    let timers = world.run.wanted().timers;
    timers.into_iter().find_map(|(timer, left)| (timer == Timer::OverrideWindow).then_some(left))
}

#[test]
fn the_countdown_of_the_override_window_can_be_paused() {
    let (mut world, interaction) = voted();
    assert_eq!(left(&world), Some(Millis(60_000)));
    let pause = |paused| Op::PauseCountdown { interaction: interaction.clone(), paused };
    world.op(pause(true));
    assert_eq!(left(&world), None, "it does not run out meanwhile");
    world.op(Op::PauseCountdown { interaction: "another".into(), paused: false });
    assert_eq!(left(&world), None);
    world.op(pause(false));
    let rest = left(&world).unwrap();
    assert!(rest < Millis(60_000) && rest > Millis(0), "it goes on where it stopped: {rest:?}");
    assert_eq!(world.folded(), world.run);
    // After a crash nobody has the question open, so the countdown starts again.
    world.op(pause(true));
    world.op(Op::Resume);
    assert_eq!(left(&world), Some(Millis(60_000)));
    world.fires(Timer::OverrideWindow);
    assert_eq!(world.asked(), [0]);
}

#[test]
fn a_run_that_is_resumed_in_its_override_window_waits_for_the_user_again() {
    let (mut world, _) = voted();
    assert_eq!(world.run.status, TaskStatus::WaitingForUser);
    world.op(Op::Shutdown);
    assert_eq!(world.run.status, TaskStatus::Interrupted);
    world.op(Op::Resume);
    assert_eq!(world.run.status, TaskStatus::WaitingForUser, "{}", world.story());
    world.fires(Timer::OverrideWindow);
    assert_eq!(world.run.status, TaskStatus::Running);
    assert_eq!(world.folded(), world.run);
}

#[test]
fn a_run_that_ends_in_its_override_window_closes_the_window() {
    for limit in [false, true] {
        let (mut world, interaction) = voted();
        if limit {
            world.fires(Timer::Orchestrator);
        } else {
            world.op(Op::Cancel { task: world.run.task.clone() });
        }
        let closed = world.log.iter().position(|event| {
            let decision = Decision::MovedOn;
            event.fact == Fact::InteractionClosed { id: interaction.clone(), decision }
        });
        let finished = world.log.iter().position(|event| match &event.fact {
            Fact::Decided(Verdict::Finished { end, .. }) => {
                *end == if limit { RunEnd::Limit } else { RunEnd::Cancelled }
            }
            _ => false,
        });
        assert!(closed.is_some() && closed < finished, "{}", world.story());
        assert!(!world.run.has_open_question(&interaction));
        assert_eq!(world.folded(), world.run);
    }
}
