//! A single agent with refinement off makes exactly one attempt, which is one model call if it uses no tools, whatever
//! the config says about the final answer, and whatever starts the run: command line, conversation, `launch_run`, MCP,
//! workflows, subagents. The same holds for CLI agents.

use std::os::unix::fs::PermissionsExt;

use althing_testkit::{Action, Parliament, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::mcp::Client;
use super::support::{Fixture, LIMIT, Team, of_type, run, task_of, texts};

const CHAT_MODEL: &str = "talker";
const TASK: &str = "Count the words";

/// The empty value stands for a config without the key `final_answer_strategy`.
const STRATEGIES: [&str; 4] = ["", "winner_present", "synthesize", "winner_reuse"];

/// A config with this strategy, in which a rejected final answer would restart the run.
fn configured(team: Team, strategy: &str) -> Team {
    let team = team.rule("coordination", json!({"max_orchestration_restarts": 1, "enable_subagents": true}));
    if strategy.is_empty() { team } else { team.rule("final_answer_strategy", strategy) }
}

fn launcher(strategy: &str) -> Action {
    let mut launch = json!({"task": TASK, "agent_mode": "single", "refinement": false});
    if !strategy.is_empty() {
        launch["coordination_overrides"] =
            json!({"final_answer_strategy": strategy, "max_orchestration_restarts": 2});
    }
    Action::with(move |request: &RecordedRequest| {
        let is_told = request.messages().iter().any(|message| message["role"] == "tool");
        if is_told { Reply::text("done") } else { Reply::call("launch_run", &launch) }
    })
}

fn fixture(strategy: &str) -> Fixture {
    let fixture = Fixture::new(2, Script::parliament().on(CHAT_MODEL).always(launcher(strategy)));
    fixture.althing.file("team.yaml", configured(Team::on(&fixture.server.base_url(), 2), strategy).text());
    fixture
}

fn purposes(fixture: &Fixture) -> Vec<String> {
    let events = fixture.althing.events();
    let works = |event: &&Value| event["task"].as_str().is_some_and(|task| task.contains(".a"));
    let started = of_type(&events, "attempt_started").into_iter().filter(works);
    started.map(|event| event["data"]["purpose"].as_str().unwrap_or_default().to_owned()).collect()
}

#[track_caller]
fn check(fixture: &Fixture, what: &str) {
    let calls: Vec<String> = fixture
        .server
        .requests()
        .iter()
        .map(|request| request.model().to_owned())
        .filter(|model| model != CHAT_MODEL)
        .collect();
    assert_eq!(calls, ["model-a"], "{what}");
    assert_eq!(purposes(fixture), ["answer"], "{what}");
}

// spec: modes/refinement-mode-toggle/refinement-off-with-single-agent
// spec: interactive/launch-run-tool/single-agent-run
#[test]
fn a_quick_run_of_a_single_agent_is_one_call_through_every_door_whatever_strategy_is_named() {
    for strategy in STRATEGIES {
        let quick = ["--quick", "--single-agent", "a", TASK];
        let by_command = fixture(strategy);
        let result = by_command.result(&quick);
        assert_eq!(result["final_answer"], "Final answer of model-a");
        assert_eq!(result["coordination_summary"]["strategy"], "winner_reuse");
        check(&by_command, &format!("command line, {strategy}"));

        // Without a chat agent, every message starts a run.
        let by_message = fixture(strategy);
        let args = ["chat", "--config", "team.yaml", "--quick", "--single-agent", "a"];
        let output =
            by_message.althing.new_command().args(args).stdin(format!("{TASK}\n")).spawn().wait(LIMIT);
        assert_eq!(output.expect_code(0).stdout, "Final answer of model-a\n");
        check(&by_message, &format!("message, {strategy}"));

        let by_chat_agent = fixture(strategy);
        let base = by_chat_agent.server.base_url();
        let backend = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
        let interactive = json!({"backend": backend, "require_approval": false});
        let team = configured(Team::on(&base, 2), strategy).rule("interactive_mode", interactive);
        by_chat_agent.althing.file("team.yaml", team.text());
        let args = ["chat", "--config", "team.yaml"];
        let command = by_chat_agent.althing.new_command().args(args).stdin("Have it counted\n");
        command.spawn().wait(LIMIT).expect_code(0);
        check(&by_chat_agent, &format!("launch_run, {strategy}"));

        let by_client = fixture(strategy);
        let mut client = Client::start(&by_client.althing, &["--config", "team.yaml"]);
        let launch = json!({"task": TASK, "agent_mode": "single", "refinement": false});
        let launched = client.tool("launch_run", &launch);
        assert_eq!(launched["structuredContent"]["final_answer"], "Final answer of model-a", "{launched}");
        client.running.close_stdin();
        client.running.wait(LIMIT).expect_code(0);
        check(&by_client, &format!("MCP, {strategy}"));

        let by_workflow = fixture(strategy);
        let task = json!({"id": "count", "run": {"task": TASK, "agent_mode": "single", "refinement": false}});
        let flow = json!({"name": "n", "stages": [{"name": "s", "tasks": [task]}]});
        by_workflow.althing.file("flow.yaml", flow.to_string());
        let args = ["workflow", "run", "flow.yaml", "--config", "team.yaml", "--json"];
        run(&by_workflow.althing, &args).expect_code(0);
        check(&by_workflow, &format!("workflow, {strategy}"));
    }
}

// spec: modes/refinement-mode-toggle/refinement-off-with-single-agent
#[test]
fn a_subagent_is_one_call_whatever_strategy_the_config_names() {
    // A subagent run of the whole team is a run of a single agent if the team has only one.
    for (strategy, team) in [("winner_present", false), ("synthesize", false), ("synthesize", true)] {
        let spawn = json!({"tasks": [{"task": TASK, "team": team}]});
        let is_subagent = |request: &RecordedRequest| task_of(&texts(request)) == Some(TASK);
        let script = Script::from_fn(move |request: &RecordedRequest| {
            let is_told = request.messages().iter().any(|message| message["role"] == "tool");
            let tools = request.tool_names();
            if tools.contains(&"spawn_subagents") && !tools.contains(&"vote") && !is_told {
                return Reply::call("spawn_subagents", &spawn);
            }
            Parliament::default().reply(request)
        });
        let fixture = Fixture::with(1, script, |team| {
            let team = team.rule("coordination", json!({"enable_subagents": true}));
            team.rule("final_answer_strategy", strategy)
        });
        // The run that starts the subagent has refinement and a presentation, so it uses the configured strategy.
        let result = fixture.result(&["Sum it up"]);
        assert_eq!(result["coordination_summary"]["strategy"], strategy);
        let requests = fixture.server.requests();
        let asked = requests.iter().filter(|request| is_subagent(request)).count();
        assert_eq!(asked, 1, "{strategy}, team: {team}");
    }
}

// spec: modes/context-path-write-access-in-quick-mode/single-agent-with-refinement-off-and-write-context-paths
#[test]
fn a_quick_single_agent_may_write_from_the_start_and_is_not_asked_to_present_whatever_strategy_is_named() {
    for strategy in STRATEGIES {
        let script = Script::from_fn(|request: &RecordedRequest| {
            let is_told = request.messages().iter().any(|message| message["role"] == "tool");
            let path = request.system_text() + &texts(request);
            let path = path.lines().find_map(|line| line.strip_prefix("- ")?.split(" (you may write").next());
            match path.filter(|_| !is_told) {
                Some(dir) => {
                    Reply::call("write_file", &json!({"path": format!("{dir}/new.txt"), "content": "x\n"}))
                }
                None => Reply::text("written"),
            }
        });
        let fixture = Fixture::with(1, script, |team| configured(team, strategy));
        let project = fixture.althing.work_dir().join("project");
        std::fs::create_dir_all(&project).unwrap();
        let path = format!("{}:rw", project.display());
        let result = fixture.result(&["--quick", "--context-path", &path, "Write it"]);
        assert_eq!(std::fs::read_to_string(project.join("new.txt")).unwrap(), "x\n", "{strategy}");
        assert_eq!(result["final_answer"], "written");
        assert_eq!(fixture.server.request_count(), 2, "{strategy}: the tool call and the answer");
        assert_eq!(purposes(&fixture), ["answer"], "{strategy}");
    }
}

/// A stand-in for `claude`: its answer says how often it was started in this workspace.
const CLAUDE: &str = r#"#!/usr/bin/env python3
import json, sys
sys.stdin.read()
with open("starts.txt", "a+") as starts:
    starts.write("x")
    starts.seek(0)
    said = "start %d" % len(starts.read())
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s"}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": said, "session_id": "s"}))
"#;

// spec: modes/refinement-mode-toggle/refinement-off-with-single-agent
#[test]
fn a_quick_run_of_a_single_cli_agent_starts_its_program_once() {
    for strategy in STRATEGIES {
        let fixture = fixture(strategy);
        let mut config: Value =
            serde_json::from_str(&configured(Team::on(&fixture.server.base_url(), 1), strategy).text())
                .unwrap();
        config["agents"][0]["backend"] = json!({"type": "claude_code"});
        fixture.althing.file("team.yaml", config.to_string());
        let bin = fixture.althing.home_dir().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("claude"), CLAUDE).unwrap();
        std::fs::set_permissions(bin.join("claude"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let args = ["--config", "team.yaml", "--quick", "--automation", TASK];
        let output = fixture.althing.new_command().env("PATH", path).args(args).spawn().wait(LIMIT);
        assert_eq!(output.expect_code(0).stdout, "start 1\n", "{strategy}");
        assert_eq!(purposes(&fixture), ["answer"], "{strategy}");
    }
}
