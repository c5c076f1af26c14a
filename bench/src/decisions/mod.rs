//! Compares the rules by which a run decides: simulated agents of known skill and known weaknesses answer and vote in
//! runs of the real decider. The benchmark `decisions` prints the tables of docs/decisions.md.

mod worlds;

use althing_engine::Coordination;
use althing_engine::tally::{self, Rule};
use althing_protocol::{
    AgentId, DecisionRule, DecisionRules, Event, Fact, FinalAnswerStrategy, Item, JudgeOrder, Member, Modes,
    RunRules, RunSpec, Seq, TaskId, TaskSpec, Timestamp,
};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use worlds::{Task, WORLDS, World};

const TEAMS: [usize; 5] = [1, 2, 3, 5, 8];

#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    rules: fn() -> DecisionRules,
}

const WAYS: [Way; 5] = [
    Way { name: "0.1 (plurality, own answer last)", rules: DecisionRules::of_0_1 },
    Way { name: "`decision: plurality` alone", rules: plurality },
    Way { name: "Borda alone", rules: borda },
    Way { name: "Borda, conclusions merged", rules: || DecisionRules { merge_conclusions: true, ..borda() } },
    Way { name: "default", rules: DecisionRules::default },
];

/// The default with plurality in place of Borda, and without conclusions.
fn plurality() -> DecisionRules {
    DecisionRules { rule: DecisionRule::Plurality, ..borda() }
}

fn borda() -> DecisionRules {
    DecisionRules {
        unanimity: false,
        merge_conclusions: false,
        judge_order: JudgeOrder::Rotated,
        stop_when_decided: false,
        ..DecisionRules::default()
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Score {
    pub runs: u32,
    pub right: u32,
    /// Runs in which some agent was right.
    pub possible: u32,
    /// Started model calls, without the presentation.
    pub calls: u32,
}

impl Score {
    fn percent(&self, count: u32) -> f64 {
        100.0 * f64::from(count) / f64::from(self.runs.max(1))
    }
}

/// The default and plurality, counted from the same ballots of the same runs, so that they differ only where the count
/// does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paired {
    pub runs: u32,
    /// Runs in which only the default was right.
    pub only_default: u32,
    /// Runs in which only plurality was right.
    pub only_plurality: u32,
}

impl Paired {
    fn add(&mut self, default: bool, plurality: bool) {
        self.runs += 1;
        self.only_default += u32::from(default && !plurality);
        self.only_plurality += u32::from(plurality && !default);
    }
}

/// What the default counts, and what 0.1 and MassGen count.
const DEFAULT: Rule = Rule { method: DecisionRule::Borda, merge_conclusions: true, unanimity: true };

/// Runs many tasks of a world with a team, and counts the ballots of each run by both rules.
fn paired(world: World, agents: usize, runs: u32) -> Paired {
    // Everybody judges, so that there are ballots to count by any rule.
    let rules = DecisionRules { unanimity: false, stop_when_decided: false, ..DecisionRules::default() };
    let mut paired = Paired::default();
    for seed in 0..u64::from(runs) {
        let task = task(world, agents, seed);
        let (decider, _) = run(&task, agents, &rules, seed);
        let election = decider.election();
        let is_right = |rule| {
            let count = tally::count(&election, rule);
            task.is_right(index_of(count.winner(&election).expect("the run has a winner")))
        };
        paired.add(is_right(DEFAULT), is_right(Rule::PLURALITY));
    }
    paired
}

/// A task of a world.
fn task(world: World, agents: usize, seed: u64) -> Task {
    Task::new(world, althing_text::pseudo_random(althing_text::fnv1a(world.name), seed), agents)
}

/// The index of a simulated agent.
fn index_of(agent: &AgentId) -> usize {
    agent.as_str().strip_prefix('a').and_then(|index| index.parse().ok()).expect("a simulated agent")
}

/// Runs many tasks of a world with a team.
fn score(world: World, agents: usize, rules: &DecisionRules, runs: u32) -> Score {
    let mut score = Score::default();
    for seed in 0..u64::from(runs) {
        let task = task(world, agents, seed);
        let (decider, calls) = run(&task, agents, rules, seed);
        let winner = decider.result().and_then(|result| result.coordination_summary.winner.as_ref());
        score.runs += 1;
        score.right += u32::from(task.is_right(index_of(winner.expect("the run has a winner"))));
        score.possible += u32::from(task.some_agent_is_right());
        score.calls += calls;
    }
    score
}

/// Runs the decider until the run is over. Also returns the number of model calls that were started: a call that is
/// stopped has to be paid for, too.
fn run(task: &Task, agents: usize, rules: &DecisionRules, seed: u64) -> (Coordination, u32) {
    let id: TaskId = "r1".into();
    let spec = spec(agents, rules, seed);
    let mut decider = Coordination::new("s1".into(), id.clone(), spec.clone(), "/logs".into());
    let mut seq = 0;
    let mut record = |decider: &mut Coordination, task: TaskId, fact: Fact| {
        seq += 1;
        decider.apply(&Event { seq: Seq(seq), at: Timestamp(seq), task: Some(task), cause: None, fact });
    };
    let created = Fact::TaskCreated { id: id.clone(), parent: None, spec: TaskSpec::Run(Box::new(spec)) };
    record(&mut decider, id, created);
    let mut started = BTreeSet::new();
    let mut replies = 0;
    loop {
        let facts = decider.consequences();
        if !facts.is_empty() {
            for (task, fact) in facts {
                record(&mut decider, task, fact);
            }
            continue;
        }
        if decider.result().is_some() {
            return (decider, started.len() as u32);
        }
        // The calls end in an order that differs between runs.
        let wanted = decider.wanted().calls;
        started.extend(wanted.iter().copied());
        let next = wanted[althing_text::pseudo_random(seed, replies) as usize % wanted.len()];
        let request = decider.request(next.member_index).expect("the member is asked");
        let reply = task.reply(next.member_index, &request);
        replies += 1;
        let work = decider.work(next.member_index);
        record(&mut decider, work, Fact::ItemAdded { attempt: next.attempt, item: Item::Reply(reply) });
    }
}

fn spec(agents: usize, decision: &DecisionRules, seed: u64) -> RunSpec {
    let member = |n: usize| Member {
        id: format!("a{n}").as_str().into(),
        backend: "chatcompletion".into(),
        model: "simulated".into(),
        offline: false,
        system_message: None,
        has_tools: false,
        voting_sensitivity: None,
    };
    RunSpec {
        task: "task".into(),
        context: None,
        history: Vec::new(),
        members: (0..agents).map(member).collect(),
        context_paths: Vec::new(),
        unapproved_paths: Vec::new(),
        modes: Modes::default(),
        rules: RunRules {
            max_new_answers_per_agent: Some(1),
            final_answer_strategy: Some(FinalAnswerStrategy::WinnerReuse),
            override_window: None,
            decision: decision.clone(),
            ..RunRules::default()
        },
        subagent_of: None,
        plan: None,
        execution: None,
        tie_break_seed: althing_text::pseudo_random(seed, 77),
    }
}

pub fn print() {
    println!("{}", tables(4000));
}

fn tables(runs: u32) -> String {
    let mut text = String::new();
    for agents in TEAMS.into_iter().filter(|agents| *agents > 1) {
        writeln!(
            text,
            "Teams of {agents}: right answers in % (calls without the presentation), {runs} tasks each\n"
        )
        .unwrap();
        let names: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
        writeln!(text, "| world | some agent right | {} |", names.join(" | ")).unwrap();
        writeln!(text, "| --- | --- |{}", " --- |".repeat(WAYS.len())).unwrap();
        for world in WORLDS {
            let scores: Vec<Score> =
                WAYS.iter().map(|way| score(world, agents, &(way.rules)(), runs)).collect();
            let cells: Vec<String> = scores
                .iter()
                .map(|score| {
                    let calls = f64::from(score.calls) / f64::from(score.runs);
                    format!("{:.1} ({calls:.1})", score.percent(score.right))
                })
                .collect();
            let possible = scores[0].percent(scores[0].possible);
            writeln!(text, "| {} | {possible:.1} | {} |", world.name, cells.join(" | ")).unwrap();
        }
        text.push('\n');
    }
    text.push_str(&paired_table(runs));
    text.push_str("The worlds:\n\n");
    for World { name, about, .. } in WORLDS {
        writeln!(text, "- {name}: {about}").unwrap();
    }
    text
}

/// The table of the default and plurality, counted from the same ballots.
fn paired_table(runs: u32) -> String {
    let teams = TEAMS.into_iter().filter(|agents| *agents > 1);
    let mut text =
        format!("Only the default right / only plurality right, {runs} tasks each, on the same ballots\n\n");
    let names: Vec<String> = teams.clone().map(|agents| format!("{agents} agents")).collect();
    writeln!(text, "| world | {} |", names.join(" | ")).unwrap();
    writeln!(text, "| --- |{}", " --- |".repeat(names.len())).unwrap();
    for world in WORLDS {
        let cells: Vec<String> = teams
            .clone()
            .map(|agents| paired(world, agents, runs))
            .map(|paired| format!("{} / {}", paired.only_default, paired.only_plurality))
            .collect();
        writeln!(text, "| {} | {} |", world.name, cells.join(" | ")).unwrap();
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
