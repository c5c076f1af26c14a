//! `althing replay` shows a recorded session.

use super::support::{LIMIT, althing, run};
use althing_testkit::process::newest_session;

#[test]
fn a_recorded_run_is_replayed_with_its_answer_and_without_model_calls() {
    let althing = althing();
    let output = run(&althing, &["--offline", "--automation", "Compare three ways to cache"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let log = newest_session(&althing.state_dir()).unwrap().join("events.jsonl");
    let before = std::fs::read(&log).unwrap();

    let mut terminal =
        althing.new_command().args(["replay", log.to_str().unwrap(), "--speed", "0"]).terminal(100, 80);
    let screen = terminal.wait_for("Complete ✓", LIMIT);
    for text in ["Run: Compare three ways to cache", "3 agents", "Replay", "offline"] {
        assert!(screen.contains(text), "{text}:\n{screen}");
    }
    terminal.keys("hello\r");
    terminal.wait_for("this is a recording", LIMIT);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
    assert_eq!(std::fs::read(&log).unwrap(), before, "a recording is only read");
}

#[test]
fn a_file_that_is_not_a_log_is_rejected_with_its_line() {
    let althing = althing();
    let file = althing.work_dir().join("notes.txt");
    std::fs::write(&file, "not a log\n").unwrap();
    let mut terminal = althing.new_command().args(["replay", "notes.txt"]).terminal(100, 20);
    assert_eq!(terminal.wait(LIMIT), 1);
    let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
    assert!(raw.contains("notes.txt:1"), "{raw}");
    let piped = run(&althing, &["replay", "notes.txt"]);
    assert_eq!(piped.code, Some(1), "without a terminal there is nothing to show it in");
}

#[test]
fn a_recording_of_any_size_is_not_read_into_memory() {
    let althing = althing();
    std::fs::File::create(althing.work_dir().join("huge.jsonl")).unwrap().set_len(4 << 40).unwrap();
    let mut terminal = althing.new_command().args(["replay", "huge.jsonl"]).terminal(200, 20);
    assert_eq!(terminal.wait(LIMIT), 1);
    let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
    assert!(raw.contains("it is larger than 256 MiB"), "{raw}");
}
