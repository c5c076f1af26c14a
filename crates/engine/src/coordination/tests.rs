//! The decider under test: a harness that plays the world around a run, the rules one by one, and random histories.

#![expect(clippy::disallowed_methods, reason = "the size of a test comes from the environment")]

pub(crate) mod harness;
mod histories;
mod plans;
mod restarts;
mod rules;
mod subagents;
