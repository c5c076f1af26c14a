//! Tests of plans: a run that executes a plan records its progress and repeats no completed task; a planning run stores
//! its plan.

use super::harness::{World, answer, call, spec, text, vote};
use crate::decider::SideTaskKind;
use althing_protocol::{
    AgentMode, ContextAccess, ContextPath, Fact, Item, Modes, Op, PlanProgress, PlanRef, PlanRun, PlanStatus,
    PlanTask, Reply, RunRules, RunSpec, RunStatus, Usage,
};

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

/// A run of `executing` in progress; reading the stored plan failed, so it uses the plan of its spec.
fn carrying_out() -> World {
    let mut world = World::new(executing());
    assert!(world.asked().is_empty(), "nobody begins before the plan is read");
    world.opens_plan(None);
    world
}

#[test]
fn a_run_executes_its_plan_as_it_is_stored_when_the_run_begins() {
    let mut world = World::new(executing());
    let mut changed = executing().plan.unwrap();
    changed.tasks[1].id = "rewrite".into();
    changed.progress.clear();
    world.opens_plan(Some(changed));
    let shown = world.shown_to(0);
    assert!(shown.contains("read (pending)") && shown.contains("rewrite (pending)"), "{shown}");
    assert_eq!(world.folded(), world.run);
    // In a log of 0.1.0 the plan was read before the run was created, so the resumed run does not read it again.
    world.log.retain(|event| !matches!(event.fact, Fact::ItemAdded { item: Item::PlanOpened { .. }, .. }));
    world.crashes(world.last_batch());
    world.op(Op::Resume);
    assert!(world.run.wanted().side_tasks.is_empty() && world.asked() == [0], "{}", world.story());
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
fn an_agent_that_executes_a_plan_is_shown_it_and_records_its_progress() {
    let mut world = carrying_out();
    assert_eq!(world.tools_of(0), ["update_plan_task"]);
    let shown = world.shown_to(0);
    assert!(shown.contains("read (completed): Do read.") && shown.contains("write (pending)"), "{shown}");
    world.says(0, update("write", "in_progress"));
    world.says(0, update("write", "done"));
    assert!(world.shown_to(0).contains("2 of 2 tasks are completed"), "{}", world.shown_to(0));
    assert!(world.shown_to(0).contains("write (pending)"), "the first message does not change");
    world.says(0, text("All done."));
    assert_eq!(world.run.result().unwrap().final_answer.as_deref(), Some("All done."));
    let expected = [("write".into(), PlanStatus::InProgress), ("write".into(), PlanStatus::Completed)];
    assert_eq!(recorded(&world), expected);
    assert!(world.run.plan_progress().iter().all(|progress| progress.status == PlanStatus::Completed));
}

#[test]
fn after_an_interruption_an_agent_is_shown_the_completed_tasks() {
    let mut world = carrying_out();
    world.says(0, update("write", "completed"));
    world.crashes(world.last_batch());
    world.op(Op::Resume);
    assert!(world.shown_to(0).contains("write (completed)"), "{}", world.shown_to(0));
    assert_eq!(recorded(&world).len(), 1);
}

#[test]
fn an_unknown_task_or_status_is_an_error() {
    let mut world = carrying_out();
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

fn is_read_only(world: &World, member_index: usize) -> bool {
    world
        .run
        .request(member_index)
        .and_then(|request| request.call_context)
        .expect("a call context")
        .grant
        .planning
}

#[test]
fn in_a_planning_run_no_agent_may_write_and_no_context_path_is_opened() {
    let modes = Modes { agent_mode: AgentMode::Single, refinement: false, planning: true };
    for has_tools in [false, true] {
        let mut spec = spec(&["a"], RunRules::default().with(&modes.overrides()));
        spec.modes = modes;
        spec.members[0].has_tools = has_tools;
        let path = ContextPath { path: "/project".into(), writable: true, protected: Vec::new() };
        spec.context_paths.push(path);
        let world = World::new(spec);
        assert!(world.run.wanted().side_tasks.is_empty(), "{:?}", world.run.wanted().side_tasks);
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
    for member_index in world.asked() {
        world.says(member_index, answer(&format!("answer of member {member_index}")));
    }
    for member_index in world.asked() {
        assert!(is_read_only(&world, member_index), "a judge does not act");
        world.says(member_index, vote("agent1"));
    }
    assert_eq!(world.asked(), [0], "the winner presents");
    assert!(!is_read_only(&world, 0));
    // An agent with tools acts once its context paths are open, and does not act if they cannot be opened.
    for (error, read_only) in [(None, false), (Some("in use".to_owned()), true)] {
        let modes = Modes { agent_mode: AgentMode::Single, refinement: false, planning: false };
        let mut spec = spec(&["a"], rules.clone().with(&modes.overrides()));
        spec.members[0].has_tools = true;
        let mut world = World::new(spec);
        assert!(matches!(world.run.wanted().side_tasks[0].kind, SideTaskKind::OpenContext));
        let opened = Item::ContextOpened { error };
        world.happens("r1.a1".into(), Fact::ItemAdded { attempt: 1, item: opened });
        assert_eq!(is_read_only(&world, 0), read_only);
    }
    let world = World::start(&["a", "b"], RunRules::default());
    assert!(!is_read_only(&world, 0), "an agent that need not plan works at once");
}

/// A planning run and the run that executes its plan; both specs have this cost limit.
fn planning(cost_micro_usd: Option<u64>) -> RunSpec {
    let modes = Modes { agent_mode: AgentMode::Single, refinement: false, planning: false };
    let mut execution = spec(&["a"], RunRules::default().with(&modes.overrides()));
    execution.modes = modes;
    execution.rules.limits.cost_micro_usd = cost_micro_usd;
    let mut planning = execution.clone();
    planning.modes.planning = true;
    planning.execution = Some(Box::new(execution));
    planning
}

fn executions(world: &World) -> usize {
    let is_execution =
        |fact: &Fact| matches!(fact, Fact::TaskCreated { id, .. } if id.as_str() == "r1.execution");
    world.log.iter().filter(|event| is_execution(&event.fact)).count()
}

// spec: interactive/launch-run-tool/planning-then-execution
#[test]
fn a_planning_run_starts_the_run_that_executes_its_plan_and_ends_with_it() {
    let mut world = World::new(planning(Some(1_000_000)));
    world.says(
        0,
        Reply { usage: Usage { cost_usd: 0.4, ..Usage::default() }, ..text("First dig, then fill.") },
    );
    assert!(world.run.result().is_none() && executions(&world) == 0, "the plan is stored first");
    world.stores_plan(Some("no plan in it"));
    let result = world.run.result().unwrap().clone();
    assert_eq!(result.follow_up.as_deref(), Some("s1.r1.execution"));
    assert!(!world.run.is_over());
    let execution = &world.subagents[&"r1.execution".into()];
    assert!(execution.spec().context.as_deref().unwrap().contains("First dig, then fill."));
    assert_eq!(execution.spec().rules.limits.cost_micro_usd, Some(600_000), "what planning has left");
    world.subagent_says("r1.execution", 0, text("Dug and filled."));
    assert!(world.run.is_over() && executions(&world) == 1, "{}", world.story());
    let ends = world.log.iter().filter(|event| {
        let is_final = matches!(event.fact, Fact::StatusChanged { status, .. } if status.is_final());
        is_final && event.task == Some("r1".into())
    });
    assert_eq!(ends.count(), 1, "the task of the planning run ends once, after the execution");
}

#[test]
fn a_crash_anywhere_after_the_plan_leaves_one_execution() {
    let mut whole = World::new(planning(None));
    whole.says(0, text("First dig, then fill."));
    whole.stores_plan(None);
    assert_eq!(whole.run.result().unwrap().plan.as_ref().unwrap().id, "p1");
    for left in 0..=whole.last_batch() {
        let mut world = whole.clone();
        world.crashes(left);
        world.op(Op::Resume);
        if world.run.result().is_none() {
            world.stores_plan(None);
        }
        assert_eq!(executions(&world), 1, "{left} facts left\n{}", world.story());
    }
}

#[test]
fn cancelling_a_planning_run_cancels_the_run_that_executes_its_plan() {
    let mut world = World::new(planning(None));
    world.op(Op::Cancel { task: "r1".into() });
    assert_eq!((world.run.is_over(), executions(&world)), (true, 0), "a cancelled plan is not carried out");
    let mut world = World::new(planning(None));
    world.says(0, text("First dig, then fill."));
    world.stores_plan(None);
    world.op(Op::Cancel { task: "r1".into() });
    assert_eq!(world.subagents[&"r1.execution".into()].result().unwrap().status, RunStatus::Cancelled);
    assert!(world.run.is_over());
}
