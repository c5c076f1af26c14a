//! Sessions as a service: the layer between the front ends and everything else.
//!
//! A front end makes an [`AppContext`] and uses it to assemble a team, to start or resume a session, to follow the
//! session and to send ops to it. This crate does not parse the command line and, except for panic messages, prints
//! nothing.
#![expect(clippy::disallowed_methods, reason = "app owns the environment and the user's own files")]

pub mod agent_env;
pub mod agent_selection;
pub mod availability;
pub mod base_dirs;
pub mod context;
pub mod context_paths;
pub mod continuation;
pub mod conversation;
pub mod detect_backends;
pub mod diagnostics;
mod edit_trust;
pub mod environment;
pub mod eval;
#[doc(hidden)]
pub mod failpoint;
pub mod failure;
mod found_keys;
mod known_costs;
mod launch_links;
mod model_option;
pub mod otlp_export;
mod past_runs;
mod plans;
pub mod prepare;
pub mod programs;
pub mod project;
pub mod project_recorder;
pub mod reports;
pub mod resume;
mod run_account;
pub mod run_service;
pub mod secrets;
pub mod service;
pub mod session;
pub mod session_launch;
mod session_token;
pub mod settings;
mod simulated;
pub mod stored_sessions;
pub mod team;
pub mod trust;
pub mod trust_question;
pub mod undo;
pub mod user_notify;
mod work_dirs;
pub mod workflow;

pub use context::{AppContext, Notify};
pub use environment::{Environment, SystemClock, create_private_dir, read_text};
pub use failure::{Failure, FailureKind};
pub use service::{LocalSessions, SessionService};
pub use session_launch::{ChatRequest, RunRequest, SessionRequest};
pub use settings::{Settings, SingleAgent};
pub use trust_question::{AskTrust, TrustAnswer, TrustQuestion};
// Re-exported for front ends.
pub use althing_engine::{Consent, SessionEnd};
pub use althing_protocol::{Engine, EventStream, SessionStore};
pub use althing_runner::reexec_main;
