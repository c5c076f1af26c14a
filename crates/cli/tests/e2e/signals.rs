//! Stopping on a signal: quickly, with everything saved, and with the command that resumes the session.

use althing_testkit::process::Signal;
use althing_testkit::{Action, Gate, RunningProcess, Script};

use super::support::{Fixture, LIMIT};

/// A run of three agents in which `a` and `b` have answered and `c` is held at the gate.
fn run_held_at_gate() -> (Fixture, RunningProcess, Gate) {
    let gate = Gate::before_headers();
    let script = Script::parliament().on("model-c").nth(0, Action::gated(Action::Usual, &gate));
    let fixture = Fixture::new(3, script);
    let running = fixture.spawn(&["task"]);
    for answer in ["agent1.1", "agent2.1"] {
        running.wait_for_stderr(|line| line.contains(&format!("answered: {answer}")), LIMIT);
    }
    fixture.server.wait_for_requests_blocking(3, LIMIT);
    (fixture, running, gate)
}

#[test]
fn a_signal_ends_a_run_that_waits_and_names_the_resume_command() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        // The model never answers, so that only the signal can end the run.
        let (fixture, running, _gate) = run_held_at_gate();
        running.signal(signal);
        let output = running.wait(LIMIT).expect_code(4);
        assert_eq!(output.stdout, "");
        let command = format!("althing resume {}", fixture.session_id());
        assert!(output.stderr.contains(&command), "{}", output.stderr);
        assert_eq!(fixture.server.request_count(), 3, "nothing was started after the signal");
    }
}

#[test]
fn an_interrupted_run_resumes_without_repeating_finished_calls() {
    let (fixture, running, _gate) = run_held_at_gate();
    running.signal(Signal::INT);
    running.wait(LIMIT).expect_code(4);
    let output = fixture.resume().expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    let calls: Vec<(String, usize)> = fixture.calls().into_iter().collect();
    let expected = [("model-a", 3), ("model-b", 2), ("model-c", 3)].map(|(model, n)| (model.to_owned(), n));
    assert_eq!(calls, expected, "only the call that was cut off is made again");
}

#[test]
fn a_run_interrupted_at_its_presentation_only_presents_again() {
    let gate = Gate::before_headers();
    let script = Script::parliament().on("model-a").nth(2, Action::gated(Action::Usual, &gate));
    let fixture = Fixture::new(3, script);
    let running = fixture.spawn(&["task"]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.signal(Signal::TERM);
    running.wait(LIMIT).expect_code(4);
    let output = fixture.resume().expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    assert_eq!(fixture.server.request_count(), 8);
}

#[test]
fn a_second_resume_prints_the_finished_result_again_without_a_call() {
    let (fixture, running, _gate) = run_held_at_gate();
    running.signal(Signal::TERM);
    running.wait(LIMIT).expect_code(4);
    let first = fixture.resume().expect_code(0);
    let made = fixture.server.request_count();
    let log = std::fs::read(fixture.log()).unwrap();
    let second = fixture.resume().expect_code(0);
    assert_eq!(second.stdout, first.stdout);
    assert_eq!(fixture.server.request_count(), made);
    assert_eq!(std::fs::read(fixture.log()).unwrap(), log, "looking at it changes nothing");
}

#[test]
fn an_interrupted_run_can_be_interrupted_again_and_still_resumes() {
    let (fixture, running, _gate) = run_held_at_gate();
    running.signal(Signal::INT);
    running.wait(LIMIT).expect_code(4);
    for _ in 0..3 {
        let running = fixture.althing.new_command().arg("resume").spawn();
        running.wait_for_stderr(|line| line.contains("resumed"), LIMIT);
        running.signal(Signal::INT);
        let output = running.wait(LIMIT);
        if output.code == Some(0) {
            assert_eq!(output.stdout, "Final answer of model-a\n");
            return;
        }
        output.expect_code(4);
    }
    assert_eq!(fixture.resume().expect_code(0).stdout, "Final answer of model-a\n");
}

#[test]
fn with_json_an_interrupted_run_still_gives_its_result_object() {
    let gate = Gate::before_headers();
    let fixture = Fixture::new(1, Script::parliament().nth(0, Action::gated(Action::Usual, &gate)));
    let running = fixture.spawn(&["--json", "task"]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.signal(Signal::TERM);
    let output = running.wait(LIMIT).expect_code(4);
    let result: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["status"], "cancelled");
}

#[test]
fn the_resume_command_names_the_state_directory_if_it_was_given() {
    let gate = Gate::before_headers();
    let fixture = Fixture::new(1, Script::parliament().nth(0, Action::gated(Action::Usual, &gate)));
    let running = fixture.spawn(&["--state-dir", "elsewhere", "task"]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.signal(Signal::INT);
    let output = running.wait(LIMIT).expect_code(4);
    let line = output.stderr.lines().find(|line| line.contains("althing resume")).unwrap().to_owned();
    let command = line.split('`').nth(1).unwrap_or_else(|| panic!("no command in {line}"));
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    assert!(words.contains(&"elsewhere"), "{command}");
    let again = fixture.althing.new_command().args(&words).spawn().wait(LIMIT).expect_code(0);
    assert_eq!(again.stdout, "Final answer of model-a\n");
}

#[test]
fn a_signal_while_the_task_is_read_is_an_interruption_too() {
    let running = super::support::althing().args(["--offline", "--automation", "-"]).open_stdin().spawn();
    let threads = format!("/proc/{}/task", running.id());
    // System call 0 is `read`; its first argument is file descriptor 0.
    let reading = |thread: std::io::Result<std::fs::DirEntry>| {
        thread
            .and_then(|thread| std::fs::read_to_string(thread.path().join("syscall")))
            .is_ok_and(|call| call.starts_with("0 0x0 "))
    };
    let reads = || std::fs::read_dir(&threads).is_ok_and(|mut threads| threads.any(reading));
    if cfg!(target_arch = "x86_64") {
        althing_testkit::wait::until(LIMIT, reads);
        running.signal(Signal::INT);
        running.wait(LIMIT).expect_code(4);
    }
}
