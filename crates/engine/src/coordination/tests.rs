//! The decider under test: a harness that plays the world around a run, the rules one by one, and random histories.

mod harness;
mod histories;
mod rules;
