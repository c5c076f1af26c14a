//! What is known about the cost of a run before it starts.

use crate::{AgentId, Price, Usage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is known about the cost of a team's runs before they start, for the estimate that a person is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KnownCosts {
    /// The prices of the agents. An agent that costs nothing has prices of 0; an agent whose price is not known is
    /// missing.
    pub prices: BTreeMap<AgentId, Price>,
    /// What past runs of the team used.
    #[serde(default)]
    pub past: PastRuns,
    /// The number of answers after which an agent of the proposed run can only vote; None: the rules set none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_answers_per_agent: Option<u32>,
    /// The cost limit of the proposed run, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_micro_usd: Option<u64>,
}

/// What past runs used, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PastRuns {
    /// The number of agents that took part, summed over the runs. 0 if there were no runs with model calls.
    pub agents: u64,
    /// What the runs used.
    pub usage: Usage,
}

impl PastRuns {
    /// Adds a run. A run without a single model call says nothing about costs and is not counted.
    pub fn add(&mut self, agents: usize, usage: Usage) {
        if usage.calls > 0 {
            self.agents += agents as u64;
            self.usage += usage;
        }
    }
}
