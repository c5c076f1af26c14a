//! Assembles tool calls from streamed fragments, for providers that number their calls correctly, incorrectly or not
//! at all.

use crate::error::CallFailure;
use crate::limits::{ARGUMENT_BYTES, TOOL_CALLS};
use althing_protocol::{BackendErrorKind, ToolCall};
use serde::de::IgnoredAny;
use std::collections::HashSet;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fragment<'a> {
    pub(crate) index: Option<u32>,
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a str,
}

#[derive(Debug, Default)]
pub(crate) struct ToolCallAssembler {
    slots: Vec<Slot>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Slot {
    index: Option<u32>,
    id: String,
    name: String,
    arguments: String,
}

impl ToolCallAssembler {
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn estimated_tokens(&self) -> u64 {
        self.bytes.div_ceil(4) as u64
    }

    /// Returns the tool's name if this fragment is the first to contain it.
    pub(crate) fn add(&mut self, fragment: Fragment<'_>) -> Result<Option<&str>, CallFailure> {
        let Fragment { index, id, name, arguments } = fragment;
        self.bytes += arguments.len() + name.len() + id.len();
        if self.bytes > ARGUMENT_BYTES {
            return Err(CallFailure::new(BackendErrorKind::TooLarge, "the tool calls are larger than 2 MiB"));
        }
        let slots = self.slots.len();
        let at = match self.find_slot(index, id, name, arguments) {
            SlotMatch::Known(at) => at,
            SlotMatch::Repeat => return Ok(None),
            SlotMatch::New if slots >= TOOL_CALLS => {
                return Err(CallFailure::new(
                    BackendErrorKind::TooLarge,
                    "more than 128 tool calls in one reply",
                ));
            }
            SlotMatch::New => {
                self.slots.push(Slot { index, ..Slot::default() });
                slots
            }
        };
        let Some(slot) = self.slots.get_mut(at) else { return Ok(None) };
        if slot.id.is_empty() {
            id.clone_into(&mut slot.id);
        }
        slot.arguments.push_str(arguments);
        if slot.name.is_empty() && !name.is_empty() {
            name.clone_into(&mut slot.name);
            return Ok(Some(&slot.name));
        }
        Ok(None)
    }

    fn find_slot(&self, index: Option<u32>, id: &str, name: &str, arguments: &str) -> SlotMatch {
        let known = match index {
            Some(_) => self.slots.iter().rposition(|slot| slot.index == index),
            // A fragment without an index belongs to the call with its id; without an id, to the last call. The
            // checks of the name below may still find that the fragment starts a new call.
            None if !id.is_empty() => self.slots.iter().rposition(|slot| slot.id == id),
            None => self.slots.len().checked_sub(1),
        };
        let Some((at, slot)) = known.and_then(|at| Some((at, self.slots.get(at)?))) else {
            return if name.is_empty() && index.is_none() && !self.slots.is_empty() {
                SlotMatch::Known(self.slots.len() - 1)
            } else {
                SlotMatch::New
            };
        };
        if name.is_empty() || slot.name.is_empty() {
            return SlotMatch::Known(at);
        }
        // The fragment names a tool although its call has a name already. The provider may reuse the index for the next
        // call, send the whole call again, or repeat the name on every fragment.
        let other_id = !id.is_empty() && !slot.id.is_empty() && id != slot.id;
        let next_whole = arguments.trim_start().starts_with('{') && is_whole(&slot.arguments);
        if !other_id && next_whole && slot.name == name && slot.arguments == arguments && !id.is_empty() {
            return SlotMatch::Repeat;
        }
        if other_id || next_whole || (index.is_none() && slot.name != name) {
            return SlotMatch::New;
        }
        SlotMatch::Known(at)
    }

    /// Each call has a name and a unique id.
    pub(crate) fn finish(self) -> Result<Vec<ToolCall>, CallFailure> {
        let mut seen = HashSet::new();
        let mut calls = Vec::with_capacity(self.slots.len());
        for (n, slot) in self.slots.into_iter().enumerate() {
            if slot.name.is_empty() {
                return Err(CallFailure::new(
                    BackendErrorKind::Protocol,
                    "the reply has a tool call without a name",
                ));
            }
            let base = if slot.id.is_empty() { format!("call_{}", n + 1) } else { slot.id };
            let mut id = base.clone();
            let mut copy = 2;
            while !seen.insert(id.clone()) {
                id = format!("{base}-{copy}");
                copy += 1;
            }
            let arguments = if slot.arguments.trim().is_empty() { "{}".to_owned() } else { slot.arguments };
            calls.push(ToolCall { id, name: slot.name, arguments });
        }
        Ok(calls)
    }
}

enum SlotMatch {
    Known(usize),
    New,
    Repeat,
}

fn is_whole(arguments: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(arguments).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::CallPiece;

    fn add<'a>(
        calls: &'a mut ToolCallAssembler,
        piece: &CallPiece<'_>,
    ) -> Result<Option<&'a str>, CallFailure> {
        let name =
            piece.function.as_ref().and_then(|function| function.name.as_ref()).map_or("", |n| n.as_str());
        let id = piece.id.as_ref().map_or("", |id| id.as_str());
        let arguments = piece.arguments().unwrap();
        calls.add(Fragment { index: piece.index, id, name, arguments: &arguments })
    }

    fn put_together(fragments: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut calls = ToolCallAssembler::default();
        let mut announced = Vec::new();
        for fragment in fragments {
            let piece: CallPiece<'_> = serde_json::from_str(fragment).unwrap();
            announced.extend(add(&mut calls, &piece).unwrap().map(str::to_owned));
        }
        let finished = calls.finish().unwrap();
        (
            finished.iter().map(|call| format!("{} {} {}", call.id, call.name, call.arguments)).collect(),
            announced,
        )
    }

    #[test]
    fn fragments_of_parallel_calls_find_their_call_by_number() {
        let (calls, announced) = put_together(&[
            r#"{"index":0,"id":"a","type":"function","function":{"name":"vote","arguments":""}}"#,
            r#"{"index":1,"id":"b","function":{"name":"read","arguments":"{\"p\":"}}"#,
            r#"{"index":0,"function":{"arguments":"{\"x\":1}"}}"#,
            r#"{"index":1,"function":{"arguments":"2}"}}"#,
        ]);
        assert_eq!(calls, [r#"a vote {"x":1}"#, r#"b read {"p":2}"#]);
        assert_eq!(announced, ["vote", "read"]);
    }

    #[test]
    fn complete_calls_without_index_or_id_get_their_own_ids() {
        let (calls, _) = put_together(&[
            r#"{"function":{"name":"vote","arguments":"{}"}}"#,
            r#"{"function":{"name":"vote","arguments":"{\"x\":1}"}}"#,
        ]);
        assert_eq!(calls, ["call_1 vote {}", r#"call_2 vote {"x":1}"#]);
    }

    #[test]
    fn complete_calls_that_all_have_index_0_stay_separate() {
        for id in ["", "same"] {
            let (calls, _) = put_together(&[
                &format!(r#"{{"index":0,"id":"{id}","function":{{"name":"a","arguments":"{{\"n\":1}}"}}}}"#),
                &format!(r#"{{"index":0,"id":"{id}","function":{{"name":"b","arguments":"{{\"n\":2}}"}}}}"#),
            ]);
            assert_eq!(calls.len(), 2, "{calls:?}");
        }
    }

    #[test]
    fn repeated_ids_are_made_unique() {
        let (calls, _) = put_together(&[
            r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}"#,
            r#"{"index":1,"id":"a","function":{"name":"y","arguments":"{}"}}"#,
            r#"{"index":2,"id":"a-2","function":{"name":"z","arguments":"{}"}}"#,
        ]);
        assert_eq!(calls, ["a x {}", "a-2 y {}", "a-2-2 z {}"]);
    }

    #[test]
    fn a_repeated_name_is_one_call_and_a_repeated_call_is_one_call() {
        let (calls, announced) = put_together(&[
            r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\""}}"#,
            r#"{"index":0,"id":"a","function":{"name":"x","arguments":":1}"}}"#,
            r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\":1}"}}"#,
        ]);
        assert_eq!(calls, [r#"a x {"n":1}"#]);
        assert_eq!(announced, ["x"]);
    }

    #[test]
    fn arguments_may_be_an_object_absent_or_not_json_at_all() {
        let (calls, _) = put_together(&[
            r#"{"index":0,"id":"a","function":{"name":"x","arguments":{"n": 1}}}"#,
            r#"{"index":1,"id":"b","function":{"name":"y"}}"#,
            r#"{"index":2,"id":"c","function":{"name":"z","arguments":"not json"}}"#,
        ]);
        assert_eq!(calls, [r#"a x {"n": 1}"#, "b y {}", "c z not json"]);
    }

    #[test]
    fn a_call_without_a_name_is_a_protocol_error() {
        let mut calls = ToolCallAssembler::default();
        add(&mut calls, &serde_json::from_str(r#"{"index":0,"id":"a"}"#).unwrap()).unwrap();
        assert_eq!(calls.finish().unwrap_err().kind, BackendErrorKind::Protocol);
    }

    #[test]
    fn arguments_past_their_limit_are_refused() {
        let mut calls = ToolCallAssembler::default();
        let piece =
            format!(r#"{{"index":0,"function":{{"name":"x","arguments":"{}"}}}}"#, "x".repeat(1 << 20));
        let piece: CallPiece<'_> = serde_json::from_str(&piece).unwrap();
        add(&mut calls, &piece).unwrap();
        assert_eq!(add(&mut calls, &piece).unwrap_err().kind, BackendErrorKind::TooLarge);
    }
}
