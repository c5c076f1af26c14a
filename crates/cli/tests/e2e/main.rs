//! The built binary with a fake model server over real HTTP: what a user, a script or an attacker sees from outside.
//!
//! Each file covers one behavior. Nearly all tests look only at stdout, stderr, the screen of a terminal, exit codes,
//! the requests that the server received, and the files on disk.
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
mod asked_once;
mod attack_agents;
mod attack_git;
mod attack_git_elsewhere;
mod attack_limits;
mod attack_links;
mod attack_mounts;
mod attack_own_files;
mod attack_protected_links;
mod attack_writes;
mod attacks;
mod called_by_name;
mod chat;
mod chat_agent;
mod chat_kinds;
mod chat_scenarios;
mod compaction;
mod completion;
mod config_commands;
mod context_flow;
mod continuing;
mod copying;
mod costs;
mod crash;
mod crowd;
mod diagnostics;
mod disk;
mod docker;
mod docker_packages;
mod edits;
mod endings;
mod endless;
mod entry;
mod eval;
mod eval_tasks;
mod eval_worlds;
mod everyday;
mod exit_codes;
mod explained;
mod faults;
mod foreign_state;
mod forged;
mod found_keys;
mod found_sessions;
mod found_values;
mod greeting;
mod guidance;
mod half_truths;
mod hidden_code;
mod hostile;
mod huge_files;
mod injected;
mod late_writes;
mod launch_paths;
mod launched_runs;
mod limits;
mod local_models;
mod long_texts;
mod manners;
mod matrix;
mod matrix_table;
mod mcp;
mod mcp_clients;
mod mentions;
mod mode_scenarios;
mod modes;
mod new_agent;
mod newcomer;
mod notifying;
mod offline;
mod one_call;
mod options;
mod output;
mod papers;
mod plans;
mod planted;
mod planted_by_runs;
mod private_settings;
mod program_checks;
mod program_config;
mod program_cut_off;
mod program_prompts;
mod program_questions;
mod program_resume;
mod program_runs;
mod program_strangers;
mod program_troubles;
mod program_turns;
mod programs;
mod projects;
mod prompt_cache;
mod real_model;
mod replay;
mod reports;
mod restarts;
mod resume;
mod retrying;
mod runs;
mod scenarios;
mod screen;
mod screen_modes;
mod scripted_claude;
mod secrets;
mod seen_on_screen;
mod sent_prompts;
mod server_code;
mod server_endings;
mod session_picker;
mod sessions_commands;
mod signals;
mod small_screens;
mod soak;
mod spending;
mod subagents;
mod support;
mod telemetry;
mod terminal_text;
mod tools;
mod trust_questions;
mod typing;
mod undo_signals;
mod unseen;
mod upgrade;
mod visible;
mod vote_window;
mod watched;
mod weak_models;
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

/// In CI, a test that lacks a program it needs must not count as passed.
#[test]
fn tests_without_the_programs_that_they_need_fail_in_ci_and_are_skipped_elsewhere() {
    let tests = [
        "programs::claude_code_as_chat_agent_works_in_the_project_and_launches_a_run",
        "real_model::runs_on_a_tiny_real_model_end_mostly_with_an_answer_and_never_present_markup",
        "mcp_clients::the_official_python_client_gets_a_result_over_stdio",
        "disk::a_run_on_a_full_disk_waits_with_a_notice_and_continues_when_there_is_space",
        "docker::the_container_of_a_quick_single_agent_can_write_to_the_context_path_from_the_start",
    ];
    for test in tests {
        for ci in ["true", "false"] {
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", test, "--nocapture"]).env("CI", ci).env("PATH", "/nowhere");
            command.env("ALTHING_TEST_WITHOUT", "docker");
            command.env_remove("ALTHING_AGENT_CLIS").env_remove("ALTHING_MCP_SERVERS");
            command.env_remove("ALTHING_REAL_MODEL");
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(text.contains("running 1 test"), "{test}: {text}");
            assert_eq!(output.status.success(), ci == "false", "{test}, CI={ci}: {text}");
            assert!(ci == "false" || text.contains("no test may be skipped"), "{test}: {text}");
        }
    }
}
