//! `--offline` with `--config` simulates the config: in no front end does Althing start a program or contact a server
//! that the config names, and the user is told what is simulated.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use althing_testkit::{Althing, Output};
use serde_json::{Value, json};

use super::mcp::Client;
use super::support::{LIMIT, althing, run};

/// A config and a workflow with programs and servers of every kind, and traps in their places: programs that leave a
/// mark when they are started, and servers that count their connections.
struct Traps {
    althing: Althing,
    marks: PathBuf,
    connections: Arc<AtomicUsize>,
    address: String,
}

impl Traps {
    fn new() -> Self {
        let connections = Arc::new(AtomicUsize::new(0));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let count = connections.clone();
        std::thread::spawn(move || {
            for _ in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let althing = althing();
        let socket = althing.home_dir().join("docker.sock");
        let (docker, count) = (UnixListener::bind(&socket).unwrap(), connections.clone());
        std::thread::spawn(move || {
            for _ in docker.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let marks = althing.work_dir().join("marks");
        let script = format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\n", marks.display());
        for name in ["npx", "uvx", "claude", "codex", "gemini", "opencode", "docker", "marker"] {
            let program = althing.file(&format!("bin/{name}"), &script);
            std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let bin = althing.work_dir().join("bin").display().to_string();
        let althing = althing
            .env("PATH", format!("{bin}:/usr/bin:/bin"))
            .env("DOCKER_HOST", format!("unix://{}", socket.display()))
            .env("OLLAMA_HOST", &address);
        althing.file("team.yaml", team(&address).to_string());
        althing.file("flow.yaml", flow().to_string());
        Self { althing, marks, connections, address }
    }

    #[track_caller]
    fn assert_untouched(&self, by: &str) {
        let marks = std::fs::read_to_string(&self.marks).unwrap_or_default();
        assert_eq!(marks, "", "{by} started programs");
        assert_eq!(self.connections.load(Ordering::SeqCst), 0, "{by} connected to a server");
    }

    fn otlp(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn team(address: &str) -> Value {
    let servers = json!([
        {"name": "packaged", "type": "stdio", "command": "npx", "args": ["-y", "a-server"],
            "allowed_tools": ["look_up"]},
        {"name": "local", "type": "stdio", "command": "marker"},
        {"name": "remote", "type": "streamable-http", "url": format!("http://{address}/mcp")},
    ]);
    let model = json!({"type": "chatcompletion", "model": "m", "base_url": format!("http://{address}/v1"),
        "api_key": "${A_KEY_THAT_IS_NOT_SET}", "mcp_servers": servers, "cwd": "here"});
    let mut chat = model.clone();
    chat.as_object_mut().unwrap().remove("cwd");
    let mut on_host = model.clone();
    on_host["enable_mcp_command_line"] = json!(true);
    let mut in_docker = on_host.clone();
    in_docker["command_line_execution_mode"] = json!("docker");
    json!({
        "agents": [
            {"id": "model", "backend": model.clone()},
            {"id": "host", "backend": on_host},
            {"id": "container", "backend": in_docker},
            {"id": "cli", "backend": {"type": "claude_code", "mcp_servers": servers}},
            {"id": "served", "backend": {"type": "ollama", "model": "m"}},
        ],
        "adapters": {"own": {"program": "marker", "headless_args": ["adapter"]}},
        "orchestrator": {
            "coordination": {"enable_subagents": true},
            "interactive_mode": {"enabled": true, "require_approval": true, "backend": chat},
        },
    })
}

fn flow() -> Value {
    let program = |id: &str, agent: &str, mode: &str| {
        let mut task = json!({"id": id, "agent": agent, "executionMode": mode, "prompt": "Do it",
            "env": {"NEEDED": "${A_KEY_THAT_IS_NOT_SET}"}});
        if agent == "command" {
            task["command"] = json!(["marker", "task"]);
        }
        task
    };
    json!({"name": "everything", "goal": "g", "stages": [
        {"name": "programs", "tasks": [
            program("command", "command", "headless"), program("typed", "command", "interactive"),
            program("claude", "claude", "headless"), program("of-config", "cli", "headless"),
            program("own", "own", "headless"), program("codex", "codex", "interactive"),
        ]},
        {"name": "runs", "tasks": [{"id": "team", "run": {"task": "Compare two ways to sort after {{command.output}}"}}]},
    ]})
}

#[track_caller]
fn assert_told(output: &str) {
    for part in [
        "starts and sends nothing",
        "CLI agents (cli)",
        "MCP servers (local, packaged, remote)",
        "commands (host)",
        "commands in Docker (container)",
    ] {
        assert!(output.contains(part), "{part} is missing: {output}");
    }
}

#[track_caller]
fn assert_nobody_dropped_out(althing: &Althing) {
    let events = althing.events();
    let ended = events.iter().filter(|event| event["type"] == "attempt_ended");
    for event in ended {
        assert_ne!(event["data"]["outcome"], "failed", "{event:#}");
    }
}

#[test]
fn a_simulated_run_starts_and_sends_nothing_and_says_what_is_simulated() {
    let traps = Traps::new();
    let args = [
        "--offline",
        "--config",
        "team.yaml",
        "--automation",
        "--otlp",
        &traps.otlp(),
        "Compare two ways to sort",
    ];
    let output = run(&traps.althing, &args).expect_code(0);
    assert_told(&output.stderr);
    assert!(output.stderr.contains("no traces are sent"), "{}", output.stderr);
    assert!(output.stdout.contains("offline model"), "{}", output.stdout);
    assert_nobody_dropped_out(&traps.althing);
    traps.assert_untouched("a run");
}

#[test]
fn a_simulated_conversation_starts_and_sends_nothing_even_when_it_is_continued_without_offline() {
    let traps = Traps::new();
    let chat = |args: &[&str]| -> Output {
        let command = traps.althing.new_command().args(["chat", "--approve", "always"]).args(args);
        command.stdin("hello\nCompare two ways to sort\n").spawn().wait(LIMIT).expect_code(0)
    };
    assert_told(&chat(&["--offline", "--config", "team.yaml", "--otlp", &traps.otlp()]).stderr);
    assert_nobody_dropped_out(&traps.althing);
    traps.assert_untouched("a conversation");
    assert_told(&chat(&["--continue"]).stderr);
    traps.assert_untouched("a conversation that was continued");
}

#[test]
fn a_simulated_conversation_on_the_screen_starts_and_sends_nothing() {
    let traps = Traps::new();
    // Without the variable, a list of warnings would open first and take the keys.
    let command = traps.althing.new_command().env("A_KEY_THAT_IS_NOT_SET", "canary-of-the-screen");
    let mut terminal = command.args(["--offline", "--config", "team.yaml"]).terminal(140, 40);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("Compare two ways to sort\r");
    terminal.wait_for("Approve", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("Press Ctrl+O to override", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("The run has ended.", LIMIT);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
    traps.assert_untouched("the screen");
}

#[test]
fn the_tasks_of_a_workflow_are_simulated_with_the_config() {
    let traps = Traps::new();
    let args = [
        "workflow",
        "run",
        "flow.yaml",
        "--offline",
        "--config",
        "team.yaml",
        "--json",
        "--otlp",
        &traps.otlp(),
    ];
    let output = run(&traps.althing, &args).expect_code(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    for task in result["stages"][0]["tasks"].as_array().unwrap() {
        assert_eq!((&task["status"], &task["exitCode"]), (&json!("DONE"), &json!(0)), "{task}");
        assert!(task["output"].as_str().unwrap().contains("simulated because of --offline"), "{task}");
        let id = task["id"].as_str().unwrap();
        assert!(
            output.stderr.contains("are simulated, not started") && output.stderr.contains(id),
            "{}",
            output.stderr
        );
    }
    assert_eq!(result["stages"][1]["tasks"][0]["status"], "DONE", "{result}");
    traps.assert_untouched("a workflow");
}

#[test]
fn runs_for_mcp_clients_are_simulated_with_the_config() {
    let traps = Traps::new();
    let args = ["--offline", "--config", "team.yaml", "--otlp", &traps.otlp()];
    let mut client = Client::with(&traps.althing, &args, &json!({"elicitation": {}}));
    let task = json!({"task": "Compare two ways to sort"});
    let (_, launched) = client.tool_with_question("launch_run", &task, "accept");
    assert_eq!(launched["structuredContent"]["status"], "completed", "{launched}");
    client.running.close_stdin();
    assert_told(&client.running.wait(LIMIT).expect_code(0).stderr);
    traps.assert_untouched("the MCP server");
}

#[test]
fn nothing_is_probed_with_offline() {
    let traps = Traps::new();
    let output = run(&traps.althing, &["agents", "--offline"]).expect_code(0);
    let asked =
        |name: &str| output.stdout.lines().any(|line| line.contains(name) && !line.contains("not asked"));
    for name in ["ollama", "claude_code", "docker"] {
        assert!(!asked(&format!("  {name} ")), "{name}: {}", output.stdout);
    }
    run(&traps.althing, &["config", "init", "--offline", "new.yaml"]).expect_code(0);
    let written = std::fs::read_to_string(traps.althing.work_dir().join("new.yaml")).unwrap();
    assert!(written.contains("type: offline") && !written.contains("ollama"), "{written}");
    run(&traps.althing, &["config", "check", "team.yaml", "--offline"]).expect_code(0);
    run(&traps.althing, &["workflow", "check", "flow.yaml", "--offline", "--config", "team.yaml"])
        .expect_code(0);
    traps.assert_untouched("a command");
}

#[test]
fn a_session_of_real_agents_is_not_continued_offline() {
    let traps = Traps::new();
    let config = json!({"agents": [{"id": "a", "backend": {"type": "chatcompletion", "model": "m",
        "base_url": format!("http://{}/v1", traps.address), "max_retries": 0}}],
        "orchestrator": {"interactive_mode": {"enabled": true}}});
    traps.althing.file("real.yaml", config.to_string());
    let command = traps.althing.new_command().args(["chat", "--config", "real.yaml"]);
    command.stdin("").spawn().wait(LIMIT).expect_code(0);
    let output = traps.althing.new_command().args(["chat", "--offline", "--continue"]).stdin("hello\n");
    let output = output.spawn().wait(LIMIT).expect_code(1);
    assert!(output.stderr.contains("cannot be continued offline"), "{}", output.stderr);
    traps.assert_untouched("--offline --continue");
}
