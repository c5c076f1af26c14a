//! Benchmarks, each compared to a baseline measured in the same run: `cargo run --release -p althing-bench`; with
//! names after `--`, only those groups; with `--list`, the list of groups; with `--markdown`, a table at the end.
//!
//! Times are noisy, ratios less so: the baseline (a bare client that makes the same requests, a bare read loop on the
//! same program) and Althing are measured alternately, and medians are printed with their ratio. A missed target is
//! reported, and docs/performance.md keeps a record. The exit status is 1 only if a target of `growth` or
//! `growth-screen` is missed, because nonlinear growth is a bug.
#![expect(clippy::disallowed_methods, reason = "a benchmark starts programs and reads the clock")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark that cannot run stops"
)]

mod build_log;
mod calls;
mod cleaning;
mod conversation;
mod decisions;
mod files;
mod growth;
mod log;
mod massgen;
mod mcp;
mod measure;
mod patterns;
mod pipes;
mod programs;
mod recovery;
mod runs;
mod screen;
mod sessions;
mod sizes;
mod table;
mod team;
mod terminals;
mod verdict;

use measure::Programs;

type Group = (&'static str, &'static str, fn(&Programs, usize));

const GROUPS: [Group; 17] = [
    (
        "runs",
        "start-up; runs of 1 to 256 agents and long streams, compared to a bare client; memory per agent",
        runs::all,
    ),
    ("calls", "model calls and prompt bytes that an answer costs", |programs, _| calls::all(programs)),
    ("log", "appending to the event log, and reading a million events back", |_, rounds| log::all(rounds)),
    ("cleaning", "cleaning programs' output, compared to strip-ansi-escapes and memcpy", |_, rounds| {
        cleaning::all(rounds)
    }),
    ("pipes", "headless programs: throughput, memory in a flood, 200 at once", pipes::all),
    (
        "terminals",
        "programs in terminals: throughput, attaching, 50 and their questions at once",
        terminals::all,
    ),
    ("conversation", "overhead of a turn, opening a long session, `launch_run`", conversation::all),
    ("mcp", "`launch_run` over MCP", mcp::all),
    ("screen", "first frame, keys, idling, long transcripts", screen::all),
    ("sessions", "listing the newest of 10,000 and 100,000 sessions", sessions::all),
    ("files", "file tools, snapshots of workspaces, context paths", |_, rounds| files::all(rounds)),
    ("recovery", "recovery times after kills, signals, questions and floods", recovery::all),
    ("sizes", "size of the binary; cost of rejecting malicious configs", sizes::all),
    (
        "growth",
        "exponents over agents, conversations, logs, streams and output; fails where one is not linear",
        growth::all,
    ),
    (
        "growth-screen",
        "exponents over transcripts and streamed messages on the screen; fails where one is not linear",
        growth::on_the_screen,
    ),
    ("massgen", "the same work by MassGen, where it is installed", massgen::all),
    (
        "patterns",
        "model calls and time of runs whose agents refine, beside MassGen where it is installed",
        patterns::all,
    ),
];

fn main() {
    // With `--measure-one`, this process only runs one command, measures it as its only child, and prints the result.
    let mut args = std::env::args().skip(1).peekable();
    if args.peek().is_some_and(|first| first == measure::ONE) {
        measure::one(&args.skip(1).collect::<Vec<_>>());
        return;
    }
    if args.peek().is_some_and(|first| first == "decisions") {
        if args.nth(1).is_some_and(|option| option == "--check") {
            std::process::exit(i32::from(!decisions::check()));
        }
        decisions::print();
        return;
    }
    let (options, wanted): (Vec<String>, Vec<String>) = args.partition(|word| word.starts_with('-'));
    if let Some(unknown) = options.iter().find(|option| *option != "--markdown") {
        help();
        std::process::exit(i32::from(!["--list", "--help", "-h"].contains(&unknown.as_str())));
    }
    if let Some(unknown) = wanted.iter().find(|name| !GROUPS.iter().any(|(group, ..)| group == name)) {
        println!("there is no group `{unknown}`\n");
        help();
        std::process::exit(1);
    }
    let markdown = !options.is_empty();
    if markdown {
        verdict::keep_stdout_for_the_table();
    }
    let rounds = std::env::var("ALTHING_BENCH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(30);
    let programs = Programs::build();
    verdict::print_line(&table::circumstances(&programs, rounds));
    for (name, _, group) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|want| want == name) {
            verdict::begin(name);
            // A panic in one group must not lose the measurements of the others.
            if std::panic::catch_unwind(|| group(&programs, rounds)).is_err() {
                verdict::report("the group", "broke off: see above", "to be measured", false);
            }
        }
    }
    let lines = verdict::lines();
    if markdown {
        println!("{}", table::markdown(&programs, &lines, rounds));
    }
    let missed = |line: &&verdict::ResultLine| line.promise.as_ref().is_some_and(|(_, met)| !met);
    verdict::print_line(&format!(
        "\n{} measurements, {} missed targets",
        lines.len(),
        lines.iter().filter(missed).count()
    ));
    if lines.iter().filter(missed).any(|line| line.group.starts_with("growth")) {
        verdict::print_line("something that should be linear is not");
        std::process::exit(1);
    }
}

fn help() {
    println!(
        "cargo run --release -p althing-bench [-- [--markdown] [GROUP...]]\n\n\
         --markdown  numbers on standard error as they come, and at the end a table on standard output\n\
         --list      this\n\
         decisions   instead of measuring, prints the simulated tables of docs/decisions.md;\n\
         \x20           with --check, compares them with that page\n\n\
         ALTHING_BENCH_ROUNDS=30            how often things are measured\n\
         ALTHING_BENCH_MASSGEN=…/bin/massgen  which MassGen is measured beside us (else the one on PATH)\n"
    );
    for (name, about, _) in GROUPS {
        println!("  {name:14} {about}");
    }
}
