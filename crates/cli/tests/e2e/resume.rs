//! Resuming a session: it needs no config, reads secrets again, and reports what changed.

use althing_testkit::process::Signal;
use althing_testkit::{Action, Gate, Reply, Script};

use super::support::{LIMIT, Scene, Team, althing, run};

/// A run of two agents in which the first answer of `b` was interrupted.
fn interrupted(change: impl FnOnce(Team) -> Team) -> Scene {
    let gate = Gate::before_headers();
    let script = Script::parliament().on("model-b").nth(0, Action::gated(Action::Usual, &gate));
    let scene = Scene::with(2, script, change);
    let running = scene.command(&["task"]).env("TEAM_KEY", "key-of-the-first-run").spawn();
    gate.wait_waiting_blocking(1, LIMIT);
    running.wait_for_stderr(|line| line.contains("answered: agent1.1"), LIMIT);
    running.signal(Signal::TERM);
    running.wait(LIMIT).expect_code(4);
    scene
}

#[test]
fn a_session_goes_on_without_its_config_file() {
    let scene = interrupted(|team| team);
    std::fs::remove_file(scene.althing.work_dir().join("team.yaml")).unwrap();
    let output = scene.resume().expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    assert!(output.stderr.contains("team.yaml no longer exists"), "{}", output.stderr);
}

#[test]
fn a_session_goes_on_with_its_own_config_and_warns_that_the_file_changed() {
    let scene = interrupted(|team| team);
    scene.althing.file("team.yaml", "agents: [{id: x, backend: {type: offline}}]");
    let output = scene.resume().expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    assert!(output.stderr.contains("team.yaml has changed"), "{}", output.stderr);
}

#[test]
fn secrets_are_read_anew() {
    let scene = interrupted(|team| team.every_backend("api_key", "${TEAM_KEY}"));
    let again = scene.althing.new_command().arg("resume").env("TEAM_KEY", "key-of-the-second-run");
    again.spawn().wait(LIMIT).expect_code(0);
    let requests = scene.server.requests_of("model-b");
    assert_eq!(requests[0].header("authorization"), Some("Bearer key-of-the-first-run"));
    assert_eq!(requests[1].header("authorization"), Some("Bearer key-of-the-second-run"));
}

#[test]
fn a_secret_that_is_gone_is_named_before_anything_is_started() {
    let scene = interrupted(|team| team.every_backend("api_key", "${TEAM_KEY}"));
    let made = scene.server.request_count();
    let output = scene.resume().expect_code(1);
    assert!(output.stderr.contains("TEAM_KEY"), "{}", output.stderr);
    assert_eq!(scene.server.request_count(), made);
    let again = scene.althing.new_command().arg("resume").env("TEAM_KEY", "here it is");
    again.spawn().wait(LIMIT).expect_code(0);
}

#[test]
fn a_session_can_be_named_and_only_that_one_goes_on() {
    let scene = interrupted(|team| team);
    let id = scene.session_id();
    scene.run(&["another task"]).expect_code(0);
    let output = run(&scene.althing, &["resume", &id]).expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    assert!(output.stderr.contains("resumed"), "{}", output.stderr);
}

#[test]
fn without_a_name_the_newest_session_that_is_not_over_goes_on() {
    let scene = interrupted(|team| team);
    let id = scene.session_id();
    scene.run(&["another task"]).expect_code(0);
    let log = scene.althing.state_dir().join("sessions").join(&id).join("events.jsonl");
    scene.resume().expect_code(0);
    assert!(std::fs::read_to_string(log).unwrap().contains("session_closed"));
}

#[test]
fn where_there_is_nothing_to_resume_it_says_so() {
    let output = run(&althing(), &["resume"]).expect_code(1);
    assert!(output.stderr.contains("nothing to resume"), "{}", output.stderr);
    let scene = interrupted(|team| team);
    for bad in ["20200101-000000-0000", "../../etc", "a b"] {
        let output = run(&scene.althing, &["resume", bad]).expect_code(1);
        assert!(
            output.stderr.contains(bad) && output.stderr.contains("althing sessions"),
            "{}",
            output.stderr
        );
    }
}

#[test]
fn a_resumed_session_shows_and_streams_the_whole_of_itself() {
    let scene = interrupted(|team| team);
    let output = run(&scene.althing, &["resume", "--stream-events"]).expect_code(0);
    let shown = output.stdout.lines().count();
    assert_eq!(shown, std::fs::read_to_string(scene.log()).unwrap().lines().count());
}

#[test]
fn the_answer_of_a_resumed_session_goes_to_the_output_file_and_into_the_result() {
    let scene = interrupted(|team| team);
    let output = run(&scene.althing, &["resume", "--json", "--output-file", "late.md"]).expect_code(0);
    let result: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&result["status"], &result["task"]), (&"completed".into(), &"task".into()));
    let kept = std::fs::read_to_string(scene.althing.work_dir().join("late.md")).unwrap();
    assert_eq!(kept.trim_end(), "Final answer of model-a");
}

#[test]
fn a_session_that_ended_badly_says_so_again_with_the_same_status() {
    let hopeless = Scene::new(2, Script::always(Reply::text("no tool")));
    hopeless.run(&["task"]).expect_code(2);
    let made = hopeless.server.request_count();
    let output = hopeless.resume().expect_code(2);
    assert!(output.stderr.contains("no agent gave an answer"), "{}", output.stderr);
    assert_eq!(hopeless.server.request_count(), made);

    let slow = Scene::new(2, Script::always(Action::Hang).on("model-a").nth(0, Reply::new_answer("So far.")));
    slow.run(&["--orchestrator-timeout", "1", "task"]).expect_code(3);
    assert_eq!(slow.resume().expect_code(3).stdout, "So far.\n");
}

#[test]
fn a_session_whose_state_directory_was_moved_is_resumed_and_names_the_new_place() {
    let scene = interrupted(|team| team);
    let (old, new) = (scene.althing.state_dir(), scene.althing.work_dir().join("moved"));
    std::fs::rename(&old, &new).unwrap();
    let new = new.to_str().unwrap();
    let output = run(&scene.althing, &["resume", "--json", "--trust", "--state-dir", new]).expect_code(0);
    let result: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let log_dir = result["log_dir"].as_str().unwrap();
    assert!(log_dir.starts_with(new) && std::path::Path::new(log_dir).is_dir(), "{log_dir}");
    let id = std::fs::read_dir(format!("{new}/sessions")).unwrap().next().unwrap().unwrap().path();
    let log = std::fs::read_to_string(id.join("events.jsonl")).unwrap();
    assert!(!log.contains(new), "a log has one root, however often it is moved");
    // Moved back to its original location.
    std::fs::rename(new, &old).unwrap();
    let id = id.file_name().unwrap().to_str().unwrap();
    let output = run(&scene.althing, &["resume", id, "--json"]).expect_code(0);
    let result: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert!(result["log_dir"].as_str().unwrap().starts_with(old.to_str().unwrap()), "{result}");
}
