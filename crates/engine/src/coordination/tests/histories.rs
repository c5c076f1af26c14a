//! Random histories: the invariants of a run hold for arbitrary behavior of models, clock and user.

use super::harness::{World, answer, call, spec, text, vote};
use crate::SideTaskKind;
use althing_protocol::{
    AttemptOutcome, ContextPath, Decision, DecisionRule, DecisionRules, Event, Fact, FinalAnswerStrategy,
    InteractionId, Item, JudgeOrder, Millis, Op, PlanRef, Purpose, Reply, RunLimits, RunRules,
    SubagentsConfig, TaskId, TaskSpec, Timer, ToolCall, Usage, Verdict,
};
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The time limit of the run is reached after this many steps, so that every run ends.
const MAX_STEPS: usize = 120;

fn histories() -> u64 {
    match std::env::var("ALTHING_TEST_SCALE").as_deref() {
        Ok("nightly") => 2_000_000,
        _ => 100_000,
    }
}

fn random_rules(rng: &mut Rng) -> RunRules {
    let cap = |rng: &mut Rng| rng.bool().then(|| rng.u32(1..4));
    let strategies = [
        FinalAnswerStrategy::WinnerReuse,
        FinalAnswerStrategy::WinnerPresent,
        FinalAnswerStrategy::Synthesize,
    ];
    RunRules {
        max_new_answers_per_agent: cap(rng),
        max_new_answers_global: if rng.u8(0..4) == 0 { Some(rng.u32(1..6)) } else { None },
        skip_voting: rng.u8(0..5) == 0,
        disable_injection: rng.u8(0..4) == 0,
        defer_voting_until_all_answered: rng.u8(0..4) == 0,
        final_answer_strategy: rng.choice(strategies).filter(|_| rng.bool()),
        subagents: (rng.u8(0..8) == 0).then(|| SubagentsConfig {
            max_concurrent: rng.u32(1..4),
            background: rng.u8(0..4) > 0,
            ..SubagentsConfig::default()
        }),
        max_restarts: if rng.u8(0..3) == 0 { rng.u32(1..3) } else { 0 },
        limits: RunLimits {
            initial_round: rng.bool().then_some(Millis(500)),
            answers_per_agent: (rng.u8(0..3) == 0).then(|| rng.u32(1..4)),
            tool_calls_per_agent: (rng.u8(0..3) == 0).then(|| rng.u32(1..6)),
            model_calls: (rng.u8(0..6) == 0).then(|| rng.u32(1..20)),
            ..RunLimits::default()
        },
        decision: random_decision(rng),
        ..RunRules::default()
    }
}

fn random_decision(rng: &mut Rng) -> DecisionRules {
    if rng.u8(0..4) == 0 {
        return DecisionRules::of_0_1();
    }
    DecisionRules {
        rule: if rng.bool() { DecisionRule::Borda } else { DecisionRule::Plurality },
        unanimity: rng.bool(),
        merge_conclusions: rng.bool(),
        judge_order: if rng.bool() { JudgeOrder::Rotated } else { JudgeOrder::Config },
        stop_when_decided: rng.bool(),
        ..DecisionRules::default()
    }
}

const ONE_CALL: Usage = Usage {
    input_tokens: 0,
    output_tokens: 0,
    cached_input_tokens: 0,
    reasoning_tokens: 0,
    cost_usd: 0.0,
    calls: 1,
    unpriced_calls: 0,
};

fn call_restart(arguments: &str) -> ToolCall {
    call("restart_orchestration", arguments)
}

fn random_spawn(rng: &mut Rng) -> Reply {
    let task = |rng: &mut Rng| serde_json::json!({"task": format!("part {}", rng.u8(..)), "team": rng.u8(0..4) == 0});
    let spawn = |rng: &mut Rng| {
        let tasks: Vec<_> = (0..rng.usize(1..4)).map(|_| task(rng)).collect();
        let arguments = serde_json::json!({"tasks": tasks, "background": rng.bool()});
        ToolCall { id: format!("spawn-{}", rng.u8(0..3)), ..call("spawn_subagents", &arguments.to_string()) }
    };
    let tool_calls = match rng.u8(0..6) {
        0 => vec![call("wait_for_subagents", "{}")],
        1 => vec![spawn(rng), call("read_file", "{}")],
        2 => vec![spawn(rng), call("wait_for_subagents", "{}")],
        3 => vec![call("spawn_subagents", "{\"tasks\": []}")],
        _ => vec![spawn(rng)],
    };
    Reply { tool_calls, ..Reply::default() }
}

fn random_reply(rng: &mut Rng, agents: usize) -> Reply {
    let target = format!("agent{}", rng.usize(1..=agents + 1));
    match rng.u8(0..24) {
        21 => Reply { tool_calls: vec![call("submit", "{}")], ..Reply::default() },
        22 => Reply { tool_calls: vec![call_restart("{}")], ..Reply::default() },
        23 => Reply { tool_calls: vec![call("submit", "{}"), call_restart("{}")], ..Reply::default() },
        0..3 => answer(&format!("answer {}", rng.u16(..))),
        3..6 => {
            let conclusion = rng.choice(["4", "4.0", "5"]).unwrap_or_default();
            let arguments =
                serde_json::json!({"content": format!("answer {}", rng.u16(..)), "conclusion": conclusion});
            Reply { tool_calls: vec![call("new_answer", &arguments.to_string())], ..Reply::default() }
        }
        6 => answer("the same as ever"),
        7..10 => vote(&target),
        10..14 => {
            let mut ranking: Vec<String> = (1..=agents).map(|n| format!("agent{n}")).collect();
            rng.shuffle(&mut ranking);
            ranking.truncate(rng.usize(1..=agents));
            let arguments = serde_json::json!({"ranking": ranking, "reason": "better"});
            Reply { tool_calls: vec![call("vote", &arguments.to_string())], ..Reply::default() }
        }
        14 => text("I would rather just talk."),
        15 => text(""),
        16 => {
            let both = [answer("both").tool_calls, vote(&target).tool_calls].concat();
            Reply { tool_calls: both, ..Reply::default() }
        }
        17 => Reply { tool_calls: vec![call("vote", "not json")], ..Reply::default() },
        18 => Reply {
            tool_calls: vec![call("rm_rf", "{}"), call("new_answer", "{\"content\": 3}")],
            ..Reply::default()
        },
        _ => Reply {
            tool_calls: vec![call("vote", &format!("{{\"agent_id\":\"{target}\"}}")); 2],
            ..Reply::default()
        },
    }
}

fn stored_plan(error: Option<String>) -> Item {
    let plan = error.is_none().then(|| PlanRef { id: "p1".into(), path: "/plans/p1".into() });
    Item::PlanStored { plan, error }
}

fn step(world: &mut World, rng: &mut Rng, agents: usize) {
    let running = world.subagents.values().filter(|run| run.result().is_none());
    let owners: Vec<TaskId> = running.map(|run| run.task.clone()).chain(["r1".into()]).collect();
    let owner = rng.choice(owners).unwrap_or("r1".into());
    let wanted = world.run_of(&owner).wanted();
    // Side tasks end soon, and most of them succeed.
    if let Some(side_task) = rng.choice(wanted.side_tasks.clone()).filter(|_| rng.u8(0..3) > 0) {
        let error = (rng.u8(0..5) == 0).then(|| "the disk said no".to_owned());
        let item = match side_task.kind {
            SideTaskKind::Tool(call) | SideTaskKind::PreviewEdit(call) | SideTaskKind::Edit { call, .. } => {
                Item::ToolResult { call: call.id, content: "done".into(), is_error: error.is_some() }
            }
            SideTaskKind::Snapshot(_) => Item::WorkspaceKept { error },
            SideTaskKind::ImportFiles { subagent, .. } => Item::FilesTaken { from: subagent, error },
            SideTaskKind::OpenContext => Item::ContextOpened { error },
            SideTaskKind::CloseContext => Item::ContextClosed { writes: Vec::new(), error },
            SideTaskKind::StorePlan => stored_plan(error),
            SideTaskKind::OpenPlan => Item::PlanOpened { plan: None, error },
        };
        let work = world.run_of(&owner).work(side_task.member_index);
        world.happens(work, Fact::ItemAdded { attempt: side_task.attempt, item });
        return;
    }
    match rng.u8(0..40) {
        0 => world.op(Op::Cancel { task: "r1".into() }),
        1 => {
            world.op(Op::Shutdown);
            world.op(Op::Resume);
        }
        2 => {
            // A crash: only the log survives, possibly without the end of the last batch.
            let left = rng.usize(0..=world.last_batch());
            world.crashes(left);
            world.op(Op::Resume);
        }
        3..7 => {
            let silent = wanted.silence_timer.into_iter().map(|silence| silence.timer);
            let timers = wanted.timers.into_iter().map(|(timer, _)| timer).chain(silent);
            // The run's time limit is reached only rarely, because that ends the history.
            let rare = rng.u8(0..10) == 0;
            let likely: Vec<Timer> = timers.filter(|timer| rare || *timer != Timer::Orchestrator).collect();
            if let Some(timer) = rng.choice(likely) {
                world.happens(owner, Fact::TimerFired(timer));
            }
        }
        7..9 => {
            let nth = rng.choice(["", "1", "2"]).unwrap_or_default();
            let id = InteractionId::new(format!("r1.override{nth}"));
            let agent = format!("a{}", rng.usize(0..=agents));
            let decision = if rng.bool() {
                Decision::Continue
            } else {
                Decision::Presenter { agent: agent.as_str().into() }
            };
            if let Ok(facts) = world.run.answer_override(&id, &decision) {
                for (task, fact) in facts {
                    world.happens(task, fact);
                }
            }
        }
        9 => {
            if let Some(call) = rng.choice(wanted.calls) {
                let outcome = AttemptOutcome::Failed { error: "HTTP 500".into(), hint: None, kind: None };
                let ended =
                    Fact::AttemptEnded { attempt: call.attempt, outcome, usage: ONE_CALL, call: None };
                world.happens(world.run_of(&owner).work(call.member_index), ended);
            }
        }
        _ => {
            if let Some(call) = rng.choice(wanted.calls) {
                let run = world.run_of(&owner);
                let mut reply = random_reply(rng, agents);
                if owner.as_str() == "r1" && world.is_judged_by(call.member_index) && rng.bool() {
                    let words = r#"{"reason": "thin", "instructions": "more"}"#;
                    reply = Reply { tool_calls: vec![call_restart(words)], ..Reply::default() };
                } else if run.spec().rules.subagents.is_some() && rng.u8(0..3) == 0 {
                    reply = random_spawn(rng);
                }
                reply.usage = ONE_CALL;
                let item = Item::Reply(reply);
                world.happens(run.work(call.member_index), Fact::ItemAdded { attempt: call.attempt, item });
            }
        }
    }
}

fn play(seed: u64) -> World {
    let mut rng = Rng::with_seed(seed);
    let agents = rng.usize(1..=4);
    let ids: Vec<String> = (0..agents).map(|n| format!("a{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut spec = spec(&ids, random_rules(&mut rng));
    spec.tie_break_seed = rng.u64(..);
    for member in &mut spec.members {
        member.has_tools = rng.bool();
    }
    if rng.bool() {
        let path = ContextPath { path: "/project".into(), writable: true, protected: Vec::new() };
        spec.context_paths.push(path);
    }
    spec.modes.planning = rng.u8(0..6) == 0;
    spec.rules.override_window = rng.bool().then_some(Millis(60_000));
    let mut world = World::new(spec);
    for _ in 0..MAX_STEPS {
        if world.run.result().is_some() {
            // Sometimes a crash interrupts the very last batch.
            if rng.u8(0..4) > 0 {
                return world;
            }
            let left = rng.usize(0..=world.last_batch());
            world.crashes(left);
            world.op(Op::Resume);
            continue;
        }
        step(&mut world, &mut rng, agents);
    }
    if world.wants_timer(&Timer::OverrideWindow) {
        world.fires(Timer::OverrideWindow);
    }
    if world.run.result().is_none() {
        world.fires(Timer::Orchestrator);
    }
    while let Some(side_task) = world.run.wanted().side_tasks.pop() {
        let item = match side_task.kind {
            SideTaskKind::StorePlan => stored_plan(None),
            _ => Item::ContextClosed { writes: Vec::new(), error: None },
        };
        world.happens(
            world.run.work(side_task.member_index),
            Fact::ItemAdded { attempt: side_task.attempt, item },
        );
    }
    world
}

#[expect(clippy::too_many_lines, reason = "the invariants are easier to review in one place")]
fn check(seed: u64, world: &World, coverage: &Coverage) {
    let fail = |what: &str| panic!("seed {seed}: {what}\n{}", world.story());
    let (mut winners, mut finished, mut cancelled, mut restarts) = (0, 0, false, 0);
    let may_restart = world.run.spec().rules.max_restarts;
    let mut statuses = BTreeMap::new();
    let mut created = BTreeSet::new();
    let mut ended = HashMap::new();
    let mut stored: Vec<(&str, &str)> = Vec::new();
    let mut subagents = SubagentAudit::default();
    for event in &world.log {
        let over = finished > 0;
        subagents.check_event(event, &fail);
        // Cancellations, answers, votes and verdicts are checked for the main run only.
        let own = |task: &TaskId| !task.as_str().contains(".s");
        match &event.fact {
            Fact::OpAccepted { op: Op::Cancel { task }, .. } if own(task) => cancelled = true,
            Fact::AttemptStarted { .. } if cancelled || over => fail("an attempt begins after the end"),
            Fact::ItemAdded { .. } if over => fail("content after the end"),
            Fact::ItemAdded { item: Item::Answer(_) | Item::Vote(_), .. } | Fact::Decided(_)
                if event.task.as_ref().is_some_and(|task| !own(task)) => {}
            Fact::TaskCreated { id, .. } => {
                assert!(created.insert(id.clone()), "seed {seed}: {id} came into being twice")
            }
            Fact::Decided(Verdict::Winner { .. }) => winners += 1,
            Fact::Decided(Verdict::Finished { .. }) => finished += 1,
            Fact::Decided(Verdict::Restarted { nth, .. }) => {
                restarts += 1;
                if winners != 1 || *nth != restarts || restarts > may_restart {
                    fail("a restart out of turn");
                }
                // The numbering of labels goes on after a restart, so the entries stay. Their text is cleared, because
                // an answer may repeat one from before the restart.
                winners = 0;
                for (_, content) in &mut stored {
                    *content = "";
                }
            }
            Fact::AttemptStarted { purpose: Purpose::Evaluate, .. } if restarts >= may_restart => {
                fail("the final answer is evaluated although the run may not restart any more")
            }
            Fact::StatusChanged { status, .. } => {
                let before = statuses.insert(event.task.clone(), *status);
                if before.is_some_and(|before| !before.can_become(*status)) {
                    fail("an illegal change of status");
                }
            }
            Fact::AttemptEnded { attempt, outcome, .. } => {
                let twice = ended.insert((event.task.clone(), *attempt), outcome).is_some();
                assert!(!twice, "seed {seed}: an attempt ends twice\n{}", world.story());
            }
            Fact::ItemAdded { item: Item::Vote(_), .. } if winners > 0 => fail("a vote after the decision"),
            Fact::ItemAdded { item: Item::Answer(answer), .. } => {
                let mine = stored.iter().filter(|(agent, _)| *agent == answer.agent.as_str()).count() as u32;
                if answer.label.nth != mine + 1 || answer.revision.0 as usize != stored.len() + 1 {
                    fail("a label or revision out of order");
                }
                if stored.contains(&(answer.agent.as_str(), answer.content.as_str())) {
                    fail("an agent's exact duplicate was stored");
                }
                stored.push((answer.agent.as_str(), answer.content.as_str()));
            }
            _ => {}
        }
    }
    coverage.restarts.fetch_add(usize::from(restarts > 0), Ordering::Relaxed);
    coverage.subagents.fetch_add(usize::from(subagents.finished > 0), Ordering::Relaxed);
    if subagents.finished != world.subagents.len() {
        fail("a subagent has not ended exactly once before the run that asked for it");
    }
    if world.run.result().is_some_and(|result| result.usage.calls != subagents.calls) {
        fail("what agents and subagents cost is not what the run says it cost");
    }
    if finished != 1 || winners > 1 {
        fail("a run ends exactly once, with at most one winner");
    }
    if world.run.wanted() != crate::WantedEffects::default() {
        fail("something is still wanted after the end");
    }
    if world.all_folded() != (world.run.clone(), world.subagents.clone()) {
        fail("the log folds to another state than the live one");
    }
    let started = world.log.iter().filter(|event| matches!(event.fact, Fact::AttemptStarted { .. })).count();
    if started != ended.len() {
        fail("an attempt was left open");
    }
    let is_voted = |outcome: &&&AttemptOutcome| matches!(outcome, AttemptOutcome::Voted);
    let voted = ended.values().filter(is_voted).count();
    let (mut ballots, mut overtaken) = (0, BTreeSet::new());
    for event in &world.log {
        match &event.fact {
            Fact::ItemAdded { item: Item::Vote(_), .. } => ballots += 1,
            // After a crash, the record of a vote that does not count any more may be repeated.
            Fact::ItemAdded { attempt, item: Item::StaleVote(_) } => {
                let key = (event.task.clone(), *attempt);
                let ends = ended.get(&key).is_some_and(|outcome| is_voted(&outcome));
                overtaken.extend(ends.then_some(key));
            }
            _ => {}
        }
    }
    if voted != ballots + overtaken.len() {
        fail("each counted or overtaken vote ends one attempt");
    }
}

#[derive(Default)]
struct Coverage {
    restarts: AtomicUsize,
    subagents: AtomicUsize,
}

#[derive(Default)]
struct SubagentAudit {
    asked: BTreeSet<(TaskId, u32, usize, String, u32)>,
    running: BTreeSet<TaskId>,
    finished: usize,
    calls: u64,
}

impl SubagentAudit {
    fn check_event(&mut self, event: &Event, fail: &dyn Fn(&str)) {
        match (&event.fact, &event.task) {
            (Fact::TaskCreated { id, spec: TaskSpec::Run(spec), .. }, _) => {
                let Some(of) = &spec.subagent_of else { return };
                let key = (of.work.clone(), of.attempt, of.step, of.call.clone(), of.nth);
                if !self.asked.insert(key) || spec.rules.subagents.is_some() || spec.may_write() {
                    fail("a subagent twice, or with more rights than it may have");
                }
                self.running.insert(id.clone());
            }
            (Fact::Decided(Verdict::Finished { .. }), Some(task)) => {
                self.finished += usize::from(self.running.remove(task));
            }
            (Fact::ItemAdded { item: Item::Reply(reply), .. }, _) => self.calls += reply.usage.calls,
            (Fact::AttemptEnded { usage, outcome, .. }, _) if outcome.has_own_usage() => {
                self.calls += usage.calls;
            }
            _ => {}
        }
    }
}

#[test]
fn every_history_ends_once_with_one_winner_and_folds_to_the_live_state() {
    let seeds = histories();
    let coverage = Coverage::default();
    std::thread::scope(|scope| {
        for half in 0..2 {
            let coverage = &coverage;
            scope.spawn(move || {
                for seed in (half..seeds).step_by(2) {
                    check(seed, &play(seed), coverage);
                }
            });
        }
    });
    for (what, count) in [("start over", coverage.restarts), ("have subagents", coverage.subagents)] {
        let count = count.into_inner() as u64;
        assert!(count > seeds / 100, "{count} histories {what}: too few to mean anything");
    }
}

#[test]
fn the_same_seed_always_yields_the_same_log() {
    for seed in 0..50 {
        assert_eq!(play(seed).story(), play(seed).story());
    }
}
