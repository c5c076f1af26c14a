//! How processes end, with commands and CLI agents at work (rows of docs/reliability.md): killed workflows resume
//! without repeating finished tasks (D2), no process that we started is left (A4), and a cancelled task starts nothing
//! more and keeps its results (A6).

use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_testkit::process::{Signal, newest_session};
use althing_testkit::{
    Action, Althing, Parliament, RecordedRequest, Reply, RunningProcess, Script, scale, wait,
};
use fastrand::Rng;
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, althing, ensure, in_parallel, items, of_type, run};

const SEED: u64 = 20_261_116;

/// A sleep time that no other process has, so that processes can be found by it.
fn marker(rng: &mut Rng) -> String {
    format!("{}.{:06}", 1_000 + std::process::id() % 1_000, rng.u32(0..1_000_000))
}

pub fn processes_with(words: &str) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(words)
    };
    pids.filter(has).collect()
}

/// Records its start and end. Meanwhile the script has children: a plain one, one in a process session of its own, a
/// grandchild whose parent has exited, and one that ignores SIGTERM.
fn recording_script(record: &Path, name: &str, marker: &str, work: &str) -> Value {
    let script = format!(
        "echo start {name} >> {record}; sleep {marker} & setsid sleep {marker} & (setsid sh -c 'sleep {marker} & true' &); \
         sh -c 'trap \"\" TERM HUP INT; sleep {marker}' & echo at work; {work}; echo end {name} >> {record}",
        record = record.display()
    );
    json!({"id": name, "agent": "command", "command": ["sh", "-c", script], "executionMode": "headless", "prompt": ""})
}

/// A workflow of two stages with two short tasks each. Unless `ends`, the last task runs forever. Returns the path of
/// the record that the tasks write.
fn two_stages(althing: &Althing, marker: &str, ends: bool, rng: &mut Rng) -> PathBuf {
    let record = althing.work_dir().join("diary");
    let mut moment = || format!("sleep 0.0{}", rng.u32(1..=6));
    let last = if ends { moment() } else { format!("sleep {marker}") };
    let mut task = |name: &str| recording_script(&record, name, marker, &moment());
    let stages = json!([
        {"name": "one", "tasks": [task("a"), task("b")]},
        {"name": "two", "tasks": [task("c"), recording_script(&record, "d", marker, &last)]},
    ]);
    let flow = json!({"name": "release", "goal": "Ship", "stages": stages});
    althing.file("flow.yaml", flow.to_string());
    record
}

fn times_started(record: &Path, task: &str) -> usize {
    let text = std::fs::read_to_string(record).unwrap_or_default();
    text.lines().filter(|line| *line == format!("start {task}")).count()
}

fn statuses(events: &[Value], task: &str) -> Vec<String> {
    let changes = of_type(events, "status_changed").into_iter().filter(|event| event["task"] == *task);
    changes.filter_map(|event| Some(event["data"]["status"].as_str()?.to_owned())).collect()
}

/// Waits for a moment of the workflow that is defined by its progress, not by a clock: at the latest until seven of the
/// eight lines of the record are written, or until the process has ended.
fn wait_for_moment(althing: &Althing, record: &Path, running: &RunningProcess, rng: &mut Rng) -> String {
    let (facts, lines) = (rng.usize(2..=40), rng.usize(1..=7));
    let by_diary = rng.bool();
    let noted = || std::fs::read_to_string(record).unwrap_or_default().lines().count();
    let reached = || if by_diary { noted() >= lines } else { facts_of(althing) >= facts || noted() >= 7 };
    wait::until(LIMIT, || !running.is_running() || reached());
    if by_diary { format!("after {lines} lines of the diary") } else { format!("after {facts} facts") }
}

fn facts_of(althing: &Althing) -> usize {
    let log = newest_session(&althing.state_dir()).map(|session| session.join("events.jsonl"));
    let log = log.and_then(|log| std::fs::read(log).ok()).unwrap_or_default();
    log.split(|byte| *byte == b'\n').count() - 1
}

fn no_process_left(marker: &str) -> Result<(), String> {
    let gone = wait::holds_within(LIMIT, || processes_with(marker).is_empty());
    ensure(gone, || format!("left after {LIMIT:?}: {:?}", processes_with(marker)))
}

fn killed(round: usize) -> Result<(), String> {
    let rng = &mut Rng::with_seed(SEED + round as u64);
    let (althing, marker) = (althing(), marker(rng));
    let record = two_stages(&althing, &marker, true, rng);
    let kills = 1 + usize::from(rng.u8(0..4) == 0);
    let mut running =
        althing.new_command().args(["workflow", "run", "flow.yaml", "--offline", "--json"]).spawn();
    let mut finished: Vec<(&str, usize)> = Vec::new();
    let mut when = Vec::new();
    for _ in 0..kills {
        when.push(wait_for_moment(&althing, &record, &running, rng));
        running.signal(Signal::KILL);
        running.wait(LIMIT);
        no_process_left(&marker)?;
        if newest_session(&althing.state_dir()).is_none_or(|session| !session.join("events.jsonl").exists()) {
            return Ok(());
        }
        let events = althing.events();
        let done = |task: &&str| statuses(&events, &format!("w1.{task}")).contains(&"DONE".to_owned());
        finished.extend(
            ["a", "b", "c", "d"].into_iter().filter(done).map(|task| (task, times_started(&record, task))),
        );
        running = althing.new_command().args(["resume", "--json"]).spawn();
        running.wait_for_stderr(|_| true, LIMIT);
    }
    let output = running.wait(LIMIT);
    let complain =
        |what: String| format!("round {round}, killed {when:?}: {what}\n{}{}", output.stdout, output.stderr);
    ensure(output.code == Some(0), || complain(format!("exit {:?}", output.code)))?;
    let events = althing.events();
    for task in ["a", "b", "c", "d"] {
        let status = statuses(&events, &format!("w1.{task}"));
        ensure(status.last().is_some_and(|last| last == "DONE"), || complain(format!("{task}: {status:?}")))?;
        ensure(status.iter().filter(|one| *one == "DONE").count() == 1, || {
            complain(format!("{task}: {status:?}"))
        })?;
        let starts = times_started(&record, task);
        ensure((1..=1 + kills).contains(&starts), || complain(format!("{task} began {starts} times")))?;
    }
    for (task, starts) in finished {
        ensure(times_started(&record, task) == starts, || {
            complain(format!("{task} was finished and began again"))
        })?;
    }
    let stages: Vec<u64> = of_type(&events, "phase_changed")
        .iter()
        .filter_map(|event| event["data"]["phase"]["stage"].as_u64())
        .collect();
    ensure(stages.is_sorted(), || complain(format!("the stage went back: {stages:?}")))?;
    ensure(events.iter().zip(1u64..).all(|(event, n)| event["seq"] == n), || {
        complain("a gap in the log".into())
    })?;
    no_process_left(&marker)
}

#[test]
fn a_killed_workflow_resumes_without_repeating_finished_tasks() {
    in_parallel(3, 0..scale(12, 1000), killed);
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    Quit,
    Panic,
    Signal(Signal),
}

/// Cases run at the same time, so each needs a marker of its own.
fn ended(how: Ending, case: usize) -> Result<(), String> {
    let rng = &mut Rng::with_seed(SEED + 7_777 + case as u64);
    let (althing, marker) = (althing(), marker(rng));
    let record = althing.work_dir().join("diary");
    let task = recording_script(&record, "a", &marker, &format!("sleep {marker}"));
    let stages = json!([{"name": "one", "tasks": [task]}]);
    althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let command = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline"]);
    // Five processes that sleep, and two shells whose command lines contain these words.
    let all_there = || wait::until(LIMIT, || processes_with(&format!("sleep {marker}")).len() >= 7);
    match how {
        Ending::Quit => {
            let mut terminal = command.terminal(100, 30);
            all_there();
            terminal.keys("\x04");
            terminal.wait_for("Leave this workflow?", LIMIT);
            terminal.keys("\x04");
            terminal.wait(LIMIT);
        }
        Ending::Panic => {
            let command = command.arg("--take-ops").env("ALTHING_TEST_PANIC", "op");
            let running = command.open_stdin().spawn();
            all_there();
            running.write_stdin("{\"op\": \"resume\"}\n");
            let output = running.wait(LIMIT);
            ensure(output.stderr.contains("failpoint"), || format!("no panic: {}", output.stderr))?;
        }
        Ending::Signal(signal) => {
            let running = command.spawn();
            all_there();
            running.signal(signal);
            running.wait(LIMIT);
        }
    }
    no_process_left(&marker).map_err(|what| format!("{how:?}, case {case}: {what}"))
}

#[test]
fn no_process_is_left_however_the_program_ends() {
    let signals = [Signal::TERM, Signal::HUP, Signal::KILL].map(Ending::Signal);
    let endings = [Ending::Quit, Ending::Panic].into_iter().chain(signals);
    let all = endings.flat_map(|how| std::iter::repeat_n(how, scale(2, 200)));
    in_parallel(3, all.enumerate(), |(case, how)| ended(how, case));
}

fn nothing_begins_after_the_cancel(events: &[Value]) -> Result<(), String> {
    let at = events
        .iter()
        .position(|event| event["type"] == "op_accepted" && event["data"]["op"]["op"] == "cancel");
    let after = &events[at.ok_or("the cancel is not in the log")?..];
    for kind in ["attempt_started", "task_created", "interaction_opened"] {
        ensure(of_type(after, kind).is_empty(), || format!("{kind} after the cancel"))?;
    }
    ensure(of_type(after, "session_closed").len() == 1, || "the session is not closed".into())
}

fn cancelled_workflow(round: usize) -> Result<(), String> {
    let rng = &mut Rng::with_seed(SEED + 33_333 + round as u64);
    let (althing, marker) = (althing(), marker(rng));
    let record = two_stages(&althing, &marker, false, rng);
    let args = ["workflow", "run", "flow.yaml", "--offline", "--json", "--take-ops"];
    let running = althing.new_command().args(args).open_stdin().spawn();
    let when = wait_for_moment(&althing, &record, &running, rng);
    running.write_stdin("{\"op\": \"cancel\", \"task\": \"w1\"}\n");
    let output = running.wait(LIMIT);
    let complain =
        |what: String| format!("round {round}, cancelled {when}: {what}\n{}{}", output.stdout, output.stderr);
    no_process_left(&marker).map_err(complain)?;
    let events = althing.events();
    ensure(output.code == Some(4), || complain(format!("exit {:?}", output.code)))?;
    nothing_begins_after_the_cancel(&events).map_err(complain)?;
    let report: Value = serde_json::from_str(&output.stdout).map_err(|error| complain(error.to_string()))?;
    ensure(report["status"] == "CANCELLED", || complain("the report says otherwise".into()))?;
    let tasks = report["stages"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|stage| stage["tasks"].as_array().unwrap());
    for task in tasks {
        let id = task["id"].as_str().unwrap();
        let kept =
            task["status"] != "DONE" || task["output"].as_str().is_some_and(|text| text.contains("at work"));
        ensure(kept, || complain(format!("{id}: what it gave is lost: {task}")))?;
        ensure(task["status"] != "RUNNING", || complain(format!("{id} still runs: {task}")))?;
    }
    let times_started = std::fs::read_to_string(&record).unwrap_or_default();
    run(&althing, &["resume", &newest(&althing)]);
    ensure(std::fs::read_to_string(&record).unwrap_or_default() == times_started, || {
        complain("a resume began it again".into())
    })
}

fn newest(althing: &Althing) -> String {
    newest_session(&althing.state_dir()).unwrap().file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn a_cancelled_workflow_ends_all_processes_starts_no_more_and_keeps_its_results() {
    in_parallel(3, 0..scale(10, 500), cancelled_workflow);
}

fn presents(request: &RecordedRequest) -> bool {
    !request.tool_names().iter().any(|tool| ["new_answer", "vote"].contains(tool))
}

fn cancelled_run(round: usize) -> Result<(), String> {
    let rng = &mut Rng::with_seed(SEED + 55_555 + round as u64);
    let marker = marker(rng);
    let command = format!("sleep {marker} & setsid sleep {marker} & sleep 0.0{}", rng.u32(1..=6));
    let script = Script::from_fn(move |request: &RecordedRequest| {
        let has_tool = request.tool_names().contains(&"run_command");
        let ran = request.messages().iter().any(|message| message["role"] == "tool");
        let reply = if has_tool && !ran {
            Reply::call("run_command", &json!({ "command": command }))
        } else {
            Parliament::default().reply(request)
        };
        // The presenter never gets a reply, so that the run does not end by itself.
        let moment = Duration::from_millis(3 + (request.seq() as u64 * 7) % 11);
        if presents(request) { Action::Hang } else { Action::after(moment, reply) }
    });
    let fixture = Fixture::with(3, script, |team| {
        team.every_backend("enable_mcp_command_line", true).every_backend("cwd", "here")
    });
    let running = fixture.command(&["--json", "--take-ops", "task"]).open_stdin().spawn();
    let facts = rng.usize(2..=70);
    let presented = || fixture.server.requests().iter().any(presents);
    wait::until(LIMIT, || facts_of(&fixture.althing) >= facts || presented());
    running.write_stdin("{\"op\": \"cancel\", \"task\": \"r1\"}\n");
    let output = running.wait(LIMIT);
    // A request that was sent before the process ended may still be on its way to the server.
    wait::until(LIMIT, || fixture.server.open_connections() == 0);
    let requests = fixture.server.request_count();
    let complain = |what: String| {
        format!("round {round}, cancelled after {facts} facts: {what}\n{}{}", output.stdout, output.stderr)
    };
    no_process_left(&marker).map_err(complain)?;
    ensure(output.code == Some(4), || complain(format!("exit {:?}", output.code)))?;
    let events = fixture.althing.events();
    nothing_begins_after_the_cancel(&events).map_err(complain)?;
    let result: Value = serde_json::from_str(&output.stdout).map_err(|error| complain(error.to_string()))?;
    ensure(result["status"] == "cancelled", || complain("the result says otherwise".into()))?;
    // Answers given before the cancellation are in the log and in the result.
    let answers = items(&events, "answer").len() as u64;
    let agents = result["coordination_summary"]["agents"].as_array().cloned().unwrap_or_default();
    let told: u64 = agents.iter().filter_map(|agent| agent["answers"].as_u64()).sum();
    ensure(told == answers, || complain(format!("{answers} answers in the log, {told} in the result")))?;
    run(&fixture.althing, &["resume", &newest(&fixture.althing)]);
    ensure(fixture.server.request_count() == requests, || complain("a model was asked afterwards".into()))
}

#[test]
fn a_cancelled_run_ends_all_processes_makes_no_more_calls_and_keeps_its_answers() {
    in_parallel(3, 0..scale(10, 500), cancelled_run);
}
