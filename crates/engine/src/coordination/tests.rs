//! The decider under test: a harness that plays the world around a run, the rules one by one, and random histories.

#![expect(clippy::disallowed_methods, reason = "an environment variable sets the size of a test")]

pub(crate) mod harness;
mod histories;
mod plans;
mod restarts;
mod rules;
mod subagents;
