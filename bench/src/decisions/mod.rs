//! Compares the rules by which a run decides: simulated agents of known skill and known weaknesses answer and vote in
//! runs of the real decider. The benchmark `decisions` prints the tables of docs/decisions.md.

mod orders;

use althing_engine::Coordination;
use althing_engine::tally::{self, Rule};
use althing_protocol::{
    AgentId, DecisionRule, DecisionRules, Event, Fact, FinalAnswerStrategy, Item, JudgeOrder, Member,
    Message, ModelRequest, Modes, Reply, RunRules, RunSpec, Seq, TaskId, TaskSpec, Timestamp, ToolCall,
};
use althing_testkit::worlds::{Task, WORLDS, World};
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Write as _;

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

/// The default rule. It is compared with [`Rule::PLURALITY`], the rule of 0.1 and MassGen.
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
    let seed = althing_text::pseudo_random(althing_text::fnv1a(world.name), seed);
    Task::new(world, seed, agents, althing_text::pseudo_random)
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
        let reply = reply(task, next.member_index, &request);
        replies += 1;
        let work = decider.work(next.member_index);
        record(&mut decider, work, Fact::ItemAdded { attempt: next.attempt, item: Item::Reply(reply) });
    }
}

/// An agent knows what it is asked from the tools that it is offered.
fn reply(task: &Task, agent: usize, request: &ModelRequest) -> Reply {
    let offers = |name: &str| request.tools.iter().find(|tool| tool.name == name);
    let call = |name: &str, arguments: &serde_json::Value| {
        let call = ToolCall { id: "call".into(), name: name.into(), arguments: arguments.to_string() };
        Reply { tool_calls: vec![call], ..Reply::default() }
    };
    if offers("vote").is_some() {
        let texts = request.messages.iter().filter_map(|message| match message {
            Message::User(text) => Some(text.as_str()),
            Message::Assistant { .. } | Message::Tool { .. } => None,
        });
        let prompt = texts.collect::<Vec<_>>().join("\n");
        return call("vote", &json!({"ranking": task.ranking(agent, &prompt), "reason": "better"}));
    }
    let conclusion = task.conclusion(agent);
    let Some(new_answer) = offers("new_answer") else {
        return Reply { text: format!("The result is {conclusion}."), ..Reply::default() };
    };
    let mut arguments = json!({"content": format!("Agent {agent}: the result is {conclusion}.")});
    if new_answer.parameters.pointer("/properties/conclusion").is_some() {
        arguments["conclusion"] = conclusion.to_string().into();
    }
    call("new_answer", &arguments)
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

/// The number of tasks of a table's cell: few enough that the tables take minutes, enough that differences of more than
/// about three points are hardly chance.
fn table_runs(agents: usize) -> u32 {
    if agents < 4 { 1000 } else { 400 }
}

/// The number of tasks whose ballots are counted by both rules, in the table and in tests at nightly size.
fn paired_runs(agents: usize) -> u32 {
    if agents < 4 { 2000 } else { 1000 }
}

pub fn print() {
    println!("{}", tables());
}

/// Compares the tables with those of docs/decisions.md. Returns whether they are the same.
pub fn check() -> bool {
    let difference = difference(&page(), &tables());
    match &difference {
        None => println!("docs/decisions.md shows the tables of this command"),
        Some(difference) => {
            println!("docs/decisions.md does not show the tables of this command: {difference}")
        }
    }
    difference.is_none()
}

/// The text of docs/decisions.md.
fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/decisions.md");
    std::fs::read_to_string(path).expect("docs/decisions.md can be read")
}

/// The first line of the tables that differs from the page; None if the page contains all of them, in one piece.
fn difference(page: &str, tables: &str) -> Option<String> {
    let first = tables.lines().next().unwrap_or_default();
    let shown = page.lines().skip_while(|line| *line != first);
    let mut pairs = tables.trim_end().lines().zip(shown.map(Some).chain(std::iter::repeat(None)));
    let (printed, shown) = pairs.find(|(printed, shown)| Some(*printed) != *shown)?;
    Some(format!("`{printed}` is printed, and the page has `{}`", shown.unwrap_or_default()))
}

fn tables() -> String {
    let mut text = String::new();
    let mut plots = String::new();
    for agents in TEAMS.into_iter().filter(|agents| *agents > 1) {
        let runs = table_runs(agents);
        writeln!(
            text,
            "Teams of {agents}: right answers in % (calls without the presentation), {runs} tasks each\n"
        )
        .unwrap();
        let names: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
        writeln!(text, "| world | some agent right | {} |", names.join(" | ")).unwrap();
        writeln!(text, "| --- | --- |{}", " --- |".repeat(WAYS.len())).unwrap();
        writeln!(plots, "\nTeams of {agents}").unwrap();
        for world in WORLDS {
            let (row, gain) = row(world, agents);
            text.push_str(&row);
            plots.push_str(&bar(world.name, gain));
        }
        text.push('\n');
    }
    text.push_str("Points that the default gains (█) or loses (░) compared with 0.1; a block is half a point:\n\n```text");
    writeln!(text, "{plots}```\n").unwrap();
    text.push_str(&paired_table());
    text.push_str(&orders::table());
    text.push_str("The worlds:\n\n");
    for World { name, about, .. } in WORLDS {
        writeln!(text, "- {name}: {about}").unwrap();
    }
    text
}

/// The row of a world in the table of a team, and how many points the default gains compared with 0.1.
fn row(world: World, agents: usize) -> (String, f64) {
    let scores = WAYS.map(|way| score(world, agents, &(way.rules)(), table_runs(agents)));
    let cells = scores.map(|score| {
        let calls = f64::from(score.calls) / f64::from(score.runs);
        format!("{:.1} ({calls:.1})", score.percent(score.right))
    });
    let [first, .., default] = scores;
    let possible = first.percent(first.possible);
    let gain = default.percent(default.right) - first.percent(first.right);
    (format!("| {} | {possible:.1} | {} |\n", world.name, cells.join(" | ")), gain)
}

/// A line of a plot.
fn bar(world: &str, gain: f64) -> String {
    let block = if gain < 0.0 { "░" } else { "█" };
    format!("  {world:<16} {gain:+5.1} {}", block.repeat((2.0 * gain.abs()).round() as usize))
        .trim_end()
        .to_owned()
        + "\n"
}

/// The table of the default and plurality, counted from the same ballots.
fn paired_table() -> String {
    // With two agents, the rules cannot differ in what is right.
    let teams = TEAMS.into_iter().filter(|agents| *agents > 2);
    let mut text = "Only the default right / only plurality right, on the same ballots:\n\n".to_owned();
    let names: Vec<String> =
        teams.clone().map(|agents| format!("{agents} agents, {} tasks", paired_runs(agents))).collect();
    writeln!(text, "| world | {} |", names.join(" | ")).unwrap();
    writeln!(text, "| --- |{}", " --- |".repeat(names.len())).unwrap();
    for world in WORLDS {
        let cells: Vec<String> = teams
            .clone()
            .map(|agents| paired(world, agents, paired_runs(agents)))
            .map(|paired| format!("{} / {}", paired.only_default, paired.only_plurality))
            .collect();
        writeln!(text, "| {} | {} |", world.name, cells.join(" | ")).unwrap();
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
