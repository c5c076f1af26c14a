//! The screen, from outside: events and keys in, a drawn screen and ops out.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::cast_possible_wrap,
    reason = "helpers of tests fail by panicking, and are written to be called briefly"
)]

mod script;
