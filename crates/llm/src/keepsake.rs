//! Provider state: data that a provider requires back with tool results and that the `Backend` port does not carry,
//! mainly signed thoughts.
//!
//! Anthropic and Google reject a request, or answer worse, if the thinking before a tool call is not sent back exactly
//! as received. No other code needs it, so each backend stores its own, by the tool calls it belongs to. State that is
//! missing (another process, an old call) is omitted, and each wire format can do without it.

use althing_protocol::ToolCall;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Limit on stored replies.
const MOST: usize = 256;
/// Limit on their total size in bytes.
const MOST_BYTES: usize = 16 << 20;

/// Stored state of recent replies, newest last.
#[derive(Debug, Default)]
pub(crate) struct Keepsakes(Mutex<VecDeque<Kept>>);

#[derive(Debug)]
struct Kept {
    ids: Vec<String>,
    value: Value,
    bytes: usize,
}

impl Keepsakes {
    /// Stores the state that belongs to these calls.
    pub(crate) fn keep(&self, calls: &[ToolCall], value: Value) {
        if calls.is_empty() {
            return;
        }
        let bytes = value.to_string().len();
        let ids = calls.iter().map(|call| call.id.clone()).collect();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(Kept { ids, value, bytes });
        while kept.len() > MOST || kept.iter().map(|kept| kept.bytes).sum::<usize>() > MOST_BYTES {
            kept.pop_front();
        }
    }

    /// The state that belongs to exactly these calls; None if the conversation was changed since.
    pub(crate) fn of(&self, calls: &[ToolCall]) -> Option<Value> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |kept: &&Kept| kept.ids.iter().eq(calls.iter().map(|call| &call.id));
        kept.iter().rev().find(same).map(|kept| kept.value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(id: &str) -> ToolCall {
        ToolCall { id: id.into(), name: "read".into(), arguments: "{}".into() }
    }

    #[test]
    fn a_thought_is_found_by_exactly_its_calls() {
        let kept = Keepsakes::default();
        kept.keep(&[call("a"), call("b")], json!("thought"));
        assert_eq!(kept.of(&[call("a"), call("b")]), Some(json!("thought")));
        assert_eq!(kept.of(&[call("a")]), None);
        assert_eq!(kept.of(&[]), None);
    }

    #[test]
    fn the_oldest_are_forgotten_by_number_and_by_size() {
        let kept = Keepsakes::default();
        for n in 0..300 {
            kept.keep(&[call(&n.to_string())], json!(n));
        }
        assert_eq!((kept.of(&[call("43")]), kept.of(&[call("44")])), (None, Some(json!(44))));
        kept.keep(&[call("large")], json!("x".repeat(MOST_BYTES - 100)));
        assert!(kept.of(&[call("large")]).is_some() && kept.of(&[call("250")]).is_none());
    }
}
