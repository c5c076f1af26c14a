//! `althing sessions`: listing, showing and deleting; the checkpoint beside the log; damaged logs.

use std::collections::BTreeSet;
use std::path::Path;

use althing_testkit::process::Signal;
use althing_testkit::{Action, Althing, Gate, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, althing, run};

fn json_of(stdout: &str) -> Value {
    serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

/// A run of two agents that was killed before `b` answered.
fn killed_run() -> Fixture {
    let gate = Gate::before_headers();
    let fixture =
        Fixture::new(2, Script::parliament().on("model-b").nth(0, Action::gated(Action::Usual, &gate)));
    let running = fixture.spawn(&["A task to be killed"]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.wait_for_stderr(|line| line.contains("answered: agent1.1"), LIMIT);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    fixture
}

#[test]
fn without_sessions_the_list_is_empty() {
    let althing = althing();
    assert_eq!(run(&althing, &["sessions"]).expect_code(0).stdout, "no sessions\n");
    assert_eq!(run(&althing, &["sessions", "--json"]).expect_code(0).stdout, "[]\n");
    let elsewhere = run(&althing, &["sessions", "--state-dir", "nowhere"]).expect_code(0);
    assert_eq!(elsewhere.stdout, "no sessions\n");
    assert!(!althing.work_dir().join("nowhere").exists(), "listing creates nothing");
}

#[test]
fn the_list_shows_the_status_of_each_session() {
    let fixture = killed_run();
    let interrupted = fixture.session_id();
    fixture.run(&["A task that is done"]).expect_code(0);
    let output = run(&fixture.althing, &["sessions"]).expect_code(0);
    let line = |text: &str| output.stdout.lines().find(|line| line.contains(text)).unwrap_or_default();
    assert!(
        line(&interrupted).contains("interrupted") && line(&interrupted).contains("A task to be killed"),
        "{}",
        output.stdout
    );
    assert!(line("A task that is done").contains("done"), "{}", output.stdout);
    let list = json_of(&run(&fixture.althing, &["sessions", "--json"]).expect_code(0).stdout);
    let status: BTreeSet<(&str, &str)> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|session| (session["goal"].as_str().unwrap(), session["status"].as_str().unwrap()))
        .collect();
    assert_eq!(
        status,
        BTreeSet::from([("A task that is done", "done"), ("A task to be killed", "interrupted")])
    );
}

#[test]
fn an_active_session_is_listed_as_running_and_cannot_be_removed() {
    let gate = Gate::before_headers();
    let fixture = Fixture::new(1, Script::parliament().nth(0, Action::gated(Action::Usual, &gate)));
    let running = fixture.spawn(&["task"]);
    gate.wait_waiting_blocking(1, LIMIT);
    let id = fixture.session_id();
    let list = json_of(&run(&fixture.althing, &["sessions", "--json"]).expect_code(0).stdout);
    assert_eq!((&list[0]["id"], &list[0]["status"]), (&json!(id), &json!("running")));
    let refused = run(&fixture.althing, &["sessions", "remove", &id]).expect_code(1);
    assert!(refused.stderr.contains("in use"), "{}", refused.stderr);
    run(&fixture.althing, &["sessions", "prune", "--older-than", "0"]);
    gate.release_all();
    assert_eq!(running.wait(LIMIT).expect_code(0).stdout, "Final answer of model-a\n");
}

#[test]
fn one_session_is_shown_with_its_goal_tasks_and_files() {
    let fixture = killed_run();
    let id = fixture.session_id();
    let output = run(&fixture.althing, &["sessions", "show", &id]).expect_code(0);
    for part in
        [id.as_str(), "A task to be killed", "r1.a1", "r1.a2", &fixture.session().display().to_string()]
    {
        assert!(output.stdout.contains(part), "`{part}` is missing:\n{}", output.stdout);
    }
    let whole = json_of(&run(&fixture.althing, &["sessions", "show", &id, "--json"]).expect_code(0).stdout);
    assert_eq!(
        (&whole["id"], &whole["goal"], &whole["kind"]),
        (&json!(id), &json!("A task to be killed"), &json!("run"))
    );
    assert_eq!(whole["damage"], Value::Null);
    let missing = run(&fixture.althing, &["sessions", "show", "20200101-000000-0000"]).expect_code(1);
    assert!(missing.stderr.contains("20200101-000000-0000"), "{}", missing.stderr);
}

#[test]
fn removed_sessions_are_gone() {
    let fixture = killed_run();
    let (id, dir) = (fixture.session_id(), fixture.session());
    run(&fixture.althing, &["sessions", "remove", &id]).expect_code(0);
    assert!(!dir.exists());
    run(&fixture.althing, &["sessions", "remove", &id]).expect_code(1);
    for bad in ["..", "../state", "/", ""] {
        run(&fixture.althing, &["sessions", "remove", bad]).expect_code(1);
    }
    assert!(fixture.althing.state_dir().is_dir());
}

/// A copy of credentials that Althing could not remove because it was killed.
fn left_credentials(althing: &Althing) -> std::path::PathBuf {
    let copy = althing.state_dir().join("agents/.settings/0123456789abcdef/claude/.credentials.json");
    std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
    std::fs::write(&copy, "{\"accessToken\":\"t\"}").unwrap();
    copy
}

#[test]
fn credentials_that_a_killed_process_left_are_removed_with_a_session_and_by_the_next_start() {
    let fixture = killed_run();
    let id = fixture.session_id();
    let commands: [&[&str]; 3] =
        [&["resume", &id], &["sessions", "remove", &id], &["sessions", "prune", "--older-than", "0"]];
    for command in commands {
        let copy = left_credentials(&fixture.althing);
        run(&fixture.althing, command).expect_code(0);
        assert!(!copy.exists(), "{command:?}");
    }
}

#[test]
fn only_old_sessions_are_pruned() {
    let fixture = killed_run();
    let output = run(&fixture.althing, &["sessions", "prune"]).expect_code(0);
    assert_eq!(output.stdout, "removed 0 sessions\n");
    assert!(fixture.session().is_dir());
    let id = fixture.session_id();
    // With an age of zero days, every earlier session is old enough to be deleted.
    let output = run(&fixture.althing, &["sessions", "prune", "--older-than", "0"]).expect_code(0);
    assert!(output.stdout.contains("removed 1 session"), "{}", output.stdout);
    assert!(!fixture.althing.state_dir().join("sessions").join(id).exists());
}

#[test]
fn a_finished_session_leaves_a_checkpoint_that_says_so() {
    let fixture = Fixture::new(2, Script::parliament());
    fixture.run(&["task"]).expect_code(0);
    let file = fixture.session().join("session.json");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let checkpoint = json_of(&text);
    assert_eq!((&checkpoint["state"], &checkpoint["kind"]), (&json!("DONE"), &json!("run")));
    assert_eq!((&checkpoint["goal"], &checkpoint["currentStageIndex"]), (&json!("task"), &json!(0)));
    let tasks = checkpoint["stages"][0]["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 3);
    for task in tasks {
        assert_eq!(task["status"], "DONE");
        let keys: BTreeSet<&str> = task.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, BTreeSet::from(["id", "status", "attempts", "exitCode", "error"]));
    }
    assert!(checkpoint["history"].is_array() && checkpoint["updatedAt"].is_string());
}

#[test]
fn an_interrupted_session_leaves_a_checkpoint_too() {
    let gate = Gate::before_headers();
    let fixture = Fixture::new(1, Script::parliament().nth(0, Action::gated(Action::Usual, &gate)));
    let running = fixture.spawn(&["task"]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.signal(Signal::TERM);
    running.wait(LIMIT).expect_code(4);
    let file = fixture.session().join("session.json");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert_eq!(json_of(&text)["state"], "RUNNING");
}

#[track_caller]
fn flip_a_letter(log: &Path, line: usize) {
    let mut bytes = std::fs::read(log).unwrap();
    let starts: Vec<usize> = std::iter::once(0)
        .chain(bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1))
        .collect();
    bytes[starts[line - 1] + 40] ^= 1;
    std::fs::write(log, bytes).unwrap();
}

#[test]
fn a_log_damaged_in_the_middle_is_reported_and_left_unchanged() {
    let fixture = killed_run();
    let log = fixture.log();
    flip_a_letter(&log, 4);
    let damaged = std::fs::read(&log).unwrap();
    let output = fixture.resume().expect_code(1);
    assert!(output.stderr.contains("events.jsonl") && output.stderr.contains("line 4"), "{}", output.stderr);
    assert_eq!(std::fs::read(&log).unwrap(), damaged);
    assert_eq!(output.stdout, "");
    let id = fixture.session_id();
    let shown = run(&fixture.althing, &["sessions", "show", &id]).expect_code(0);
    assert!(shown.stderr.contains("line 4"), "it can be read up to there: {}", shown.stderr);
    let listed = run(&fixture.althing, &["sessions"]).expect_code(0);
    assert!(listed.stdout.contains("damaged"), "{}", listed.stdout);
}

#[test]
fn a_torn_tail_is_set_aside_with_a_notice_and_the_session_resumes() {
    let fixture = killed_run();
    let (log, torn) = (fixture.log(), br#"{"seq":99,"at":"2026-"#);
    let mut bytes = std::fs::read(&log).unwrap();
    let good = bytes.clone();
    bytes.extend_from_slice(torn);
    std::fs::write(&log, &bytes).unwrap();
    let output = fixture.resume().expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    assert!(output.stderr.contains("damaged") && output.stderr.contains("moved to"), "{}", output.stderr);
    assert!(std::fs::read(&log).unwrap().starts_with(&good), "everything before the torn end is kept");
    let aside = std::fs::read(fixture.session().join("events.jsonl.damaged-1")).unwrap();
    assert_eq!(aside, torn);
}

#[test]
fn a_log_with_trailing_zeros_resumes_too() {
    let fixture = killed_run();
    let log = fixture.log();
    let mut bytes = std::fs::read(&log).unwrap();
    bytes.extend_from_slice(&[0; 4096]);
    std::fs::write(&log, &bytes).unwrap();
    assert_eq!(fixture.resume().expect_code(0).stdout, "Final answer of model-a\n");
}

#[test]
fn an_empty_log_is_not_a_session_and_is_not_deleted() {
    let fixture = killed_run();
    std::fs::write(fixture.log(), "").unwrap();
    let id = fixture.session_id();
    let output = run(&fixture.althing, &["resume", &id]).expect_code(1);
    assert!(output.stderr.contains("events.jsonl") && output.stderr.contains("empty"), "{}", output.stderr);
    assert!(fixture.log().exists());
    run(&fixture.althing, &["sessions"]).expect_code(0);
}

#[test]
fn a_log_of_a_newer_version_is_rejected_unchanged() {
    let fixture = killed_run();
    let log = fixture.log();
    let text = std::fs::read_to_string(&log).unwrap();
    let newer = text.replacen("\"schema\":1", "\"schema\":9", 1);
    assert_ne!(text, newer);
    // The first line's checksum must be valid, or the log counts as damaged.
    let (first, rest) = newer.split_once('\n').unwrap();
    let body = &first[..first.rfind(",\"crc\":\"").unwrap()];
    let forged = format!("{body},\"crc\":\"{:08x}\"}}\n{rest}", crc32c(body.as_bytes()));
    std::fs::write(&log, &forged).unwrap();
    let output = fixture.resume().expect_code(1);
    assert!(output.stderr.contains("schema 9") && output.stderr.contains("update"), "{}", output.stderr);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), forged);
}

/// CRC-32C, bit by bit: the test shares no code with the implementation.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(!0, byte)
}

#[test]
fn every_line_of_a_log_carries_the_checksum_of_its_bytes() {
    let fixture = Fixture::new(2, Script::parliament());
    fixture.run(&["task"]).expect_code(0);
    for line in std::fs::read_to_string(fixture.log()).unwrap().lines() {
        let (body, tail) = line.split_at(line.rfind(",\"crc\":\"").unwrap());
        assert_eq!(tail, format!(",\"crc\":\"{:08x}\"}}", crc32c(body.as_bytes())), "{line}");
    }
}

#[test]
fn a_conversation_is_listed_by_its_first_message() {
    let althing = althing();
    let talk = althing.new_command().args(["chat", "--offline"]).stdin("Good morning\nHow are you?\n");
    talk.spawn().wait(LIMIT).expect_code(0);
    let listed = run(&althing, &["sessions"]).expect_code(0).stdout;
    assert!(listed.contains("Good morning") && !listed.contains("How are you"), "{listed}");
}

#[test]
fn the_newest_of_ten_thousand_sessions_are_listed_without_reading_the_others() {
    let fixture = Fixture::new(1, Script::parliament());
    fixture.run(&["An old task"]).expect_code(0);
    let (id, dir) = (fixture.session_id(), fixture.session());
    let log = std::fs::read(dir.join("events.jsonl")).unwrap();
    let checkpoint = std::fs::read_to_string(dir.join("session.json")).unwrap();
    for number in 0..10_000 {
        let copy = format!("20200101-{:06}-{number:04x}", number % 240_000);
        let to = dir.with_file_name(&copy);
        std::fs::create_dir(&to).unwrap();
        std::fs::write(to.join("events.jsonl"), &log).unwrap();
        std::fs::write(to.join("session.json"), checkpoint.replace(&id, &copy)).unwrap();
    }
    fixture.run(&["A new task"]).expect_code(0);
    let newest = fixture.session_id();
    // `rchar` counts the bytes read by the shell and by the child processes that it has waited for.
    let line = format!("{} sessions; grep rchar /proc/$$/io >&2", env!("CARGO_BIN_EXE_althing"));
    let output = fixture.althing.program("/bin/bash").args(["-c", &line]).spawn().wait(LIMIT).expect_code(0);
    assert_eq!(output.stdout.lines().count(), 50);
    assert!(output.stdout.starts_with(&newest), "{}", output.stdout);
    assert!(output.stderr.contains("9952 older sessions"), "{}", output.stderr);
    let read = output.stderr.lines().last().and_then(|line| line.strip_prefix("rchar: ")).unwrap();
    let (read, all): (usize, usize) = (read.parse().unwrap(), 10_000 * (log.len() + checkpoint.len()));
    assert!(read < all / 10, "{read} of about {all} bytes were read");
    let three = run(&fixture.althing, &["sessions", "--limit", "3", "--json"]).expect_code(0);
    assert_eq!(json_of(&three.stdout).as_array().map(Vec::len), Some(3));
    assert_eq!(json_of(&three.stdout)[0]["id"], json!(newest));
}
