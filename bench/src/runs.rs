//! Whole runs of the binary beside a bare HTTP client that makes the same requests.

use crate::measure::{Programs, Taken, measure, median, row};
use crate::verdict::below_ms;
use althing_testkit::{FakeModel, Script};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A zero-latency model server in a process of its own, so that its work is nobody else's.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(programs: &Programs, chunks: usize, record: Option<&Path>) -> Self {
        let mut command = Command::new(&programs.server);
        command.args(["--port", "0", "--chunks", &chunks.to_string()]);
        if let Some(file) = record {
            command.arg("--record").arg(file);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap();
        Self { url: format!("http://{address}/v1"), child }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config(dir: &Path, agents: usize, url: &str) -> String {
    let mut yaml = "agents:\n".to_owned();
    for n in 1..=agents {
        let backend = format!("{{type: chatcompletion, model: model-{n}, base_url: \"{url}\"}}");
        writeln!(yaml, "  - id: a{n}\n    backend: {backend}").unwrap();
    }
    let file = dir.join("team.yaml");
    std::fs::write(&file, yaml).unwrap();
    file.display().to_string()
}

pub fn all(programs: &Programs, rounds: usize) {
    help(programs, rounds);
    first_request(programs, rounds);
    for agents in [1, 3, 16, 64] {
        compare(programs, &format!("{agents} agents, unanimous"), agents, 8, rounds);
    }
    // Long replies: the cost of a chunk.
    compare(programs, "3 agents, 2,000 chunks a reply", 3, 2000, rounds);
}

/// Start-up: what printing the help takes, beside a process that does nothing.
fn help(programs: &Programs, rounds: usize) {
    let dir = TempDir::new().unwrap();
    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        floor.push(measure(&programs.floor, &["nothing"], dir.path()));
        ours.push(measure(&programs.althing, &["--help"], dir.path()));
    }
    row("--help beside an empty process", &floor, &ours);
}

/// From the start of the process to the first model request at the server.
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

/// A unanimous run of N agents, 2N + 1 requests, beside a client that makes the same.
fn compare(programs: &Programs, what: &str, agents: usize, chunks: usize, rounds: usize) {
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
    let (mut floor, mut ours): (Vec<Taken>, Vec<Taken>) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        floor.push(measure(&programs.floor, &floor_args, dir.path()));
        ours.push(measure(&programs.althing, &["--config", &config, "--automation", "task"], dir.path()));
    }
    row(what, &floor, &ours);
}
