//! The chat agent's tools besides `launch_run`: file tools for the working directory and the tools of MCP servers, but no
//! commands and no tools of a run's agents.

use althing_testkit::{Action, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, SKY, Team};

const CHAT_MODEL: &str = "talker";

fn fixture(calls: impl Fn(&Fixture) -> Vec<(&'static str, Value)>, backend: &Value) -> Fixture {
    let script: std::sync::Arc<std::sync::OnceLock<Vec<(&'static str, Value)>>> = std::sync::Arc::default();
    let known = script.clone();
    let talker = Action::with(move |request: &RecordedRequest| {
        let results = request.messages().iter().filter(|message| message["role"] == "tool").count();
        match known.get().and_then(|calls| calls.get(results)) {
            Some((tool, arguments)) => Reply::call(*tool, arguments),
            None => Reply::text("done"),
        }
    });
    let fixture = Fixture::new(1, Script::parliament().on(CHAT_MODEL).always(talker));
    let base = fixture.server.base_url();
    let mut own = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
    own.as_object_mut().unwrap().extend(backend.as_object().unwrap().clone());
    let team = Team::on(&base, 1).rule("interactive_mode", json!({"backend": own}));
    fixture.althing.file("team.yaml", team.text());
    script.set(calls(&fixture)).unwrap();
    fixture
}

fn chat(fixture: &Fixture, args: &[&str]) -> althing_testkit::Output {
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]).args(args);
    command.stdin("Please look after my files\n").spawn().wait(LIMIT)
}

fn tool_results(fixture: &Fixture) -> Vec<String> {
    let last = fixture.server.requests().into_iter().rfind(|request| request.model() == CHAT_MODEL).unwrap();
    let results = last.messages().iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_chat_agent_reads_the_project_and_edits_a_file() {
    let fixture = fixture(
        |_| {
            vec![
                ("list_directory", json!({"path": "."})),
                ("search", json!({"pattern": "color"})),
                ("read_file", json!({"path": "src/paint.txt"})),
                ("edit_file", json!({"path": "src/paint.txt", "old": "color: red", "new": "color: blue"})),
                ("write_file", json!({"path": "notes/new.md", "content": "blue it is\n"})),
            ]
        },
        &json!({}),
    );
    fixture.althing.file("src/paint.txt", "color: red\n");
    let output = chat(&fixture, &[]).expect_code(0);
    assert_eq!(output.stdout, "done\n");
    let tool_results = tool_results(&fixture);
    assert!(tool_results[0].contains("src"), "{tool_results:?}");
    assert!(
        tool_results[1].contains("paint.txt") && tool_results[2].contains("color: red"),
        "{tool_results:?}"
    );
    let file = |name: &str| std::fs::read_to_string(fixture.althing.work_dir().join(name)).unwrap();
    assert_eq!(file("src/paint.txt"), "color: blue\n", "{tool_results:?}");
    assert_eq!(file("notes/new.md"), "blue it is\n", "{tool_results:?}");
}

#[test]
fn only_the_chat_agents_changes_are_reviewed_and_undone() {
    let fixture = fixture(
        |_| {
            vec![
                ("edit_file", json!({"path": "src/paint.txt", "old": "red", "new": "blue"})),
                ("write_file", json!({"path": "notes/new.md", "content": "blue it is\n"})),
            ]
        },
        &json!({}),
    );
    let paint = fixture.althing.file("src/paint.txt", "color: red\n");
    chat(&fixture, &[]).expect_code(0);
    let mine = fixture.althing.file("notes/mine.md", "a person's\n");
    let session = fixture.session_id();
    let undo = |args: &[&str]| fixture.althing.new_command().args(["undo"]).args(args).spawn().wait(LIMIT);
    let shown = undo(&[&session, "--diff"]).expect_code(0).stdout;
    assert!(shown.contains("-color: red\n+color: blue\n") && shown.contains("+blue it is\n"), "{shown}");
    let undone = undo(&[&format!("{session}.c1")]).expect_code(0).stdout;
    assert!(undone.contains("changes to 2 files undone"), "{undone}");
    assert_eq!(std::fs::read_to_string(&paint).unwrap(), "color: red\n");
    assert!(mine.exists() && !mine.with_file_name("new.md").exists());
    let again = undo(&[&session]).expect_code(1).stderr;
    assert!(again.contains("what the conversation changed was already undone"), "{again}");
    assert!(!again.contains("c1"), "{again}");
}

// spec: interactive/interactive-agent-system-prompt/no-coordination-tools
#[test]
fn the_chat_agent_cannot_leave_the_project_or_change_protected_files() {
    let fixture = fixture(
        |fixture| {
            let outside = fixture.althing.home_dir().join("outside.txt");
            std::fs::write(&outside, "private\n").unwrap();
            std::os::unix::fs::symlink(&outside, fixture.althing.work_dir().join("link.txt")).unwrap();
            vec![
                ("read_file", json!({"path": outside})),
                ("read_file", json!({"path": "link.txt"})),
                ("write_file", json!({"path": "../outside.txt", "content": "x"})),
                ("write_file", json!({"path": ".git/hooks/pre-commit", "content": "x"})),
                ("read_file", json!({"path": fixture.althing.state_dir().join("trust.json")})),
                ("run_command", json!({"command": "true"})),
            ]
        },
        &json!({}),
    );
    chat(&fixture, &[]).expect_code(0);
    let tool_results = tool_results(&fixture);
    assert_eq!(tool_results.len(), 6);
    assert!(tool_results[0].contains("outside what you may use"), "{tool_results:?}");
    assert!(!tool_results.iter().any(|text| text.contains("private")), "{tool_results:?}");
    assert!(tool_results[3].contains("never writable"), "{tool_results:?}");
    assert!(tool_results[5].contains("no tool"), "{tool_results:?}");
    let left = fixture.althing.work_dir().parent().unwrap().join("outside.txt");
    assert!(!left.exists() && !fixture.althing.work_dir().join(".git").exists());
    let request =
        fixture.server.requests().into_iter().find(|request| request.model() == CHAT_MODEL).unwrap();
    let tools = request.tool_names();
    for never in ["new_answer", "vote", "ask_others", "run_command"] {
        assert!(!tools.contains(&never), "{tools:?}");
    }
    assert!(tools.contains(&"launch_run") && tools.contains(&"edit_file"), "{tools:?}");
}

#[test]
fn in_the_home_directory_the_chat_agent_is_read_only() {
    let fixture =
        fixture(|_| vec![("write_file", json!({"path": "dot.profile", "content": "x"}))], &json!({}));
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
    let home = fixture.althing.work_dir();
    command.env("HOME", &home).stdin("Write into my home\n").spawn().wait(LIMIT).expect_code(0);
    assert!(tool_results(&fixture)[0].contains("read-only"), "{:?}", tool_results(&fixture));
    assert!(!home.join("dot.profile").exists());
}

#[test]
fn the_chat_agent_can_read_the_files_of_its_runs_and_no_other_state() {
    let script = Script::parliament().on(CHAT_MODEL).always(Action::with(|request: &RecordedRequest| {
        let results: Vec<&Value> =
            request.messages().iter().filter(|message| message["role"] == "tool").collect();
        let Some(first) = results.first() else {
            let launch = json!({"task": "Say hi", "agent_mode": "single", "refinement": false});
            return Reply::call("launch_run", &launch);
        };
        let result: Value = serde_json::from_str(first["content"].as_str().unwrap()).unwrap();
        let log = result["log_dir"].as_str().unwrap();
        match results.len() {
            1 => Reply::call("read_file", &json!({"path": format!("{log}/final_answer.md")})),
            2 => Reply::call("read_file", &json!({"path": format!("{log}/../../events.jsonl")})),
            _ => Reply::text("done"),
        }
    }));
    let fixture = Fixture::new(1, script);
    let base = fixture.server.base_url();
    let own = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
    let team = Team::on(&base, 1).rule("interactive_mode", json!({"backend": own}));
    fixture.althing.file("team.yaml", team.text());
    chat(&fixture, &["--approve", "always"]).expect_code(0);
    let tool_results = tool_results(&fixture);
    let result: Value = serde_json::from_str(&tool_results[0]).unwrap();
    let answer = result["final_answer"].as_str().unwrap();
    assert!(tool_results[1].contains(answer), "{tool_results:?}");
    assert!(tool_results[2].contains("outside") || tool_results[2].contains("closed"), "{tool_results:?}");
}

#[test]
fn the_chat_agent_uses_its_own_mcp_servers_or_those_of_the_first_agent() {
    let servers = json!([{"name": "sky", "type": "stdio", "command": "python3", "args": ["sky.py"]}]);
    let call = |_: &Fixture| vec![("mcp__sky__weather", json!({"city": "Þingvellir"}))];
    let own = fixture(call, &json!({"mcp_servers": servers}));
    let first = fixture(call, &json!({}));
    let base = first.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
    let team = Team::on(&base, 1)
        .backend(0, "mcp_servers", servers)
        .rule("interactive_mode", json!({"backend": backend}));
    first.althing.file("team.yaml", team.text());
    for fixture in [own, first] {
        fixture.althing.file("sky.py", SKY);
        chat(&fixture, &[]).expect_code(0);
        assert!(tool_results(&fixture)[0].contains("Sunny in Þingvellir"), "{:?}", tool_results(&fixture));
    }
}

/// A stand-in for `claude`: writes a file in its working directory. If its prompt contains no tool result yet, it calls
/// a tool over Althing's MCP endpoint; otherwise it reports that result.
const CLAUDE: &str = r#"#!/usr/bin/env python3
import json, os, sys, urllib.request
prompt = sys.stdin.read()
config = json.loads(sys.argv[sys.argv.index("--mcp-config") + 1])["mcpServers"]["althingtools"]
token = config["headers"]["Authorization"].replace("${ALTHING_MCP_TOKEN}", os.environ.get("ALTHING_MCP_TOKEN", ""))
for name, value in os.environ.items():
    token = token.replace("${" + name + "}", value)
session = None
def ask(method, params, id=None):
    global session
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    if id: body["id"] = id
    headers = {"Authorization": token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if session: headers["Mcp-Session-Id"] = session
    answer = urllib.request.urlopen(urllib.request.Request(config["url"], json.dumps(body).encode(), headers))
    session = answer.headers.get("Mcp-Session-Id") or session
    return answer.read().decode()
open("by-claude.txt", "w").write("written\n")
said = "It is sunny: " + prompt.split("<result of ")[-1].splitlines()[1] if "<result of " in prompt else "calling"
if said == "calling":
    ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}, 1)
    ask("notifications/initialized", {})
    ask("tools/call", {"name": "mcp__sky__weather", "arguments": {"city": "Hof"}}, 2)
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s"}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": said, "session_id": "s"}))
"#;

#[test]
fn a_cli_agent_as_chat_agent_works_in_the_project_and_calls_mcp_servers_through_us() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new(1, Script::parliament());
    let base = fixture.server.base_url();
    let servers = json!([{"name": "sky", "type": "stdio", "command": "python3", "args": ["sky.py"]}]);
    let own = json!({"type": "claude_code", "mcp_servers": servers});
    let team = Team::on(&base, 1).rule("interactive_mode", json!({"backend": own}));
    fixture.althing.file("team.yaml", team.text());
    fixture.althing.file("sky.py", SKY);
    let bin = fixture.althing.home_dir().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("claude"), CLAUDE).unwrap();
    std::fs::set_permissions(bin.join("claude"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let command = fixture.althing.new_command().env("PATH", path).args(["chat", "--config", "team.yaml"]);
    let output = command.stdin("What is the weather in Hof?\n").spawn().wait(LIMIT).expect_code(0);
    assert!(output.stdout.contains("It is sunny: Sunny in Hof"), "{}\n{}", output.stdout, output.stderr);
    let written = std::fs::read_to_string(fixture.althing.work_dir().join("by-claude.txt"));
    assert_eq!(written.unwrap(), "written\n", "it works in the project itself");
}
