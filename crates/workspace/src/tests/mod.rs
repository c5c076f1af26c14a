//! The guarantees about agents' files, tested on real files.

mod agent_files;
mod cancellation;
mod changes;
mod closing;
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
mod sizes;
mod snapshots;
mod sparse_files;
mod task_lists;
mod tracking;
mod undoing;

/// Returns `nightly` if `ALTHING_TEST_SCALE=nightly`, otherwise `pr`.
pub(super) fn scale(pr: u64, nightly: u64) -> u64 {
    althing_testkit::scale(pr as usize, nightly as usize) as u64
}
