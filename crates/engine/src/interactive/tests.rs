//! The conversation's decider, from outside: ops and replies go in, facts and requests come out.

#![expect(clippy::disallowed_methods, reason = "the size of a test comes from the environment")]

mod conversation;
pub(crate) mod harness;
mod histories;
mod long_texts;
mod shortening;
