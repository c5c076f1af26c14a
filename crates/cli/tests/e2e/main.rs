//! The built binary with a fake model server over real HTTP: what a user, a script or an attacker sees from outside.
//!
//! Each file covers one behavior. The tests look only at stdout, stderr, exit codes, the requests that the server
//! received, and the files on disk.
#![expect(
    clippy::disallowed_methods,
    reason = "tests read and damage files, start programs and measure time"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    missing_docs,
    reason = "tests fail by panicking"
)]

mod agents;
mod chat;
mod chat_agent;
mod config_commands;
mod crash;
mod diagnostics;
mod disk;
mod docker;
mod endings;
mod exit_codes;
mod faults;
mod guidance;
mod hostile;
mod injected;
mod limits;
mod long_texts;
mod manners;
mod mcp;
mod mcp_clients;
mod mentions;
mod mode_scenarios;
mod modes;
mod new_agent;
mod options;
mod output;
mod papers;
mod plans;
mod programs;
mod projects;
mod replay;
mod restarts;
mod resume;
mod runs;
mod screen;
mod secrets;
mod server_endings;
mod sessions_commands;
mod signals;
mod soak;
mod subagents;
mod support;
mod telemetry;
mod tools;
mod typing;
mod upgrade;
mod visible;
mod watched;
mod workflows;

/// A file without a `mod` line is not compiled and tests nothing.
#[test]
fn no_test_file_is_forgotten() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.extension().is_none_or(|kind| kind != "rs") {
            continue;
        }
        let declared = include_str!("main.rs").lines().any(|line| line == format!("mod {name};"));
        assert!(declared || name == "main", "{} is not part of the suite", path.display());
    }
}
