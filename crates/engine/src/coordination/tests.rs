//! Tests of the run's decider: a harness that simulates its environment, tests of each rule, and random histories.

#![expect(clippy::disallowed_methods, reason = "an environment variable sets the size of a test")]

mod answer_checks;
mod cost_limit;
mod countdown;
mod deciding;
pub(crate) mod harness;
mod histories;
mod patterns;
mod plans;
mod presenting;
mod replies;
mod restarts;
mod rules;
mod stragglers;
mod subagents;
mod turns;
mod weak_models;
