//! Tests of retrying failed tasks, while the workflow runs and after it has ended.

use super::*;

fn retry(world: &mut World, name: &str) {
    let op = Op::Retry { task: TaskId::workflow().stage_task(name) };
    assert_eq!(world.flow.refusal(&op), None);
    world.op(op);
}

#[test]
fn a_failed_task_starts_again_and_the_ended_workflow_continues() {
    let spec = workflow(vec![
        vec![task("a", program("")), task("b", program(""))],
        vec![task("c", program("after {{a.output}}"))],
    ]);
    let mut world = World::new(spec.clone());
    world.exits("a", false, "");
    world.exits("b", true, "");
    assert_eq!(world.flow.report().status, TaskStatus::Failed);
    retry(&mut world, "a");
    assert_eq!(world.running(), ["w1.a"], "what is done is not repeated");
    assert_eq!(World::folded(&spec, &world.log).flow, world.flow);
    world.exits("a", false, "");
    assert!(world.flow.is_over());
    retry(&mut world, "a");
    world.exits("a", true, "found 3");
    let key = world.flow.wanted().programs.remove(0);
    assert_eq!(world.flow.program(&key).unwrap().0.prompt, "after found 3");
    world.exits("c", true, "");
    assert_eq!(world.flow.report().status, TaskStatus::Done);
    assert_eq!(world.flow.report().error, None);
}

#[test]
fn only_tasks_that_failed_or_were_cancelled_can_be_retried() {
    let mut world = World::new(workflow(vec![
        vec![task("a", program("")), task("b", program("")), task("d", program(""))],
        vec![task("c", program(""))],
    ]));
    world.exits("a", true, "");
    let task = |name: &str| TaskId::workflow().stage_task(name);
    for id in [task("a"), task("b"), task("c"), task("nothing"), TaskId::workflow()] {
        assert!(world.flow.refusal(&Op::Retry { task: id.clone() }).is_some(), "{id}");
    }
    world.op(Op::Cancel { task: task("b") });
    retry(&mut world, "b");
    assert_eq!(world.running(), ["w1.b", "w1.d"]);
    world.op(Op::Cancel { task: TaskId::workflow() });
    assert!(world.flow.refusal(&Op::Retry { task: task("b") }).is_some(), "the user cancelled everything");
}

#[test]
fn a_failed_run_is_retried_as_a_new_run_and_a_program_begins_a_new_conversation() {
    let run = StageBody::Run(Box::new(run_spec(&["x"], RunRules::default())));
    let run = StageTask { id: "team".into(), body: run, timeout: None, continue_on_failure: false };
    let spec = workflow(vec![vec![run, task("a", program(""))]]);
    let mut world = World::new(spec.clone());
    let a = TaskId::workflow().stage_task("a");
    let item = Item::Conversation { id: "native-7".into() };
    world.happens(Some(a), Fact::ItemAdded { attempt: 1, item });
    world.exits("a", false, "");
    let team = TaskId::workflow().stage_task("team");
    world.op(Op::Cancel { task: team.clone() });
    assert!(world.flow.is_over());
    world.op(Op::Retry { task: team.clone() });
    assert!(world.runs.contains_key(&team.retry(2)), "{:?}", world.runs.keys());
    assert_eq!(team.retry(2).without_retry(), team);
    retry(&mut world, "a");
    let key = world.flow.wanted().programs.remove(0);
    assert_eq!(world.flow.program(&key).unwrap().1, None);
    assert_eq!(World::folded(&spec, &world.log).flow, world.flow);
    world.op(Op::Cancel { task: team.retry(2) });
    world.op(Op::Retry { task: team.retry(2) });
    assert!(world.runs.contains_key(&team.retry(3)), "{:?}", world.runs.keys());
}

#[test]
fn random_histories_with_retries_end_and_fold_to_the_live_state() {
    for seed in 0..histories() / 5 {
        let mut rng = Rng::with_seed(seed);
        let stages = (0..=rng.u32(0..3)).map(|stage| {
            let tasks = (0..=rng.u32(0..3)).map(|n| StageTask {
                continue_on_failure: rng.u32(0..2) == 0,
                ..task(&format!("t{stage}-{n}"), program(""))
            });
            tasks.collect()
        });
        let spec = workflow(stages.collect());
        let mut world = World::new(spec.clone());
        for retries in 0.. {
            for _ in 0..200 {
                if world.flow.is_over() {
                    break;
                }
                step(&mut world, &mut rng, &spec);
                assert_eq!(World::folded(&spec, &world.log).flow, world.flow, "seed {seed}");
            }
            assert!(world.flow.is_over(), "seed {seed} does not end: {:#?}", world.flow);
            let tasks = world.flow.session.tasks.keys().cloned();
            let failed = tasks.map(|task| Op::Retry { task }).find(|op| world.flow.refusal(op).is_none());
            match failed {
                Some(op) if retries < 5 => world.op(op),
                _ => break,
            }
        }
        // A task that was done is never begun again.
        let mut done = std::collections::BTreeSet::new();
        for event in &world.log {
            match (&event.fact, &event.task) {
                (Fact::StatusChanged { status: TaskStatus::Done, .. }, Some(task)) => {
                    done.insert(task.clone());
                }
                (Fact::AttemptStarted { .. }, Some(task)) => {
                    assert!(!done.contains(task), "seed {seed}: {task} was begun again");
                }
                _ => {}
            }
        }
    }
}
