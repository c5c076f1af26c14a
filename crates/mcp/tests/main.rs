//! The MCP client and server as a whole: with real servers if they are installed, and with a fake server that
//! misbehaves on demand.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::print_stderr,
    reason = "helpers of tests fail by panicking, and are written to be called briefly"
)]
#![expect(clippy::disallowed_methods, reason = "tests read files and the environment, and measure time")]

mod suite {
    mod approvals;
    mod attacks;
    mod calls;
    mod clients;
    mod death;
    mod endpoint;
    mod eras;
    mod hostile;
    mod http;
    mod local;
    mod pipe;
    mod processes;
    mod real;
    #[path = "../scripted/mod.rs"]
    mod scripted;
    mod serve;
    mod serve_http;
    mod start;
    mod support;
    mod wire;
}
