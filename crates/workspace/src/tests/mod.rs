//! What this crate promises about agents' files, shown on real files.
//!
//! This file says how large the tests are; what they share is in `fixture.rs` and `places.rs`.

mod agent_files;
mod cancellation;
mod changes;
mod confinement;
mod fixture;
mod guidance;
mod patches;
mod plans;
mod projects;
mod prompt_injection;
mod races;
mod reading;
mod snapshots;
mod sparse_files;
mod task_lists;
mod tracking;
mod undoing;

/// How large a test is: `pr` unless `ALTHING_TEST_SCALE=nightly`.
pub(super) fn scale(pr: u64, nightly: u64) -> u64 {
    althing_testkit::scale(pr as usize, nightly as usize) as u64
}
