//! Headless programs: output throughput, memory during a flood, and many programs at once.

use crate::measure::{Programs, measure, median, percentile, timed};
use crate::programs::{counting, flood, job, read_pipe, run, runner};
use crate::verdict::{below_ms, report, speed};
use althing_protocol::{ExecutionMode, ProgramReport, Programs as _, ReportSink};
use althing_testkit::{Althing, RunningProcess, wait};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// Enough output that startup is negligible.
const MEBIBYTES: usize = 256;
const TASKS: usize = 200;

pub fn all(programs: &Programs, rounds: usize) {
    for (what, colors) in [("pipe to events, a plain log", false), ("pipe to events, a colored log", true)] {
        throughput(programs, what, colors, rounds.min(9));
    }
    memory(programs);
    delay(programs);
    many(programs);
}

/// How long another program's output is delayed while one program floods.
fn delay(programs: &Programs) {
    const TICKS: usize = 300;
    let (dir, runner) = (TempDir::new().unwrap(), runner(programs));
    let delays = Arc::new(Mutex::new(Vec::new()));
    let sink_delays = Arc::clone(&delays);
    let sink: ReportSink = Arc::new(move |report| {
        let ProgramReport::Output { clean, .. } = report else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as f64;
        let times = clean.lines().filter_map(|line| line.parse::<f64>().ok());
        sink_delays.lock().unwrap().extend(times.map(|time| (now - time) / 1e9));
    });
    let clock = vec![programs.floor.display().to_string(), "clock".into(), TICKS.to_string()];
    let clock = job("clock", ExecutionMode::Headless, &clock, dir.path());
    let flooder = job("flood", ExecutionMode::Headless, &flood(programs, 1_000_000, true), dir.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let end = runtime.block_on(async {
        tokio::select! {
            end = runner.run(&clock, sink) => end,
            end = runner.run(&flooder, counting().1) => panic!("the flood ended: {end:?}"),
        }
    });
    assert!(end.ok, "{end:?}");
    let delays = delays.lock().unwrap().clone();
    assert_eq!(delays.len(), TICKS);
    below_ms("delay of another program's output during a flood, p99", percentile(delays, 99), 100.0);
}

fn throughput(programs: &Programs, what: &str, colors: bool, rounds: usize) {
    let (dir, runner) = (TempDir::new().unwrap(), runner(programs));
    let command = flood(programs, MEBIBYTES, colors);
    let job = job("t", ExecutionMode::Headless, &command, dir.path());
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (time, read) = timed(|| read_pipe(&command));
        floor.push(time);
        let (time, (end, counts)) = timed(|| run(&runner, &job));
        assert!(end.ok && counts.raw.load(Ordering::Relaxed) == read, "{end:?}");
        ours.push(time);
    }
    speed(what, median(ours), median(floor), 0.5);
}

fn workflow(dir: &Path, commands: &[Vec<String>]) -> String {
    let task = |(n, command): (usize, &Vec<String>)| json!({"id": format!("t{n}"), "agent": "command", "command": command, "executionMode": "headless", "prompt": ""});
    let tasks: Vec<_> = commands.iter().enumerate().map(task).collect();
    let file = dir.join("flow.yaml");
    let text = json!({"name": "bench", "goal": "bench", "stages": [{"name": "one", "tasks": tasks}]});
    std::fs::write(&file, text.to_string()).unwrap();
    file.display().to_string()
}

/// How much a flood of 1 GiB adds to the peak memory of Althing.
fn memory(programs: &Programs) {
    let dir = TempDir::new().unwrap();
    let peak = |mebibytes: usize| {
        let file = workflow(dir.path(), &[flood(programs, mebibytes, true)]);
        measure(&programs.althing, &["workflow", "run", &file, "--offline"], dir.path()).peak_mb
    };
    let (quiet, flooded) = (median((0..3).map(|_| peak(0)).collect()), peak(1024));
    let growth = flooded - quiet;
    let got = format!("{growth:.1} MiB ({quiet:.1} to {flooded:.1})");
    report("growth of memory in a flood of 1 GiB", got, "at most 64 MiB", growth <= 64.0);
}

/// The memory of each of many idle tasks, including its guard.
fn many(programs: &Programs) {
    let althing = Althing::new(programs.althing.clone());
    let dir = althing.work_dir();
    let (ready, go) = (dir.join("ready"), dir.join("go"));
    std::fs::create_dir(&ready).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &go, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let idle = |count: usize| {
        let script = |n: usize| format!(": > {}/{n}; read _ < {} || true", ready.display(), go.display());
        let commands: Vec<Vec<String>> =
            (0..count).map(|n| vec!["/bin/sh".into(), "-c".into(), script(n)]).collect();
        let file = workflow(&dir, &commands);
        let running = althing.new_command().args(["workflow", "run", &file, "--offline", "--json"]).spawn();
        let there = || std::fs::read_dir(&ready).unwrap().count();
        wait::until(Duration::from_secs(120), || there() == count || !running.is_running());
        let memory = ours(&running);
        // Each task waits to read from the FIFO, and ends when the FIFO has been opened for writing and closed.
        wait::until(Duration::from_secs(120), || {
            let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
            drop(rustix::fs::open(&go, flags, rustix::fs::Mode::empty()));
            !running.is_running()
        });
        for entry in std::fs::read_dir(&ready).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let output = running.wait(Duration::from_secs(120));
        let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap_or_default();
        let tasks = report["stages"][0]["tasks"].as_array().cloned().unwrap_or_default();
        let failed = count - tasks.iter().filter(|task| task["status"] == "DONE").count();
        (memory, failed)
    };
    let (one, _) = idle(1);
    let (memory, failed) = idle(TASKS);
    let each = (memory - one) / (TASKS as f64 - 1.0);
    report(&format!("{TASKS} headless tasks at once, failed"), failed, "0", failed == 0);
    let got = format!("{each:.2} MB ({memory:.0} MB in all)");
    report("memory of an idle task, with its guard", got, "under 1 MB", each < 1.0);
}

/// The memory of the binary and its guards in MB, without their programs. Each process counts its share of a shared
/// page.
fn ours(running: &RunningProcess) -> f64 {
    let mut all = 0.0;
    let mut open = vec![running.id()];
    while let Some(id) = open.pop() {
        let proc = Path::new("/proc").join(id.to_string());
        for thread in std::fs::read_dir(proc.join("task")).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            open.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
        let is_ours = std::fs::read_to_string(proc.join("comm")).is_ok_and(|name| {
            // A guard is started through /proc/self/exe, so its process name is `exe`.
            ["althing", "exe"].contains(&name.trim())
        });
        if is_ours {
            let memory = std::fs::read_to_string(proc.join("smaps_rollup")).unwrap_or_default();
            let line = memory.lines().find_map(|line| line.strip_prefix("Pss:"));
            let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
            all += kilobytes.unwrap_or_default() / 1024.0;
        }
    }
    all
}
