//! Tests of what several crates below this one must agree on, one binary; each file of `suite` is about one behaviour.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests look at files from outside, and tell"
)]
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod suite {
    mod forbidden_acts;
    mod passed_on;
    mod sessions;
}
