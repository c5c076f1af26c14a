//! Agents and programs that never end: limits stop them, the run uses what it has, and the user is told which key of
//! the config changes the limit.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use althing_testkit::{Action, Parliament, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, claude_dir, of_type, run};

fn always_anew() -> Script {
    let count = AtomicUsize::new(0);
    Script::from_fn(move |_: &RecordedRequest| {
        Reply::new_answer(&format!("Answer number {}", count.fetch_add(1, Ordering::Relaxed)))
    })
}

/// A team with these limits and without fairness: the rules of fairness would end some of these attacks by chance.
fn limited(limits: Value) -> impl FnOnce(Team) -> Team {
    |team| team.rule("fairness_enabled", false).rule("limits", limits)
}

fn hints(fixture: &Fixture) -> Vec<String> {
    let events = fixture.althing.events();
    let hints = of_type(&events, "notice").into_iter().filter_map(|event| event["data"]["hint"].as_str());
    hints.map(str::to_owned).collect()
}

fn told(fixture: &Fixture, key: &str) -> usize {
    hints(fixture).iter().filter(|hint| hint.contains(&format!("`orchestrator.limits.{key}`"))).count()
}

#[test]
fn two_models_that_always_answer_anew_are_stopped_and_an_answer_is_given() {
    let fixture = Fixture::with(2, always_anew(), limited(json!({})));
    let result = fixture.result(&["task"]);
    assert_eq!(result["status"], "completed");
    assert!(result["final_answer"].as_str().unwrap().starts_with("Answer number "), "{result}");
    let answers = result["coordination_summary"]["agents"].as_array().unwrap().iter();
    assert!(answers.map(|agent| agent["answers"].as_u64().unwrap()).all(|answers| answers <= 50), "{result}");
    let calls = fixture.server.request_count();
    // One call for each answer, three refused answers of each agent at its limit, and the presentation.
    assert!((90..=110).contains(&calls), "{calls} calls");
    assert!(told(&fixture, "answers_per_agent") >= 1, "{:?}", hints(&fixture));
}

#[test]
fn an_agent_that_calls_tools_for_ever_is_stopped_and_the_others_answer() {
    let script = Script::from_fn(|request: &RecordedRequest| {
        if request.model() == "model-a" {
            return Action::from(Reply::call("list_directory", &json!({"path": "."})));
        }
        Parliament::default().reply(request).into()
    });
    let limits = json!({"tool_calls_per_agent": 25});
    let fixture = Fixture::with(2, script, |team| limited(limits)(team).every_backend("cwd", "here"));
    let result = fixture.result(&["task"]);
    let agents = &result["coordination_summary"]["agents"];
    assert_eq!((&result["status"], &agents[0]["status"]), (&json!("completed"), &json!("failed")));
    assert!(agents[0]["error"].as_str().unwrap().contains("25 tool calls"), "{agents}");
    let calls = fixture.calls()["model-a"];
    assert!((26..=29).contains(&calls), "{calls} calls");
    assert_eq!(told(&fixture, "tool_calls_per_agent"), 1, "{:?}", hints(&fixture));
}

#[test]
fn more_tool_calls_in_one_reply_than_the_limit_are_refused_together() {
    let script = Script::from_fn(|request: &RecordedRequest| {
        if request.messages().iter().any(|message| message["role"] == "tool") {
            return Parliament::default().reply(request);
        }
        let call = |reply: Reply, number| {
            reply.and_call("write_file", &json!({"path": format!("file-{number}"), "content": "x"}))
        };
        (0..30).fold(Reply::empty(), call)
    });
    let limits = json!({"tool_calls_per_agent": 25});
    let fixture = Fixture::with(1, script, |team| limited(limits)(team).every_backend("cwd", "here"));
    let result = fixture.result(&["task"]);
    assert_eq!(result["status"], "completed", "the agent goes on without tools");
    let workspace = std::path::Path::new(result["workspace_path"].as_str().unwrap());
    assert!(!workspace.join("file-0").exists(), "none of the calls was executed");
}

#[test]
fn a_run_that_used_up_its_model_calls_ends_with_its_best_answer() {
    let fixture = Fixture::with(2, always_anew(), limited(json!({"model_calls_per_run": 9})));
    let output = fixture.run(&["task"]).expect_code(3);
    assert!(output.stdout.starts_with("Answer number "), "{}", output.stdout);
    assert!(output.stderr.contains("`orchestrator.limits.model_calls_per_run`"), "{}", output.stderr);
    // When the limit is reached, the other agent may have a call in progress, which is then stopped.
    assert!((9..=10).contains(&fixture.server.request_count()), "{}", fixture.server.request_count());
}

#[test]
fn an_agent_that_only_writes_text_and_never_votes_is_stopped() {
    let fixture = Fixture::with(1, Script::parliament(), |team| team);
    let limits = json!({"answers_per_agent": 3});
    let team = Team::on(&fixture.server.base_url(), 1).agent("b", &json!({"type": "claude_code"}));
    fixture.althing.file("team.yaml", limited(limits)(team).text());
    let bin = fixture.althing.home_dir().join("bin");
    claude_dir(&fixture.althing);
    std::fs::create_dir_all(&bin).unwrap();
    let claude = "#!/bin/sh\ncat > /dev/null\n\
        echo '{\"type\": \"system\", \"subtype\": \"init\", \"session_id\": \"s\"}'\n\
        echo call >> $HOME/.claude/calls\n\
        echo '{\"type\": \"result\", \"subtype\": \"success\", \"is_error\": false, \"result\": \"Text number '$(date +%s%N)'\", \"session_id\": \"s\"}'\n";
    std::fs::write(bin.join("claude"), claude).unwrap();
    std::fs::set_permissions(bin.join("claude"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let command = fixture.command(&["--json", "task"]).env("PATH", path);
    let output = command.spawn().wait(LIMIT).expect_code(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["status"], "completed");
    let answers = result["coordination_summary"]["agents"][1]["answers"].as_u64().unwrap();
    assert!(answers <= 3, "{result}");
    let calls = std::fs::read_to_string(fixture.althing.home_dir().join(".claude/calls")).unwrap();
    assert!(calls.lines().count() <= 10, "{}", calls.lines().count());
}

#[test]
fn a_chat_agent_that_calls_tools_for_ever_is_stopped_and_the_user_is_told() {
    let script = Script::from_fn(|_: &RecordedRequest| Reply::call("list_directory", &json!({"path": "."})));
    let fixture = Fixture::new(1, script);
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let limits = json!({"model_calls_per_message": 12, "tool_calls_per_agent": 5});
    let team =
        Team::on(&base, 1).rule("interactive_mode", json!({"backend": backend})).rule("limits", limits);
    fixture.althing.file("team.yaml", team.text());
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
    let output = command.stdin("Look around\n").spawn().wait(LIMIT);
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(said.contains("`orchestrator.limits.model_calls_per_message`"), "{said}");
    let requests = fixture.server.requests();
    assert_eq!(requests.len(), 12);
    let results = |request: &RecordedRequest| {
        let messages = request.messages();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        results.map(|message| message["content"].to_string()).collect::<Vec<_>>()
    };
    let results = results(requests.last().unwrap());
    let refused = results.iter().filter(|text| text.contains("`orchestrator.limits.tool_calls_per_agent`"));
    assert_eq!((results.len(), refused.count()), (11, 6), "{results:?}");
}

const HUNGRY_SERVER: &str = r#"
import json, sys, time
for line in sys.stdin:
    ask = json.loads(line)
    if "id" not in ask: continue
    method = ask["method"]
    if method == "initialize":
        result = {"protocolVersion": ask["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "fake", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "eat", "description": "Eats", "inputSchema": {"type": "object"}}]}
    else:
        eaten = b"x" * (400 << 20)
        time.sleep(600)
        result = {"content": []}
    print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result}), flush=True)
"#;

const HUNGRY: &str = "perl -e '$x = \"x\" x (400 << 20); sleep 600'";

#[test]
fn the_configs_limits_bind_commands_and_mcp_servers_of_a_run() {
    for (tool, arguments) in [("run_command", json!({"command": HUNGRY})), ("mcp__hungry__eat", json!({}))] {
        let script = Script::from_fn(move |request: &RecordedRequest| {
            if request.messages().iter().any(|message| message["role"] == "tool") {
                return Parliament::default().reply(request);
            }
            Reply::call(tool, &arguments)
        });
        let servers =
            json!([{"name": "hungry", "type": "stdio", "command": "python3", "args": ["hungry.py"]}]);
        let fixture = Fixture::with(1, script, |team| {
            limited(json!({"memory": "200m"}))(team)
                .every_backend("cwd", "here")
                .every_backend("enable_mcp_command_line", true)
                .every_backend("mcp_servers", servers)
        });
        fixture.althing.file("hungry.py", HUNGRY_SERVER);
        let output = fixture.run(&["--quick", "task"]).expect_code(0);
        let requests = fixture.server.requests();
        let results = requests.iter().flat_map(RecordedRequest::messages);
        let results =
            results.filter(|message| message["role"] == "tool").map(|message| message["content"].to_string());
        let results: String = results.collect();
        assert!(results.contains("`orchestrator.limits.memory`"), "{tool}: {results}\n{}", output.stderr);
    }
}

#[test]
fn the_configs_limits_bind_the_cli_agents_of_runs_and_the_tasks_of_workflows() {
    let fixture = Fixture::with(1, Script::parliament(), |team| team);
    let team = Team::on(&fixture.server.base_url(), 0).agent("b", &json!({"type": "claude_code"}));
    fixture.althing.file("team.yaml", limited(json!({"memory": "200m"}))(team).text());
    let bin = fixture.althing.home_dir().join("bin");
    claude_dir(&fixture.althing);
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("claude"), format!("#!/bin/sh\n{HUNGRY}\n")).unwrap();
    std::fs::set_permissions(bin.join("claude"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let key = "`orchestrator.limits.memory`";
    let output = fixture.command(&["task"]).env("PATH", &path).spawn().wait(LIMIT).expect_code(2);
    assert!(output.stderr.contains(key), "{}", output.stderr);
    let tasks = json!([
        {"id": "agent", "agent": "claude", "executionMode": "headless", "prompt": "go", "continue_on_failure": true},
        {"id": "command", "agent": "command", "command": ["sh", "-c", HUNGRY], "executionMode": "headless", "prompt": "", "sandbox": true, "continue_on_failure": true},
        {"id": "terminal", "agent": "command", "command": ["sh", "-c", HUNGRY], "executionMode": "interactive", "prompt": "", "sandbox": true, "continue_on_failure": true},
    ]);
    let flow = json!({"name": "n", "goal": "g", "stages": [{"name": "one", "tasks": tasks}]});
    fixture.althing.file("flow.yaml", flow.to_string());
    let althing = fixture.althing.new_command().env("PATH", &path);
    let output = run(&althing, &["workflow", "run", "flow.yaml", "--config", "team.yaml", "--json"]);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    for task in result["stages"][0]["tasks"].as_array().unwrap() {
        assert!(task["error"].to_string().contains(key), "{task}");
    }
}
