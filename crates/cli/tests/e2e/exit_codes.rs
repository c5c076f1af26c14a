//! Exit statuses and their messages: what is wrong, where, and what to do.

use althing_testkit::{Action, Fault, FaultMoment, Output, Reply, Script, refused_base_url};

use super::support::{Fixture, LIMIT, Team, althing, run};

#[track_caller]
fn assert_stderr_contains(output: &Output, words: &[&str]) {
    for word in words {
        assert!(output.stderr.contains(word), "`{word}` is not said:\n{}", output.stderr);
    }
}

#[test]
fn bad_usage_exits_with_1() {
    let cases: &[(&[&str], &str)] = &[
        (&["--no-such-option", "task"], "--no-such-option"),
        (&["--offline", "--automation"], "there is no task"),
        (&["--offline", "--automation", "  "], "the task is empty"),
        (&["--offline", "--json", "--stream-events", "task"], "cannot be used with"),
        (&["--offline", "--config", "x.yaml", "task"], "x.yaml cannot be read"),
        (&["--offline", "--model", "openai:gpt-5", "task"], "cannot be used with"),
        (&["--orchestrator-timeout", "0", "--offline", "task"], "--orchestrator-timeout"),
        (&["--orchestrator-timeout", "soon", "--offline", "task"], "soon"),
        (&["config", "check"], "FILE"),
        (&["sesions"], "did you mean `althing sessions`"),
        (&["workflw", "run", "flow.yaml"], "did you mean `althing workflow`"),
    ];
    for (args, expected) in cases {
        let output = run(&althing(), args).expect_code(1);
        assert_stderr_contains(&output, &[expected]);
        assert_eq!(output.stdout, "", "{args:?}");
    }
}

#[test]
fn a_task_that_is_not_text_exits_with_1() {
    let command = althing().args(["--offline", "--automation", "-"]).stdin(vec![0xff, 0xfe, 0x00]);
    assert_stderr_contains(&command.spawn().wait(LIMIT).expect_code(1), &["stdin", "UTF-8"]);
}

#[test]
fn all_errors_of_a_config_are_reported_at_once_with_their_positions() {
    let althing = althing();
    let config = "\
agents:
  - id: a
    backend:
      type: opennai
      model: m
  - id: a
    backend:
      type: offline
orchestrator:
  voting_sensitivity: sloppy
  max_new_answers_per_agent: none
";
    althing.file("bad.yaml", config);
    let output = run(&althing, &["--config", "bad.yaml", "--automation", "task"]).expect_code(1);
    assert_stderr_contains(
        &output,
        &[
            "bad.yaml:4:13",
            "openai",
            "bad.yaml:6:9",
            "bad.yaml:10:23",
            "bad.yaml:11:30",
            "nothing was started",
        ],
    );
    assert_eq!(output.stdout, "");
}

#[test]
fn a_missing_api_key_is_reported_by_its_variable() {
    let althing = althing();
    althing.file("team.yaml", "agents: [{id: a, backend: {type: openai, model: gpt-5}}]");
    let output = run(&althing, &["--config", "team.yaml", "task"]).expect_code(1);
    assert_stderr_contains(&output, &["OPENAI_API_KEY", ".env"]);
}

#[test]
fn an_unset_variable_of_the_config_is_reported() {
    let fixture =
        Fixture::with(1, Script::parliament(), |team| team.backend(0, "api_key", "${NOBODY_SET_THIS}"));
    assert_stderr_contains(&fixture.run(&["task"]).expect_code(1), &["NOBODY_SET_THIS", "team.yaml"]);
    assert_eq!(fixture.server.request_count(), 0);
}

#[test]
fn an_unreachable_server_exits_with_2_and_names_its_address() {
    let (althing, url) = (althing(), refused_base_url());
    let team = Team::on(&url, 2).every_backend("max_retries", 1);
    althing.file("team.yaml", team.text());
    let output = run(&althing, &["--config", "team.yaml", "--automation", "task"]).expect_code(2);
    assert_stderr_contains(
        &output,
        &["a: ", "b: ", url.trim_end_matches("/v1").trim_start_matches("http://"), "no agent gave an answer"],
    );
    assert_eq!(output.stdout, "");
}

#[test]
fn an_unknown_model_exits_with_2_and_is_named() {
    let fixture =
        Fixture::new(2, Script::parliament().fault_always(Fault::Status(404), FaultMoment::BeforeHeaders));
    let output = fixture.run(&["task"]).expect_code(2);
    assert_stderr_contains(&output, &["404", "model-a", "model-b"]);
    assert_eq!(fixture.server.request_count(), 2, "asking again would not help");
}

#[test]
fn a_rejected_api_key_exits_with_2_and_is_reported() {
    let fixture =
        Fixture::new(2, Script::parliament().fault_always(Fault::Status(401), FaultMoment::BeforeHeaders));
    let output = fixture.run(&["task"]).expect_code(2);
    assert_stderr_contains(&output, &["401", "key"]);
    assert_eq!(fixture.server.request_count(), 2, "asking again would not help");
}

#[test]
fn a_run_in_which_every_agent_failed_says_why_agent_by_agent() {
    let script = Script::always(Reply::call("shout", &serde_json::json!({})))
        .on("model-a")
        .fault_always(Fault::Status(401), FaultMoment::BeforeHeaders)
        .on("model-b")
        .fault_always(Fault::Status(500), FaultMoment::BeforeHeaders);
    let fixture = Fixture::with(3, script, |team| team.every_backend("max_retries", 1));
    let output = fixture.run(&["task"]).expect_code(2);
    let reasons = output.stderr.split("no agent gave an answer").nth(1).unwrap_or_default();
    for (agent, why) in [("a", "401"), ("b", "500"), ("c", "There is no such tool")] {
        let told = reasons
            .lines()
            .any(|line| line.trim_start().starts_with(&format!("{agent}: ")) && line.contains(why));
        assert!(told, "{agent} and {why} are not told: {reasons}");
    }
    assert_eq!(output.stdout, "");
}

#[test]
fn an_unreadable_config_exits_with_1() {
    let althing = althing();
    althing.file("binary.yaml", b"agents:\n  - id: \xff\xfe\n");
    std::fs::create_dir(althing.work_dir().join("directory.yaml")).unwrap();
    althing.file("empty.yaml", "");
    let cases = [
        ("missing.yaml", "config init"),
        ("binary.yaml", "UTF-8"),
        ("directory.yaml", "directory"),
        ("empty.yaml", "agent"),
    ];
    for (file, expected) in cases {
        let output = run(&althing, &["--config", file, "--automation", "task"]).expect_code(1);
        assert_stderr_contains(&output, &[file, expected]);
    }
}

#[test]
fn a_state_directory_that_cannot_be_written_exits_with_1_and_is_named() {
    let fixture = Fixture::new(1, Script::parliament());
    let file = fixture.althing.file("in-the-way", "a file");
    for place in
        [file.display().to_string(), format!("{}/below", file.display()), "/proc/althing-state".to_owned()]
    {
        let output = fixture.run(&["--state-dir", &place, "task"]).expect_code(1);
        assert_stderr_contains(&output, &["/", "--state-dir"]);
        assert!(output.stderr.contains("in-the-way") || output.stderr.contains("/proc"), "{}", output.stderr);
    }
    assert_eq!(fixture.server.request_count(), 0, "nothing was started that could not be kept");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "a file");
}

#[test]
fn a_limit_exits_with_3_and_an_interruption_with_4() {
    let fixture = Fixture::new(1, Script::always(Action::Hang));
    fixture.run(&["--orchestrator-timeout", "1", "task"]).expect_code(3);
    let running = fixture.spawn(&["task"]);
    fixture.server.wait_for_requests_blocking(2, LIMIT);
    running.signal(althing_testkit::process::Signal::INT);
    running.wait(LIMIT).expect_code(4);
}
