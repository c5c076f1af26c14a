//! `althing config`: checking, initializing and describing configs; also starts without a config.

use std::collections::BTreeSet;

use althing_testkit::{Althing, FakeModel, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, althing, bare, run};

const GOOD: &str = "agents: [{id: a, backend: {type: offline}}]\n";
const WRONG: &str =
    "agents:\n  - id: a\n    backend: {type: opennai}\norchestrator:\n  skip_voting: perhaps\n";
const ODD: &str = "agents: [{id: a, backend: {type: offline}}]\norchestrator:\n  skip_votes: true\n";

fn with_files() -> Althing {
    let althing = althing();
    for (name, text) in [("good.yaml", GOOD), ("wrong.yaml", WRONG), ("odd.yaml", ODD)] {
        althing.file(name, text);
    }
    althing
}

fn json_of(stdout: &str) -> Value {
    serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_good_config_is_ok() {
    let output = run(&with_files(), &["config", "check", "good.yaml"]).expect_code(0);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("good.yaml: ok\n", ""));
}

#[test]
fn all_errors_of_a_config_are_reported_with_positions_carets_and_hints() {
    let output = run(&with_files(), &["config", "check", "wrong.yaml"]).expect_code(1);
    for part in [
        "wrong.yaml:3:21",
        "opennai",
        "openai",
        "agents[0].backend.type",
        "wrong.yaml:5:16",
        "orchestrator.skip_voting",
        "^",
    ] {
        assert!(output.stderr.contains(part), "`{part}` is missing:\n{}", output.stderr);
    }
    assert!(output.stdout.contains("2 errors"), "{}", output.stdout);
}

#[test]
fn an_unknown_key_that_is_not_a_typo_is_a_warning_with_a_suggestion() {
    let output = run(&with_files(), &["config", "check", "odd.yaml"]).expect_code(0);
    assert!(
        output.stderr.contains("odd.yaml:3:3") && output.stderr.contains("skip_voting"),
        "{}",
        output.stderr
    );
    assert_eq!(output.stdout, "odd.yaml: ok, 1 warning\n");
}

#[test]
fn a_misspelled_key_fails_every_command_before_a_model_is_called() {
    let server = FakeModel::start_on_thread(Script::parliament());
    let backend = |key: &str| {
        let base = server.base_url();
        format!("{{type: openai, {key}: gpt-9, base_url: \"{base}\", api_key: k}}")
    };
    let agents = |key: &str| format!("agents: [{{id: a, backend: {}}}]\n", backend(key));
    let own = format!("orchestrator: {{interactive_mode: {{backend: {}}}}}\n", backend("modle"));
    let flow = |key: &str| {
        format!(
            "name: n\ngoal: g\nstages: [{{name: s, tasks: [{{id: t, run: {{task: x, {key}: multi}}}}]}}]\n"
        )
    };
    let althing = althing();
    althing.file("agent.yaml", agents("modle"));
    althing.file("talker.yaml", agents("model") + &own);
    althing.file("good.yaml", agents("model"));
    althing.file("bad.flow.yaml", flow("agnet_mode"));
    althing.file("good.flow.yaml", flow("agent_mode"));
    let check_flow: &[&str] = &["workflow", "check", "bad.flow.yaml", "--config", "good.yaml"];
    for (args, near) in [
        (&["--config", "agent.yaml", "--automation", "task"] as &[&str], "`model`"),
        (&["--config", "agent.yaml", "--json", "task"], "`model`"),
        (&["config", "check", "agent.yaml"], "`model`"),
        (&["chat", "--config", "agent.yaml"], "`model`"),
        (&["chat", "--config", "talker.yaml"], "`model`"),
        (&["mcp", "--config", "agent.yaml"], "`model`"),
        (&["workflow", "run", "good.flow.yaml", "--config", "agent.yaml"], "`model`"),
        (&["workflow", "run", "bad.flow.yaml", "--config", "good.yaml"], "`agent_mode`"),
        (check_flow, "`agent_mode`"),
    ] {
        let output = althing.new_command().args(args).stdin("Hello\n").spawn().wait(LIMIT);
        assert_eq!(output.code, Some(1), "{args:?}: {}{}", output.stdout, output.stderr);
        let hint = format!("did you mean {near}?");
        assert!(output.stderr.contains(&hint), "{args:?}: {}", output.stderr);
    }
    assert_eq!(server.request_count(), 0);
}

#[test]
fn all_files_are_checked_even_if_some_have_errors() {
    let output =
        run(&with_files(), &["config", "check", "good.yaml", "wrong.yaml", "missing.yaml", "odd.yaml"])
            .expect_code(1);
    for part in ["good.yaml: ok", "wrong.yaml: 2 errors", "odd.yaml: ok, 1 warning"] {
        assert!(output.stdout.contains(part), "`{part}` is missing:\n{}", output.stdout);
    }
    assert!(output.stderr.contains("missing.yaml"), "{}", output.stderr);
}

#[test]
fn as_json_one_file_is_an_object_and_several_are_an_array() {
    let althing = with_files();
    let one = json_of(&run(&althing, &["config", "check", "good.yaml", "--json"]).expect_code(0).stdout);
    assert_eq!(one, json!({"file": "good.yaml", "valid": true, "errors": [], "warnings": []}));

    let output =
        run(&althing, &["config", "check", "--json", "good.yaml", "wrong.yaml", "odd.yaml", "missing.yaml"])
            .expect_code(1);
    assert_eq!(output.stderr, "");
    let several = json_of(&output.stdout);
    let shape: Vec<(&str, bool, usize, usize)> = several
        .as_array()
        .unwrap()
        .iter()
        .map(|report| {
            assert_eq!(keys(report), BTreeSet::from(["file", "valid", "errors", "warnings"]));
            let count = |list: &str| report[list].as_array().unwrap().len();
            (
                report["file"].as_str().unwrap(),
                report["valid"].as_bool().unwrap(),
                count("errors"),
                count("warnings"),
            )
        })
        .collect();
    let expected = [
        ("good.yaml", true, 0, 0),
        ("wrong.yaml", false, 2, 0),
        ("odd.yaml", true, 0, 1),
        ("missing.yaml", false, 1, 0),
    ];
    assert_eq!(shape, expected);
}

#[test]
fn as_json_every_problem_has_the_same_five_fields() {
    let output = run(&with_files(), &["config", "check", "--json", "wrong.yaml"]).expect_code(1);
    let report = json_of(&output.stdout);
    for error in report["errors"].as_array().unwrap() {
        assert_eq!(keys(error), BTreeSet::from(["message", "location", "line", "column", "suggestion"]));
    }
    let first = &report["errors"][0];
    assert_eq!((&first["line"], &first["column"]), (&json!(3), &json!(21)));
    assert_eq!(first["location"], "agents[0].backend.type");
    assert!(first["suggestion"].as_str().is_some_and(|help| help.contains("openai")), "{first}");
}

#[test]
fn config_check_judges_the_file_and_not_the_machine() {
    let althing = althing();
    let config = "agents:\n  - {id: a, backend: {type: openai, model: m}}\n  - {id: b, backend: {type: claude, model: m}}\n  - {id: c, backend: {type: openai, model: m, api_key: '${NOT_SET_HERE}'}}\n";
    althing.file("elsewhere.yaml", config);
    let output = run(&althing, &["config", "check", "elsewhere.yaml"]).expect_code(0);
    for part in ["OPENAI_API_KEY", "claude", "NOT_SET_HERE"] {
        assert!(output.stderr.contains(part), "no warning about {part}: {}", output.stderr);
    }
    run(&althing, &["--config", "elsewhere.yaml", "task"]).expect_code(1);
}

#[test]
fn a_starter_config_passes_its_check_without_a_warning_and_runs() {
    let althing = bare();
    run(&althing, &["config", "init"]).expect_code(0);
    let output = run(&althing, &["config", "check", "althing.yaml"]).expect_code(0);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("althing.yaml: ok\n", ""));
    let output = run(&althing, &["--automation", "task"]).expect_code(0);
    assert!(output.stderr.contains("althing.yaml") && output.stdout.contains("offline"), "{output:?}");
}

#[test]
fn a_starter_config_uses_the_keys_that_are_set_and_never_contains_them() {
    let althing = bare().env("OPENAI_API_KEY", "sk-of-the-user").env("GROQ_API_KEY", "gsk-of-the-user");
    run(&althing, &["config", "init", "mine.yaml"]).expect_code(0);
    let text = std::fs::read_to_string(althing.work_dir().join("mine.yaml")).unwrap();
    assert!(
        text.contains("type: openai") && text.contains("type: groq") && !text.contains("-of-the-user"),
        "{text}"
    );
    let output = run(&althing, &["config", "check", "mine.yaml"]).expect_code(0);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("mine.yaml: ok\n", ""));
}

#[test]
fn a_starter_config_with_a_cli_agent_is_trusted_until_it_changes() {
    let althing = althing().env("OLLAMA_HOST", "127.0.0.1:9");
    let program = althing.file("bin/codex", "");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let bin = program.parent().unwrap().to_owned();
    let althing = althing.env("PATH", &bin);
    run(&althing, &["config", "init"]).expect_code(0);
    let text = std::fs::read_to_string(althing.work_dir().join("althing.yaml")).unwrap();
    assert!(text.contains("type: codex"), "{text}");
    let output = run(&althing, &["--automation", "--orchestrator-timeout", "5", "task"]);
    assert!(!output.stderr.contains("must be trusted"), "{}", output.stderr);
    althing.file("althing.yaml", format!("{text}# changed\n"));
    let output = run(&althing, &["--automation", "task"]).expect_code(1);
    assert!(output.stderr.contains("must be trusted"), "{}", output.stderr);
}

#[test]
fn a_starter_config_replaces_a_file_only_with_force() {
    let althing = althing();
    althing.file("althing.yaml", "mine");
    let output = run(&althing, &["config", "init"]).expect_code(1);
    assert!(output.stderr.contains("althing.yaml") && output.stderr.contains("--force"), "{}", output.stderr);
    assert_eq!(std::fs::read_to_string(althing.work_dir().join("althing.yaml")).unwrap(), "mine");
    run(&althing, &["config", "init", "--force"]).expect_code(0);
    run(&althing, &["config", "check", "althing.yaml"]).expect_code(0);
}

#[test]
fn the_schemas_are_json_schemas_of_whole_configs_and_workflows() {
    let output = run(&althing(), &["config", "schema"]).expect_code(0);
    let schema = json_of(&output.stdout);
    assert!(
        schema["$schema"].as_str().is_some_and(|url| url.contains("json-schema.org")),
        "{}",
        schema["$schema"]
    );
    for key in ["agents", "agent", "orchestrator", "timeout_settings", "ui", "prices"] {
        assert!(schema["properties"][key].is_object(), "no {key}");
    }
    let output = run(&althing(), &["config", "schema", "--workflow"]).expect_code(0);
    assert!(json_of(&output.stdout)["properties"]["stages"].is_object());
}

#[test]
fn a_dotenv_file_is_read_and_the_environment_wins() {
    let fixture = Fixture::with(2, Script::parliament(), |team| {
        team.backend(0, "api_key", "${FROM_FILE}").backend(1, "api_key", "${FROM_BOTH}")
    });
    fixture.althing.file(".env", "# keys\nexport FROM_FILE=\"key-in-the-file\"\nFROM_BOTH=the-files\n");
    let command = fixture.command(&["task"]).env("FROM_BOTH", "the-environments");
    command.spawn().wait(LIMIT).expect_code(0);
    let sent = |model: &str| fixture.server.requests_of(model)[0].header("authorization").unwrap().to_owned();
    assert_eq!(
        (sent("model-a").as_str(), sent("model-b").as_str()),
        ("Bearer key-in-the-file", "Bearer the-environments")
    );
}

#[test]
fn without_a_config_agents_come_from_api_keys_and_are_announced_first() {
    // No request leaves this machine: all requests go to a proxy that does not exist.
    let proxy = althing_testkit::refused_base_url();
    let command = bare()
        .env("OPENAI_API_KEY", "sk-nobodys")
        .env("HTTPS_PROXY", proxy.trim_end_matches("/v1"))
        .args(["--automation", "--orchestrator-timeout", "30", "task"]);
    let output = command.spawn().wait(LIMIT).expect_code(2);
    let line = |text: &str| output.stderr.lines().position(|line| line.contains(text));
    let (named, used) = (line("OPENAI_API_KEY"), line("answering"));
    assert!(named.is_some() && named < used, "{}", output.stderr);
    assert!(output.stderr.contains("agents: openai (openai "), "{}", output.stderr);
}

#[test]
fn without_a_config_and_without_keys_the_offline_model_answers_and_says_so() {
    let output = run(&bare(), &["--automation", "task"]).expect_code(0);
    assert!(output.stdout.contains("offline model"), "{}", output.stdout);
    assert!(
        output.stderr.contains("not an AI") && output.stderr.contains("OPENAI_API_KEY"),
        "{}",
        output.stderr
    );
}

#[test]
fn a_config_in_the_users_own_directory_is_found_last() {
    let althing = althing();
    let users = althing.home_dir().join(".config/althing");
    std::fs::create_dir_all(&users).unwrap();
    std::fs::write(users.join("config.yaml"), "agents: [{id: from-home, backend: {type: offline}}]").unwrap();
    let output = run(&althing, &["--automation", "task"]).expect_code(0);
    assert!(output.stderr.contains("from-home"), "{}", output.stderr);
    althing.file("althing.yaml", "agents: [{id: from-here, backend: {type: offline}}]");
    let output = run(&althing, &["--automation", "task"]).expect_code(0);
    assert!(output.stderr.contains("from-here"), "{}", output.stderr);
}

#[test]
fn the_offline_model_replaces_a_configs_backends_also_after_a_resume() {
    let server = FakeModel::start_on_thread(Script::parliament());
    let althing = bare();
    let team = json!({
        "agents": [
            {"id": "gpt", "backend": {"type": "openai", "model": "gpt-5", "base_url": server.base_url(), "cwd": "w"}},
            {"id": "claude", "backend": {"type": "claude_code"}},
        ],
        "orchestrator": {"interactive_mode": {"backend": {"type": "claude", "model": "m", "base_url": server.base_url()}}},
    });
    althing.file("team.yaml", team.to_string());
    let output = run(&althing, &["--offline", "--config", "team.yaml", "--json", "Compare two parsers"]);
    let output = output.expect_code(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    let agents = result["coordination_summary"]["agents"].as_array().unwrap();
    assert_eq!(agents.iter().map(|agent| &agent["id"]).collect::<Vec<_>>(), ["gpt", "claude"]);
    assert!(result["workspace_path"].is_string(), "it has what the config gives it: {result:#}");
    assert!(output.stderr.contains("gpt (offline model, not an AI)"), "{}", output.stderr);
    assert!(!output.stderr.contains("API key"), "{}", output.stderr);

    let talk = |args: &[&str]| {
        let command = althing.new_command().arg("chat").args(args).stdin("Hello, who are you?\n");
        command.spawn().wait(LIMIT).expect_code(0)
    };
    talk(&["--offline", "--config", "team.yaml"]);
    // A session of the offline model stays offline when it is resumed, so it never starts to cost money.
    let again = talk(&["--continue"]);
    assert!(again.stdout.contains("offline model"), "{again:?}");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_cli_agent_that_does_not_support_a_configured_restriction_is_not_started() {
    let althing = bare();
    let backend = json!({"type": "codex", "disallowed_tools": ["Bash"]});
    althing.file("team.yaml", json!({"agents": [{"id": "a", "backend": backend}]}).to_string());
    let output = run(&althing, &["--config", "team.yaml", "--automation", "task"]).expect_code(1);
    let said = |words: &str| assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    said("agents[0].backend.disallowed_tools");
    said("Codex does not support `disallowed_tools`");
    said("remove the key; limit the agent with `permission_mode: plan` or `acceptEdits`");
    assert!(!althing.state_dir().join("sessions").exists(), "nothing was started");
    let checked = run(&althing, &["config", "check", "--json", "team.yaml"]).expect_code(0);
    let report: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(
        (&report["valid"], report["warnings"].as_array().unwrap().len()),
        (&json!(true), 1),
        "{report}"
    );
    run(&althing, &["config", "check", "--strict", "team.yaml"]).expect_code(1);
}

#[test]
fn config_errors_are_reported_with_the_offline_model_too() {
    let althing = with_files();
    let output =
        run(&althing, &["--offline", "--config", "wrong.yaml", "--automation", "task"]).expect_code(1);
    assert!(
        output.stderr.contains("wrong.yaml:3:21") && output.stderr.contains("opennai"),
        "{}",
        output.stderr
    );
}

#[test]
fn missing_context_paths_and_unknown_models_are_noticed() {
    let althing = althing();
    althing.file("there/file.txt", "x");
    let config = "agents:\n  - {id: a, backend: {type: openai, model: gpt-5.4-mni, api_key: k1234567}}\n  \
        - {id: b, backend: {type: claude, model: claude-opus-4-6, api_key: k1234567}}\n  \
        - {id: c, backend: {type: ollama, model: whatever}}\n  \
        - {id: d, backend: {type: openai, model: of-my-own-server, base_url: 'http://localhost:9/v1'}}\n  \
        - {id: e, backend: {type: gemini, model: new-model, api_key: k1234567}}\n\
        prices: {new-model: {input_per_million: 1, output_per_million: 1}}\n\
        orchestrator:\n  context_paths: [there, {path: missing/dir, permission: write}]\n";
    althing.file("team.yaml", config);
    let output = run(&althing, &["config", "check", "team.yaml", "--json"]).expect_code(0);
    let report = json_of(&output.stdout);
    let warnings = report["warnings"].as_array().unwrap();
    let found: Vec<_> = warnings
        .iter()
        .map(|one| (one["location"].as_str().unwrap(), one["line"].as_u64().unwrap()))
        .collect();
    assert_eq!(found, [("agents[0].backend.model", 2), ("orchestrator.context_paths[1]", 9)], "{report:#}");
    assert!(warnings[0]["suggestion"].as_str().unwrap().contains("gpt-5.4-mini"), "{report:#}");
    assert!(warnings[1]["message"].as_str().unwrap().contains("`missing/dir` does not exist"), "{report:#}");
}

#[test]
fn with_strict_a_warning_is_a_failure() {
    let althing = with_files();
    run(&althing, &["config", "check", "good.yaml", "--strict"]).expect_code(0);
    run(&althing, &["config", "check", "odd.yaml"]).expect_code(0);
    let output = run(&althing, &["config", "check", "--strict", "good.yaml", "odd.yaml"]).expect_code(1);
    assert!(
        output.stdout.contains("odd.yaml: 1 warning, which --strict does not allow"),
        "{}",
        output.stdout
    );
    let flow = "name: f\nstages: [{name: s, tasks: [{id: t, agent: command, command: ['true'], prompt: '', oddly: 1}]}]\n";
    althing.file("flow.yaml", flow);
    run(&althing, &["workflow", "check", "flow.yaml", "--offline"]).expect_code(0);
    run(&althing, &["workflow", "check", "flow.yaml", "--offline", "--strict"]).expect_code(1);
}
