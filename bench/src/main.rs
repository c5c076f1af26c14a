//! The numbers, each beside a floor measured in the same run: `cargo run --release -p althing-bench`.
//!
//! Times here are noisy, ratios are not: the floor (a bare client that makes the same requests, a bare process) and ours
//! take turns, and medians are printed with their ratio. Nothing is asserted; docs/performance.md keeps a record.
#![expect(clippy::disallowed_methods, reason = "a benchmark starts programs and reads the clock")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark that cannot run stops"
)]

mod log;
mod measure;
mod runs;

use measure::Programs;

fn main() {
    // In this mode the process measures one command and says what it took: its children are then that command alone.
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(measure::ONE) {
        measure::one(&args.collect::<Vec<_>>());
        return;
    }
    let rounds = std::env::var("ALTHING_BENCH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(30);
    let programs = Programs::build();
    println!("medians of {rounds}, floor and ours taking turns; wall and CPU in ms\n");
    runs::help(&programs, rounds);
    runs::first_request(&programs, rounds);
    for agents in [1, 3, 16, 64] {
        runs::agents(&programs, agents, rounds);
    }
    runs::streaming(&programs, rounds);
    log::append_and_replay();
}
