//! Wire formats against a real server on the loopback interface: requests, replies, and the outcome of every fault.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::format_collect,
    reason = "test helpers fail by panicking, and their signatures keep the calls short"
)]
#![expect(clippy::disallowed_methods, reason = "tests measure how long a call took")]

mod suite {
    mod cancel;
    mod dialects;
    mod faults;
    mod limits;
    mod network;
    mod offline;
    mod refusals;
    mod replies;
    mod requests;
    mod schemas;
    mod secrets;
    mod support;
    mod thoughts;
    mod throttle;
    mod tool_calling;
    mod wires;
}
