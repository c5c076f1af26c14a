//! Tests of the whole screen: events and keys in, a drawn screen and ops out.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "helpers of tests fail by panicking, and are written to be called briefly"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests measure how long a frame takes, and read their own memory"
)]

mod foreign;
mod script;

mod suite {
    mod approvals;
    mod attach;
    mod conversation;
    mod everyday;
    mod hints;
    mod hostile;
    mod interrupting;
    mod keys;
    mod letters;
    mod modes;
    mod opened;
    mod overriding;
    mod plain;
    mod random_keys;
    mod replay;
    mod runs;
    mod screens;
    mod session_picker;
    mod size;
    mod speed;
    mod support;
    mod tasks;
    mod unseen;
}
