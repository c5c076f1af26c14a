//! The real agent programs, from npm, against the fake model server: as tasks of a workflow, and as members of a run.
//!
//! `ALTHING_AGENT_CLIS` names where they are installed (`npm install --prefix DIR @anthropic-ai/claude-code @openai/codex
//! @google/gemini-cli opencode-ai`, more than a gigabyte); without it there is nothing to try.

use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_testkit::process::{Signal, wait_for_event};
use althing_testkit::{Action, Althing, FakeModel, Gate, Recorded, Reply, Script};
use serde_json::{Value, json};

use super::support::{LIMIT, althing, items, of_type};

/// What four programs on two cores may take to start.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The directory of the programs, if they are installed.
pub fn programs() -> Option<PathBuf> {
    let dir = std::env::var_os("ALTHING_AGENT_CLIS").map(PathBuf::from);
    let found = dir.map(|dir| dir.join("node_modules/.bin")).filter(|dir| dir.join("claude").exists());
    if found.is_none() {
        eprintln!("the agent programs are not installed; nothing to try");
    }
    found
}

/// The binary with the programs on its path, each pointed at the server by its own settings.
pub fn with_programs(dir: &Path, server: &FakeModel) -> Althing {
    let althing = althing();
    let origin = server.base_url().trim_end_matches("/v1").to_owned();
    let home = althing.home_dir();
    let write = |name: &str, text: String| {
        let file = home.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write(
        ".codex/config.toml",
        format!(
            "model = \"codex-model\"\nmodel_provider = \"fake\"\n[model_providers.fake]\nname = \"fake\"\nbase_url = \"{origin}/v1\"\n\
             wire_api = \"responses\"\nenv_key = \"OPENAI_API_KEY\"\n"
        ),
    );
    write(
        ".gemini/settings.json",
        json!({"security": {"auth": {"selectedType": "gemini-api-key"}}}).to_string(),
    );
    let provider = json!({"npm": "@ai-sdk/openai-compatible", "name": "fake", "options": {"baseURL": format!("{origin}/v1"), "apiKey": "k"},
        "models": {"opencode-model": {"name": "m"}}});
    write(
        ".config/opencode/opencode.json",
        json!({"model": "fake/opencode-model", "small_model": "fake/opencode-model", "provider": {"fake": provider}}).to_string(),
    );
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap_or_default());
    althing
        .env("PATH", path)
        .env("ANTHROPIC_BASE_URL", &origin)
        .env("ANTHROPIC_API_KEY", "sk-ant-test-key-for-claude")
        .env("OPENAI_API_KEY", "sk-test-key-for-codex")
        .env("GEMINI_API_KEY", "test-key-for-gemini")
        .env("GOOGLE_GEMINI_BASE_URL", &origin)
        .env("DISABLE_TELEMETRY", "1")
}

fn headless(id: &str, agent: &str, prompt: &str) -> Value {
    json!({"id": id, "agent": agent, "executionMode": "headless", "prompt": prompt, "timeout_seconds": 150})
}

#[test]
fn four_real_programs_run_headless_and_an_interrupted_workflow_of_them_goes_on() {
    let Some(dir) = programs() else { return };
    let gate = Gate::before_headers();
    let held = gate.clone();
    // Whatever program asks, it is answered with what it was asked; the second stage is held back once.
    let script = Script::from_fn(move |request: &Recorded| {
        let all = request.body().to_string();
        if all.contains("SECOND") {
            return Action::gated(Action::from(Reply::text("second done")), &held);
        }
        Action::from(Reply::text("first done"))
    });
    let server = FakeModel::start_on_thread(script);
    let althing = with_programs(&dir, &server);
    let stages = json!([
        {"name": "first", "tasks": [
            headless("c1", "claude", "FIRST task"), headless("x1", "codex", "FIRST task"),
            headless("g1", "gemini", "FIRST task"), headless("o1", "opencode", "FIRST task"),
        ]},
        {"name": "second", "tasks": [headless("c2", "claude", "SECOND task after {{c1.output}}")]},
    ]);
    althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let running = althing.again().args(["workflow", "run", "flow.yaml", "--offline", "--unconfined"]).spawn();
    wait_for_event(&althing.state_dir(), PATIENCE, |event| {
        event["type"] == "attempt_started" && event["task"] == "w1.c2"
    });
    gate.wait_waiting_blocking(1, PATIENCE);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    gate.release_all();
    let resumed =
        althing.again().args(["resume", "--json", "--unconfined"]).spawn().wait(PATIENCE).expect_code(0);
    let report: Value = serde_json::from_str(&resumed.stdout).unwrap();
    for task in report["stages"][0]["tasks"].as_array().unwrap() {
        assert!(task["output"].as_str().unwrap().contains("first done"), "{task}");
        assert_eq!(task["status"], "DONE");
    }
    assert!(report["stages"][1]["tasks"][0]["output"].as_str().unwrap().contains("second done"), "{report}");
    let events = althing.events();
    let attempts = of_type(&events, "attempt_started");
    for task in ["w1.c1", "w1.x1", "w1.g1", "w1.o1"] {
        assert_eq!(attempts.iter().filter(|event| event["task"] == task).count(), 1, "{task} ran once");
    }
    assert_eq!(
        items(&events, "conversation").len(),
        6,
        "each has a conversation of its own, told again when it goes on"
    );
}

/// A sensible agent on any wire, whatever the program calls our tools: votes where it can, else answers, and ends its turn
/// once a tool was answered.
fn member(request: &Recorded) -> Reply {
    let tools: Vec<String> = request.tool_names().into_iter().map(str::to_owned).collect();
    let named =
        |end: &str| tools.iter().find(|name| name.as_str() == end || name.ends_with(&format!("__{end}")));
    let body = request.body().to_string();
    // What our endpoint says once it has noted a call.
    if body.contains("End your turn now") {
        return Reply::text("My turn is over.");
    }
    let who = request.model().to_owned();
    match (named("vote"), named("new_answer")) {
        (Some(vote), _) => Reply::call(vote.clone(), &json!({"agent_id": "agent1", "reason": "it is right"})),
        (None, Some(answer)) => {
            Reply::call(answer.clone(), &json!({"content": format!("An answer of {who}")}))
        }
        (None, None) => Reply::text(format!("Said by {who}")),
    }
}

#[test]
fn claude_code_and_codex_answer_and_vote_beside_an_api_model() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(member));
    let althing = with_programs(&dir, &server);
    let api = json!({"type": "chatcompletion", "model": "api-model", "base_url": server.base_url()});
    let agents = json!([
        {"id": "api", "backend": api},
        {"id": "cc", "backend": {"type": "claude_code"}},
        {"id": "cx", "backend": {"type": "codex"}},
    ]);
    althing.file("team.yaml", json!({"agents": agents}).to_string());
    let command = althing.again().args(["--config", "team.yaml", "--unconfined", "--json", "Which is best?"]);
    let output = command.spawn().wait(PATIENCE).expect_code(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    let summary = &result["coordination_summary"];
    assert_eq!(summary["ballots"].as_array().unwrap().len(), 3, "three ballots: {result}");
    for agent in summary["agents"].as_array().unwrap() {
        assert_eq!(agent["status"], "voted", "{result}\n{}", output.stderr);
        assert!(agent["answers"].as_u64().unwrap() >= 1, "{result}");
    }
}
