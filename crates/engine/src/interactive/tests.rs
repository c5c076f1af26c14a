//! Tests of the conversation's decider: ops and replies are its input, facts and requests its output.

#![expect(clippy::disallowed_methods, reason = "an environment variable sets the size of a test")]

mod compaction;
mod conversation;
mod edits;
pub(crate) mod harness;
mod histories;
mod long_texts;
