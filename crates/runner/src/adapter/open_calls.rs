//! The tool calls that a CLI agent has begun and not ended, in limited number and size: an agent could begin calls and
//! never end them.

use std::collections::HashMap;

/// No CLI agent makes so many calls at once.
const MAX_CALLS: usize = 1000;
const MAX_BYTES: usize = 16 << 20;
/// The maximum length, in bytes, of a message that arrives in pieces.
const MAX_MESSAGE: usize = 8 << 20;

#[derive(Debug)]
pub(crate) struct OpenCalls<C> {
    calls: HashMap<String, (usize, C)>,
    bytes: usize,
}

impl<C> Default for OpenCalls<C> {
    fn default() -> Self {
        Self { calls: HashMap::new(), bytes: 0 }
    }
}

impl<C> OpenCalls<C> {
    /// Remembers a call whose content has about this size. A call beyond the limit is forgotten at once.
    pub(crate) fn insert(&mut self, id: &str, bytes: usize, call: C) {
        self.remove(id);
        let bytes = bytes + id.len();
        if self.calls.len() < MAX_CALLS && self.bytes + bytes <= MAX_BYTES {
            self.bytes += bytes;
            self.calls.insert(id.to_owned(), (bytes, call));
        }
    }

    pub(crate) fn get(&self, id: &str) -> Option<&C> {
        self.calls.get(id).map(|(_, call)| call)
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<C> {
        let (bytes, call) = self.calls.remove(id)?;
        self.bytes -= bytes;
        Some(call)
    }
}

/// Appends a piece of a message; pieces beyond the maximum length are left out.
pub(crate) fn push_piece(message: &mut String, piece: &str) {
    let room = MAX_MESSAGE.saturating_sub(message.len());
    message.push_str(piece.get(..piece.floor_char_boundary(room)).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, MAX_CALLS, MAX_MESSAGE, OpenCalls, push_piece};

    #[test]
    fn calls_that_never_end_are_remembered_in_limited_number_and_size() {
        let mut calls = OpenCalls::default();
        for number in 0..10 * MAX_CALLS {
            calls.insert(&number.to_string(), 100, number);
        }
        assert_eq!((calls.calls.len(), calls.get("0"), calls.get("5000")), (MAX_CALLS, Some(&0), None));
        calls.insert("0", MAX_BYTES, 1);
        assert_eq!(calls.get("0"), None, "it is too large");
        assert_eq!(calls.remove("1"), Some(1));
        calls.insert("new", 100, 2);
        assert_eq!(calls.get("new"), Some(&2));
        for number in 0..10 * MAX_CALLS {
            calls.remove(&number.to_string());
        }
        calls.remove("new");
        assert_eq!((calls.bytes, calls.calls.len()), (0, 0));
    }

    #[test]
    fn a_message_in_pieces_ends_at_the_limit_and_between_characters() {
        let mut message = String::new();
        for _ in 0..3 {
            push_piece(&mut message, &"€".repeat(MAX_MESSAGE / 4));
        }
        assert_eq!(message.len(), MAX_MESSAGE / 3 * 3);
    }
}
