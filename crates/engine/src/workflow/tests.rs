//! Tests of the workflow's decider in a simulated environment.

use super::*;
use crate::coordination::Coordination;
use crate::coordination::tests::harness::{answer, spec as run_spec};
use althing_protocol::{
    AgentOptions, AttemptOutcome, ExecutionMode, Item, Millis, Modes, OnInterrupt, Op, Origin, Phase,
    RunRules, Seq, StageBody, StageSpec, StageTask, TaskSpec, TaskStatus, Timer, Timestamp, TurnProgress,
    Usage,
};
use fastrand::Rng;
use std::collections::BTreeMap;

mod retrying;

fn program(prompt: &str) -> ProgramSpec {
    ProgramSpec {
        adapter: "command".into(),
        command: vec!["true".into()],
        mode: ExecutionMode::Headless,
        prompt: prompt.into(),
        cwd: "/".into(),
        env: BTreeMap::new(),
        model: None,
        on_interrupt: None,
        sandbox: None,
        idle_timeout: None,
        approvals: false,
        agent: None,
        options: AgentOptions::default(),
    }
}

fn task(id: &str, program: ProgramSpec) -> StageTask {
    let body = StageBody::Program(Box::new(program));
    StageTask { id: id.into(), body, timeout: None, continue_on_failure: false }
}

fn workflow(stages: Vec<Vec<StageTask>>) -> WorkflowSpec {
    let stages =
        stages.into_iter().enumerate().map(|(n, tasks)| StageSpec { name: format!("stage {n}"), tasks });
    WorkflowSpec {
        name: "release".into(),
        goal: "Ship 2.0".into(),
        stages: stages.collect(),
        adapters: Vec::new(),
        source: "w.yaml".into(),
        digest: String::new(),
        cost_micro_usd: None,
    }
}

#[derive(Clone)]
struct World {
    flow: WorkflowExecutor,
    runs: BTreeMap<TaskId, Coordination>,
    log: Vec<Event>,
    batch: usize,
}

impl World {
    fn new(spec: WorkflowSpec) -> Self {
        let flow = WorkflowExecutor::new(TaskId::workflow(), spec.clone());
        let mut world = Self { flow, runs: BTreeMap::new(), log: Vec::new(), batch: 0 };
        let id = TaskId::workflow();
        let spec = TaskSpec::Workflow(Box::new(spec));
        world.happens(Some(id.clone()), Fact::TaskCreated { id, parent: None, spec });
        world
    }

    fn folded(spec: &WorkflowSpec, log: &[Event]) -> Self {
        let flow = WorkflowExecutor::new(TaskId::workflow(), spec.clone());
        let mut world = Self { flow, runs: BTreeMap::new(), log: Vec::new(), batch: 0 };
        for event in log {
            world.fold(event.clone());
        }
        world
    }

    fn fold(&mut self, event: Event) {
        if let Fact::TaskCreated { id, spec: TaskSpec::Run(spec), .. } = &event.fact {
            let run = Coordination::new("s1".into(), id.clone(), (**spec).clone(), "/logs".into());
            self.runs.insert(id.clone(), run);
        }
        self.flow.apply(&event);
        for run in self.runs.values_mut() {
            run.apply(&event);
        }
        self.log.push(event);
    }

    fn record(&mut self, task: Option<TaskId>, fact: Fact) {
        if let (Fact::StatusChanged { status, .. }, Some(task)) = (&fact, &task)
            && let Some(state) = self.flow.session.tasks.get(task)
        {
            assert!(state.status.can_become(*status), "{task}: {:?} to {status:?}", state.status);
        }
        let seq = Seq(self.log.len() as u64 + 1);
        self.fold(Event { seq, at: Timestamp(seq.0 * 10), task, cause: None, fact });
    }

    fn happens(&mut self, task: Option<TaskId>, fact: Fact) {
        self.batch = self.log.len();
        self.record(task, fact);
        self.settle();
    }

    fn settle(&mut self) {
        for _ in 0..500 {
            let mut facts = self.flow.consequences();
            facts.extend(self.runs.values().flat_map(Coordination::consequences));
            if facts.is_empty() {
                return;
            }
            for (task, fact) in facts {
                self.record(Some(task), fact);
            }
        }
        panic!("the consequences never end: {:#?}", self.log.iter().rev().take(4).collect::<Vec<_>>());
    }

    fn op(&mut self, op: Op) {
        self.happens(None, Fact::accepted(op, Origin::User));
    }

    fn running(&self) -> Vec<String> {
        self.flow.wanted().programs.into_iter().map(|key| key.task.to_string()).collect()
    }

    fn exits(&mut self, name: &str, ok: bool, output: &str) {
        let task = TaskId::workflow().stage_task(name);
        let attempt = self.flow.session.tasks[&task].attempts;
        let (exit_code, error) = (Some(i32::from(!ok)), (!ok).then(|| "exit status 1".to_owned()));
        let output = output.to_owned();
        let outcome = AttemptOutcome::Exited { ok, exit_code, signal: None, output, error, hint: None };
        self.happens(
            Some(task),
            Fact::AttemptEnded { attempt, outcome, usage: Usage::default(), call: None },
        );
    }

    fn status(&self, name: &str) -> TaskStatus {
        self.flow.session.tasks[&TaskId::workflow().stage_task(name)].status
    }
}

// spec: core/configurable-stage-based-pipeline/parallel-task-execution
#[test]
fn tasks_of_a_stage_run_together_and_all_end_before_the_next_stage_begins() {
    let mut world = World::new(workflow(vec![
        vec![task("a", program("one")), task("b", program("two"))],
        vec![task("c", program("after {{a.output}} for {{goal}}"))],
    ]));
    assert_eq!(world.running(), ["w1.a", "w1.b"]);
    world.exits("a", true, "found 3");
    assert_eq!(world.running(), ["w1.b"], "the next stage waits");
    world.exits("b", true, "");
    assert_eq!(world.running(), ["w1.c"]);
    let key = world.flow.wanted().programs.remove(0);
    assert_eq!(world.flow.program(&key).unwrap().0.prompt, "after found 3 for Ship 2.0");
    world.exits("c", true, "done");
    assert!(world.flow.is_over());
    assert_eq!(world.flow.report().status, TaskStatus::Done);
}

#[test]
fn a_failed_task_lets_its_stage_end_and_no_further_stage_begin() {
    let mut world = World::new(workflow(vec![
        vec![task("a", program("")), task("b", program(""))],
        vec![task("c", program(""))],
    ]));
    world.exits("a", false, "");
    assert_eq!(world.running(), ["w1.b"]);
    world.exits("b", true, "");
    let report = world.flow.report();
    assert_eq!(report.status, TaskStatus::Failed);
    assert_eq!(report.error.as_deref(), Some("task a: exit status 1"));
    assert_eq!(report.stages[1].tasks[0].status, TaskStatus::Pending);
}

#[test]
fn a_failure_with_continue_on_failure_does_not_stop_the_stages_but_fails_the_workflow() {
    let overlooked = StageTask { continue_on_failure: true, ..task("a", program("")) };
    let mut world = World::new(workflow(vec![vec![overlooked], vec![task("c", program(""))]]));
    world.exits("a", false, "");
    assert_eq!(world.running(), ["w1.c"]);
    world.exits("c", true, "");
    assert_eq!(world.flow.report().status, TaskStatus::Failed, "the exit status tells the truth");
}

#[test]
fn after_a_crash_finished_tasks_stay_finished_and_the_others_resume_their_conversations() {
    let spec = workflow(vec![vec![task("a", program("")), task("b", program(""))]]);
    let mut world = World::new(spec.clone());
    let b = TaskId::workflow().stage_task("b");
    let item = Item::Conversation { id: "native-7".into() };
    world.happens(Some(b), Fact::ItemAdded { attempt: 1, item });
    world.exits("a", true, "");
    let mut world = World::folded(&spec, &world.log);
    world.op(Op::Resume);
    let wanted = world.flow.wanted().programs;
    assert_eq!(wanted.len(), 1, "a is not run again");
    assert_eq!(wanted[0].attempt, 2);
    let resumed = world.flow.program(&wanted[0]).unwrap().1.unwrap();
    assert_eq!((resumed.id.as_str(), resumed.turn), ("native-7", TurnProgress::NotBegun));
}

#[test]
fn a_resumed_conversation_knows_how_far_its_turn_had_come() {
    let spec = ProgramSpec { mode: ExecutionMode::Interactive, command: Vec::new(), ..program("do it") };
    let flow = workflow(vec![vec![task("a", spec)]]);
    let mut world = World::new(flow.clone());
    let a = TaskId::workflow().stage_task("a");
    let key = world.flow.wanted().programs.remove(0);
    // How far the turn had come, as a resume from the log at this point sees it; None if the conversation would not be
    // resumed.
    let turn = |world: &World| {
        let mut world = World::folded(&flow, &world.log);
        world.op(Op::Resume);
        let key = world.flow.wanted().programs.remove(0);
        world.flow.program(&key).unwrap().1.map(|resumed| resumed.turn)
    };
    let add = |world: &mut World, item| world.happens(Some(a.clone()), Fact::ItemAdded { attempt: 1, item });
    add(&mut world, Item::Conversation { id: "native".into() });
    assert_eq!(turn(&world), None, "without its prompt, the conversation has not begun");
    add(&mut world, Item::PromptSent { text: "do it".into(), error: None });
    assert_eq!(turn(&world), Some(TurnProgress::Begun));
    let about = althing_protocol::AskKind::YourTurn;
    let ask = Ask { about, text: "Your turn".into(), options: Vec::new(), native: None };
    for (task, fact) in world.flow.question_asked(&key, ask) {
        world.happens(Some(task), fact);
    }
    assert_eq!(world.status("a"), TaskStatus::WaitingForUser);
    assert_eq!(turn(&world), Some(TurnProgress::Finished), "an interruption does not begin a turn");
    for (task, fact) in world.flow.moved_on(&key) {
        world.happens(Some(task), fact);
    }
    assert_eq!(world.status("a"), TaskStatus::Running, "a finished turn ends nothing");
    assert_eq!(turn(&world), Some(TurnProgress::Begun), "a person began the next turn");
}

#[test]
fn an_interrupted_task_follows_on_interrupt() {
    let with = |policy| workflow(vec![vec![task("a", ProgramSpec { on_interrupt: policy, ..program("") })]]);
    let cut = |policy| {
        let mut world = World::new(with(policy));
        let task = Some(TaskId::workflow().stage_task("a"));
        world.happens(task, Fact::ItemAdded { attempt: 1, item: Item::Conversation { id: "native".into() } });
        world.op(Op::Resume);
        world
    };
    let restarted = cut(Some(OnInterrupt::Restart));
    let key = restarted.flow.wanted().programs.remove(0);
    assert_eq!(restarted.flow.program(&key).unwrap().1, None, "from the beginning");
    assert_eq!(cut(Some(OnInterrupt::Fail)).flow.report().status, TaskStatus::Failed);

    let mut asked = cut(Some(OnInterrupt::Ask));
    assert_eq!(asked.status("a"), TaskStatus::WaitingForUser);
    assert_eq!(asked.running(), [""; 0]);
    let id = InteractionId::from("w1.a.i1");
    let yes = Decision::Approve { digest: None, edited: None, instructions: None };
    let (facts, _) = asked.flow.answer(&id, &yes).unwrap();
    for (task, fact) in facts {
        asked.happens(Some(task), fact);
    }
    assert_eq!(asked.running(), ["w1.a"]);
    let mut asked = cut(Some(OnInterrupt::Ask));
    for (task, fact) in asked.flow.answer(&id, &Decision::Reject { reason: None }).unwrap().0 {
        asked.happens(Some(task), fact);
    }
    assert_eq!(asked.flow.report().status, TaskStatus::Failed);
}

#[test]
fn a_program_that_asks_waits_until_it_is_answered_or_continues() {
    let mut world = World::new(workflow(vec![vec![task("a", program(""))]]));
    let key = world.flow.wanted().programs.remove(0);
    let ask = Ask {
        about: althing_protocol::AskKind::Permission,
        text: "run cargo test?".into(),
        options: vec![althing_protocol::AskOption { id: "allow".into(), label: "Allow".into() }],
        native: Some("7".into()),
    };
    for (task, fact) in world.flow.question_asked(&key, ask.clone()) {
        world.happens(Some(task), fact);
    }
    assert_eq!(world.status("a"), TaskStatus::WaitingForUser);
    assert_eq!(world.flow.question_asked(&key, ask.clone()), [], "told once");
    let id = InteractionId::from("w1.a.i1");
    assert!(world.flow.answer(&id, &Decision::Choose { option: "no such".into() }).is_err());
    let (facts, told) = world.flow.answer(&id, &Decision::Choose { option: "allow".into() }).unwrap();
    assert_eq!(
        told,
        Some(ProgramAnswer {
            task: TaskId::workflow().stage_task("a"),
            native: "7".into(),
            option: "allow".into()
        })
    );
    for (task, fact) in facts {
        world.happens(Some(task), fact);
    }
    assert_eq!(world.status("a"), TaskStatus::Running);
    for (task, fact) in world.flow.question_asked(&key, ask) {
        world.happens(Some(task), fact);
    }
    for (task, fact) in world.flow.moved_on(&key) {
        world.happens(Some(task), fact);
    }
    assert_eq!(world.status("a"), TaskStatus::Running);
    world.exits("a", true, "");
    assert_eq!(world.flow.report().status, TaskStatus::Done);
}

#[test]
fn a_task_that_takes_too_long_has_failed() {
    let limited = StageTask { timeout: Some(Millis(500)), ..task("a", program("")) };
    let mut world = World::new(workflow(vec![vec![limited]]));
    let (timer, after) = world.flow.wanted().timers.remove(0);
    assert_eq!(after, Millis(500));
    world.happens(Some(TaskId::workflow().stage_task("a")), Fact::TimerFired(timer));
    assert_eq!(world.running(), [""; 0], "it is stopped");
    assert_eq!(world.flow.report().error.as_deref(), Some("task a: its time limit passed"));
}

#[test]
fn a_run_is_a_task_like_any_other_and_its_answer_goes_into_the_next_stage() {
    let run = run_spec(&["solo"], RunRules { skip_voting: true, ..RunRules::default() });
    let run = althing_protocol::RunSpec { task: "Sum {{a.output}}".into(), modes: Modes::default(), ..run };
    let team = StageTask { body: StageBody::Run(Box::new(run)), ..task("team", program("")) };
    let mut world = World::new(workflow(vec![
        vec![task("a", program(""))],
        vec![team],
        vec![task("z", program("use {{team.output}}"))],
    ]));
    world.exits("a", true, "1 and 2");
    let id = TaskId::workflow().stage_task("team");
    let task = &world.runs[&id].spec().task;
    assert!(
        task.starts_with("Sum \n<output of a ") && task.contains(">\n1 and 2\n<end of output of a "),
        "{task}"
    );
    let reply = Item::Reply(answer("3"));
    world.happens(Some(id.work(1)), Fact::ItemAdded { attempt: 1, item: reply });
    if world.running().is_empty() {
        let presented = Item::Reply(althing_protocol::Reply { text: "3".into(), ..Default::default() });
        world.happens(Some(id.work(1)), Fact::ItemAdded { attempt: 2, item: presented });
    }
    let key = world.flow.wanted().programs.remove(0);
    assert_eq!(world.flow.program(&key).unwrap().0.prompt, "use 3");
}

fn step(world: &mut World, rng: &mut Rng, spec: &WorkflowSpec) {
    let wanted = world.flow.wanted();
    let pick = |rng: &mut Rng, len: usize| rng.usize(0..len.max(1));
    match rng.u32(0..16) {
        0 => {
            // A crash during the write of the last batch: its first event survives, and any number of the next ones.
            let left = world.log.len() - pick(rng, world.log.len() - world.batch);
            *world = World::folded(spec, &world.log[..left.max(1)]);
            world.op(Op::Resume);
        }
        1 if rng.u32(0..8) == 0 => world.op(Op::Cancel { task: TaskId::workflow() }),
        2 if rng.u32(0..4) == 0 && !wanted.programs.is_empty() => {
            let task = wanted.programs[pick(rng, wanted.programs.len())].task.clone();
            world.op(Op::Cancel { task });
        }
        3 if !wanted.timers.is_empty() => {
            let (timer, _) = wanted.timers[pick(rng, wanted.timers.len())].clone();
            if let Timer::Task { task, .. } = &timer {
                world.happens(Some(task.clone()), Fact::TimerFired(timer));
            }
        }
        4 | 5 if !wanted.programs.is_empty() => {
            let key = wanted.programs[pick(rng, wanted.programs.len())].clone();
            let about = althing_protocol::AskKind::Question;
            let ask = Ask { about, text: "well?".into(), options: Vec::new(), native: None };
            let facts = if rng.u32(0..2) == 0 {
                world.flow.question_asked(&key, ask)
            } else {
                world.flow.moved_on(&key)
            };
            for (task, fact) in facts {
                world.happens(Some(task), fact);
            }
        }
        _ => {
            let open = world.flow.session.tasks.values().find_map(|state| {
                state.question.as_ref().filter(|open| open.kind == InteractionKind::Interrupted).cloned()
            });
            if let Some(open) = open {
                let yes = Decision::Approve { digest: None, edited: None, instructions: None };
                let no = Decision::Reject { reason: None };
                let decision = if rng.u32(0..3) == 0 { no } else { yes };
                for (task, fact) in world.flow.answer(&open.id, &decision).unwrap().0 {
                    world.happens(Some(task), fact);
                }
            } else if !wanted.programs.is_empty() {
                let task = wanted.programs[pick(rng, wanted.programs.len())].task.clone();
                let name = task.as_str().strip_prefix("w1.").unwrap().to_owned();
                let ok = rng.u32(0..5) != 0;
                world.exits(&name, ok, "out");
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "an environment variable sets the size of a test")]
fn histories() -> u64 {
    match std::env::var("ALTHING_TEST_SCALE").as_deref() {
        Ok("nightly") => 200_000,
        _ => 5_000,
    }
}

#[test]
fn random_histories_end_fold_to_the_live_state_and_repeat_nothing_finished() {
    for seed in 0..histories() {
        let mut rng = Rng::with_seed(seed);
        let policies = [None, Some(OnInterrupt::Restart), Some(OnInterrupt::Ask), Some(OnInterrupt::Fail)];
        let stages = (0..=rng.u32(0..3)).map(|stage| {
            let tasks = (0..=rng.u32(0..3)).map(|n| {
                let on_interrupt = policies[rng.usize(0..4)];
                let limited = (rng.u32(0..2) == 0).then_some(Millis(10));
                StageTask {
                    timeout: limited,
                    continue_on_failure: rng.u32(0..2) == 0,
                    ..task(&format!("t{stage}-{n}"), ProgramSpec { on_interrupt, ..program("") })
                }
            });
            tasks.collect()
        });
        let spec = workflow(stages.collect());
        let mut world = World::new(spec.clone());
        for _ in 0..200 {
            if world.flow.is_over() {
                break;
            }
            step(&mut world, &mut rng, &spec);
            assert_eq!(World::folded(&spec, &world.log).flow, world.flow, "seed {seed}");
        }
        assert!(world.flow.is_over(), "seed {seed} does not end: {:#?}", world.flow);
        assert!(
            world.flow.wanted() == crate::WantedEffects::default() && world.flow.consequences().is_empty()
        );
        let mut finished = std::collections::BTreeSet::new();
        for event in &world.log {
            match (&event.fact, &event.task) {
                (Fact::StatusChanged { status, .. }, Some(task)) if status.is_final() => {
                    assert!(finished.insert(task.clone()), "seed {seed}: {task} ended twice");
                }
                (Fact::AttemptStarted { .. }, Some(task)) => {
                    assert!(!finished.contains(task), "seed {seed}: {task} was begun again");
                }
                _ => {}
            }
        }
        // The index of the current stage never decreases.
        let stages = world.log.iter().filter_map(|event| match &event.fact {
            Fact::PhaseChanged { phase: Phase::Stage(stage) } => Some(*stage),
            _ => None,
        });
        let stages: Vec<u32> = stages.collect();
        assert!(stages.is_sorted(), "seed {seed}: {stages:?}");
    }
}
