//! The limits of a run: time, cost, answers, tool calls and model calls.

use crate::Millis;
use serde::{Deserialize, Serialize};

/// The limits of a run. The time limit of the whole run does not count downtime and waiting for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// The time limit of the whole run.
    pub orchestrator: Millis,
    /// The time after which an agent is asked to finish an attempt to give a first answer.
    pub initial_round: Option<Millis>,
    /// The time after which an agent is asked to finish any other attempt.
    pub subsequent_round: Option<Millis>,
    /// How long an attempt may continue after its agent was asked to finish.
    pub round_grace: Millis,
    /// The maximum cost of the run, in millionths of a US dollar.
    #[serde(default)]
    pub cost_micro_usd: Option<u64>,
    /// The number of answers in the whole run after which an agent can only vote; stops agents that never agree. None
    /// (in logs of 0.1): unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers_per_agent: Option<u32>,
    /// The number of tool calls after which further tool calls of an agent are refused. Answers, votes and evaluations
    /// do not count. None (in logs of 0.1): unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls_per_agent: Option<u32>,
    /// The number of model calls after which the run ends with its best answer so far. None (in logs of 0.1):
    /// unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u32>,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            orchestrator: Millis::from_secs(1800),
            initial_round: None,
            subsequent_round: None,
            round_grace: Millis::from_secs(120),
            cost_micro_usd: None,
            answers_per_agent: Some(50),
            tool_calls_per_agent: Some(2000),
            model_calls: Some(5000),
        }
    }
}
