//! What this crate promises about agents' files, shown on real files.
//!
//! This file says how large the tests are; what they share is in `yard.rs` and `places.rs`.

mod cancelled;
mod changes;
mod confinement;
mod guidance;
mod kept_work;
mod obedience;
mod patches;
mod places;
mod plans;
mod projects;
mod races;
mod reading;
mod sparse_files;
mod task_lists;
mod tracking;
mod undoing;
mod yard;

/// How large a test is: `pr` unless `ALTHING_TEST_SCALE=nightly`.
pub(super) fn scale(pr: u64, nightly: u64) -> u64 {
    althing_testkit::scale(pr as usize, nightly as usize) as u64
}
