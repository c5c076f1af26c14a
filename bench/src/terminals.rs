//! Programs in terminals: output throughput, attaching, and many terminals at once.

use crate::measure::{Programs, median, timed};
use crate::programs::{counting, flood, in_terminal, job, read_all, read_terminal, run, runner};
use crate::verdict::{below_ms, report, report_value, speed};
use althing_protocol::{ExecutionMode, Programs as _, TaskId};
use althing_testkit::wait;
use std::time::Duration;
use tempfile::TempDir;

/// Output for the throughput measurement.
const MEBIBYTES: usize = 32;
/// Number of concurrent terminals.
const TERMINALS: usize = 50;

pub fn all(programs: &Programs, rounds: usize) {
    for (what, colors) in
        [("terminal to events, a plain log", false), ("terminal to events, a colored log", true)]
    {
        throughput(programs, what, colors, rounds.min(9));
    }
    attach(programs, rounds);
    many(programs, rounds.min(5));
}

fn throughput(programs: &Programs, what: &str, colors: bool, rounds: usize) {
    let (dir, runner) = (TempDir::new().unwrap(), runner(programs));
    let command = flood(programs, MEBIBYTES, colors);
    let job = job("t", ExecutionMode::Interactive, &command, dir.path());
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        floor.push(timed(|| read_terminal(&command)).0);
        let (time, (end, _)) = timed(|| run(&runner, &job));
        assert!(end.ok, "{end:?}");
        ours.push(time);
    }
    speed(what, median(ours), median(floor), 0.5);
}

/// The time to get the screen of a program that draws continuously.
fn attach(programs: &Programs, rounds: usize) {
    let (dir, runner) = (TempDir::new().unwrap(), runner(programs));
    let job = job("t", ExecutionMode::Interactive, &flood(programs, 1_000_000, true), dir.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (theirs, (_, sink)) = (runner.clone(), counting());
    let running = runtime.spawn(async move { theirs.run(&job, sink).await });
    let task = TaskId::from("t");
    let shows = || runner.screen(&task).is_some_and(|screen| screen.text().iter().any(|row| !row.is_empty()));
    wait::until(Duration::from_secs(10), shows);
    let times =
        (0..rounds.max(30) * 10).map(|_| timed(|| assert!(runner.screen(&task).is_some())).0).collect();
    below_ms("attach to a terminal in a flood", median(times), 50.0);
    running.abort();
    wait::until(Duration::from_secs(20), || runner.screen(&task).is_none());
    runtime.shutdown_timeout(Duration::from_secs(5));
}

fn many(programs: &Programs, rounds: usize) {
    let (dir, runner) = (TempDir::new().unwrap(), runner(programs));
    let command = flood(programs, 1, true);
    let (mut ours, mut floor, mut failed) = (Vec::new(), Vec::new(), 0);
    for _ in 0..rounds {
        let (time, ()) = timed(|| {
            let started: Vec<_> = (0..TERMINALS).map(|_| in_terminal(&command)).collect();
            std::thread::scope(|scope| {
                for (terminal, mut child) in started {
                    scope.spawn(move || (read_all(&terminal), child.wait().unwrap()));
                }
            });
        });
        floor.push(time);
        let jobs: Vec<_> = (0..TERMINALS)
            .map(|n| job(&format!("t{n}"), ExecutionMode::Interactive, &command, dir.path()))
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (time, ends) = timed(|| {
            runtime.block_on(futures_util::future::join_all(
                jobs.iter().map(|job| runner.run(job, counting().1)),
            ))
        });
        ours.push(time);
        failed += ends.iter().filter(|end| !end.ok).count();
    }
    report(&format!("{TERMINALS} terminals at once, failed"), failed, "0", failed == 0);
    let (ours, floor) = (median(ours), median(floor));
    report_value("1 MiB through each terminal", format!("{:.0} ms (bare {:.0} ms)", ours * 1e3, floor * 1e3));
}
