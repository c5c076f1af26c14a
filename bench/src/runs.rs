//! Whole runs of the binary, compared to a bare HTTP client that makes the same requests.

use crate::measure::{Measurement, Programs, line, measure, median, medians};
use crate::team::{Server, config};
use crate::verdict::{below_mb, below_ms, report, report_value, times};
use althing_testkit::{FakeModel, Script};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TEAMS: [usize; 6] = [1, 3, 8, 16, 64, 256];
/// The team size that has targets.
const PROMISED: usize = 16;

pub fn all(programs: &Programs, rounds: usize) {
    help(programs, rounds);
    first_request(programs, rounds);
    let mut taken = Vec::new();
    for agents in TEAMS {
        // A large run takes so long that fewer rounds are accurate enough.
        let rounds = if agents > PROMISED { rounds.min(11) } else { rounds };
        let (floor, ours) = compare(programs, agents, 8, rounds);
        let noun = if agents == 1 { "agent" } else { "agents" };
        let what = format!("{agents} {noun}, {} calls", 2 * agents + 1);
        if agents == PROMISED {
            times(
                &format!("{what}: wall, beside a bare client"),
                ours.wall_ms / 1e3,
                floor.wall_ms / 1e3,
                2.0,
            );
            times(&format!("{what}: CPU, beside a bare client"), ours.cpu_ms / 1e3, floor.cpu_ms / 1e3, 2.0);
            below_mb(&format!("{what}: peak memory"), ours.peak_mb, 40.0);
        } else {
            report_value(&what, beside(floor, ours));
        }
        taken.push((agents, floor, ours));
    }
    each(&taken);
    let (floor, ours) = compare(programs, 3, 2000, rounds);
    let what = "3 agents, 2,000 chunks per reply";
    times(&format!("{what}: wall, beside a bare client"), ours.wall_ms / 1e3, floor.wall_ms / 1e3, 1.2);
    times(&format!("{what}: CPU, beside a bare client"), ours.cpu_ms / 1e3, floor.cpu_ms / 1e3, 1.2);
}

fn beside(floor: Measurement, ours: Measurement) -> String {
    format!(
        "wall {:.1}x ({:.1} ms), CPU {:.1}x ({:.1} ms), {:.1} MB",
        ours.wall_ms / floor.wall_ms,
        ours.wall_ms,
        ours.cpu_ms / floor.cpu_ms,
        ours.cpu_ms,
        ours.peak_mb
    )
}

/// The cost per agent, and whether it grows with the team. Every judge receives every answer, so the bytes grow
/// quadratically; the bare client pays for them as well and shows by how much.
fn each(taken: &[(usize, Measurement, Measurement)]) {
    let of = |agents: usize| taken.iter().find(|(n, ..)| *n == agents).copied().unwrap();
    let (few, floor_few, ours_few) = of(PROMISED);
    let (many, floor_many, ours_many) = of(256);
    let each = |few_ms: f64, many_ms: f64| (many_ms / many as f64) / (few_ms / few as f64);
    let ratio = each(ours_few.cpu_ms, ours_many.cpu_ms);
    let floor = each(floor_few.cpu_ms, floor_many.cpu_ms);
    let got = format!("{ratio:.2} (the bare client: {floor:.2})");
    report(
        &format!("CPU per agent with {many} agents, beside {few} agents"),
        got,
        "at most 1.2",
        ratio <= 1.2,
    );
    let points: Vec<(f64, f64)> =
        taken.iter().map(|(n, _, ours)| (*n as f64, ours.peak_mb * 1024.0)).collect();
    let (slope, fixed) = line(&points);
    report_value(
        "memory per additional agent (slope of a line through all team sizes)",
        format!("{slope:.0} kB, on top of {:.1} MB", fixed / 1024.0),
    );
}

fn help(programs: &Programs, rounds: usize) {
    let dir = TempDir::new().unwrap();
    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        floor.push(measure(&programs.floor, &["nothing"], dir.path()));
        ours.push(measure(&programs.althing, &["--help"], dir.path()));
    }
    let (floor, ours) = (medians(&floor), medians(&ours));
    below_ms(&format!("--help (an empty process: {:.1} ms)", floor.wall_ms), ours.wall_ms / 1e3, 10.0);
}

/// Measures the time from the start of the process to the first model request.
fn first_request(programs: &Programs, rounds: usize) {
    let server = FakeModel::start_on_thread(Script::parliament());
    let mut times = Vec::new();
    for round in 0..rounds {
        let dir = TempDir::new().unwrap();
        let config = config(dir.path(), 1, &server.base_url());
        let before = server.request_count();
        let began = Instant::now();
        let status = Command::new(&programs.althing)
            .args(["--config", &config, "--automation", "--quick", "task"])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        let requests = server.wait_for_requests_blocking(before + 1, Duration::from_secs(5));
        assert_eq!(requests.len(), round + 1);
        times.push(requests[before].arrived().duration_since(began).as_secs_f64());
    }
    below_ms("start to first model request", median(times), 30.0);
}

/// A run of N agents that each answer and vote once (2N + 1 requests), compared to a client that makes the same
/// requests.
fn compare(programs: &Programs, agents: usize, chunks: usize, rounds: usize) -> (Measurement, Measurement) {
    let dir = TempDir::new().unwrap();
    let recorded = dir.path().join("requests.jsonl");
    {
        let server = Server::start(programs, chunks, Some(&recorded));
        let config = config(dir.path(), agents, &server.url);
        measure(&programs.althing, &["--config", &config, "--automation", "task"], dir.path());
    }
    let server = Server::start(programs, chunks, None);
    let config = config(dir.path(), agents, &server.url);
    let (agents_text, recorded) = (agents.to_string(), recorded.display().to_string());
    let floor_args = ["requests", &server.url, &recorded, &agents_text];
    let (mut floor, mut ours): (Vec<Measurement>, Vec<Measurement>) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        floor.push(measure(&programs.floor, &floor_args, dir.path()));
        ours.push(measure(&programs.althing, &["--config", &config, "--automation", "task"], dir.path()));
    }
    (medians(&floor), medians(&ours))
}
