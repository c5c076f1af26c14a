//! What is printed where: only the answer on stdout, progress on stderr, and the formats for programs.

use std::collections::BTreeSet;

use althing_testkit::process::{Signal, newest_session};
use althing_testkit::wait::until;
use althing_testkit::{Action, Fault, FaultMoment, Gate, Reply, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, of_type};

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap_or_else(|| panic!("not an object: {value}")).keys().map(String::as_str).collect()
}

fn set<const N: usize>(keys: [&str; N]) -> BTreeSet<&str> {
    BTreeSet::from(keys)
}

fn facts(fixture: &Fixture) -> Vec<Value> {
    let mut events = fixture.althing.events();
    for event in &mut events {
        let fields = event.as_object_mut().unwrap();
        assert!(fields.remove("crc").is_some(), "a line has a checksum: {event}");
        event.as_object_mut().unwrap().remove("batch");
    }
    events
}

fn lines(stdout: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    stdout.lines().map(parse).collect()
}

#[test]
fn the_answer_is_on_stdout_alone_and_the_progress_on_stderr_alone() {
    let script = Script::parliament().on("model-a").nth(2, Reply::text("Line one.\n\nLine two.").chunks(4));
    let fixture = Fixture::new(3, script);
    let output = fixture.run(&["task"]).expect_code(0);
    assert_eq!(output.stdout, "Line one.\n\nLine two.\n");
    assert!(!output.stderr.contains("Line one."), "{}", output.stderr);
    for agent in ["a", "b", "c"] {
        let speaks = |line: &str| line.split_whitespace().next() == Some(agent);
        assert!(output.stderr.lines().any(speaks), "{agent} has no line:\n{}", output.stderr);
    }
    assert!(!output.stderr.contains('\u{1b}'), "no colors or cursor moves where there is no terminal");
}

#[test]
fn the_result_object_has_exactly_the_fields_of_the_contract() {
    let fixture = Fixture::new(3, Script::parliament());
    let result = fixture.result(&["Compare"]);
    assert_eq!(
        keys(&result),
        set([
            "run_id",
            "task",
            "status",
            "modes",
            "final_answer",
            "workspace_path",
            "coordination_summary",
            "context_path_writes",
            "plan",
            "follow_up",
            "usage",
            "duration_ms",
            "log_dir",
            "error"
        ])
    );
    assert_eq!(result["task"], "Compare");
    assert_eq!(result["status"], "completed");
    assert_eq!(result["modes"], json!({"agent_mode": "multi", "refinement": true, "planning": false}));
    assert_eq!(result["final_answer"], "Final answer of model-a");
    assert!(result["run_id"].as_str().is_some_and(|id| !id.is_empty()));
    assert!(result["workspace_path"].is_null() || result["workspace_path"].is_string());
    assert_eq!(result["context_path_writes"], json!([]));
    assert_eq!(
        (&result["plan"], &result["follow_up"], &result["error"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert!(result["duration_ms"].is_u64(), "{}", result["duration_ms"]);
    assert!(std::path::Path::new(result["log_dir"].as_str().unwrap()).is_dir());

    let usage = &result["usage"];
    assert_eq!(keys(usage), set(["input_tokens", "output_tokens", "cost_usd", "calls"]));
    assert_eq!(
        (&usage["calls"], &usage["input_tokens"], &usage["output_tokens"]),
        (&json!(7), &json!(700), &json!(140))
    );
    assert!(usage["cost_usd"].is_f64(), "{}", usage["cost_usd"]);
}

#[test]
fn the_coordination_summary_has_exactly_the_fields_of_the_contract() {
    let fixture = Fixture::new(3, Script::parliament());
    let result = fixture.result(&["Compare"]);
    let summary = &result["coordination_summary"];
    assert_eq!(
        keys(summary),
        set([
            "winner",
            "presenter",
            "strategy",
            "overridden",
            "rounds",
            "votes",
            "ballots",
            "decision",
            "agents"
        ])
    );
    assert_eq!((&summary["winner"], &summary["presenter"]), (&json!("a"), &json!("a")));
    assert_eq!((&summary["strategy"], &summary["overridden"]), (&json!("winner_present"), &json!(false)));
    assert_eq!((&summary["rounds"], &summary["votes"]), (&json!(2), &json!({"a": 3})));
    let ballots = summary["ballots"].as_array().unwrap();
    assert_eq!(ballots.len(), 3);
    for ballot in ballots {
        assert_eq!(keys(ballot), set(["voter", "target", "reason"]));
        assert_eq!(ballot["target"], "a");
    }
    let explanation = "a wins by Borda count with 6 points (others: b 0, c 0); of 3 ballots, it is ranked above b by \
                       3, c by 3";
    let mut decision = summary["decision"].clone();
    let said = decision["explanation"].take();
    // Nobody ranked b and c, so the seed orders them.
    assert!(
        [
            explanation,
            &explanation.replace("b 0, c 0", "c 0, b 0").replace("b by 3, c by 3", "c by 3, b by 3")
        ]
        .contains(&said.as_str().unwrap()),
        "{said}"
    );
    assert_eq!(
        decision,
        json!({
            "rule": "borda",
            "points": {"a": 6, "b": 0, "c": 0},
            "pairwise": {"a": {"b": 3, "c": 3}, "b": {}, "c": {}},
            "explanation": null,
        })
    );
    let agents = summary["agents"].as_array().unwrap();
    let expected = |id: &str| json!({"id": id, "status": "voted", "answers": 1, "error": null});
    assert_eq!(*agents, [expected("a"), expected("b"), expected("c")]);
}

#[test]
fn prices_of_the_config_give_the_cost_of_the_run() {
    let fixture = Fixture::new(1, Script::parliament());
    let mut config: Value =
        serde_json::from_slice(&std::fs::read(fixture.althing.work_dir().join("team.yaml")).unwrap())
            .unwrap();
    config["prices"] = json!({"model-a": {"input_per_million": 1000, "output_per_million": 10_000}});
    fixture.althing.file("team.yaml", config.to_string());
    let result = fixture.result(&["task"]);
    // Three calls with 100 input tokens and 20 output tokens each.
    let cost = result["usage"]["cost_usd"].as_f64().unwrap();
    assert!((cost - 3.0 * (0.1 + 0.2)).abs() < 1e-9, "{cost}");
}

#[test]
fn a_failed_run_gives_a_result_object_too() {
    let fixture =
        Fixture::new(2, Script::parliament().fault_always(Fault::Status(401), FaultMoment::BeforeHeaders));
    let output = fixture.run(&["--json", "task"]).expect_code(2);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&result["status"], &result["final_answer"]), (&json!("failed"), &Value::Null));
    let error = result["error"].as_str().unwrap();
    assert!(error.contains("a: ") && error.contains("b: "), "{error}");
    for agent in result["coordination_summary"]["agents"].as_array().unwrap() {
        assert_eq!(agent["status"], "failed");
        assert!(agent["error"].as_str().is_some_and(|why| !why.is_empty()), "{agent}");
    }
}

#[test]
fn the_result_is_stored_beside_the_log() {
    let fixture = Fixture::new(2, Script::parliament());
    let result = fixture.result(&["task"]);
    let dir = std::path::Path::new(result["log_dir"].as_str().unwrap());
    assert!(dir.starts_with(fixture.session()), "{}", dir.display());
    assert_eq!(std::fs::read_to_string(dir.join("final_answer.md")).unwrap(), "Final answer of model-a");
    let answers = std::fs::read_to_string(dir.join("answers.md")).unwrap();
    assert!(answers.contains("# agent2.1 (b)\n\nAnswer of model-b\n"), "{answers}");
}

#[test]
fn streamed_events_are_the_facts_of_the_log() {
    let fixture = Fixture::new(3, Script::parliament());
    let output = fixture.run(&["--stream-events", "task"]).expect_code(0);
    assert_eq!(lines(&output.stdout), facts(&fixture));
    let events = lines(&output.stdout);
    assert_eq!(of_type(&events, "session_opened").len(), 1);
    assert_eq!(of_type(&events, "session_closed").len(), 1);
    assert!(!output.stderr.is_empty(), "progress is still told");
}

#[test]
fn every_event_names_its_number_time_task_cause_and_type() {
    let fixture = Fixture::new(3, Script::parliament());
    let output = fixture.run(&["--stream-events", "task"]).expect_code(0);
    for (number, event) in (1..).zip(lines(&output.stdout)) {
        assert_eq!(keys(&event), set(["seq", "at", "task", "cause", "type", "data"]), "{event}");
        assert_eq!(event["seq"], number);
        assert!(event["cause"].is_null() || event["cause"].as_u64().unwrap() < number, "{event}");
    }
}

#[test]
fn with_all_streamed_progress_is_printed_too() {
    let script =
        Script::parliament().on("model-a").nth(2, Reply::text("one two three").reasoning("hm").chunks(3));
    let fixture = Fixture::new(2, script);
    let output = fixture.run(&["--stream-events=all", "task"]).expect_code(0);
    let (deltas, events): (Vec<Value>, Vec<Value>) =
        lines(&output.stdout).into_iter().partition(|line| line["seq"].is_null());
    assert_eq!(events, facts(&fixture));
    let text = |kind: &str| -> String {
        let of_kind = deltas.iter().filter(|delta| delta["type"] == "delta" && delta["kind"] == kind);
        of_kind.filter_map(|delta| delta["text"].as_str()).collect()
    };
    assert_eq!((text("text").as_str(), text("reasoning").as_str()), ("one two three", "hm"));
    assert!(text("tool_call").contains("new_answer"), "{}", text("tool_call"));
}

#[test]
fn the_answer_goes_to_the_output_file_as_well() {
    let fixture = Fixture::new(2, Script::parliament());
    let output = fixture.run(&["--output-file", "answer.md", "task"]).expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    let kept = std::fs::read_to_string(fixture.althing.work_dir().join("answer.md")).unwrap();
    assert_eq!(kept.trim_end(), "Final answer of model-a");
}

#[test]
fn an_output_file_that_nobody_reads_does_not_outlast_a_signal() {
    let fixture = Fixture::new(1, Script::parliament());
    let pipe = fixture.althing.work_dir().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let running = fixture.spawn(&["--output-file", "pipe", "task"]);
    // After the result is saved, nothing is left but to write the answer.
    let session = || newest_session(&fixture.althing.state_dir());
    until(LIMIT, || session().is_some_and(|dir| dir.join("tasks/r1/final_answer.md").exists()));
    running.signal(Signal::TERM);
    let output = running.wait(LIMIT).expect_code(4);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    assert!(output.stderr.contains("could not be written to"), "{}", output.stderr);
}

#[test]
fn help_and_version_exit_with_0() {
    for (args, expected) in [(["--help"], "Exit status"), (["--version"], "althing ")] {
        let output = super::support::run(&super::support::althing(), &args).expect_code(0);
        assert!(output.stdout.contains(expected) && output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn the_version_says_what_the_program_was_built_from() {
    let short = super::support::run(&super::support::althing(), &["-V"]).expect_code(0).stdout;
    assert_eq!(short.trim_end(), concat!("althing ", env!("CARGO_PKG_VERSION")));
    let long = super::support::run(&super::support::althing(), &["--version"]).expect_code(0).stdout;
    assert!(long.starts_with(&short), "{long}");
    assert!(long.contains(std::env::consts::ARCH) && long.contains("build, rustc 1."), "{long}");
}

#[test]
fn a_closed_pipe_does_not_stop_or_hang_the_run() {
    let fixture = Fixture::new(3, Script::parliament());
    let binary = env!("CARGO_BIN_EXE_althing");
    for args in ["--stream-events=all task", "task", "--json task"] {
        // `true` reads nothing, so every write fails with a closed pipe.
        let line = format!(
            "set -o pipefail; {{ {binary} --config team.yaml --automation {args}; echo \"code $?\" >&2; }} | true"
        );
        let shell = althing_testkit::Althing::new("/bin/bash").args(["-c", &line]);
        let text = std::fs::read(fixture.althing.work_dir().join("team.yaml")).unwrap();
        shell.file("team.yaml", text);
        let output = shell.spawn().wait(LIMIT);
        assert!(output.stderr.contains("code 0"), "{args}: {output:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let fixture = Fixture::new(1, Script::parliament());
    let text = std::fs::read(fixture.althing.work_dir().join("team.yaml")).unwrap();
    let task = r#"{"id": "one", "agent": "command", "command": ["true"], "executionMode": "headless", "prompt": ""}"#;
    let flow = format!(r#"{{"name": "flow", "stages": [{{"name": "one", "tasks": [{task}]}}]}}"#);
    for args in ["task", "--json task", "--stream-events task", "--stream-events workflow run flow.yaml"] {
        let line =
            format!("{} --config team.yaml --automation {args} > /dev/full", env!("CARGO_BIN_EXE_althing"));
        let shell = althing_testkit::Althing::new("/bin/sh").args(["-c", &line]);
        shell.file("team.yaml", &text);
        shell.file("flow.yaml", &flow);
        let output = shell.spawn().wait(LIMIT);
        assert_eq!(output.code, Some(2), "work was done: {args}: {}", output.stderr);
        assert!(output.stderr.contains("stdout"), "{args}: {}", output.stderr);
    }
}

#[test]
fn an_output_file_that_cannot_be_written_is_reported_before_anything_starts() {
    let fixture = Fixture::new(1, Script::parliament());
    let task = json!({"id": "one", "agent": "command", "command": ["touch", "was-started"], "executionMode": "headless", "prompt": ""});
    let flow = json!({"name": "flow", "stages": [{"name": "one", "tasks": [task]}]});
    fixture.althing.file("flow.yaml", flow.to_string());
    fixture.althing.file("directory/kept", "");
    for file in ["nowhere/answer.md", "directory", "team.yaml/answer.md"] {
        for command in [&["task"] as &[&str], &["workflow", "run", "flow.yaml"]] {
            let output =
                fixture.command(&["--output-file", file]).args(command).spawn().wait(LIMIT).expect_code(1);
            assert!(
                output.stderr.contains("--output-file") && output.stderr.contains(file),
                "{}",
                output.stderr
            );
        }
    }
    assert_eq!(fixture.server.request_count(), 0);
    assert!(!fixture.althing.work_dir().join("was-started").exists());
}

#[test]
fn the_answer_is_printed_even_if_its_file_cannot_be_written_at_the_end() {
    let gate = Gate::before_headers();
    let last = Action::gated(Action::Usual, &gate);
    let fixture = Fixture::new(1, Script::parliament().on("model-a").nth(2, last));
    let running = fixture.spawn(&["--output-file", "answer.md", "task"]);
    gate.wait_waiting_blocking(1, LIMIT);
    let file = fixture.althing.work_dir().join("answer.md");
    assert!(!file.exists(), "the check leaves no file behind");
    std::fs::create_dir(&file).unwrap();
    gate.release_all();
    let output = running.wait(LIMIT).expect_code(2);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    let saved = fixture.session().join("tasks/r1/final_answer.md");
    assert!(output.stderr.contains(&saved.display().to_string()), "{}", output.stderr);
    assert_eq!(std::fs::read_to_string(saved).unwrap(), "Final answer of model-a");
}
