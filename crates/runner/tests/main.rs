//! Integration tests of the runner: real processes, real sandboxes, a real Docker daemon.
//!
//! `tests/setup.sh` installs bubblewrap, Docker and some tools; perl, python3 and node must be installed already. A
//! test whose requirement is missing fails, unless `ALTHING_TEST_WITHOUT` excludes it (`docker`, `bubblewrap`,
//! `landlock`). With `CI=true` nothing may be excluded.
#![allow(clippy::disallowed_methods, reason = "tests inspect files, processes and the clock")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests fail by panicking"
)]

mod suite {
    mod adapters;
    mod commands;
    mod confined;
    mod conversation_ids;
    mod docker;
    mod docker_mount_races;
    mod escapes;
    mod floods;
    mod guard;
    mod headless;
    mod limit_evasions;
    mod limits;
    mod members;
    mod message_floods;
    mod mount_races;
    mod own_files;
    mod piped;
    mod policy;
    mod programs;
    mod structured_sessions;
    mod support;
    mod system_calls;
    mod terminals;
    mod terminals_flooded;
    mod trial_directories;
    mod unlinked_files;
    mod waiting_programs;
    mod waiting_table;
}
