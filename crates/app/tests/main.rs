//! Integration tests of `app` with the crates below it, in one binary; each file of `suite` covers one behavior.

#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests inspect files and print")]
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod suite {
    mod forbidden_acts;
    mod passed_on;
    mod sessions;
}
