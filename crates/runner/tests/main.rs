//! The runner against the real thing: real processes, real sandboxes, a real Docker daemon.
//!
//! What a test needs and the machine lacks is installed by `tests/setup.sh`; a test that still misses it fails, except
//! where `ALTHING_TEST_WITHOUT` names it (`docker`, `bubblewrap`, `landlock`).
#![allow(clippy::disallowed_methods, reason = "tests look at files, processes and the clock from outside")]
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
    mod docker;
    mod escapes;
    mod floods;
    mod guard;
    mod headless;
    mod members;
    mod piped;
    mod policy;
    mod programs;
    mod structured_sessions;
    mod support;
    mod terminals;
    mod terminals_flooded;
}
