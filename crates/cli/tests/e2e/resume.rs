//! Resuming a session: it needs no config, reads secrets from the environment, and reports what changed.

use althing_testkit::process::Signal;
use althing_testkit::{Action, Fault, FaultMoment, Gate, Parliament, Reply, Script};
use serde_json::json;

use super::support::{Fixture, LIMIT, Team, althing, files_below, run};

/// A run of two agents in which the first answer of `b` was interrupted.
fn interrupted_run(change: impl FnOnce(Team) -> Team) -> Fixture {
    let gate = Gate::before_headers();
    let script = Script::parliament().on("model-b").nth(0, Action::gated(Action::Usual, &gate));
    let fixture = Fixture::with(2, script, change);
    let running = fixture.command(&["task"]).env("TEAM_KEY", "key-of-the-first-run").spawn();
    gate.wait_waiting_blocking(1, LIMIT);
    running.wait_for_stderr(|line| line.contains("answered: agent1.1"), LIMIT);
    running.signal(Signal::TERM);
    running.wait(LIMIT).expect_code(4);
    fixture
}

#[test]
fn a_session_resumes_without_its_config_file() {
    let fixture = interrupted_run(|team| team);
    std::fs::remove_file(fixture.althing.work_dir().join("team.yaml")).unwrap();
    let output = fixture.resume().expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    assert!(output.stderr.contains("team.yaml no longer exists"), "{}", output.stderr);
}

#[test]
fn a_session_resumes_with_its_recorded_config_and_warns_that_the_file_changed() {
    let fixture = interrupted_run(|team| team);
    fixture.althing.file("team.yaml", "agents: [{id: x, backend: {type: offline}}]");
    let output = fixture.resume().expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    assert!(output.stderr.contains("team.yaml has changed"), "{}", output.stderr);
}

#[test]
fn a_report_that_is_missing_is_written_by_every_resume() {
    let fixture = interrupted_run(|team| team);
    fixture.resume().expect_code(0);
    let found = files_below(&fixture.althing.state_dir());
    let (report, text) = found.into_iter().find(|(path, _)| path.ends_with("report.md")).expect("a report");
    for _ in 0..2 {
        std::fs::remove_file(&report).unwrap();
        let output = fixture.resume().expect_code(0);
        assert!(output.stderr.contains("report.md was missing and is written now"), "{}", output.stderr);
        assert_eq!(std::fs::read(&report).unwrap(), text);
    }
    let output = fixture.resume().expect_code(0);
    assert!(!output.stderr.contains("was missing"), "{}", output.stderr);
}

#[test]
fn files_of_a_conversations_run_that_are_missing_are_written_when_the_conversation_is_resumed() {
    let script = Script::from_fn(|request| -> Action {
        if !request.tool_names().contains(&"launch_run") {
            return Parliament::default().reply(request).into();
        }
        let is_asked = request.messages().last().is_some_and(|message| message["role"] == "user");
        let launch = is_asked && request.last_user_text().contains("Launch it");
        let reply = if launch {
            Reply::call("launch_run", &json!({"task": "Count."}))
        } else {
            Reply::text("Noted.")
        };
        reply.into()
    });
    let fixture = Fixture::with(2, script, |team| team.rule("interactive_mode", json!({})));
    let start = ["chat", "--config", "team.yaml", "--approve", "always"];
    fixture.althing.new_command().args(start).stdin("Launch it\n").spawn().wait(LIMIT).expect_code(0);
    let files = || {
        let found = files_below(&fixture.althing.state_dir()).into_iter();
        found.filter(|(path, _)| path.ends_with("final_answer.md") || path.ends_with("report.md"))
    };
    let written: Vec<_> = files().collect();
    assert!(written.len() >= 2, "{written:?}");
    for (path, _) in &written {
        std::fs::remove_file(path).unwrap();
    }
    let id = fixture.session_id();
    let again = fixture.althing.new_command().args(start).args(["--session", id.as_str()]);
    let output = again.stdin("And now?\n").spawn().wait(LIMIT).expect_code(0);
    assert!(files().eq(written), "{output:?}");
}

#[test]
fn secrets_are_read_again() {
    let fixture = interrupted_run(|team| team.every_backend("api_key", "${TEAM_KEY}"));
    let again = fixture.althing.new_command().arg("resume").env("TEAM_KEY", "key-of-the-second-run");
    again.spawn().wait(LIMIT).expect_code(0);
    let requests = fixture.server.requests_of("model-b");
    assert_eq!(requests[0].header("authorization"), Some("Bearer key-of-the-first-run"));
    assert_eq!(requests[1].header("authorization"), Some("Bearer key-of-the-second-run"));
}

#[test]
fn a_missing_secret_is_reported_before_anything_is_started() {
    let fixture = interrupted_run(|team| team.every_backend("api_key", "${TEAM_KEY}"));
    let made = fixture.server.request_count();
    let output = fixture.resume().expect_code(1);
    assert!(output.stderr.contains("TEAM_KEY"), "{}", output.stderr);
    assert_eq!(fixture.server.request_count(), made);
    let again = fixture.althing.new_command().arg("resume").env("TEAM_KEY", "here it is");
    again.spawn().wait(LIMIT).expect_code(0);
}

#[test]
fn only_the_named_session_is_resumed() {
    let fixture = interrupted_run(|team| team);
    let id = fixture.session_id();
    fixture.run(&["another task"]).expect_code(0);
    let output = run(&fixture.althing, &["resume", &id]).expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    assert!(output.stderr.contains("resumed"), "{}", output.stderr);
}

#[test]
fn without_an_id_the_newest_unfinished_session_is_resumed() {
    let fixture = interrupted_run(|team| team);
    let id = fixture.session_id();
    fixture.run(&["another task"]).expect_code(0);
    let log = fixture.althing.state_dir().join("sessions").join(&id).join("events.jsonl");
    fixture.resume().expect_code(0);
    assert!(std::fs::read_to_string(log).unwrap().contains("session_closed"));
}

#[test]
fn resume_without_sessions_is_an_error() {
    let output = run(&althing(), &["resume"]).expect_code(1);
    assert!(output.stderr.contains("nothing to resume"), "{}", output.stderr);
    let fixture = interrupted_run(|team| team);
    for bad in ["20200101-000000-0000", "../../etc", "a b"] {
        let output = run(&fixture.althing, &["resume", bad]).expect_code(1);
        assert!(
            output.stderr.contains(bad) && output.stderr.contains("althing sessions"),
            "{}",
            output.stderr
        );
    }
}

#[test]
fn a_resumed_session_shows_and_streams_all_its_events() {
    let fixture = interrupted_run(|team| team);
    let output = run(&fixture.althing, &["resume", "--stream-events"]).expect_code(0);
    let shown = output.stdout.lines().count();
    assert_eq!(shown, std::fs::read_to_string(fixture.log()).unwrap().lines().count());
}

#[test]
fn the_answer_of_a_resumed_session_goes_to_the_output_file_and_into_the_result() {
    let fixture = interrupted_run(|team| team);
    let output = run(&fixture.althing, &["resume", "--json", "--output-file", "late.md"]).expect_code(0);
    let result: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&result["status"], &result["task"]), (&"completed".into(), &"task".into()));
    let kept = std::fs::read_to_string(fixture.althing.work_dir().join("late.md")).unwrap();
    assert_eq!(kept.trim_end(), "Final answer of model-a");
}

#[test]
fn resuming_a_failed_session_reports_the_failure_with_the_same_status() {
    let refused = Script::parliament().fault_always(Fault::Status(401), FaultMoment::BeforeHeaders);
    let hopeless = Fixture::new(2, refused);
    hopeless.run(&["task"]).expect_code(2);
    let made = hopeless.server.request_count();
    let output = hopeless.resume().expect_code(2);
    assert!(output.stderr.contains("no agent gave an answer"), "{}", output.stderr);
    assert_eq!(hopeless.server.request_count(), made);

    let slow =
        Fixture::new(2, Script::always(Action::Hang).on("model-a").nth(0, Reply::new_answer("So far.")));
    slow.run(&["--orchestrator-timeout", "8", "task"]).expect_code(3);
    assert_eq!(slow.resume().expect_code(3).stdout, "So far.\n");
}

#[test]
fn a_session_in_a_moved_state_directory_is_resumed_with_the_new_paths() {
    let fixture = interrupted_run(|team| team);
    let (old, new) = (fixture.althing.state_dir(), fixture.althing.work_dir().join("moved"));
    std::fs::rename(&old, &new).unwrap();
    let new = new.to_str().unwrap();
    let output = run(&fixture.althing, &["resume", "--json", "--trust", "--state-dir", new]).expect_code(0);
    let result: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let log_dir = result["log_dir"].as_str().unwrap();
    assert!(log_dir.starts_with(new) && std::path::Path::new(log_dir).is_dir(), "{log_dir}");
    let id = std::fs::read_dir(format!("{new}/sessions")).unwrap().next().unwrap().unwrap().path();
    let log = std::fs::read_to_string(id.join("events.jsonl")).unwrap();
    assert!(!log.contains(new), "a log has one root, however often it is moved");
    std::fs::rename(new, &old).unwrap();
    let id = id.file_name().unwrap().to_str().unwrap();
    let output = run(&fixture.althing, &["resume", id, "--json"]).expect_code(0);
    let result: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert!(result["log_dir"].as_str().unwrap().starts_with(old.to_str().unwrap()), "{result}");
}

#[test]
fn a_blank_session_does_not_hide_an_older_one_that_was_interrupted() {
    let fixture = interrupted_run(|team| team);
    let sessions = fixture.althing.state_dir().join("sessions");
    std::fs::create_dir_all(sessions.join("20991231-000000-0001")).unwrap();
    std::fs::create_dir_all(sessions.join("20991231-000000-0002")).unwrap();
    std::fs::write(sessions.join("20991231-000000-0002/events.jsonl"), "").unwrap();
    let output = fixture.resume().expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    assert!(output.stderr.contains("20991231-000000-0002 cannot be read"), "{}", output.stderr);
    // Once all readable sessions are over, the result of the newest one is shown again.
    assert_eq!(fixture.resume().expect_code(0).stdout, "Final answer of model-a\n");
}
