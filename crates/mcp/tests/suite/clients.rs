//! Real clients against the server: the official Python SDK and the MCP Inspector's command line, installed by
//! `tests/setup.sh` into the directory `ALTHING_MCP_SERVERS`.

use super::real::installed;
use super::scripted::GUIDANCE;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Cargo builds the example along with the tests.
fn served() -> String {
    let tests = std::env::current_exe().unwrap();
    let target = tests.ancestors().nth(2).unwrap();
    let program = target.join("examples/scripted");
    assert!(program.exists(), "{} is missing: build it with `--examples`", program.display());
    program.display().to_string()
}

struct Http {
    _child: Child,
    url: String,
    token: String,
}

impl Http {
    async fn start() -> Self {
        let mut child = Command::new(served())
            .args(["http", "--wait", "300"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.next_line().await.unwrap().unwrap();
        let token = lines.next_line().await.unwrap().unwrap();
        Self { _child: child, url, token }
    }
}

async fn printed(program: &str, arguments: &[&str]) -> Value {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().await.unwrap();
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {out}\n{errors}");
    assert!(!errors.contains("Session termination failed"), "{program} {arguments:?}: {errors}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}\n{errors}"))
}

async fn python(arguments: &[&str]) {
    let Some(python) = installed("client/bin/python") else { return };
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/client.py").display().to_string();
    let all: Vec<&str> = std::iter::once(script.as_str()).chain(arguments.iter().copied()).collect();
    let seen = printed(&python, &all).await;
    for (mode, protocol) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let seen = &seen[mode];
        assert_eq!(seen["protocol"], protocol);
        assert_eq!((&seen["instructions"], &seen["prompt"]), (&json!(GUIDANCE), &json!(GUIDANCE)));
        assert_eq!(seen["tools"].as_array().map(Vec::len), Some(6));
        assert_eq!((&seen["quick"], &seen["resource"]), (&json!("hi"), &json!("hi")));
        assert_eq!(seen["steps"], "done");
        let steps = ["step 1 of 4", "step 2 of 4", "step 3 of 4", "step 4 of 4"];
        assert_eq!(seen["progress"], json!(steps), "{mode}");
        assert_eq!((&seen["long"]["status"], &seen["later"]), (&json!("running"), &json!("completed")));
        assert_eq!(seen["wrong"][0], true);
        assert!(seen["wrong"][1].as_str().unwrap().contains("did you mean `task`?"), "{seen}");
    }
}

// spec: design/launch-run/mcp-server
#[tokio::test]
async fn the_official_python_client_launches_runs_over_stdio() {
    python(&["stdio", &served(), "--wait", "300"]).await;
}

// spec: design/launch-run/mcp-server
#[tokio::test]
async fn the_official_python_client_launches_runs_over_http() {
    let server = Http::start().await;
    python(&["http", &server.url, &server.token]).await;
}

/// A version that does not know MCP tasks, and the newest version.
const INSPECTORS: [&str; 2] = [
    "npm/node_modules/@modelcontextprotocol/inspector/cli/build/cli.js",
    "newest/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js",
];

async fn inspectors(reach: &[&str]) {
    for script in INSPECTORS {
        let Some(script) = installed(script) else { return };
        inspector(&script, reach).await;
    }
}

async fn inspector(script: &str, reach: &[&str]) {
    let ask = async |arguments: &[&str]| {
        let all = [&[script, "--cli"], reach, arguments].concat();
        printed("node", &all).await
    };
    let listed = ask(&["--method", "tools/list"]).await;
    assert_eq!(listed["tools"].as_array().map(Vec::len), Some(6), "{listed}");
    assert_eq!(listed["tools"][0]["name"], "launch_run");
    let launched =
        ask(&["--method", "tools/call", "--tool-name", "launch_run", "--tool-arg", "task=say hi"]).await;
    assert_eq!(launched["structuredContent"]["final_answer"], "hi", "{launched}");
    let resources = ask(&["--method", "resources/list"]).await;
    assert_eq!(resources["resources"][0]["uri"], "althing://runs", "{resources}");
}

#[tokio::test]
async fn the_inspectors_list_and_call_the_tools_over_stdio() {
    inspectors(&[&served()]).await;
}

#[tokio::test]
async fn the_inspectors_list_and_call_the_tools_over_http() {
    let server = Http::start().await;
    let header = format!("Authorization: Bearer {}", server.token);
    inspectors(&[&server.url, "--transport", "http", "--header", &header]).await;
}
