//! What model calls used: tokens, calls, money.

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// More tokens than this cannot be used in one reply or task, so a greater count is an error of whoever reports it.
const MAX_REPORTED_TOKENS: u64 = 1_000_000_000_000;

/// A number of tokens as a model server or a program reports it, cut to what can be true.
pub fn reported_tokens(count: u64) -> u64 {
    count.min(MAX_REPORTED_TOKENS)
}

/// Tokens and money spent by one reply, or summed over an agent, a round or a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent to the model, including cached ones.
    pub input_tokens: u64,
    /// Tokens that the model wrote, including reasoning.
    pub output_tokens: u64,
    /// The input tokens that the provider had cached.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_input_tokens: u64,
    /// The output tokens spent on reasoning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// Cost in US dollars: by the price table, or as a CLI agent reports it; 0 if it is not known.
    pub cost_usd: f64,
    /// The number of model calls, including failed ones and retries.
    pub calls: u64,
    /// The number of calls whose cost is not known and not in `cost_usd`; 0 in logs of 0.1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_calls: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cached_input_tokens = self.cached_input_tokens.saturating_add(other.cached_input_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
        self.cost_usd += other.cost_usd;
        self.calls = self.calls.saturating_add(other.calls);
        self.unpriced_calls = self.unpriced_calls.saturating_add(other.unpriced_calls);
    }
}
