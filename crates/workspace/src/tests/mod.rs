//! The guarantees about agents' files, tested on real files.
//!
//! This file defines the size of the tests; shared helpers are in `fixture.rs` and `agent_files.rs`.

mod agent_files;
mod cancellation;
mod changes;
mod confinement;
mod fixture;
mod guidance;
mod hostile_trees;
mod patches;
mod plans;
mod previews;
mod projects;
mod prompt_injection;
mod races;
mod reading;
mod snapshots;
mod sparse_files;
mod task_lists;
mod tracking;
mod undoing;

/// The size of a test: `pr` unless `ALTHING_TEST_SCALE=nightly`.
pub(super) fn scale(pr: u64, nightly: u64) -> u64 {
    althing_testkit::scale(pr as usize, nightly as usize) as u64
}
