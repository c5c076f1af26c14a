//! The options of a run: which agents take part, where the task comes from, what needs no config.

use althing_testkit::{FakeModel, Reply, Script};

use super::support::{Fixture, LIMIT, althing, bare, run, texts};

#[test]
fn a_dash_reads_the_task_from_stdin() {
    let fixture = Fixture::new(2, Script::parliament());
    let command = fixture.command(&["-"]).stdin("A task\nof two lines, with æøå");
    command.spawn().wait(LIMIT).expect_code(0);
    assert!(texts(&fixture.server.requests()[0]).contains("A task\nof two lines, with æøå"));
}

#[test]
fn only_the_agents_that_are_named_take_part() {
    let fixture = Fixture::new(3, Script::parliament());
    let output = fixture.run(&["--agents", "b,c", "task"]).expect_code(0);
    let calls: Vec<(String, usize)> = fixture.calls().into_iter().collect();
    assert_eq!(calls, [("model-b".to_owned(), 3), ("model-c".to_owned(), 2)]);
    assert_eq!(output.stdout, "Final answer of model-b\n");
}

#[test]
fn a_single_agent_is_the_named_one() {
    let fixture = Fixture::new(3, Script::parliament());
    fixture.run(&["--single-agent", "c", "task"]).expect_code(0);
    assert_eq!(fixture.calls().into_iter().collect::<Vec<_>>(), [("model-c".to_owned(), 3)]);
}

#[test]
fn without_an_agent_id_the_first_agent_works_alone_and_the_word_is_the_task() {
    let fixture = Fixture::new(3, Script::parliament());
    fixture.run(&["--single-agent", "What is new?"]).expect_code(0);
    assert_eq!(fixture.calls().into_iter().collect::<Vec<_>>(), [("model-a".to_owned(), 3)]);
    assert!(texts(&fixture.server.requests()[0]).contains("What is new?"));

    let fixture = Fixture::new(3, Script::parliament());
    fixture.run(&["What is new?", "--single-agent"]).expect_code(0);
    assert_eq!(fixture.calls().into_iter().collect::<Vec<_>>(), [("model-a".to_owned(), 3)]);
}

#[test]
fn an_unknown_agent_is_an_error_that_lists_the_known_ids() {
    let cases: [&[&str]; 3] = [
        &["--agents", "a,zoe", "task"],
        &["--single-agent", "zoe", "task"],
        &["--agents", "zoe", "--quick", "task"],
    ];
    for args in cases {
        let fixture = Fixture::new(3, Script::parliament());
        let output = fixture.run(args).expect_code(1);
        assert!(output.stderr.contains("zoe") && output.stderr.contains("a, b, c"), "{}", output.stderr);
        assert_eq!((output.stdout.as_str(), fixture.server.request_count()), ("", 0));
    }
}

#[test]
fn in_a_conversation_too_only_the_agents_that_are_named_take_part() {
    let fixture = Fixture::new(3, Script::parliament());
    let chat = || fixture.althing.new_command().args(["chat", "--config", "team.yaml"]).stdin("task\n");
    chat().args(["--agents", "b,c"]).spawn().wait(LIMIT).expect_code(0);
    let models: Vec<String> = fixture.calls().into_keys().collect();
    assert_eq!(models, ["model-b", "model-c"]);
    let refused = chat().args(["--agents", "b,zoe"]).spawn().wait(LIMIT).expect_code(1);
    assert!(refused.stderr.contains("no agent `zoe`"), "{}", refused.stderr);
}

#[test]
fn a_config_with_one_agent_is_a_run_of_a_single_agent() {
    let fixture = Fixture::new(1, Script::parliament());
    let result = fixture.result(&["task"]);
    assert_eq!(result["modes"]["agent_mode"], "single");
    assert_eq!(result["coordination_summary"]["agents"].as_array().unwrap().len(), 1);
}

#[test]
fn the_offline_model_needs_nothing_and_is_labeled() {
    let althing = althing();
    althing.file("althing.yaml", "agents: [{id: x, backend: {type: nonsense}}]");
    let output = run(&althing, &["--offline", "--automation", "Compare three ways to cache HTTP responses"])
        .expect_code(0);
    assert!(output.stdout.contains("offline model"), "{}", output.stdout);
    assert!(output.stderr.contains("offline model, not an AI"), "{}", output.stderr);
    assert_eq!(output.stderr.matches("offline model, not an AI").count(), 3, "{}", output.stderr);
}

#[test]
fn a_model_on_the_command_line_needs_no_config() {
    let althing = althing();
    let output =
        run(&althing, &["--model", "offline:offline", "--model", "offline:offline", "--automation", "task"]);
    let output = output.expect_code(0);
    assert!(output.stderr.contains("offline-1") && output.stderr.contains("offline-2"), "{}", output.stderr);
    for bad in ["gpt-5", "openai:", ":gpt-5"] {
        let output = run(&althing, &["--model", bad, "task"]).expect_code(1);
        assert!(output.stderr.contains("TYPE:NAME"), "{}", output.stderr);
    }
}

#[test]
fn without_a_config_a_local_ollama_is_detected_announced_and_used() {
    let server = FakeModel::start_on_thread(Script::parliament());
    let host = server.base_url().trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let command = bare().args(["--automation", "task"]).env("OLLAMA_HOST", &host);
    let output = command.spawn().wait(LIMIT).expect_code(0);
    let told = "no config found: agents from Ollama (model-a, model-b, model-c)";
    assert!(output.stderr.contains(told), "{}", output.stderr);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    let output = run(&bare(), &["--automation", "task"]).expect_code(0);
    assert!(output.stderr.contains("no Ollama found: using the offline model"), "{}", output.stderr);
}

#[test]
fn an_agents_system_message_reaches_only_its_own_model() {
    let fixture = Fixture::new(2, Script::parliament());
    let config = std::fs::read_to_string(fixture.althing.work_dir().join("team.yaml")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
    config["agents"][1]["system_message"] = "You are a careful librarian.".into();
    fixture.althing.file("team.yaml", config.to_string());
    fixture.run(&["task"]).expect_code(0);
    let told =
        |model: &str| fixture.server.requests_of(model)[0].system_text().contains("a careful librarian");
    assert!(told("model-b") && !told("model-a"));
}

#[test]
fn parameters_headers_and_the_key_go_to_the_server_as_configured() {
    let fixture = Fixture::with(1, Script::parliament(), |team| {
        team.backend(0, "temperature", 0.25).backend(0, "api_key", "${MY_OWN_KEY}").backend(
            0,
            "extra_headers",
            serde_json::json!({"x-team": "blue"}),
        )
    });
    let command = fixture.command(&["task"]).env("MY_OWN_KEY", "key-from-the-environment");
    command.spawn().wait(LIMIT).expect_code(0);
    let request = &fixture.server.requests()[0];
    assert_eq!(request.body()["temperature"], 0.25);
    assert_eq!(request.header("x-team"), Some("blue"));
    assert_eq!(request.header("authorization"), Some("Bearer key-from-the-environment"));
}

#[test]
fn options_work_before_and_after_a_command() {
    let fixture = Fixture::new(1, Script::always(Reply::text("done")));
    fixture.run(&["--quick", "task"]).expect_code(0);
    for args in [["--json", "sessions"], ["sessions", "--json"]] {
        let output = run(&fixture.althing, &args).expect_code(0);
        let list: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(list.as_array().unwrap().len(), 1);
    }
}

#[test]
fn the_manual_page_and_the_completions_know_every_command() {
    let althing = bare();
    let page = run(&althing, &["man"]).expect_code(0).stdout;
    assert!(page.contains(".TH althing 1"), "{page}");
    let completions = run(&althing, &["completions", "bash"]).expect_code(0).stdout;
    for command in
        ["resume", "chat", "mcp", "workflow", "undo", "agents", "sessions", "replay", "config", "man"]
    {
        assert!(page.contains(&format!("althing\\-{command}(1)")), "{command}: {page}");
        assert!(completions.contains(&format!("althing__subcmd__{command}")), "{command} is not completed");
    }
}

#[test]
fn a_context_path_that_cannot_be_accessed_is_not_called_missing() {
    let fixture = Fixture::new(1, Script::parliament());
    let output = fixture.run(&["--context-path", "team.yaml/inside", "task"]).expect_code(1);
    assert!(output.stderr.contains("cannot be accessed"), "{}", output.stderr);
    assert!(!output.stderr.contains("does not exist"), "{}", output.stderr);
}
