//! In which order two judges read the two answers: what each order gives in each world. The product has two of these
//! orders (`judge_order: rotated` and `config`). The other two show that no order that hides the author of an answer is
//! better.

use super::{DEFAULT, WORLDS, World, index_of, task};
use althing_engine::tally::{self, Contender, Election};
use althing_protocol::{AgentId, Ballot};
use std::fmt::Write as _;

const TASKS: u64 = 10_000;

/// The answers that judge 0 and judge 1 read, in this order.
type Reading = [[usize; 2]; 2];

const OWN_LAST: Reading = [[1, 0], [0, 1]];
const OWN_FIRST: Reading = [[0, 1], [1, 0]];

const NAMES: [&str; 4] =
    ["own answer last (0.1)", "rotated (default)", "one order for both", "own answer first"];

/// The share of right answers for each of [`NAMES`], in percent.
pub(super) fn shares(world: World) -> [f64; 4] {
    let mut right = [0_u32; 4];
    for seed in 0..TASKS {
        let task = task(world, 2, seed);
        let drawn = althing_text::pseudo_random(seed, 78).is_multiple_of(2);
        let rotated = if drawn { OWN_LAST } else { OWN_FIRST };
        let common = if drawn { [[0, 1]; 2] } else { [[1, 0]; 2] };
        for (right, reading) in right.iter_mut().zip([OWN_LAST, rotated, common, OWN_FIRST]) {
            let agent = |index: usize| AgentId::from(format!("a{index}").as_str());
            let candidate = |index: usize| Contender {
                agent: agent(index),
                member_index: index,
                conclusion: Some(task.conclusion(index).to_string()),
                newest: 1,
            };
            let ballot = |judge: usize| {
                let prompt = reading[judge].map(|index| format!("<agent{}.1>", index + 1)).join("\n");
                let ranking = task.ranking(judge, &prompt);
                let ranking: Vec<AgentId> =
                    ranking.iter().map(|name| agent(usize::from(name == "agent2"))).collect();
                Ballot { voter: agent(judge), target: ranking[0].clone(), reason: String::new(), ranking }
            };
            let election = Election {
                candidates: [0, 1].map(candidate).to_vec(),
                agents: 2,
                ballots: [0, 1].map(ballot).to_vec(),
                anybody_voted: true,
                seed: althing_text::pseudo_random(seed, 77),
            };
            let count = tally::count(&election, DEFAULT);
            let winner = count.winner(&election).expect("there is a winner");
            *right += u32::from(task.is_right(index_of(winner)));
        }
    }
    right.map(|right| 100.0 * f64::from(right) / TASKS as f64)
}

pub(super) fn table() -> String {
    let mut text = format!(
        "Teams of 2: right answers in % by the order in which the judges read, {TASKS} tasks each\n\n"
    );
    writeln!(text, "| world | {} |", NAMES.join(" | ")).unwrap();
    writeln!(text, "| --- |{}", " --- |".repeat(NAMES.len())).unwrap();
    for world in WORLDS {
        text.push_str(&row(world));
    }
    text.push('\n');
    text
}

pub(super) fn row(world: World) -> String {
    let cells = shares(world).map(|share| format!("{share:.1}"));
    format!("| {} | {} |\n", world.name, cells.join(" | "))
}
