//! Provider state: data, mainly signed thoughts, that a provider requires back with tool results and that the
//! `Backend` port does not carry. Each backend stores its own, by tool calls; each wire format can do without state
//! that is missing.

use althing_protocol::ToolCall;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The maximum number of replies whose state is stored.
const MOST: usize = 256;
/// The maximum size of all stored states together, in bytes.
const MOST_BYTES: usize = 16 << 20;

/// The newest state is last.
#[derive(Debug, Default)]
pub(crate) struct ProviderStates(Mutex<VecDeque<StoredState>>);

#[derive(Debug)]
struct StoredState {
    ids: Vec<String>,
    value: Value,
    bytes: usize,
}

impl ProviderStates {
    pub(crate) fn store(&self, calls: &[ToolCall], value: Value) {
        if calls.is_empty() {
            return;
        }
        let bytes = value.to_string().len();
        let ids = calls.iter().map(|call| call.id.clone()).collect();
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        states.push_back(StoredState { ids, value, bytes });
        while states.len() > MOST || states.iter().map(|state| state.bytes).sum::<usize>() > MOST_BYTES {
            states.pop_front();
        }
    }

    /// Finds the state of the reply with exactly these calls. `None` if the reply had no state, another process
    /// received it, or newer states have displaced it.
    pub(crate) fn find(&self, calls: &[ToolCall]) -> Option<Value> {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |state: &&StoredState| state.ids.iter().eq(calls.iter().map(|call| &call.id));
        states.iter().rev().find(same).map(|state| state.value.clone())
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
        let states = ProviderStates::default();
        states.store(&[call("a"), call("b")], json!("thought"));
        assert_eq!(states.find(&[call("a"), call("b")]), Some(json!("thought")));
        assert_eq!(states.find(&[call("a")]), None);
        assert_eq!(states.find(&[]), None);
    }

    #[test]
    fn the_oldest_are_forgotten_by_number_and_by_size() {
        let states = ProviderStates::default();
        for n in 0..300 {
            states.store(&[call(&n.to_string())], json!(n));
        }
        assert_eq!((states.find(&[call("43")]), states.find(&[call("44")])), (None, Some(json!(44))));
        states.store(&[call("large")], json!("x".repeat(MOST_BYTES - 100)));
        assert!(states.find(&[call("large")]).is_some() && states.find(&[call("250")]).is_none());
    }
}
