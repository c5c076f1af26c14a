//! Starts, watches and ends processes and containers; the only crate that does.
//!
//! A model's command runs under a guard (so that nothing it started outlives us) inside a sandbox (so that it touches
//! only what its agent was given). This crate must never run a command in a weaker sandbox than it was asked for: what
//! cannot be enforced is refused. It exists so that every other crate can be read without thinking about processes.
#![expect(clippy::disallowed_methods, reason = "runner owns processes")]

pub mod adapter;
mod bubblewrap;
mod clean;
mod command;
mod confinement;
mod detect;
pub mod dialogue;
mod docker;
mod grants;
mod guard;
mod guarded;
mod hidden;
mod kernel;
mod launch;
mod lines;
mod lists;
mod output;
mod passing;
mod pipe_loop;
mod piped;
mod policy;
mod probe;
mod program;
mod protected;
mod protection;
mod sandbox;
mod terminal;
mod text;
mod tree;
mod view;

pub use bubblewrap::Bubblewrap;
pub use clean::{Cleaner, clean};
pub use command::{CommandHost, RUN_COMMAND};
pub use confinement::{AcceptedByUser, Confinement, ConfinementKind};
pub use detect::{Available, Found, SandboxAvailability, availability, detect};
pub use docker::{Container, ContainerSpec, DockerClient, DockerError, NetworkMode};
pub use guarded::Launcher;
pub use hidden::hidden_main;
pub use lists::CommandLists;
pub use piped::{Piped, PipedProcess, PipedProgram};
pub use policy::{CommandPolicy, ContextMount, Environment, Limits, PolicyError, SandboxPaths};
pub use program::{CliAgentConfig, CliBackend, ProgramLimits, ProgramRunner, ProgramStarter};
pub use protection::WriteProtection;
pub use terminal::PatternTable;
#[cfg(feature = "fuzzing")]
pub use terminal::{FuzzTerminal, ScreenReaders};
