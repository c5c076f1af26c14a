//! The numbers, each beside a floor measured in the same run: `cargo run --release -p althing-bench`; with words after
//! `--`, only those groups.
//!
//! Times here are noisy, ratios are not: the floor (a bare client that makes the same requests, a bare read loop on the
//! same program) and ours take turns, and medians are printed with their ratio. Nothing is asserted; what misses its
//! number says so, and docs/performance.md keeps a record.
#![expect(clippy::disallowed_methods, reason = "a benchmark starts programs and reads the clock")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark that cannot run stops"
)]

mod build_log;
mod cleaning;
mod conversation;
mod files;
mod log;
mod mcp;
mod measure;
mod pipes;
mod programs;
mod runs;
mod screen;
mod terminals;
mod verdict;

use measure::Programs;

/// A group: its name on the command line, and what measures it.
type Group = (&'static str, fn(&Programs, usize));

const GROUPS: [Group; 9] = [
    ("runs", runs::all),
    ("log", |_, _| log::append_and_replay()),
    ("cleaning", |_, rounds| cleaning::all(rounds)),
    ("pipes", pipes::all),
    ("terminals", terminals::all),
    ("conversation", conversation::all),
    ("mcp", mcp::all),
    ("screen", screen::all),
    ("files", |_, rounds| files::all(rounds)),
];

fn main() {
    // In this mode the process measures one command and says what it took: its children are then that command alone.
    let mut args = std::env::args().skip(1).peekable();
    if args.peek().is_some_and(|first| first == measure::ONE) {
        measure::one(&args.skip(1).collect::<Vec<_>>());
        return;
    }
    let wanted: Vec<String> = args.collect();
    let known = |name: &String| GROUPS.iter().any(|(group, _)| group == name);
    if let Some(unknown) = wanted.iter().find(|name| !known(name)) {
        let names: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
        println!("there is no group `{unknown}`; there are {}", names.join(", "));
        std::process::exit(1);
    }
    let rounds = std::env::var("ALTHING_BENCH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(30);
    let programs = Programs::build();
    println!("medians of {rounds} unless it says otherwise, floor and ours taking turns");
    for (name, group) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|want| want == name) {
            println!("\n{name}");
            group(&programs, rounds);
        }
    }
}
