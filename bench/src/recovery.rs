//! Reaction times: to resume after a kill, to end all programs after a kill or a signal (also a program that ignores
//! TERM), to notice that a program ended or asks a question, and to react to keys while a program floods its terminal.

use crate::measure::{Programs, median, percentile, timed};
use crate::verdict::below_ms;
use althing_testkit::process::{Signal, wait_for_event};
use althing_testkit::{Action, Althing, FakeModel, Gate, RunningProcess, Script, Terminal, wait};
use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LIMIT: Duration = Duration::from_secs(60);
const VISITS: usize = 100;

pub fn all(programs: &Programs, rounds: usize) {
    let rounds = rounds.min(5);
    runs(programs, rounds);
    workflows(programs, rounds);
    let times = (0..rounds).map(|_| question(programs)).collect();
    below_ms("a program's question to WAITING_FOR_USER", median(times), 1000.0);
    flood(programs);
}

/// Starts a run of three agents, one of which never gets its first reply, and waits until the others have answered.
fn blocked_run(programs: &Programs) -> (Althing, FakeModel, RunningProcess) {
    let gate = Gate::before_headers();
    let script = Script::parliament().on("model-3").nth(0, Action::gated(Action::Usual, &gate));
    let server = FakeModel::start_on_thread(script);
    let althing = Althing::new(programs.althing.clone());
    althing.file("team.yaml", crate::conversation::config(&server.base_url(), 3));
    let running = althing.new_command().args(["--config", "team.yaml", "--automation", "task"]).spawn();
    for answer in ["agent1.1", "agent2.1"] {
        running.wait_for_stderr(|line| line.contains(&format!("answered: {answer}")), LIMIT);
    }
    server.wait_for_requests_blocking(3, LIMIT);
    (althing, server, running)
}

fn runs(programs: &Programs, rounds: usize) {
    let (mut stopped, mut asked, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (_, _server, running) = blocked_run(programs);
        running.signal(Signal::TERM);
        stopped.push(timed(|| running.wait(LIMIT).expect_code(4)).0);
        let (althing, server, running) = blocked_run(programs);
        running.signal(Signal::KILL);
        running.wait(LIMIT);
        let (before, began) = (server.request_count(), Instant::now());
        whole.push(timed(|| althing.new_command().arg("resume").spawn().wait(LIMIT).expect_code(0)).0);
        asked.push(server.requests()[before].arrived().duration_since(began).as_secs_f64());
    }
    below_ms("from SIGTERM to the exit of a run in progress", median(stopped), 5000.0);
    below_ms("`resume` after kill -9: to the first request (lock taken)", median(asked), 1000.0);
    below_ms("`resume` after kill -9: to the answer", median(whole), 2000.0);
}

/// Starts a workflow with one shell script that records process ids in a file, and waits until it has recorded this
/// many.
fn script(programs: &Programs, script: &str, processes: usize) -> (Althing, RunningProcess) {
    let althing = Althing::new(programs.althing.clone());
    let task = json!({"id": "t", "agent": "command", "command": ["sh", "-c", script], "executionMode": "headless", "prompt": ""});
    let file = json!({"name": "n", "goal": "g", "stages": [{"name": "only", "tasks": [task]}]});
    althing.file("flow.yaml", file.to_string());
    let running = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline"]).spawn();
    wait::until(LIMIT, || named(&althing).len() >= processes);
    (althing, running)
}

fn named(althing: &Althing) -> Vec<String> {
    let text = std::fs::read_to_string(althing.work_dir().join("pids")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A zombie does not count as alive.
fn all_gone(althing: &Althing) {
    let is_alive = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    };
    wait::until(LIMIT, || !named(althing).iter().any(is_alive));
}

fn workflows(programs: &Programs, rounds: usize) {
    let family =
        "echo $$ >> pids; setsid sh -c 'echo $$ >> pids; exec sleep 300' & sleep 300 & echo $! >> pids; wait";
    let stubborn = "trap '' TERM; echo $$ >> pids; while :; do sleep 0.1; done";
    let holding = "sleep 300 & echo $$ >> pids; exit 0";
    let (mut orphans, mut stopped, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (althing, running) = script(programs, family, 3);
        running.signal(Signal::KILL);
        orphans.push(timed(|| all_gone(&althing)).0);
        let (althing, running) = script(programs, stubborn, 1);
        running.signal(Signal::TERM);
        stopped.push(timed(|| (running.wait(LIMIT).expect_code(4), all_gone(&althing))).0);
        let (althing, running) = script(programs, holding, 1);
        all_gone(&althing);
        ended.push(timed(|| running.wait(LIMIT).expect_code(0)).0);
    }
    below_ms("kill -9 of Althing to the end of the last descendant", median(orphans), 2000.0);
    below_ms("a signal to the end of a program that ignores TERM", median(stopped), 5000.0);
    below_ms("a program's exit to its task's end, with its pipe still open", median(ended), 1000.0);
}

/// Measures the time from the moment a program in a terminal asks until the event that reports the question.
fn question(programs: &Programs) -> f64 {
    let althing = Althing::new(programs.althing.clone());
    let asks = "sleep 0.5; date +%s%N > asked; printf 'Allow it? (yes / no) '; read answer";
    let asker = json!({"program": "sh", "args": ["-c", asks],
        "interactions": [{"pattern": r"(?P<text>Allow it\? \(yes / no\))", "about": "question"}]});
    let task = json!({"id": "ask", "agent": "asker", "executionMode": "interactive", "prompt": ""});
    let file = json!({"name": "n", "goal": "g", "adapters": {"asker": asker}, "stages": [{"name": "only", "tasks": [task]}]});
    althing.file("flow.yaml", file.to_string());
    let _running = althing
        .new_command()
        .args(["workflow", "run", "flow.yaml", "--offline", "--unconfined"])
        .open_stdin()
        .spawn();
    let waits =
        |event: &Value| event["type"] == "status_changed" && event["data"]["status"] == "WAITING_FOR_USER";
    wait_for_event(&althing.state_dir(), LIMIT, waits);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let asked = std::fs::read_to_string(althing.work_dir().join("asked")).unwrap();
    now - asked.trim().parse::<f64>().unwrap() / 1e9
}

fn flood(programs: &Programs) {
    let althing = Althing::new(programs.althing.clone());
    let flooder = json!({"program": "sh", "args": ["-c", "yes 'a flood of words'"]});
    let task = json!({"id": "flooder", "agent": "flooder", "executionMode": "interactive", "prompt": ""});
    let file = json!({"name": "n", "goal": "g", "adapters": {"flooder": flooder}, "stages": [{"name": "only", "tasks": [task]}]});
    althing.file("flow.yaml", file.to_string());
    let mut terminal: Terminal = althing
        .new_command()
        .args(["workflow", "run", "flow.yaml", "--offline", "--unconfined"])
        .terminal(100, 30);
    terminal.wait_for("running", LIMIT);
    let (mut attached, mut left) = (Vec::new(), Vec::new());
    for _ in 0..VISITS {
        attached.push(timed(|| drop(terminal.keys("\r").wait_for("a flood of words", LIMIT))).0);
        left.push(timed(|| drop(terminal.keys("\x1d").wait_for("Stage: only", LIMIT))).0);
    }
    let late = percentile(attached.iter().chain(&left).copied().collect(), 99);
    below_ms("key to frame, p99, while a program floods its terminal", late, 50.0);
    let worst = left.into_iter().fold(0.0, f64::max);
    below_ms(&format!("leaving a terminal during a flood, the worst of {VISITS}"), worst, 100.0);
}
