//! Starts, watches and ends processes and containers: CLI agents, and models' commands under a guard and in a
//! sandbox.
//!
//! A command runs without a sandbox only if the user accepted that, and never in a weaker sandbox than requested:
//! what cannot be enforced is refused.
#![expect(clippy::disallowed_methods, reason = "runner owns processes")]

pub mod adapter;
mod agent_processes;
mod bubblewrap;
mod clean;
mod code_stamp;
mod code_watch;
mod command;
mod command_lists;
mod detect_sandboxes;
mod dir_lock;
mod disk_usage;
mod docker;
mod fd_passing;
mod git_code;
mod guard;
mod guard_protocol;
mod guarded;
mod kernel;
mod landlock_rules;
mod limit_watch;
mod limits;
mod lines;
mod linked_code;
mod listing;
mod mount_check;
mod mount_table;
mod os_text;
mod output;
mod pipe_loop;
mod piped;
mod placeholders;
mod planted_code;
mod policy;
mod probe;
mod process_tree;
mod program;
mod protected_paths;
mod reexec;
mod repositories;
mod sandbox;
mod sandbox_exec;
mod settings_code;
mod socket_files;
pub mod structured;
mod terminal;
mod tool_text;
mod workspace_disk;
mod write_protection;

pub use agent_processes::processes_ended;
pub use bubblewrap::Bubblewrap;
pub use clean::{Cleaner, clean};
pub use command::{CommandHost, RUN_COMMAND};
pub use command_lists::CommandLists;
pub use detect_sandboxes::{
    AvailableSandboxes, SandboxAvailability, SandboxProbe, availability, detect_sandboxes,
};
pub use docker::{Container, ContainerSpec, DockerClient, DockerError, NetworkMode, Packages};
pub use git_code::{GitCode, git_code, own_places, startup_code};
pub use guarded::{GuardLauncher, all_guards_ended};
pub use linked_code::{LinkedCode, linked_code};
pub use piped::{PipedChild, PipedProcess, PipedProgram};
pub use planted_code::{NoticeSink, PlantedCode};
pub use policy::{ChildEnvironment, CommandLimits, CommandPolicy, ContextMount, PolicyError, SandboxPaths};
pub use program::{
    CliAgentConfig, CliBackend, ModelPrices, ProgramLimits, ProgramRunner, ProgramStarter, ProtectedPaths,
    clean_left_settings,
};
pub use reexec::reexec_main;
pub use sandbox::{AcceptedByUser, Sandbox, SandboxKind};
pub use terminal::PatternTable;
#[cfg(feature = "fuzzing")]
pub use terminal::{FuzzTerminal, ScreenReaders};
pub use write_protection::WriteProtection;
