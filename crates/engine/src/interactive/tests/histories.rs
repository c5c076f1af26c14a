//! Random histories: the invariants of a conversation hold for arbitrary behavior of model, runs, user and disk.

use super::harness::{World, agent, chat, launches, preview, result, team};
use crate::coordination::tests::harness::call;
use crate::{SideTaskKind, WantedEffects};
use althing_protocol::{
    ALWAYS_IN_PROJECT, AgentMode, ChatSpec, ChatState, Decision, Event, Fact, InteractionId, InteractionKind,
    Item, LaunchRun, Message, ModeChoice, Op, Phase, PlanRef, Reply, RunEnd, RunSpec, RunStatus, Seq, TaskId,
    TaskSpec, Usage, Verdict,
};
use fastrand::Rng;
use serde_json::json;
use std::collections::BTreeSet;

const STEPS: usize = 24;

fn histories() -> u64 {
    match std::env::var("ALTHING_TEST_SCALE").as_deref() {
        Ok("nightly") => 2_000_000,
        _ => 20_000,
    }
}

fn random_spec(rng: &mut Rng) -> ChatSpec {
    let mut spec = ChatSpec { team: team(if rng.bool() { &["a"] } else { &["a", "b"] }), ..chat() };
    spec.agent = (rng.u8(0..8) > 0).then(|| {
        let mut agent = agent();
        agent.require_approval = rng.u8(0..3) > 0;
        agent.budget_micro_usd = (rng.u8(0..4) == 0).then_some(600_000);
        agent.compaction.threshold_tokens = rng.choice([1, 3_000, 100_000]).unwrap();
        agent.compaction.preserve_recent = rng.u32(0..3);
        agent
    });
    spec
}

fn random_reply(rng: &mut Rng) -> Reply {
    let usage = Usage { cost_usd: 0.02, calls: 1, input_tokens: rng.u64(0..9), ..Usage::default() };
    let reply = match rng.u8(0..15) {
        0..5 => Reply { text: "Here is what I think.".into(), ..Reply::default() },
        5..8 => launches(json!({"task": "build it"})),
        8 => launches(json!({"task": "plan it", "planning_mode": true, "execute_after_planning": true})),
        9 => launches(json!({"tsk": "?"})),
        10 => Reply { tool_calls: vec![call("launch_run", "no json")], ..Reply::default() },
        11 => {
            let mut both = launches(json!({"task": "one"})).tool_calls;
            both.push(call("read_file", "{}"));
            let mut second = call("launch_run", "{\"task\":\"two\"}");
            second.id = "second".into();
            both.push(second);
            Reply { tool_calls: both, text: "And so on.".into(), ..Reply::default() }
        }
        12 => {
            Reply { tool_calls: vec![call("read_file", "{}"), call("new_answer", "{}")], ..Reply::default() }
        }
        13 => {
            let mut second = call("write_file", "{}");
            second.id = "second write".into();
            let tool_calls = vec![call("write_file", "{}"), call("read_file", "{}"), second];
            Reply { tool_calls, ..Reply::default() }
        }
        _ => Reply::default(),
    };
    Reply { usage, native: rng.bool().then(|| "conversation".into()), ..reply }
}

fn random_modes(rng: &mut Rng) -> ModeChoice {
    if rng.bool() {
        return ModeChoice::default();
    }
    ModeChoice {
        agent_mode: rng.choice([None, Some(AgentMode::Single), Some(AgentMode::Multi)]).flatten(),
        agent: rng.choice([None, Some("a".into()), Some("nobody".into())]).flatten(),
        refinement: rng.choice([None, Some(true), Some(false)]).flatten(),
        planning: rng.choice([None, None, Some(false), Some(true)]).flatten(),
    }
}

fn random_decision(rng: &mut Rng, world: &World) -> Decision {
    let digest = match world.open().map(|open| open.kind) {
        Some(InteractionKind::RunApproval { proposal }) => Some(proposal.digest),
        _ => None,
    };
    match rng.u8(0..8) {
        0 => Decision::Reject { reason: None },
        1 => Decision::Change { text: "smaller".into() },
        2 => Decision::Approve { digest: Some("forged".into()), edited: None, instructions: None },
        3 => rng.choice([Decision::Continue, always()]).unwrap(),
        4 => {
            let edited = LaunchRun { task: "edited".into(), ..LaunchRun::default() };
            Decision::Approve { digest, edited: Some(Box::new(edited)), instructions: None }
        }
        _ => Decision::Approve { digest, edited: None, instructions: None },
    }
}

fn always() -> Decision {
    Decision::Choose { option: ALWAYS_IN_PROJECT.into() }
}

/// Checks that the user allowed a change of files, if the user had to be asked.
fn check_permission(world: &World, call: &str) {
    let (mut asks, mut allowed, mut all_allowed) = (false, false, false);
    for event in &world.log {
        match &event.fact {
            Fact::ItemAdded { item: Item::EditProposed { call: id, preview }, .. } if id == call => {
                (asks, allowed) = (preview.ask, all_allowed);
            }
            Fact::InteractionClosed { id, decision } if id.as_str().contains("edit") => {
                all_allowed |= *decision == always();
                allowed = all_allowed || matches!(decision, Decision::Approve { .. });
            }
            Fact::OpAccepted { op: Op::Resume, .. } => all_allowed = false,
            _ => {}
        }
    }
    assert!(!asks || allowed, "a change that nobody allowed\n{}", world.story());
}

/// How a side task ends.
fn outcome_of(world: &World, kind: SideTaskKind, (content, is_error, ask): (String, bool, bool)) -> Item {
    match kind {
        SideTaskKind::Tool(call) => {
            assert!(!["launch_run", "write_file"].contains(&call.name.as_str()));
            Item::ToolResult { call: call.id, content, is_error }
        }
        SideTaskKind::PreviewEdit(call) if is_error => Item::ToolResult { call: call.id, content, is_error },
        SideTaskKind::PreviewEdit(call) => Item::EditProposed { call: call.id, preview: preview(ask) },
        SideTaskKind::Edit { call, digest } => {
            assert_eq!(digest, preview(ask).digest);
            check_permission(world, &call.id);
            Item::ToolResult { call: call.id, content, is_error }
        }
        other => panic!("{other:?}"),
    }
}

fn step(world: &mut World, rng: &mut Rng) {
    match rng.u8(0..30) {
        0..6 => {
            let modes = random_modes(rng);
            world.op(Op::SendMessage { text: format!("message {}", rng.u16(..)), modes, grants: Vec::new() });
        }
        6 => {
            let newest = Seq(world.log.len() as u64);
            world.op(Op::Unqueue { message: newest });
        }
        7 => {
            world.op(rng.choice([Op::Pin { message: None }, Op::Compact]).unwrap());
        }
        8 => {
            let modes = random_modes(rng);
            world.op(Op::SetModes { modes });
        }
        9 => {
            let run = world.chat.current_run().cloned();
            world.op(Op::Cancel { task: run.filter(|_| rng.bool()).unwrap_or(TaskId::chat()) });
        }
        10 => {
            world.op(Op::Shutdown);
            assert_eq!(world.chat.wanted(), WantedEffects::default());
            world.op(Op::Resume);
        }
        11 | 12 => {
            let left = rng.usize(0..=world.last_batch());
            let decision = random_decision(rng, world);
            let quick = rng.bool();
            // Sometimes the user's answer, or the end of the run, is recorded right after the session is resumed,
            // before the decider is asked what follows.
            world.crashes_and(left, |world| {
                if let Some(open) = world.open().filter(|_| quick) {
                    return world.chat.answer(&open.id, &decision).unwrap_or_default();
                }
                // The current run may already have ended, with its follow-up run still to start; it must not end twice.
                let has_ended = |run: &TaskId| {
                    let finished = |fact: &Fact| matches!(fact, Fact::Decided(Verdict::Finished { .. }));
                    world.log.iter().any(|event| event.task.as_ref() == Some(run) && finished(&event.fact))
                };
                let run = world.chat.current_run().cloned().filter(|run| quick && !has_ended(run));
                run.into_iter()
                    .map(|run| {
                        let result = Box::new(result(&run, world.run_spec(&run), RunStatus::Partial));
                        (run, Fact::Decided(Verdict::Finished { end: RunEnd::Limit, result }))
                    })
                    .collect()
            });
        }
        13..17 if world.open().is_some() => {
            let decision = random_decision(rng, world);
            let _ = world.decides(decision);
        }
        17 if !world.chat.wanted().calls.is_empty() => world.fails(),
        18..23 if world.chat.current_run().is_some() => {
            let statuses =
                [RunStatus::Completed, RunStatus::Completed, RunStatus::Partial, RunStatus::Failed];
            let status = rng.choice(statuses).unwrap();
            let cancelled = world.log.iter().rev().any(|event| match &event.fact {
                Fact::OpAccepted { op: Op::Cancel { task }, .. } => Some(task) == world.chat.current_run(),
                _ => false,
            });
            let run = world.chat.current_run().cloned().unwrap();
            let mut result = result(&run, world.run_spec(&run), status);
            if cancelled {
                (result.status, result.follow_up) = (RunStatus::Cancelled, None);
            } else if result.modes.planning && rng.bool() {
                result.final_answer = Some("{\"tasks\": [{\"id\": \"a\", \"description\": \"Dig\"}]}".into());
                result.plan = Some(PlanRef { id: "p1".into(), path: "/plans/p1".into() });
            }
            world.run_ends_with(result);
        }
        _ => act(world, rng),
    }
}

fn act(world: &mut World, rng: &mut Rng) {
    let wanted = world.chat.wanted();
    assert!(wanted.calls.len() <= 1 && (wanted.calls.is_empty() || wanted.side_tasks.is_empty()));
    if let Some(side_task) = rng.choice(wanted.side_tasks) {
        let content = "done ".repeat(rng.choice([1, 1, 400, 1500]).unwrap());
        let item = outcome_of(world, side_task.kind, (content, rng.bool(), rng.bool()));
        world.happens(TaskId::chat(), Fact::ItemAdded { attempt: side_task.attempt, item });
    } else if !wanted.calls.is_empty() {
        if rng.u8(0..4) == 0 {
            check_request(world);
        }
        check_size(world);
        world.says(random_reply(rng));
    }
}

fn check_request(world: &World) {
    let request = world.request();
    let mut open: Vec<String> = Vec::new();
    for message in &request.messages {
        match message {
            Message::Tool { call, .. } => {
                let at = open.iter().position(|id| id == call);
                open.remove(at.unwrap_or_else(|| panic!("a result without a call\n{}", world.story())));
            }
            Message::User(_) => assert!(open.is_empty(), "a call without a result\n{}", world.story()),
            Message::Assistant { tool_calls, .. } => {
                assert!(open.is_empty(), "a call without a result\n{}", world.story());
                open.extend(tool_calls.iter().map(|call| call.id.clone()));
            }
        }
    }
    assert!(open.is_empty(), "a call without a result\n{}", world.story());
    let offered: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(offered.is_empty() || offered == ["launch_run"]);
}

/// A conversation that is too long must be compacted before it is sent. Not checked if nothing is left to replace, or
/// if the log contains a failed summary, `Op::Compact` or `Op::Resume`.
fn check_size(world: &World) {
    let Some(agent) = world.chat.spec().agent.as_ref().filter(|_| world.chat.is_conversing()) else { return };
    let threshold = agent.compaction.threshold_tokens;
    let cut = world.chat.cut();
    let may_remain = (cut.turns, cut.steps) == (0, 0)
        || world.log.iter().any(|event| {
            let notice = matches!(&event.fact, Fact::Notice(notice) if notice.text.contains("summarized"));
            let stopped = matches!(&event.fact, Fact::OpAccepted { op: Op::Compact | Op::Resume, .. });
            notice || stopped
        });
    let size = world.chat.token_count();
    assert!(size <= threshold || may_remain, "{size} tokens are sent\n{}", world.story());
}

fn finish(world: &mut World) {
    for _ in 0..400 {
        if let Some(open) = world.open() {
            let refused = world.chat.answer(&open.id, &Decision::Reject { reason: None });
            assert!(refused.is_ok(), "{refused:?}\n{}", world.story());
            world.decides(Decision::Reject { reason: None }).unwrap();
        } else if world.chat.current_run().is_some() {
            world.run_ends(RunStatus::Partial);
        } else if !world.chat.wanted().calls.is_empty() {
            world.answers("That is all.");
        } else if let Some(side_task) = world.chat.wanted().side_tasks.pop() {
            let item = outcome_of(world, side_task.kind, ("done".into(), false, true));
            world.happens(TaskId::chat(), Fact::ItemAdded { attempt: side_task.attempt, item });
        } else {
            return;
        }
    }
    panic!("the conversation does not come to an end\n{}", world.story());
}

fn play(seed: u64) -> World {
    let mut rng = Rng::with_seed(seed);
    let mut world = World::new(random_spec(&mut rng));
    for _ in 0..rng.usize(6..=STEPS) {
        step(&mut world, &mut rng);
    }
    finish(&mut world);
    world
}

/// The transitions of the specification, written down independently of the product. A canceled approval leads to `IDLE`
/// through `CHATTING` only.
const ARROWS: [(&str, &str); 18] = [
    ("IDLE", "CHATTING"),
    ("CHATTING", "IDLE"),
    ("CHATTING", "AWAITING_APPROVAL"),
    ("CHATTING", "RUNNING"),
    ("AWAITING_APPROVAL", "CHATTING"),
    ("AWAITING_APPROVAL", "RUNNING"),
    ("RUNNING", "PROCESSING_RESULTS"),
    ("RUNNING", "PROCESSING_PARTIAL"),
    ("RUNNING", "PROCESSING_CANCELLED"),
    ("PROCESSING_RESULTS", "IDLE"),
    ("PROCESSING_RESULTS", "AWAITING_APPROVAL"),
    ("PROCESSING_RESULTS", "RUNNING"),
    ("PROCESSING_PARTIAL", "IDLE"),
    ("PROCESSING_PARTIAL", "AWAITING_APPROVAL"),
    ("PROCESSING_PARTIAL", "RUNNING"),
    ("PROCESSING_CANCELLED", "IDLE"),
    ("PROCESSING_CANCELLED", "AWAITING_APPROVAL"),
    ("PROCESSING_CANCELLED", "RUNNING"),
];

fn name(state: ChatState) -> &'static str {
    match state {
        ChatState::Idle => "IDLE",
        ChatState::Chatting => "CHATTING",
        ChatState::AwaitingApproval => "AWAITING_APPROVAL",
        ChatState::Running => "RUNNING",
        ChatState::ProcessingResults => "PROCESSING_RESULTS",
        ChatState::ProcessingPartial => "PROCESSING_PARTIAL",
        ChatState::ProcessingCancelled => "PROCESSING_CANCELLED",
    }
}

#[derive(Default)]
struct LogAudit {
    state: ChatState,
    arrows: BTreeSet<(&'static str, &'static str)>,
    active: Option<TaskId>,
    runs: BTreeSet<TaskId>,
    /// Whether there is an approval that no run has used yet.
    approved: bool,
    plan_awaits_execution: bool,
    question: Option<InteractionId>,
    taken: Vec<Seq>,
    waiting: Vec<Seq>,
    results: BTreeSet<String>,
    started: BTreeSet<u32>,
    ended: BTreeSet<u32>,
}

impl LogAudit {
    fn check_event(&mut self, world: &World, event: &Event) -> Option<&'static str> {
        match &event.fact {
            Fact::OpAccepted { op: Op::SendMessage { .. }, .. } => self.waiting.push(event.seq),
            Fact::OpAccepted { op: Op::Unqueue { message }, .. } => self.waiting.retain(|seq| seq != message),
            Fact::PhaseChanged { phase: Phase::Chat(state) } => return self.enter(*state),
            Fact::TaskCreated { id, spec: TaskSpec::Run(spec), .. } => return self.launch(world, id, spec),
            Fact::Decided(Verdict::Finished { result, .. }) => {
                self.plan_awaits_execution = result.modes.planning
                    && result.status == RunStatus::Completed
                    && result.task == "plan it";
                return (self.active.take() != event.task).then_some("another run ends than is under way");
            }
            Fact::InteractionOpened(interaction) => {
                let before = self.question.replace(interaction.id.clone());
                return before.map(|_| "two questions at once");
            }
            Fact::InteractionClosed { id, decision } => {
                if id.as_str().contains("plan") {
                    self.plan_awaits_execution = matches!(decision, Decision::Approve { .. });
                } else if id.as_str().contains("approval") {
                    self.approved = matches!(decision, Decision::Approve { .. });
                }
                return (self.question.take().as_ref() != Some(id))
                    .then_some("a question closes that is not open");
            }
            Fact::AttemptStarted { attempt, .. } => {
                let fresh = self.started.insert(*attempt) && self.started.len() == self.ended.len() + 1;
                return (!fresh).then_some("an attempt begins twice, or beside another");
            }
            Fact::AttemptEnded { attempt, .. } => {
                return (!self.ended.insert(*attempt)).then_some("an attempt ends twice");
            }
            Fact::ItemAdded { item: Item::Reply(_), .. } => self.results.clear(),
            Fact::ItemAdded { item: Item::ToolResult { call, .. }, .. } => {
                return (!self.results.insert(call.clone())).then_some("a call gets two results");
            }
            _ => {}
        }
        None
    }

    fn enter(&mut self, state: ChatState) -> Option<&'static str> {
        let arrow = (name(self.state), name(state));
        if !ARROWS.contains(&arrow) {
            return Some("a transition that is none");
        }
        self.arrows.insert(arrow);
        if self.state == ChatState::Idle && !self.waiting.is_empty() {
            self.taken.push(self.waiting.remove(0));
        }
        self.state = state;
        None
    }

    fn launch(&mut self, world: &World, id: &TaskId, spec: &RunSpec) -> Option<&'static str> {
        if !self.runs.insert(id.clone()) || self.active.replace(id.clone()).is_some() {
            return Some("a run comes into being twice, or beside another");
        }
        let asks = world.chat.spec().agent.as_ref().is_some_and(|agent| agent.require_approval);
        let direct = world.log.iter().any(|event| {
            matches!(&event.fact, Fact::OpAccepted { op: Op::SendMessage { text, .. }, .. } if *text == spec.task)
        });
        let execution = std::mem::take(&mut self.plan_awaits_execution);
        let approved = direct || execution || std::mem::take(&mut self.approved);
        (asks && !approved).then_some("a run that nobody approved")
    }
}

fn check(seed: u64, world: &World) -> BTreeSet<(&'static str, &'static str)> {
    let fail = |what: &str| panic!("seed {seed}: {what}\n{}", world.story());
    let mut audit = LogAudit::default();
    for event in &world.log {
        if let Some(wrong) = audit.check_event(world, event) {
            fail(wrong);
        }
    }
    let taken_once: BTreeSet<&Seq> = audit.taken.iter().collect();
    if !audit.waiting.is_empty() || taken_once.len() != audit.taken.len() || !audit.taken.is_sorted() {
        fail("a message was lost, or taken up twice, or out of order");
    }
    if audit.state != ChatState::Idle || world.chat.state() != ChatState::Idle {
        fail("it does not come to rest");
    }
    if audit.started != audit.ended {
        fail("an attempt was left open");
    }
    if world.chat.wanted() != WantedEffects::default() {
        fail("the decider still wants an effect although the conversation is idle");
    }
    if world.folded() != world.chat {
        fail("the log folds to another state than the live one");
    }
    audit.arrows
}

// spec: design/state/machine
#[test]
fn every_history_keeps_to_the_state_machine_and_launches_no_run_twice() {
    let seeds = histories();
    let play_half = |half: u64| -> BTreeSet<_> {
        (half..seeds).step_by(2).flat_map(|seed| check(seed, &play(seed))).collect()
    };
    let seen: BTreeSet<_> = std::thread::scope(|scope| {
        let halves = [0, 1].map(|half| scope.spawn(move || play_half(half)));
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    assert_eq!(seen, BTreeSet::from(ARROWS), "every transition of the specification occurs, and no other");
}

#[test]
fn the_same_seed_always_yields_the_same_log() {
    for seed in 0..50 {
        assert_eq!(play(seed).story(), play(seed).story());
    }
}

#[test]
fn a_conversation_resumes_from_any_prefix_of_its_log_and_launches_its_run_once() {
    let tell = |world: &mut World| {
        world.user("Build it");
        if world.chat.state() == ChatState::Chatting {
            world.says(launches(json!({"task": "build"})));
        }
    };
    let mut whole = World::new(chat());
    tell(&mut whole);
    whole.approves();
    let run = whole.runs()[0].clone();
    let finished = result(&run, whole.run_spec(&run), RunStatus::Completed);
    whole.run_ends_with(finished);
    whole.answers("Done.");
    for cut in 1..whole.log.len() {
        let mut world = World::new(chat());
        world.log = whole.log[..cut].to_vec();
        world.chat = world.folded();
        world.op(Op::Resume);
        let messages = world
            .log
            .iter()
            .any(|event| matches!(event.fact, Fact::OpAccepted { op: Op::SendMessage { .. }, .. }));
        if !messages {
            continue;
        }
        for _ in 0..10 {
            if world.open().is_some() {
                world.approves();
            } else if world.chat.current_run().is_some() {
                world.run_ends(RunStatus::Completed);
            } else if !world.chat.wanted().calls.is_empty() {
                let launched = !world.runs().is_empty();
                if launched { world.answers("Done.") } else { world.says(launches(json!({"task": "build"}))) }
            }
        }
        assert_eq!(world.runs().len(), 1, "cut at {cut}\n{}", world.story());
        assert_eq!(world.chat.state(), ChatState::Idle, "cut at {cut}\n{}", world.story());
        assert_eq!(world.chat.runs().len(), 1);
    }
}
