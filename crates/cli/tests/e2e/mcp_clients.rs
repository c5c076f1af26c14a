//! Real MCP clients that launch runs on `althing mcp`: the official Python client, the MCP Inspector, Claude Code,
//! Codex.
//!
//! `ALTHING_MCP_SERVERS` is the directory of the first two, `ALTHING_AGENT_CLIS` that of the CLI agents. A client
//! whose directory is not set is not tested; with `CI=true`, its tests fail.

use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_testkit::process::Signal;
use althing_testkit::{
    Action, Althing, FakeModel, Output, Parliament, RecordedRequest, Reply, RunningProcess, Script,
    skip_unless_ci,
};
use serde_json::{Value, json};

use super::programs::{START_TIMEOUT, programs, with_programs};
use super::support::{LIMIT, Team, althing};

const TOKEN: &str = "a-token-of-this-test-that-is-long-enough";

const ALTHING: &str = env!("CARGO_BIN_EXE_althing");

fn installed(path: &str) -> Option<PathBuf> {
    let dir = std::env::var_os("ALTHING_MCP_SERVERS").map(PathBuf::from);
    let file = dir.map(|dir| dir.join(path)).filter(|file| file.exists());
    if file.is_none() {
        skip_unless_ci(&format!("{path} is not installed: see scripts/setup"));
    }
    file
}

fn printed(output: Output) -> Value {
    let output = output.expect_code(0);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stdout))
}

fn assert_python_got_a_result(seen: &Value) {
    assert_eq!(seen["tools"].as_array().map(Vec::len), Some(6), "{seen}");
    assert_eq!(seen["result"]["status"], "completed", "{seen}");
    assert!(seen["result"]["final_answer"].as_str().unwrap().contains("offline model"), "{seen}");
    assert_eq!((&seen["again"], &seen["resource"]), (&seen["result"], &seen["result"]));
    // No agent of this run has file tools.
    let run = format!("althing://runs/{}", seen["result"]["run_id"].as_str().unwrap());
    let listed: Vec<&str> = seen["resources"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let listed: Vec<&str> = listed.into_iter().filter_map(|uri| uri.strip_prefix(&run)).collect();
    assert_eq!(listed, ["/result", "/log"], "no workspace: {seen}");
    let refused = seen["refused"].as_str().unwrap_or_default();
    assert!(refused.contains(&format!("there is no resource `{run}/workspace`")), "{seen}");
    assert!(refused.contains("has no workspace"), "{seen}");
    assert!(!seen["progress"].as_array().unwrap().is_empty(), "progress is reported: {seen}");
}

fn python(althing: &Althing) -> Option<Althing> {
    let python = installed("client/bin/python")?;
    Some(althing.program(python).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp_client.py")))
}

fn serve(althing: &Althing) -> (RunningProcess, String) {
    let serving = althing
        .new_command()
        .args(["mcp", "--offline", "--http", "127.0.0.1:0"])
        .env("ALTHING_MCP_TOKEN", TOKEN)
        .spawn();
    let line = serving.wait_for_stderr(|line| line.contains("serving MCP at"), LIMIT);
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    (serving, url)
}

// spec: design/launch-run/mcp-server
#[test]
fn the_official_python_client_gets_a_result_over_stdio() {
    let althing = althing();
    let Some(client) = python(&althing) else { return };
    assert_python_got_a_result(&printed(
        client.args(["stdio", ALTHING, "mcp", "--offline"]).spawn().wait(LIMIT),
    ));
}

// spec: design/launch-run/mcp-server
#[test]
fn the_official_python_client_gets_a_result_over_http() {
    let althing = althing();
    let Some(client) = python(&althing) else { return };
    let (serving, url) = serve(&althing);
    assert_python_got_a_result(&printed(client.args(["http", &url, TOKEN]).spawn().wait(LIMIT)));
    serving.signal(Signal::TERM);
    serving.wait(LIMIT).expect_code(0);
}

#[test]
fn the_inspector_lists_and_calls_the_tools() {
    let Some(script) = installed("npm/node_modules/@modelcontextprotocol/inspector/cli/build/cli.js") else {
        return;
    };
    let althing = althing();
    let ask = |arguments: &[&str]| {
        let inspector = althing.program("node").arg(&script).args(["--cli", ALTHING, "mcp", "--offline"]);
        printed(inspector.args(arguments).spawn().wait(LIMIT))
    };
    let listed = ask(&["--method", "tools/list"]);
    assert_eq!(listed["tools"].as_array().map(Vec::len), Some(6), "{listed}");
    let launched =
        ask(&["--method", "tools/call", "--tool-name", "launch_run", "--tool-arg", "task=Say hello"]);
    assert_eq!(launched["structuredContent"]["status"], "completed", "{launched}");
}

const ANSWER: &str = "Final answer of model-a";

/// A client's model: calls `launch_run`, polls while the run is not over, then reports the result.
fn caller(request: &RecordedRequest) -> Reply {
    let tools = request.tool_names();
    let tool = |end: &str| tools.iter().find(|name| name.ends_with(end)).map(ToString::to_string);
    // The tool descriptions mention run ids too, so only the messages count.
    let mut said = request.body().clone();
    for words in ["tools", "system", "instructions"] {
        said.as_object_mut().unwrap().remove(words);
    }
    let said = said.to_string();
    match (tool("launch_run"), tool("run_result")) {
        _ if said.contains(ANSWER) => Reply::text(format!("The parliament says: {ANSWER}")),
        (Some(launch), Some(result)) => match said.split_once("run_id") {
            Some((_, rest)) => {
                let id = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
                let id: String =
                    id.chars().take_while(|c| c.is_ascii_alphanumeric() || "-._".contains(*c)).collect();
                Reply::call(result, &json!({"run_id": id}))
            }
            None => Reply::call(launch, &json!({"task": "Which sort is best?"})),
        },
        // Requests for titles, and other requests that are not about the task.
        _ => Reply::text("A title"),
    }
}

/// Serves the models of the client and of the run. The run's first reply is delayed.
fn server(delay: Duration) -> FakeModel {
    FakeModel::start_on_thread(Script::from_fn(move |request: &RecordedRequest| {
        if request.model() != "model-a" {
            return Action::from(caller(request));
        }
        let reply = Parliament::default().reply(request);
        if request.nth_of_model() == 0 { Action::after(delay, reply) } else { Action::from(reply) }
    }))
}

fn claude_gets_the_result(bin: &Path, delay: Duration) {
    let server = server(delay);
    let althing = with_programs(bin, &server);
    althing.file("team.yaml", Team::on(&server.base_url(), 1).text());
    let served = json!({"command": ALTHING, "args": ["mcp", "--config", "team.yaml"], "alwaysLoad": true});
    althing.file("mcp.json", json!({"mcpServers": {"althing": served}}).to_string());
    let output = althing
        .program(bin.join("claude"))
        .args(["-p", "--output-format", "json", "--strict-mcp-config", "--mcp-config", "mcp.json"])
        .args(["--allowedTools", "mcp__althing__launch_run,mcp__althing__run_result"])
        .stdin("Ask the parliament which sort is best.")
        .spawn()
        .wait(START_TIMEOUT + delay);
    let told = printed(output);
    assert!(told["result"].as_str().unwrap().contains(ANSWER), "{told}");
    assert_eq!(server.requests_of("model-a").len(), 1, "one run, of an agent that is alone");
}

fn codex_gets_the_result(bin: &Path, delay: Duration) {
    let server = server(delay);
    let althing = with_programs(bin, &server);
    althing.file("team.yaml", Team::on(&server.base_url(), 1).text());
    let served = format!(
        "mcp_servers.althing={{command={ALTHING:?},args=[\"mcp\",\"--config\",\"team.yaml\"],required=true,omit_tools_from=[\"deferred\"],\
         default_tools_approval_mode=\"approve\"}}"
    );
    let output = althing
        .program(bin.join("codex"))
        .args(["exec", "--json", "--skip-git-repo-check", "-c", &served, "-"])
        .stdin("Ask the parliament which sort is best.")
        .spawn()
        .wait(START_TIMEOUT + delay)
        .expect_code(0);
    assert!(output.stdout.contains(ANSWER), "{}\n{}", output.stdout, output.stderr);
    assert_eq!(server.requests_of("model-a").len(), 1, "one run, of an agent that is alone");
}

// spec: design/launch-run/mcp-server
#[test]
fn claude_code_launches_a_run_and_reports_its_result() {
    let Some(bin) = programs() else { return };
    claude_gets_the_result(&bin, Duration::ZERO);
}

// spec: design/launch-run/mcp-server
#[test]
fn codex_launches_a_run_and_reports_its_result() {
    let Some(bin) = programs() else { return };
    codex_gets_the_result(&bin, Duration::ZERO);
}

#[test]
fn a_run_of_ninety_seconds_exceeds_no_timeout_of_claude_code_and_codex() {
    let Some(bin) = programs() else { return };
    let long = Duration::from_secs(90);
    std::thread::scope(|both| {
        both.spawn(|| claude_gets_the_result(&bin, long));
        both.spawn(|| codex_gets_the_result(&bin, long));
    });
}
