//! A run that carries out a plan: its agents say how far they are, and nothing that is done is done again.

use super::harness::{World, call, spec, text};
use althing_protocol::{
    AgentMode, Fact, Item, Modes, Op, PlanProgress, PlanRef, PlanRun, PlanStatus, PlanTask, Reply, RunRules,
    RunSpec,
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
