//! Test infrastructure that is not shipped: a fake model server with scripted bytes and timing, a harness around the
//! built binary, and waiting with deadlines instead of sleeping.
//!
//! Three concerns are separate: *what* is said ([`Reply`]), *how* a wire format says it (`wire/`), and how it goes
//! wrong ([`Fault`]). Every fault works with every wire format.
//!
//! ```no_run
//! # use std::time::Duration;
//! use althing_testkit::{FaultCase, FaultExpectation, FakeModel, Script};
//!
//! # async fn client_says(_url: &str) -> Result<(), bool> { Ok(()) }
//! # async fn table() {
//! for case in FaultCase::all() {
//!     let once = Script::parliament().on("model-a").fault_once(case.fault, case.moment);
//!     let server = FakeModel::start(once).await;
//!     let result = client_says(&server.base_url()).await;
//!     match case.expectation() {
//!         FaultExpectation::HarmlessVariation | FaultExpectation::Recovers => assert!(result.is_ok(), "{case}"),
//!         FaultExpectation::Fails { retryable } => assert_eq!(result.is_ok(), retryable, "{case}"),
//!     }
//! }
//! # }
//! ```
#![allow(missing_docs, reason = "internal crate: names that explain themselves need no comment")]
#![expect(
    clippy::disallowed_methods,
    reason = "the kit starts processes, reads their files and measures time, on behalf of tests"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test kit fails by panicking"
)]

pub mod attacks;
mod bombs;
pub mod collector;
pub mod docker;
mod fault;
mod gate;
mod machine;
mod missing;
mod plan;
mod policy;
pub mod process;
mod program;
mod recorded;
mod reply;
mod scale;
mod script;
mod server;
mod signal;
mod small_model;
pub mod svg;
pub mod terminal;
mod tmux;
pub mod wait;
mod wire;
pub mod worlds;

pub use bombs::config_bombs;
pub use fault::{BadArguments, Fault, FaultCase, FaultExpectation, FaultMoment, RetryAfter, UTF8_SAMPLE};
pub use gate::Gate;
pub use machine::{Machine, ORDINARY_ID, User, is_root, reachable};
pub use missing::skip_unless_ci;
pub use policy::Parliament;
pub use process::{Althing, Output, RunningProcess, read_events};
pub use program::ServerProgram;
pub use recorded::{RecordedRequest, RequestOutcome};
pub use reply::{Finish, Reply, ToolCall, Usage};
pub use scale::scale;
pub use script::{Action, OnModel, Script};
pub use server::{FakeModel, FakeModelOptions, refused_base_url};
pub use small_model::{CallStyle, SmallModel};
pub use terminal::Terminal;
pub use tmux::Tmux;
pub use vt100;
