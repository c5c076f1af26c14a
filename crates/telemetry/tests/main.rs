//! Tests of the fold from recorded sessions to spans, and of the export to a collector.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "test helpers fail by panicking, and their signatures keep the calls short"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests read recorded logs, and measure how long a finish took"
)]

mod suite {
    mod exporting;
    mod folding;
    mod support;
}
