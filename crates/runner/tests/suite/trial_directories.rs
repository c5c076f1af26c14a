//! The directories in which sandboxes are tried out: one that a killed process left is removed by the next trial, one
//! in use is not.

use super::support::launcher;
use althing_runner::detect_sandboxes;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;

#[tokio::test]
async fn a_trial_directory_of_a_killed_process_is_removed_by_the_next_trial() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    for name in ["althing-trial-0a1b", "althing-trial-used", "another"] {
        std::fs::create_dir_all(path(name).join("workspace")).unwrap();
        std::fs::write(path(name).join("workspace/proof"), "it works\n").unwrap();
    }
    std::os::unix::fs::symlink(path("another"), path("althing-trial-link")).unwrap();
    let used = File::open(path("althing-trial-used")).unwrap();
    flock(&used, FlockOperation::LockShared).unwrap();
    detect_sandboxes(&launcher(), scratch.path()).await;
    let mut left: Vec<_> =
        std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["althing-trial-link", "althing-trial-used", "another"]);
    assert!(path("another/workspace/proof").exists());
}
