//! Simulated worlds behind the fake model server: agents of known skill and known weaknesses answer and vote in runs of
//! the built program, and their ballots are counted by the default and by plurality.

use althing_testkit::worlds::{Task, WORLDS};
use althing_testkit::{RecordedRequest, Reply, Script, scale};
use serde_json::{Value, json};

use super::support::{Fixture, Team, run, task_of, texts};

const TEAMS: [usize; 5] = [1, 2, 3, 5, 8];

/// The probability that a test of a table fails by chance, because plurality seems to be better somewhere although it
/// is not.
const CHANCE: f64 = 0.01;

/// A task is named `world/number`, for example `3/17`. Reports sort tasks by their names.
fn task(name: &str, agents: usize) -> Option<Task> {
    let (world, number) = name.split_once('/')?;
    let world = *WORLDS.get(world.parse::<usize>().ok()?)?;
    let seed = althing_text::pseudo_random(althing_text::fnv1a(world.name), number.parse().ok()?);
    Some(Task::new(world, seed, agents, althing_text::pseudo_random))
}

fn reply(request: &RecordedRequest) -> Reply {
    let prompt = texts(request);
    let agent = usize::from(request.model().as_bytes()[request.model().len() - 1] - b'a');
    let name = task_of(&prompt).and_then(|text| text.strip_prefix("Task ")).unwrap_or_default();
    // A task for 8 agents, the largest team, serves smaller teams as well: what it draws for an agent is the same.
    let Some(task) = task(name, 8) else { return Reply::text("There is no such task.") };
    let tools = request.tool_names();
    if tools.contains(&"vote") {
        let ranking = task.ranking(agent, &prompt);
        let ranking: Vec<&str> = ranking.iter().map(String::as_str).collect();
        return Reply::ranking(&ranking, "better");
    }
    let conclusion = task.conclusion(agent).to_string();
    Reply::concluded(&format!("The result is {conclusion}"), &conclusion)
}

fn right(team: &Value, task: usize, rule: usize) -> bool {
    team["runs_in_detail"][task]["rules"][rule]["right"].as_bool().unwrap()
}

/// The tasks that only one of the rules got right.
#[derive(Clone, Copy, Debug, Default)]
struct Difference {
    default: u32,
    plurality: u32,
}

impl Difference {
    fn add(&mut self, default: bool, plurality: bool) {
        self.default += u32::from(default && !plurality);
        self.plurality += u32::from(plurality && !default);
    }

    fn plus(self, other: Self) -> Self {
        Self { default: self.default + other.default, plurality: self.plurality + other.plurality }
    }

    /// The probability that plurality is ahead by so much if each of these tasks was a toss of a coin.
    fn chance(self) -> f64 {
        let all = self.default + self.plurality;
        let mut ways = 1.0;
        let mut sum = 0.0;
        for heads in 0..=self.default {
            sum += ways;
            ways *= f64::from(all - heads) / f64::from(heads + 1);
        }
        sum / 2_f64.powi(i32::try_from(all).unwrap())
    }
}

#[test]
fn the_default_is_at_least_as_accurate_as_plurality_and_cheaper_where_agents_agree() {
    let numbers = scale(3, 60);
    let fixture = Fixture::with(1, Script::from_fn(reply), |team| team);
    let names: Vec<String> = (0..WORLDS.len())
        .flat_map(|world| (0..numbers).map(move |number| format!("{world}/{number:02}")))
        .collect();
    let line = |name: &String| json!({"id": name, "task": format!("Task {name}"), "check": {"number": 0}});
    fixture
        .althing
        .file("tasks.jsonl", names.iter().map(|name| line(name).to_string() + "\n").collect::<String>());
    let mut teams = Vec::new();
    for agents in TEAMS {
        let team = Team::on(&fixture.server.base_url(), agents)
            .rule("max_new_answers_per_agent", 1)
            .rule("final_answer_strategy", "winner_reuse");
        fixture.althing.file("team.yaml", team.text());
        let before = fixture.server.request_count();
        let args = ["eval", "tasks.jsonl", "--teams", "team.yaml", "--rules", "borda,plurality", "--json"];
        let output = run(&fixture.althing, &args).expect_code(0);
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        let team = &report["teams"][0];
        assert_eq!(team["runs_without_answer"], 0, "{agents} agents: {team:#}");
        let is_unanimous = |name: &&String| task(name, agents).unwrap().is_unanimous();
        let unanimous = names.iter().filter(is_unanimous).count();
        // Agents that agree, and an agent alone, do not vote.
        let calls = unanimous * agents + (names.len() - unanimous) * 2 * agents;
        assert_eq!(fixture.server.request_count() - before, calls, "{agents} agents, {unanimous} unanimous");
        assert!(agents == 1 || agents == 8 || unanimous > 0, "{agents} agents");
        let mut worlds = [Difference::default(); WORLDS.len()];
        for (index, name) in names.iter().enumerate() {
            assert_eq!(team["runs_in_detail"][index]["task"], name.as_str());
            let (default, plurality) = (right(team, index, 1), right(team, index, 2));
            worlds[index / numbers].add(default, plurality);
            assert!(agents > 1 || default == task(name, 1).unwrap().is_right(0), "{name}");
        }
        teams.push((agents, worlds));
    }
    let table = table(&teams, numbers);
    println!("{table}");
    let sum = |worlds: &[Difference]| worlds.iter().fold(Difference::default(), |sum, one| sum.plus(*one));
    for (agents, worlds) in &teams {
        let sum = sum(worlds);
        // With one or two agents, the rules cannot differ in what is right.
        assert!(*agents > 2 || sum.default + sum.plurality == 0, "{agents} agents: {sum:?}\n{table}");
        // Each run breaks ties with a random seed, so in a single world plurality may be ahead by chance.
        let cells = (TEAMS.len() * WORLDS.len()) as f64;
        for (world, difference) in WORLDS.iter().zip(worlds) {
            let chance = difference.chance();
            assert!(chance > CHANCE / cells, "{agents} agents, {}: {difference:?}\n{table}", world.name);
        }
        assert!(sum.chance() > CHANCE / TEAMS.len() as f64, "{agents} agents: {sum:?}\n{table}");
    }
    let all = teams.iter().fold(Difference::default(), |all, (_, worlds)| all.plus(sum(worlds)));
    let is_nightly = scale(0, 1) == 1;
    let is_better = all.default >= all.plurality;
    assert!(is_better || (!is_nightly && all.chance() > CHANCE), "{all:?}\n{table}");
}

/// The table of docs/decisions.md.
fn table(teams: &[(usize, [Difference; WORLDS.len()])], numbers: usize) -> String {
    let shown: Vec<_> = teams.iter().filter(|(agents, _)| *agents > 2).collect();
    let heads: Vec<String> =
        shown.iter().map(|(agents, _)| format!("{agents} agents, {numbers} tasks")).collect();
    let mut lines = vec![format!("| world | {} |", heads.join(" | "))];
    lines.push(format!("| --- |{}", " --- |".repeat(shown.len())));
    for (index, world) in WORLDS.iter().enumerate() {
        let cells: Vec<String> = shown
            .iter()
            .map(|(_, worlds)| format!("{} / {}", worlds[index].default, worlds[index].plurality))
            .collect();
        lines.push(format!("| {} | {} |", world.name, cells.join(" | ")));
    }
    lines.join("\n")
}

#[test]
fn chance_is_that_of_a_fair_coin() {
    let chance = |default, plurality| Difference { default, plurality }.chance();
    for (default, plurality, expected) in
        [(0, 0, 1.0), (0, 1, 0.5), (0, 4, 0.0625), (1, 3, 0.3125), (5, 0, 1.0), (10, 20, 0.049_368_5)]
    {
        let chance = chance(default, plurality);
        assert!((chance - expected).abs() < 1e-6, "{default} / {plurality}: {chance}");
    }
}
