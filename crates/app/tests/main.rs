//! Tests of what several crates below this one must agree on, one binary; each file of `suite` is about one behaviour.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod suite {
    mod passed_on;
}
