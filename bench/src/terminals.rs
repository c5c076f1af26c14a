//! Programs in terminals: output throughput, attaching, and many terminals and questions at once.

use crate::measure::{Programs, median, timed};
use crate::programs::{counting, flood, in_terminal, job, read_all, read_terminal, run, runner};
use crate::verdict::{below_ms, report, report_value, speed};
use althing_protocol::{ExecutionMode, ProgramReport, Programs as _, ReportSink, TaskId};
use althing_testkit::wait;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MEBIBYTES: usize = 32;
const TERMINALS: usize = 50;

pub fn all(programs: &Programs, rounds: usize) {
    for (what, colors) in
        [("terminal to events, a plain log", false), ("terminal to events, a colored log", true)]
    {
        throughput(programs, what, colors, rounds.min(9));
    }
    attach(programs, rounds);
    many(programs, rounds.min(5));
    questions(programs, rounds.min(5));
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

/// When a question appeared on the screen of a program, and when it was reported.
#[derive(Default)]
struct Question {
    shown: OnceLock<Instant>,
    reported: OnceLock<Instant>,
}

/// Measures the time from the moment a question is on the screen to its report, while many programs start, print and
/// ask at once.
fn questions(programs: &Programs, rounds: usize) {
    const ASKS: &str = "seq 1 2000; printf 'Proceed? [y/N] '; read answer";
    let command = ["sh", "-c", ASKS].map(str::to_owned);
    let mut worst: f64 = 0.0;
    for _ in 0..rounds {
        let (dir, runner) = (TempDir::new().unwrap(), runner(programs));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let names: Vec<String> = (0..TERMINALS).map(|n| format!("t{n}")).collect();
        let questions: Vec<Arc<Question>> = names.iter().map(|_| Arc::default()).collect();
        let start = |(name, question): (&String, &Arc<Question>)| {
            let job = job(name, ExecutionMode::Interactive, &command, dir.path());
            let (question, runner) = (Arc::clone(question), runner.clone());
            let sink: ReportSink = Arc::new(move |report| match report {
                ProgramReport::Output { raw, .. } if raw.windows(5).any(|bytes| bytes == b"[y/N]") => {
                    question.shown.get_or_init(Instant::now);
                }
                ProgramReport::Waiting(_) => {
                    question.reported.get_or_init(Instant::now);
                }
                _ => {}
            });
            runtime.spawn(async move { runner.run(&job, sink).await })
        };
        let running: Vec<_> = names.iter().zip(&questions).map(start).collect();
        wait::until(Duration::from_secs(60), || {
            questions.iter().all(|question| question.reported.get().is_some())
        });
        for question in &questions {
            let (shown, reported) = (question.shown.get().unwrap(), question.reported.get().unwrap());
            worst = worst.max(reported.saturating_duration_since(*shown).as_secs_f64());
        }
        for name in &names {
            assert!(runner.input(&TaskId::from(name.as_str()), b"n\r"));
        }
        runtime.block_on(futures_util::future::join_all(running));
    }
    below_ms(
        &format!("a question on the screen to its report as waiting, the slowest of {TERMINALS} at once"),
        worst,
        1000.0,
    );
}
