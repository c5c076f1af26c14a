//! How a run decides: the rules that choose the winner, and the report of a decision.

use crate::{AgentId, Ballot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How ballots are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionRule {
    /// An agent gets a point for each agent that a ballot ranks below it or does not rank; the most points win.
    #[default]
    Borda,
    /// Only the first choice of each ballot counts; the most first choices win.
    Plurality,
}

/// In which order a judge is shown the answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgeOrder {
    /// The order of the config, starting with a different agent for each judge.
    #[default]
    Rotated,
    /// The order of the config, with the judge's own answer last.
    Config,
}

/// What makes the first answers of a team differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Diversity {
    /// Nothing but the agents themselves.
    #[default]
    Off,
    /// The prompt of each agent names an approach to the task, a different one for each agent as far as there are
    /// enough.
    Approaches,
}

/// The rules by which a run decides, recorded at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DecisionRules {
    /// How ballots are counted.
    pub rule: DecisionRule,
    /// Whether the run decides without a vote if all conclusions are equal.
    pub unanimity: bool,
    /// Whether agents with the same conclusion are counted as one, so that a ballot for one counts for all of them.
    pub merge_conclusions: bool,
    /// In which order a judge is shown the answers.
    pub judge_order: JudgeOrder,
    /// Whether judges are stopped once their votes can no longer change who wins and no agent may answer again.
    pub stop_when_decided: bool,
    /// The user's criteria for judging answers, the most important first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<String>,
    /// What makes the first answers differ.
    pub diversity: Diversity,
    /// The version of the prompts. A resumed run keeps the prompts that it was started with.
    pub prompts: u32,
}

impl DecisionRules {
    /// The newest version of the prompts.
    pub const PROMPTS: u32 = 2;

    /// The rules of 0.1, whose logs do not name them.
    pub fn of_0_1() -> Self {
        Self {
            rule: DecisionRule::Plurality,
            unanimity: false,
            merge_conclusions: false,
            judge_order: JudgeOrder::Config,
            stop_when_decided: false,
            criteria: Vec::new(),
            diversity: Diversity::Off,
            prompts: 1,
        }
    }

    /// Whether these are the rules of 0.1.
    pub fn are_of_0_1(&self) -> bool {
        *self == Self::of_0_1()
    }
}

impl Default for DecisionRules {
    fn default() -> Self {
        Self {
            rule: DecisionRule::default(),
            unanimity: true,
            merge_conclusions: true,
            judge_order: JudgeOrder::default(),
            stop_when_decided: true,
            criteria: Vec::new(),
            diversity: Diversity::default(),
            prompts: Self::PROMPTS,
        }
    }
}

/// What chose the winner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// The ballots, counted by [`DecisionRule::Borda`].
    Borda,
    /// The ballots, counted by [`DecisionRule::Plurality`].
    Plurality,
    /// All conclusions were equal, so nobody voted.
    Unanimous,
    /// Only one agent had an answer.
    OnlyCandidate,
}

/// How a run chose its winner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionReport {
    /// What chose the winner.
    pub rule: DecidedBy,
    /// The points of each agent with an answer; for `Plurality`, its first choices. Empty if nobody voted.
    #[serde(default)]
    pub points: BTreeMap<AgentId, u32>,
    /// `pairwise[one][other]` is the number of ballots that rank one agent above another; a missing number is 0. Empty
    /// if nobody voted, and with more than 16 answers.
    #[serde(default)]
    pub pairwise: BTreeMap<AgentId, BTreeMap<AgentId, u32>>,
    /// The decision in one line of plain words.
    pub explanation: String,
}

impl Ballot {
    /// The agents that the ballot ranks, best first.
    pub fn choices(&self) -> &[AgentId] {
        if self.ranking.is_empty() { std::slice::from_ref(&self.target) } else { &self.ranking }
    }
}
