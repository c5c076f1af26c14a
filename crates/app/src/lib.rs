//! Sessions as a service: the layer between the front ends and everything else.
//!
//! A front end makes an [`AppContext`] and uses it to assemble a team, begin or resume a session, follow it and send it
//! ops. This crate knows no terminal and no command line.
#![expect(clippy::disallowed_methods, reason = "app owns the environment and the user's own files")]

pub mod available;
pub mod choice;
pub mod context;
pub mod context_paths;
pub mod conversation;
pub mod desk;
pub mod diagnostics;
pub mod environment;
pub mod failure;
pub mod found;
pub mod launch;
#[doc(hidden)]
pub mod mishap;
pub mod observe;
pub mod place;
mod plans;
pub mod prepare;
pub mod programs;
pub mod project;
pub mod records;
pub mod resume;
pub mod secrets;
pub mod service;
pub mod session;
pub mod settings;
pub mod team;
pub mod trust;
pub mod workflow;

pub use context::{AppContext, Notify};
pub use environment::{Environment, SystemClock};
pub use failure::{Failure, FailureKind};
pub use launch::{ChatRequest, RunRequest, SessionRequest};
pub use service::{LocalSessions, SessionService};
pub use settings::{Settings, Single};
// What a front end needs of the engine and of the ports.
pub use althing_engine::{Consent, Stopped};
pub use althing_protocol::{Engine, EventStream, SessionStore};
pub use althing_runner::hidden_main;
