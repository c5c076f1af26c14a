//! Starts, watches and ends processes and containers; no other crate does.
//!
//! A model's command runs under a guard (or in a container), so that nothing it starts outlives us, and inside a
//! sandbox, so that it can access only what its agent was given; it runs without a sandbox only if the user accepted
//! that. This crate must never run a command in a weaker sandbox than requested: what cannot be enforced is refused.
#![expect(clippy::disallowed_methods, reason = "runner owns processes")]

pub mod adapter;
mod bubblewrap;
mod clean;
mod command;
mod command_lists;
mod detect_sandboxes;
mod docker;
mod fd_passing;
mod guard;
mod guard_protocol;
mod guarded;
mod kernel;
mod landlock_rules;
mod lines;
mod mount_table;
mod output;
mod pipe_loop;
mod piped;
mod policy;
mod probe;
mod process_tree;
mod program;
mod protected_paths;
mod reexec;
mod sandbox;
mod sandbox_exec;
pub mod structured;
mod terminal;
mod tool_text;
mod write_protection;

pub use bubblewrap::Bubblewrap;
pub use clean::{Cleaner, clean};
pub use command::{CommandHost, RUN_COMMAND};
pub use command_lists::CommandLists;
pub use detect_sandboxes::{
    AvailableSandboxes, SandboxAvailability, SandboxProbe, availability, detect_sandboxes,
};
pub use docker::{Container, ContainerSpec, DockerClient, DockerError, NetworkMode};
pub use guarded::{GuardLauncher, all_guards_ended};
pub use piped::{PipedChild, PipedProcess, PipedProgram};
pub use policy::{ChildEnvironment, CommandLimits, CommandPolicy, ContextMount, PolicyError, SandboxPaths};
pub use program::{CliAgentConfig, CliBackend, ProgramLimits, ProgramRunner, ProgramStarter};
pub use reexec::reexec_main;
pub use sandbox::{AcceptedByUser, Sandbox, SandboxKind};
pub use terminal::PatternTable;
#[cfg(feature = "fuzzing")]
pub use terminal::{FuzzTerminal, ScreenReaders};
pub use write_protection::WriteProtection;
