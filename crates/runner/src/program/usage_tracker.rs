//! Computes the usage of each run, even for CLI agents that report the total of their conversation. The totals are
//! stored, because a later process that resumes the conversation would otherwise count it again.

use crate::adapter::ReportedUsage;
use althing_disk::files::{Durability, replace};
use althing_disk::{RealDisk, read_regular};
use althing_protocol::Usage;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct UsageTracker(Mutex<HashMap<String, Usage>>);

impl UsageTracker {
    /// Adds to `this_run` the growth of the conversation's total since it was last reported to this tracker or,
    /// before that, stored in `dir` by an earlier process. For a new conversation, the whole total counts.
    pub(crate) fn settle(&self, conversation: Option<&str>, spent: &ReportedUsage, dir: &Path) -> Usage {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = conversation.and_then(|id| known.get(id).copied().or_else(|| stored_total(dir, id)));
        let mut usage = spent.this_run;
        usage += less(spent.conversation_total, before.unwrap_or_default());
        // A run that failed may report no total; then the last known total stays.
        if let Some(id) = conversation
            && spent.conversation_total != Usage::default()
        {
            known.insert(id.to_owned(), spent.conversation_total);
            store_total(dir, id, spent.conversation_total);
        }
        usage
    }
}

const STORED_TOTALS: &str = "usage.json";
const MOST_STORED: usize = 200;
const MOST_STORED_BYTES: u64 = 1 << 20;

fn stored_totals(dir: &Path) -> Vec<(String, Usage)> {
    let text = read_regular(&dir.join(STORED_TOTALS), MOST_STORED_BYTES).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn stored_total(dir: &Path, conversation: &str) -> Option<Usage> {
    stored_totals(dir).into_iter().find(|(id, _)| id == conversation).map(|(_, total)| total)
}

/// Ignores a failure, after which a later process counts too much.
fn store_total(dir: &Path, conversation: &str, total: Usage) {
    let mut totals = stored_totals(dir);
    totals.retain(|(id, _)| id != conversation);
    totals.push((conversation.to_owned(), total));
    let newest = totals.split_off(totals.len().saturating_sub(MOST_STORED));
    if let Ok(text) = serde_json::to_vec(&newest) {
        let _ = replace(&RealDisk, dir, STORED_TOTALS, &text, Durability::Unsynced);
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
        unpriced_calls: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_reported_total_does_not_make_the_next_one_count_the_conversation_again() {
        let dir = tempfile::tempdir().unwrap();
        let tracker = UsageTracker::default();
        let total = |calls| ReportedUsage {
            conversation_total: Usage { calls, ..Usage::default() },
            ..ReportedUsage::default()
        };
        let counted = [3, 0, 5].map(|calls| tracker.settle(Some("c"), &total(calls), dir.path()).calls);
        assert_eq!(counted, [3, 0, 2]);
    }

    #[test]
    fn totals_are_not_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::fs::write(&elsewhere, "kept").unwrap();
        std::os::unix::fs::symlink(&elsewhere, dir.path().join(STORED_TOTALS)).unwrap();
        store_total(dir.path(), "c", Usage { calls: 3, ..Usage::default() });
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "kept");
        assert_eq!(stored_total(dir.path(), "c").unwrap().calls, 3);
    }
}
