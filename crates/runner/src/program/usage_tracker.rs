//! Computes the usage of each run, even for programs that report the total of their conversation.

use crate::adapter::ReportedUsage;
use althing_protocol::Usage;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The last reported total of each conversation, by id.
#[derive(Debug, Default)]
pub(crate) struct UsageTracker(Mutex<HashMap<String, Usage>>);

impl UsageTracker {
    /// The usage of this run: `this_run`, and the growth of the conversation's total since this tracker last saw it.
    /// For a conversation that this tracker does not know yet, the whole total counts.
    pub(crate) fn settle(&self, conversation: Option<&str>, spent: ReportedUsage) -> Usage {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = conversation.and_then(|id| known.get(id)).copied().unwrap_or_default();
        let mut usage = spent.this_run;
        usage += less(spent.conversation_total, before);
        if let Some(id) = conversation {
            known.insert(id.to_owned(), spent.conversation_total);
        }
        usage
    }
}

fn less(total: Usage, before: Usage) -> Usage {
    Usage {
        input_tokens: total.input_tokens.saturating_sub(before.input_tokens),
        output_tokens: total.output_tokens.saturating_sub(before.output_tokens),
        cached_input_tokens: total.cached_input_tokens.saturating_sub(before.cached_input_tokens),
        reasoning_tokens: total.reasoning_tokens.saturating_sub(before.reasoning_tokens),
        cost_usd: (total.cost_usd - before.cost_usd).max(0.0),
        calls: total.calls.saturating_sub(before.calls),
    }
}
