//! A run that carries out a plan: its agents say how far they are, and nothing that is done is done again.

use super::harness::{World, answer, call, spec, text, vote};
use crate::coordination::ChoreKind;
use althing_protocol::{
    AgentMode, ContextAccess, ContextPath, Fact, Item, Modes, Op, PlanProgress, PlanRef, PlanRun, PlanStatus,
    PlanTask, Reply, RunRules, RunSpec,
};

/// A single quick run of a plan of two tasks, the first of them done before.
fn executing() -> RunSpec {
    let modes = Modes { agent_mode: AgentMode::Single, refinement: false, planning: false };
    let task = |id: &str, depends_on: &[&str]| PlanTask {
        id: id.into(),
        description: format!("Do {id}."),
        depends_on: depends_on.iter().map(|id| (*id).to_owned()).collect(),
        verification: Some("The tests pass.".into()),
    };
    let done =
        PlanProgress { task: "read".into(), status: PlanStatus::Completed, note: Some("read it".into()) };
    let plan = PlanRun {
        additions: None,
        plan: PlanRef { id: "p1".into(), path: "/plans/p1".into() },
        tasks: vec![task("read", &[]), task("write", &["read"])],
        progress: vec![done],
    };
    RunSpec { plan: Some(plan), modes, ..spec(&["a"], RunRules::default().with(&modes.overrides())) }
}

fn update(id: &str, status: &str) -> Reply {
    let arguments = serde_json::json!({"id": id, "status": status, "note": "as asked"}).to_string();
    Reply { tool_calls: vec![call("update_plan_task", &arguments)], ..Reply::default() }
}

fn recorded(world: &World) -> Vec<(String, PlanStatus)> {
    let progress = world.log.iter().filter_map(|event| match &event.fact {
        Fact::ItemAdded { item: Item::PlanProgress(progress), .. } => Some(progress),
        _ => None,
    });
    progress.map(|progress| (progress.task.clone(), progress.status)).collect()
}

#[test]
fn an_agent_that_carries_out_a_plan_is_shown_it_and_records_how_far_it_is() {
    let mut world = World::new(executing());
    assert_eq!(world.tools_of(0), ["update_plan_task"]);
    let shown = world.shown_to(0);
    assert!(shown.contains("read (completed): Do read.") && shown.contains("write (pending)"), "{shown}");
    world.says(0, update("write", "in_progress"));
    world.says(0, update("write", "done"));
    assert!(world.shown_to(0).contains("2 of 2 tasks are completed"), "{}", world.shown_to(0));
    assert!(world.shown_to(0).contains("write (pending)"), "what was said first stays as it was said");
    world.says(0, text("All done."));
    assert_eq!(world.run.result().unwrap().final_answer.as_deref(), Some("All done."));
    let expected = [("write".into(), PlanStatus::InProgress), ("write".into(), PlanStatus::Completed)];
    assert_eq!(recorded(&world), expected);
    assert!(world.run.plan_progress().iter().all(|progress| progress.status == PlanStatus::Completed));
}

#[test]
fn after_an_interruption_an_agent_is_told_what_is_done_already() {
    let mut world = World::new(executing());
    world.says(0, update("write", "completed"));
    world.crashes(world.last_batch());
    world.op(Op::Resume);
    assert!(world.shown_to(0).contains("write (completed)"), "{}", world.shown_to(0));
    assert_eq!(recorded(&world).len(), 1);
}

#[test]
fn what_is_no_task_and_no_status_is_said() {
    let mut world = World::new(executing());
    world.says(0, update("wrote", "completed"));
    assert!(world.shown_to(0).contains("Its tasks are: read, write."), "{}", world.shown_to(0));
    world.says(0, update("write", "nearly"));
    assert!(world.shown_to(0).contains("must be pending"), "{}", world.shown_to(0));
    assert!(recorded(&world).is_empty());
}

#[test]
fn without_a_plan_there_is_nothing_to_record() {
    let mut world = World::start(&["a"], RunRules::default());
    assert_eq!(world.tools_of(0), ["new_answer"]);
    world.says(0, update("write", "completed"));
    assert!(recorded(&world).is_empty());
}

/// Whether the call that the agent in a seat waits for may change nothing.
fn is_read_only(world: &World, seat: usize) -> bool {
    world.run.request(seat).and_then(|request| request.desk).expect("a call from somewhere").grant.planning
}

#[test]
fn in_a_planning_run_no_agent_may_write_and_no_context_path_is_opened() {
    let modes = Modes { agent_mode: AgentMode::Single, refinement: false, planning: true };
    for hands in [false, true] {
        let mut spec = spec(&["a"], RunRules::default().with(&modes.overrides()));
        spec.modes = modes;
        spec.members[0].hands = hands;
        let path = ContextPath { path: "/project".into(), writable: true, protected: Vec::new() };
        spec.context_paths.push(path);
        let world = World::new(spec);
        assert!(world.run.wanted().chores.is_empty(), "{:?}", world.run.wanted().chores);
        assert_eq!(world.asked(), [0]);
        assert_eq!(world.run.access(0), ContextAccess::ReadOnly);
        assert!(is_read_only(&world, 0));
    }
}

#[test]
fn agents_that_plan_first_may_write_only_once_they_present() {
    let rules = RunRules { plan_first: true, ..RunRules::default() };
    let mut world = World::start(&["a", "b"], rules.clone());
    assert!(is_read_only(&world, 0) && is_read_only(&world, 1));
    for seat in world.asked() {
        world.says(seat, answer(&format!("answer of seat {seat}")));
    }
    for seat in world.asked() {
        assert!(is_read_only(&world, seat), "judging is no acting");
        world.says(seat, vote("agent1"));
    }
    assert_eq!(world.asked(), [0], "the winner presents");
    assert!(!is_read_only(&world, 0));
    // With a place of its own it acts once its context paths are open, and not if they could not be opened.
    for (error, read_only) in [(None, false), (Some("in use".to_owned()), true)] {
        let modes = Modes { agent_mode: AgentMode::Single, refinement: false, planning: false };
        let mut spec = spec(&["a"], rules.clone().with(&modes.overrides()));
        spec.members[0].hands = true;
        let mut world = World::new(spec);
        assert!(matches!(world.run.wanted().chores[0].kind, ChoreKind::OpenContext));
        let opened = Item::ContextOpened { error };
        world.happens("r1.a1".into(), Fact::ItemAdded { attempt: 1, item: opened });
        assert_eq!(is_read_only(&world, 0), read_only);
    }
    let world = World::start(&["a", "b"], RunRules::default());
    assert!(!is_read_only(&world, 0), "an agent that need not plan works at once");
}
