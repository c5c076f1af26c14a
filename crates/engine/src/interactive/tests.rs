//! The conversation's decider, from outside: ops and replies go in, facts and requests come out.

#![expect(clippy::disallowed_methods, reason = "an environment variable sets the size of a test")]

mod compaction;
mod conversation;
pub(crate) mod harness;
mod histories;
mod long_texts;
