//! Counts the model calls of runs and their time, on a simulated clock, for teams of 2 to 16 agents with different
//! speeds. A call counts when it begins, even if it is stopped later. The minimum is one call per stored answer, per
//! agent's vote and for the presentation, plus one for each vote that must be cast again.

use super::harness::{World, answer, text, vote};
use crate::decider::CallKey;
use althing_protocol::{AgentOutcome, Fact, Item, Millis, Purpose, Reply, RunRules, RunStatus, Timer};
use std::collections::BTreeMap;

const TEAMS: std::ops::RangeInclusive<usize> = 2..=16;

#[derive(Clone)]
struct Pattern {
    /// The milliseconds that each call of an agent takes; None: it never ends.
    takes: Vec<Option<u64>>,
    improves: Vec<u32>,
    favorite: usize,
}

impl Pattern {
    fn new(agents: usize) -> Self {
        Self { takes: vec![Some(1000); agents], improves: vec![0; agents], favorite: 0 }
    }

    fn staggered(mut self) -> Self {
        self.takes = (0..self.takes.len() as u64).map(|index| Some(1000 + 250 * index)).collect();
        self
    }

    fn all_improve(mut self, times: u32) -> Self {
        self.improves.fill(times);
        self
    }

    fn improver(mut self, index: usize, times: u32) -> Self {
        self.improves[index] = times;
        self
    }

    fn slowest(&self) -> u64 {
        self.takes.iter().copied().flatten().max().unwrap_or_default()
    }

    fn reply(&self, world: &World, call: CallKey) -> Reply {
        let index = call.member_index;
        let member = &world.run.state.members[index];
        let given = member.answers.len();
        let tools = world.tools_of(index);
        let purpose = member.attempt.as_ref().map(|attempt| attempt.purpose);
        if matches!(purpose, Some(Purpose::Present { .. })) {
            return text("final");
        }
        if tools.iter().any(|tool| tool == "new_answer") && given <= self.improves[index] as usize {
            return answer(&format!("answer {} of member {index}", given + 1));
        }
        vote(&format!("agent{}", self.favorite + 1))
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Cost {
    /// The calls that began, including those that were stopped.
    calls: usize,
    millis: u64,
}

fn play(pattern: &Pattern, rules: RunRules) -> (Cost, World) {
    let ids: Vec<String> = (0..pattern.takes.len()).map(|n| format!("a{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut world = World::start(&ids, rules);
    let (mut now, mut calls) = (0, 0);
    let mut running: BTreeMap<CallKey, u64> = BTreeMap::new();
    let mut timers: BTreeMap<Timer, u64> = BTreeMap::new();
    while world.run.result().is_none() {
        let wanted = world.run.wanted();
        running.retain(|call, _| wanted.calls.contains(call));
        for call in wanted.calls {
            let takes = pattern.takes[call.member_index].unwrap_or(u64::MAX / 2);
            running.entry(call).or_insert_with(|| {
                calls += 1;
                now + takes
            });
        }
        // Every call of these models is silent until its reply.
        let silent = wanted.silence_timer.into_iter().map(|silence| (silence.timer, silence.after));
        let wanted_timers: Vec<(Timer, Millis)> = wanted.timers.into_iter().chain(silent).collect();
        timers.retain(|timer, _| wanted_timers.iter().any(|(it, _)| it == timer));
        for (timer, Millis(after)) in wanted_timers {
            timers.entry(timer).or_insert(now + after);
        }
        let reply = running.iter().min_by_key(|(_, due)| **due).map(|(call, due)| (*due, *call));
        let timer = timers.iter().min_by_key(|(_, due)| **due).map(|(timer, due)| (*due, timer.clone()));
        match (reply, timer) {
            (Some((due, call)), timer) if timer.as_ref().is_none_or(|(later, _)| due <= *later) => {
                now = due;
                running.remove(&call);
                let reply = pattern.reply(&world, call);
                world.says(call.member_index, reply);
            }
            (_, Some((due, timer))) => {
                now = due;
                timers.remove(&timer);
                world.fires(timer);
            }
            _ => panic!("nothing will ever happen:\n{}", world.story()),
        }
    }
    (Cost { calls, millis: now }, world)
}

fn cost(pattern: &Pattern, rules: RunRules) -> Cost {
    let (cost, world) = play(pattern, rules);
    let result = world.run.result().expect("a result");
    assert_eq!(result.status, RunStatus::Completed, "{}", world.story());
    cost
}

fn without_lead_cap() -> RunRules {
    RunRules { fairness_lead_cap: None, ..RunRules::default() }
}

#[test]
fn agents_that_agree_take_two_calls_each_and_one_to_present() {
    for agents in TEAMS {
        for pattern in [Pattern::new(agents), Pattern::new(agents).staggered()] {
            let slowest = pattern.slowest();
            let least = Cost { calls: 2 * agents + 1, millis: 2 * slowest + 1000 };
            assert_eq!(cost(&pattern, RunRules::default()), least, "{agents} agents");
        }
    }
}

#[test]
fn agents_that_all_improve_once_at_different_speeds_take_three_calls_each_and_one_to_present() {
    let mut capped = RunRules { max_new_answers_per_agent: Some(2), ..RunRules::default() };
    // With a cap, the slowest judges would be stopped once the vote is decided.
    capped.decision.stop_when_decided = false;
    for agents in TEAMS {
        for rules in [RunRules::default(), capped.clone()] {
            for pattern in [Pattern::new(agents), Pattern::new(agents).staggered()] {
                let slowest = pattern.slowest();
                let least = Cost { calls: 3 * agents + 1, millis: 3 * slowest + 1000 };
                assert_eq!(cost(&pattern.all_improve(1), rules.clone()), least, "{agents} agents");
            }
        }
    }
    let stopping = RunRules { max_new_answers_per_agent: Some(2), ..RunRules::default() };
    for agents in TEAMS {
        let pattern = Pattern::new(agents).staggered().all_improve(1);
        let (stopped, patient) = (cost(&pattern, stopping.clone()), cost(&pattern, capped.clone()));
        assert_eq!(stopped.calls, patient.calls, "every judge was asked");
        assert!(stopped.millis <= patient.millis && (agents < 3 || stopped.millis < patient.millis));
    }
    // What MassGen 0.1.97 needs for the same scripts: 13 calls of 3 agents, 39 of 8, and 10 of 3 with a cap of 2.
    let calls = |agents, rules| cost(&Pattern::new(agents).staggered().all_improve(1), rules).calls;
    assert!(calls(3, RunRules::default()) <= 13 && calls(8, RunRules::default()) <= 39);
    assert!(calls(3, capped) <= 10);
}

#[test]
fn the_agent_that_all_prefer_improves_often_for_one_call_each_time() {
    for agents in TEAMS {
        for times in 1..=4 {
            for pattern in [Pattern::new(agents), Pattern::new(agents).staggered()] {
                let pattern = pattern.improver(0, times);
                let calls = 2 * agents + times as usize + 1;
                // Everyone answers once and judges once; the improver's judgment is its first improvement. Then only the
                // improver continues, with its remaining improvements, its vote, and the presentation.
                let millis = 2 * pattern.slowest() + u64::from(times) * 1000 + 1000;
                assert_eq!(cost(&pattern, without_lead_cap()), Cost { calls, millis }, "{agents} agents");
            }
        }
    }
}

#[test]
fn an_improvement_costs_one_more_call_of_each_agent_that_voted_for_another() {
    for agents in TEAMS {
        for times in 1..=3 {
            for improver in [1, agents - 1] {
                for pattern in [Pattern::new(agents), Pattern::new(agents).staggered()] {
                    let pattern = pattern.improver(improver, times);
                    let least = 2 * agents + times as usize + 1;
                    let overtaken = times as usize * (agents - 1);
                    let cost = cost(&pattern, without_lead_cap());
                    assert!(
                        (least..=least + overtaken).contains(&cost.calls),
                        "{agents} agents, {times} times: {cost:?}"
                    );
                    let rounds = u64::from(times) + 2;
                    assert!(cost.millis <= rounds * pattern.slowest() + 1000, "{agents} agents: {cost:?}");
                }
            }
        }
    }
}

#[test]
fn agents_that_wait_too_long_for_a_slow_judge_judge_once_without_it() {
    for agents in TEAMS {
        let mut pattern = Pattern::new(agents).all_improve(1);
        *pattern.takes.last_mut().unwrap() = Some(25_000);
        let in_time = cost(&pattern, RunRules::default());
        assert_eq!(in_time.calls, 3 * agents + 1, "a wait shorter than the limit costs nothing");
        *pattern.takes.last_mut().unwrap() = Some(40_000);
        let late = cost(&pattern, RunRules::default());
        // Each other agent judges early at most once during each of the slow agent's first two calls. Its third call is
        // a vote.
        assert!(late.calls <= 3 * agents + 1 + 2 * (agents - 1), "{agents} agents: {late:?}");
        assert!(late.millis <= 3 * 40_000 + 2000, "{agents} agents: {late:?}");
    }
}

#[test]
fn a_silent_agent_holds_a_run_only_for_the_straggler_wait_after_the_others_are_done() {
    for agents in TEAMS {
        let mut pattern = Pattern::new(agents);
        *pattern.takes.last_mut().unwrap() = None;
        let (cost, world) = play(&pattern, RunRules::default());
        let result = world.run.result().unwrap();
        assert_eq!(result.status, RunStatus::Completed);
        let summary = &result.coordination_summary.agents;
        assert_eq!(summary.last().unwrap().status, AgentOutcome::TimedOut, "{agents} agents");
        // The others answer, wait for the missing first answer (30 s), vote, wait for the straggler (60 s), and one of
        // them presents. If there is only one answer, it is judged only after the straggler has dropped out.
        let waits = if agents > 2 { 30_000 + 60_000 } else { 60_000 };
        assert_eq!(cost.millis, 3000 + waits, "{agents} agents");
        assert_eq!(cost.calls, 2 * agents, "the votes of the others, and the presentation");
    }
}

#[test]
fn a_call_of_a_judge_is_never_stopped_by_another_answer() {
    for agents in TEAMS {
        let (cost, world) = play(&Pattern::new(agents).staggered().all_improve(2), RunRules::default());
        let is_reply = |fact: &Fact| matches!(fact, Fact::ItemAdded { item: Item::Reply(_), .. });
        let replies = world.log.iter().filter(|event| is_reply(&event.fact)).count();
        assert_eq!(cost.calls, replies, "{agents} agents");
        let stored = world.run.answers().len();
        assert_eq!(stored, 3 * agents);
    }
}
