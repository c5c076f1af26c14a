//! What model calls cost: tokens, calls, money.

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Tokens and money spent, for one reply or summed over an agent, a round or a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent to the model, cached ones included.
    pub input_tokens: u64,
    /// Tokens the model wrote, reasoning included.
    pub output_tokens: u64,
    /// Of the input, those the provider had cached.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_input_tokens: u64,
    /// Of the output, those spent on reasoning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// Money at the price table's rates; 0 where no price is known.
    pub cost_usd: f64,
    /// Model calls made, failed ones included.
    pub calls: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_input_tokens += other.cached_input_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
        self.cost_usd += other.cost_usd;
        self.calls += other.calls;
    }
}
