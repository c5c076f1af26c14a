//! The modes with a CLI agent as a member: the tools, prompts and calls of a stand-in for Claude Code. Also what agents
//! of every kind write to context paths, and what they are told when the user overrides the winner or approves a plan.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use althing_testkit::{
    Action, FakeModel, Gate, Parliament, RecordedRequest, Reply, RunningProcess, Script, Terminal, wait,
};
use serde_json::{Value, json};

use super::mcp::Client;
use super::support::{
    Fixture, LIMIT, Team, althing, claude_dir, ensure, files_below, in_parallel, items, of_type, texts,
};

/// How long nothing may happen before the test concludes that nothing will.
const QUIET_TIME: Duration = Duration::from_millis(700);
const TASK: &str = "Name a river.";
const COMBINE: &str = "Combine the strongest relevant parts of all the answers";
const PRESENT: &str = "Keep what it was chosen for";

/// A stand-in for `claude`, which lists and calls Althing's tools over MCP and records each start. It votes if it can
/// (but first gives as many answers as the file `answers` says), else answers, else replies with a text. The file
/// `hold-PHASE` makes it wait in a phase, `command-PHASE` is run as a shell command, `tools-PHASE` lists calls of other
/// tools, which are made once, `vote` names whom it votes for.
const CLAUDE: &str = r#"#!/usr/bin/env python3
import json, os, subprocess, sys, time, urllib.request
own = os.path.join(os.environ["HOME"], ".claude")
prompt = sys.stdin.read()
def argument(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None
def setting(name, default):
    path = os.path.join(own, name)
    return open(path).read() if os.path.exists(path) else default
config = argument("--mcp-config")
def ask(method, params):
    server = json.loads(config)["mcpServers"]["althingtools"]
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
               "Authorization": os.path.expandvars(server["headers"]["Authorization"])}
    text = urllib.request.urlopen(urllib.request.Request(server["url"], body, headers)).read().decode()
    lines = [line[5:] for line in text.splitlines() if line.startswith("data:")] or [text]
    messages = [json.loads(line) for line in lines if line.strip()]
    return [message["result"] for message in messages if "result" in message][0]
tools = [tool["name"] for tool in ask("tools/list", {})["tools"]] if config else []
earlier = [json.loads(line) for line in setting("calls.jsonl", "").splitlines()]
given = sum(call["does"] == "new_answer" for call in earlier)
if "vote" in tools and (given >= int(setting("answers", "1")) or "new_answer" not in tools):
    does = "vote"
else:
    does = "new_answer" if "new_answer" in tools else "text"
phase = "vote" if "vote" in tools else "answer" if "new_answer" in tools else "present"
call = {"prompt": prompt, "tools": tools, "does": does, "resumes": "--resume" in sys.argv}
open(os.path.join(own, "calls.jsonl"), "a").write(json.dumps(call) + "\n")
while os.path.exists(os.path.join(own, "hold-" + phase)):
    time.sleep(0.02)
subprocess.run(["sh", "-c", setting("command-" + phase, "true")])
calls = json.loads(setting("tools-" + phase, "[]"))
if calls:
    os.remove(os.path.join(own, "tools-" + phase))
for tool, arguments in calls:
    ask("tools/call", {"name": tool, "arguments": arguments})
if does == "vote":
    ask("tools/call", {"name": "vote", "arguments": {"agent_id": setting("vote", "agent1"), "reason": "clear"}})
elif does == "new_answer":
    ask("tools/call", {"name": "new_answer", "arguments": {"content": "Answer %d of claude" % (given + 1)}})
session = argument("--session-id") or argument("--resume")
said = "Text of claude" if does == "text" else "My turn is over."
print(json.dumps({"type": "system", "subtype": "init", "session_id": session}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": said, "session_id": session}))
"#;

/// A team of Claude Code, which is agent 1, and this many API models: `model-a`, `model-b` and so on.
pub fn with_claude(models: usize, script: impl Into<Script>, rules: &Value) -> Fixture {
    let server = FakeModel::start_on_thread(script);
    let althing = althing();
    let bin = althing.home_dir().join("bin");
    claude_dir(&althing);
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("claude"), CLAUDE).unwrap();
    std::fs::set_permissions(bin.join("claude"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let model = |name: char| {
        let backend = json!({"type": "chatcompletion", "model": format!("model-{name}"), "base_url": server.base_url(),
            "retry_base_ms": 10});
        json!({"id": name.to_string(), "backend": backend})
    };
    let mut agents = vec![json!({"id": "claude", "backend": {"type": "claude_code"}})];
    agents.extend(('a'..).take(models).map(model));
    let mut rules = rules.clone();
    rules["stop_when_decided"] = false.into();
    althing.file("team.yaml", json!({"agents": agents, "orchestrator": rules}).to_string());
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    Fixture { server, althing: althing.env("PATH", path) }
}

pub fn claude_file(fixture: &Fixture, name: &str) -> PathBuf {
    fixture.althing.home_dir().join(".claude").join(name)
}

pub fn set_claude(fixture: &Fixture, name: &str, text: &str) {
    std::fs::write(claude_file(fixture, name), text).unwrap();
}

pub fn claude_calls(fixture: &Fixture) -> Vec<Value> {
    let text = std::fs::read_to_string(claude_file(fixture, "calls.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn prompt(call: &Value) -> &str {
    call["prompt"].as_str().unwrap()
}

struct Expected<'a> {
    tools: &'a [&'a str],
    has: &'a [&'a str],
    lacks: &'a [&'a str],
}

/// Checks that Claude Code was called exactly as expected, and not more often.
#[track_caller]
fn check_claude(fixture: &Fixture, expected: &[Expected<'_>]) {
    let calls = claude_calls(fixture);
    let tools: Vec<&Value> = calls.iter().map(|call| &call["tools"]).collect();
    let wanted: Vec<Value> = expected.iter().map(|call| json!(call.tools)).collect();
    assert_eq!(tools, wanted.iter().collect::<Vec<_>>(), "the tools of each call");
    for (n, (call, expected)) in calls.iter().zip(expected).enumerate() {
        let prompt = prompt(call);
        assert!(prompt.contains(TASK), "call {n}: {prompt}");
        for text in expected.has {
            assert!(prompt.contains(text), "call {n} lacks `{text}`: {prompt}");
        }
        for text in expected.lacks {
            assert!(!prompt.to_lowercase().contains(text), "call {n} has `{text}`: {prompt}");
        }
        assert_eq!(call["resumes"], n > 0, "call {n}: one conversation for the whole run");
    }
}

fn rules(fixture: &Fixture) -> Value {
    of_type(&fixture.althing.events(), "task_created")[0]["data"]["spec"]["rules"].clone()
}

fn presentations(events: &[Value]) -> Vec<String> {
    let presents = |event: &&Value| event["data"]["purpose"] == "present";
    let started = of_type(events, "attempt_started").into_iter().filter(presents);
    started.map(|event| event["task"].as_str().unwrap().to_owned()).collect()
}

fn wait_for_answer(running: &RunningProcess, label: &str) {
    running.wait_for_stderr(|line| line.contains(&format!("answered: {label}")), LIMIT);
}

// spec: modes/deferred-voting/single-agent-with-refinement-on
#[test]
fn a_single_cli_agent_may_refine_until_it_votes_that_it_is_done() {
    let fixture = with_claude(1, Script::parliament(), &json!({}));
    set_claude(&fixture, "answers", "2");
    let output = fixture.run(&["--single-agent", "claude", TASK]).expect_code(0);
    assert_eq!(output.stdout, "Text of claude\n");
    let choose = "If it is done, say so by voting for it with `vote`";
    check_claude(
        &fixture,
        &[
            Expected { tools: &["new_answer"], has: &["`new_answer`"], lacks: &["vote", "of claude"] },
            Expected {
                tools: &["new_answer", "vote"],
                has: &["Answer 1 of claude", choose],
                lacks: &["answer 2"],
            },
            Expected { tools: &["new_answer", "vote"], has: &["Answer 2 of claude", choose], lacks: &[] },
            Expected { tools: &[], has: &["Answer 2 of claude", PRESENT], lacks: &[] },
        ],
    );
    let events = fixture.althing.events();
    assert_eq!((items(&events, "answer").len(), items(&events, "vote").len()), (2, 1));
    assert_eq!(fixture.server.request_count(), 0, "nobody else works");
}

// spec: modes/refinement-mode-toggle/refinement-off-with-single-agent
#[test]
fn refinement_off_with_a_single_cli_agent_is_one_call_without_a_vote() {
    let fixture = with_claude(1, Script::parliament(), &json!({}));
    let output = fixture.run(&["--quick", "--single-agent", "claude", TASK]).expect_code(0);
    assert_eq!(output.stdout, "Text of claude\n");
    check_claude(&fixture, &[Expected { tools: &[], has: &[], lacks: &["vote", "voting", "new_answer"] }]);
    assert_eq!(rules(&fixture)["skip_voting"], true);
    assert_eq!(presentations(&fixture.althing.events()), [""; 0]);
    assert_eq!(fixture.server.request_count(), 0, "nobody else works");
}

// spec: modes/refinement-mode-toggle/refinement-off-with-multi-agent
// spec: modes/final-answer-strategy/multi-agent-quick-mode-defaults-to-synthesis
#[test]
fn refinement_off_with_a_cli_agent_among_several_is_one_independent_answer_each_and_a_synthesis() {
    let rules = json!({"coordination": {"first_answer_wait_seconds": 0}});
    let fixture = with_claude(2, Script::parliament(), &rules);
    set_claude(&fixture, "hold-answer", "");
    let running = fixture.spawn(&["--quick", TASK]);
    wait_for_answer(&running, "agent2.1");
    wait_for_answer(&running, "agent3.1");
    let asked_again = || fixture.server.request_count() > 2;
    assert!(!wait::holds_within(QUIET_TIME, asked_again), "the others wait for the CLI agent");
    std::fs::remove_file(claude_file(&fixture, "hold-answer")).unwrap();
    let output = running.wait(LIMIT).expect_code(0);
    assert_eq!(output.stdout, "Text of claude\n", "it won and presents");
    let others = ["Answer of model-a", "Answer of model-b", "Answer 1 of claude"];
    check_claude(
        &fixture,
        &[
            Expected { tools: &["new_answer"], has: &[], lacks: &["answer of model-"] },
            Expected { tools: &["vote"], has: &others, lacks: &["combine"] },
            Expected { tools: &[], has: &[&others[..], &[COMBINE]].concat(), lacks: &[] },
        ],
    );
    for request in fixture.server.requests() {
        let knows = texts(&request).contains("Answer 1 of claude");
        assert_eq!(knows, request.tool_names() == ["vote"], "{}", texts(&request));
    }
}

// spec: modes/skip-voting-configuration/skip-voting-enabled
#[test]
fn with_voting_skipped_no_vote_is_offered_to_a_cli_agent_or_required_of_it() {
    let fixture = with_claude(2, Script::parliament(), &json!({"skip_voting": true}));
    // Claude Code answers last: if nobody votes, the newest answer wins.
    set_claude(&fixture, "hold-answer", "");
    let running = fixture.spawn(&["--json", TASK]);
    wait_for_answer(&running, "agent2.1");
    wait_for_answer(&running, "agent3.1");
    std::fs::remove_file(claude_file(&fixture, "hold-answer")).unwrap();
    let output = running.wait(LIMIT).expect_code(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["final_answer"], "Text of claude");
    assert_eq!(result["coordination_summary"]["ballots"], json!([]));
    check_claude(
        &fixture,
        &[
            Expected { tools: &["new_answer"], has: &[], lacks: &["vote", "voting"] },
            Expected { tools: &[], has: &["Answer 1 of claude"], lacks: &["vote", "voting"] },
        ],
    );
    assert_eq!(fixture.server.request_count(), 2, "one answer of each other agent");
    assert!(items(&fixture.althing.events(), "reminder").is_empty(), "nobody was asked to vote");
}

/// A run with this rule and a slow model: checks that no agent is called again before the slow model has answered, and
/// that Claude Code wins and presents.
fn wait_for_slow_model(rule: &str) -> Fixture {
    let gate = Gate::before_headers();
    let script = Script::parliament().on("model-b").nth(0, Action::gated(Action::Usual, &gate));
    // Without the wait for first answers, an agent that need not wait would be called again immediately.
    let mut rules = json!({"coordination": {"first_answer_wait_seconds": 0}});
    rules[rule] = true.into();
    let fixture = with_claude(2, script, &rules);
    let running = fixture.spawn(&[TASK]);
    wait_for_answer(&running, "agent1.1");
    wait_for_answer(&running, "agent2.1");
    let called_again = || claude_calls(&fixture).len() > 1 || fixture.server.request_count() > 2;
    assert!(!wait::holds_within(QUIET_TIME, called_again), "{rule}: someone was called again");
    gate.release_all();
    let output = running.wait(LIMIT).expect_code(0);
    assert_eq!(output.stdout, "Text of claude\n");
    fixture
}

// spec: modes/deferred-voting/deferred-voting-enabled
#[test]
fn with_deferred_voting_a_cli_agent_votes_only_after_the_last_answer() {
    let fixture = wait_for_slow_model("defer_voting_until_all_answered");
    let all = ["Answer of model-a", "Answer of model-b", "Answer 1 of claude"];
    check_claude(
        &fixture,
        &[
            Expected { tools: &["new_answer"], has: &[], lacks: &["answer of model-"] },
            Expected { tools: &["new_answer", "vote"], has: &all, lacks: &[] },
            Expected { tools: &[], has: &all, lacks: &[] },
        ],
    );
    assert_eq!(items(&fixture.althing.events(), "vote").len(), 3, "no vote was wasted");
}

// spec: modes/independent-agent-execution/injection-disabled
#[test]
fn an_independent_cli_agent_neither_sees_other_answers_nor_starts_over_for_them() {
    let fixture = wait_for_slow_model("disable_injection");
    let all = ["Answer of model-a", "Answer of model-b", "Answer 1 of claude"];
    check_claude(
        &fixture,
        &[
            Expected { tools: &["new_answer"], has: &[], lacks: &["answer of model-"] },
            Expected { tools: &["vote"], has: &all, lacks: &[] },
            Expected { tools: &[], has: &all, lacks: &[] },
        ],
    );
    let answering = |request: &&RecordedRequest| request.tool_names().contains(&"new_answer");
    for request in fixture.server.requests().iter().filter(answering) {
        assert!(!texts(request).contains("of claude"), "{}", texts(request));
    }
    let events = fixture.althing.events();
    assert!(items(&events, "update").is_empty() && items(&events, "stale_vote").is_empty());
}

// spec: interactive/launch-run-tool/multi-agent-run-with-refinement
#[test]
fn a_cli_agent_in_a_launched_run_improves_its_answer_after_seeing_the_others_and_is_voted_for() {
    let launch = json!({"task": TASK, "agent_mode": "multi", "refinement": true});
    for front_end in ["chat", "MCP"] {
        let proposed = launch.clone();
        let talker = Action::with(move |request: &RecordedRequest| {
            let told = request.messages().iter().any(|message| message["role"] == "tool");
            if told { Reply::text("Done.") } else { Reply::call("launch_run", &proposed) }
        });
        // The model prefers its own answer until it has seen the improved one.
        let member = Action::with(|request: &RecordedRequest| {
            let judges = request.tool_names().contains(&"vote");
            if judges && !texts(request).contains("Answer 2 of claude") {
                return Reply::vote("agent2", "it is shorter");
            }
            Parliament::default().reply(request)
        });
        let script = Script::parliament().on("talker").always(talker).on("model-a").always(member);
        let fixture = with_claude(1, script, &json!({}));
        set_claude(&fixture, "answers", "2");
        let file = fixture.althing.work_dir().join("team.yaml");
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let chat =
            json!({"type": "chatcompletion", "model": "talker", "base_url": fixture.server.base_url()});
        config["orchestrator"] = json!({"interactive_mode": {"backend": chat, "require_approval": false}});
        std::fs::write(file, config.to_string()).unwrap();
        if front_end == "chat" {
            let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
            command.stdin("Name a river, please\n").spawn().wait(LIMIT).expect_code(0);
        } else {
            let mut client = Client::start(&fixture.althing, &["--config", "team.yaml"]);
            let launched = client.tool("launch_run", &launch);
            assert_eq!(launched["structuredContent"]["status"], "completed", "{launched}");
            client.running.close_stdin();
            client.running.wait(LIMIT).expect_code(0);
        }
        check_claude(
            &fixture,
            &[
                Expected { tools: &["new_answer"], has: &[], lacks: &["answer of model-"] },
                Expected {
                    tools: &["new_answer", "vote"],
                    has: &["Answer of model-a", "Answer 1 of claude"],
                    lacks: &["answer 2"],
                },
                Expected { tools: &["new_answer", "vote"], has: &["Answer 2 of claude"], lacks: &[] },
                Expected { tools: &[], has: &["Answer 2 of claude", PRESENT], lacks: &[] },
            ],
        );
        let judges = |request: &&RecordedRequest| {
            request.tool_names().contains(&"vote") && texts(request).contains("Answer 2 of claude")
        };
        let requests = fixture.server.requests_of("model-a");
        assert!(requests.iter().any(|request| judges(&request)), "{front_end}: {requests:?}");
        let events = fixture.althing.events();
        let answers = items(&events, "answer");
        let labels: Vec<&str> = answers.iter().map(|answer| answer["label"].as_str().unwrap()).collect();
        assert_eq!(labels.last(), Some(&"agent1.2"), "{front_end}: {labels:?}");
        let finished = events.iter().find(|event| event["data"]["verdict"] == "finished").unwrap();
        let result = &finished["data"]["result"];
        let summary = &result["coordination_summary"];
        assert_eq!((&summary["winner"], &summary["votes"]), (&json!("claude"), &json!({"claude": 2})));
        assert_eq!(result["final_answer"], "Text of claude", "{front_end}");
    }
}

fn won_by_claude(options: &[&str], strategy: &str) -> (Fixture, Value) {
    let fixture = with_claude(1, Script::parliament(), &json!({"final_answer_strategy": strategy}));
    let result = fixture.result(&[options, &[TASK]].concat());
    let summary = &result["coordination_summary"];
    assert_eq!((&summary["winner"], &summary["strategy"]), (&json!("claude"), &json!(strategy)));
    (fixture, result)
}

const ANSWERS: [&str; 2] = ["Answer of model-a", "Answer 1 of claude"];

const DELIBERATION: [Expected<'static>; 2] = [
    Expected { tools: &["new_answer"], has: &[], lacks: &["answer of model-"] },
    Expected {
        tools: &["new_answer", "vote"],
        has: &["Answer of model-a", "Answer 1 of claude", "`vote`: rank all agents, the best answer first"],
        lacks: &[],
    },
];

// spec: modes/final-answer-strategy/winner-reuse-strategy
#[test]
fn the_answer_of_a_winning_cli_agent_is_reused_without_another_call() {
    let (fixture, result) = won_by_claude(&[], "winner_reuse");
    assert_eq!(result["final_answer"], "Answer 1 of claude");
    check_claude(&fixture, &DELIBERATION);
    assert_eq!(presentations(&fixture.althing.events()), [""; 0]);
    assert_eq!(fixture.server.request_count(), 2);
}

// spec: modes/context-path-write-access-in-quick-mode/multi-agent-with-refinement-off-and-no-write-context-paths
#[test]
fn a_quick_run_that_a_cli_agent_wins_makes_no_presentation_with_winner_reuse() {
    let (fixture, result) = won_by_claude(&["--quick"], "winner_reuse");
    assert_eq!(result["final_answer"], "Answer 1 of claude");
    let [first, second] = DELIBERATION;
    check_claude(&fixture, &[first, Expected { tools: &["vote"], has: &ANSWERS, ..second }]);
    assert_eq!(presentations(&fixture.althing.events()), [""; 0]);
    assert_eq!(fixture.server.request_count(), 2, "an answer and a vote of the model");
}

// spec: modes/final-answer-strategy/winner-present-strategy
#[test]
fn a_winning_cli_agent_writes_the_final_answer_in_a_presentation() {
    let (fixture, result) = won_by_claude(&[], "winner_present");
    assert_eq!(result["final_answer"], "Text of claude");
    let has = [&ANSWERS[..], &[PRESENT]].concat();
    let [first, second] = DELIBERATION;
    check_claude(&fixture, &[first, second, Expected { tools: &[], has: &has, lacks: &["combine"] }]);
    assert_eq!(presentations(&fixture.althing.events()), ["r1.a1"]);
}

// spec: modes/final-answer-strategy/synthesize-strategy
#[test]
fn a_cli_agent_that_synthesizes_is_told_to_combine_all_answers() {
    let (fixture, result) = won_by_claude(&[], "synthesize");
    assert_eq!(result["final_answer"], "Text of claude");
    let has = [&ANSWERS[..], &[COMBINE]].concat();
    let [first, second] = DELIBERATION;
    check_claude(
        &fixture,
        &[first, second, Expected { tools: &[], has: &has, lacks: &["keep what it was chosen for"] }],
    );
    assert_eq!(presentations(&fixture.althing.events()), ["r1.a1"]);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    FileTools,
    Commands,
    CliAgent,
}

const WRITERS: [Writer; 3] = [Writer::FileTools, Writer::Commands, Writer::CliAgent];

/// A model that creates a file and changes another as soon as it may write. It may write when the request offers no
/// coordination tools.
fn writing(writer: Writer, request: &RecordedRequest) -> Reply {
    let coordinates = request.tool_names().iter().any(|tool| ["new_answer", "vote"].contains(tool));
    let has_results = request.messages().iter().any(|message| message["role"] == "tool");
    if coordinates || has_results {
        return Parliament::default().reply(request);
    }
    let system = request.system_text();
    let shown = system.lines().find_map(|line| line.strip_prefix("- /")?.split(" (").next()).unwrap();
    let project = format!("/{shown}");
    let write = |name: &str| json!({"path": format!("{project}/{name}"), "content": "by an agent\n"});
    if writer == Writer::Commands {
        let command = format!("cd {project} && echo by an agent > new.txt && echo by an agent > old.txt");
        return Reply::call("run_command", &json!({ "command": command }));
    }
    Reply::call("write_file", &write("new.txt")).and_call("write_file", &write("old.txt"))
}

/// Two agents, and the id of the first one, which writes in this way. The models follow `script`. If the first agent is
/// Claude Code, it runs the commands that the test sets, and `script` is not used.
fn team_that_writes(writer: Writer, script: Script) -> (Fixture, &'static str) {
    if writer == Writer::CliAgent {
        return (with_claude(1, Script::parliament(), &json!({})), "claude");
    }
    let change = |team: Team| {
        let team = team.every_backend("cwd", "here");
        if writer == Writer::Commands { team.every_backend("enable_mcp_command_line", true) } else { team }
    };
    (Fixture::with(2, script, change), "a")
}

const CANARY: &str = "content-canary";

fn project_with_canary(fixture: &Fixture) -> PathBuf {
    for (name, text) in [("old.txt", "before"), ("mine.txt", "before"), ("same.txt", CANARY)] {
        fixture.althing.file(&format!("project/{name}"), text);
    }
    let project = fixture.althing.work_dir().join("project").canonicalize().unwrap();
    let command = format!("cd {} && echo x > new.txt && echo x > old.txt", project.display());
    set_claude_command(fixture, &command);
    project
}

/// Checks that the snapshot of a run's context paths names the untouched file and does not have its content. In the
/// state directory, only the copies for `althing undo` may have the content, and only if the agent can write without
/// file tools.
fn check_snapshot(fixture: &Fixture, writer: Writer, place: &str) -> Result<(), String> {
    let preimages = fixture.session().join("tasks/r1/preimages");
    let snapshot = std::fs::read_to_string(preimages.join("before")).unwrap();
    ensure(snapshot.contains("same.txt") && !snapshot.contains(CANARY), || format!("{place}: {snapshot}"))?;
    let has_content = |content: &[u8]| content.windows(CANARY.len()).any(|part| part == CANARY.as_bytes());
    for (path, content) in files_below(&fixture.althing.state_dir()) {
        let is_copy_for_undo = writer != Writer::FileTools && path.starts_with(preimages.join("tree"));
        ensure(is_copy_for_undo || !has_content(&content), || {
            format!("{place}: {} has the content", path.display())
        })?;
    }
    Ok(())
}

fn reported_changes(result: &Value) -> Vec<(&str, &str)> {
    let writes = result["context_path_writes"].as_array().unwrap().iter();
    let named = writes.map(|write| (write["path"].as_str().unwrap(), write["change"].as_str().unwrap()));
    let mut changes: Vec<(&str, &str)> =
        named.map(|(path, change)| (path.rsplit('/').next().unwrap(), change)).collect();
    changes.sort_unstable();
    changes
}

// spec: modes/context-path-write-tracking/snapshot-context-paths-before-writes-are-enabled
#[test]
fn the_snapshot_is_taken_when_an_agent_of_any_kind_may_write_and_has_no_content() {
    let modes = [&["--quick"][..], &[], &["--single-agent"]];
    in_parallel(
        2,
        WRITERS.into_iter().flat_map(|writer| modes.map(|modes| (writer, modes))),
        |(writer, modes)| {
            let gate = Gate::before_headers();
            let held = gate.clone();
            let script = Script::from_fn(move |request: &RecordedRequest| {
                let reply = Action::from(writing(writer, request));
                let votes = request.tool_names().contains(&"vote");
                if votes { Action::gated(reply, &held) } else { reply }
            });
            let (fixture, agent) = team_that_writes(writer, script);
            let project = project_with_canary(&fixture);
            if writer == Writer::CliAgent {
                set_claude(&fixture, "hold-vote", "");
            }
            let path = format!("{}:rw", project.display());
            let mut args = vec!["--json", "--context-path", &path];
            args.extend(modes);
            args.extend(modes.contains(&"--single-agent").then_some(agent));
            args.push(TASK);
            let running = fixture.spawn(&args);
            match writer {
                Writer::CliAgent => {
                    wait::until(LIMIT, || claude_calls(&fixture).iter().any(|call| call["does"] == "vote"));
                }
                Writer::FileTools | Writer::Commands => gate.wait_waiting_blocking(1, LIMIT),
            }
            // The first answers are in, and no agent can write yet.
            std::fs::write(project.join("mine.txt"), "changed by a person\n").unwrap();
            std::fs::write(project.join("added.txt"), "added by a person\n").unwrap();
            gate.release_all();
            if writer == Writer::CliAgent {
                std::fs::remove_file(claude_file(&fixture, "hold-vote")).unwrap();
            }
            let output = running.wait(LIMIT).expect_code(0);
            let result: Value = serde_json::from_str(&output.stdout).unwrap();
            let place = format!("{writer:?}, {modes:?}");
            let presented = presentations(&fixture.althing.events());
            ensure(presented.len() == 1, || format!("{place}: {presented:?}"))?;
            let changes = reported_changes(&result);
            let expected = [("new.txt", "new"), ("old.txt", "modified")];
            ensure(changes == expected, || format!("{place}: {changes:?}"))?;
            check_snapshot(&fixture, writer, &place)
        },
    );
}

// spec: modes/context-path-write-tracking/snapshot-context-paths-before-writes-are-enabled
#[test]
fn the_snapshot_of_a_quick_single_agent_of_any_kind_is_taken_before_its_first_call_and_has_no_content() {
    in_parallel(2, WRITERS, |writer| {
        let gate = Gate::before_headers();
        let held = gate.clone();
        let script = Script::from_fn(move |request: &RecordedRequest| {
            Action::gated(Action::from(writing(writer, request)), &held)
        });
        let (fixture, agent) = team_that_writes(writer, script);
        let project = project_with_canary(&fixture);
        if writer == Writer::CliAgent {
            set_claude(&fixture, "hold-present", "");
        }
        let path = format!("{}:rw", project.display());
        let args = ["--json", "--quick", "--single-agent", agent, "--context-path", &path, TASK];
        let running = fixture.spawn(&args);
        match writer {
            Writer::CliAgent => wait::until(LIMIT, || !claude_calls(&fixture).is_empty()),
            Writer::FileTools | Writer::Commands => gate.wait_waiting_blocking(1, LIMIT),
        }
        // The path is writable from the start, so any change from now on is reported as the run's.
        std::fs::write(project.join("mine.txt"), "changed meanwhile\n").unwrap();
        gate.release_all();
        if writer == Writer::CliAgent {
            std::fs::remove_file(claude_file(&fixture, "hold-present")).unwrap();
        }
        let output = running.wait(LIMIT).expect_code(0);
        let result: Value = serde_json::from_str(&output.stdout).unwrap();
        let expected = [("mine.txt", "modified"), ("new.txt", "new"), ("old.txt", "modified")];
        let changes = reported_changes(&result);
        ensure(changes == expected, || format!("{writer:?}: {changes:?}"))?;
        check_snapshot(&fixture, writer, &format!("{writer:?}"))
    });
}

// spec: modes/context-path-write-tracking/detect-written-files-after-execution-completes
#[test]
fn files_that_an_agent_of_any_kind_created_or_changed_are_in_the_result() {
    let cases: [(&str, &[&str]); 3] = [
        ("coordination", &["--quick", "--single-agent"]),
        ("presentation", &["--quick"]),
        ("presentation", &[]),
    ];
    for writer in WRITERS {
        for (when, modes) in cases {
            let script = Script::from_fn(move |request: &RecordedRequest| writing(writer, request));
            let (fixture, agent) = team_that_writes(writer, script);
            for name in ["old.txt", "same.txt"] {
                fixture.althing.file(&format!("project/{name}"), "before\n");
            }
            let project = fixture.althing.work_dir().join("project").canonicalize().unwrap();
            let command = format!("cd {} && echo x > new.txt && echo x > old.txt", project.display());
            set_claude_command(&fixture, &command);
            let path = format!("{}:rw", project.display());
            let mut args = modes.to_vec();
            args.extend(modes.contains(&"--single-agent").then_some(agent));
            args.extend(["--context-path", path.as_str(), TASK]);
            let result = fixture.result(&args);
            let place = format!("{writer:?}, {when}, {modes:?}");
            let events = fixture.althing.events();
            assert_eq!(presentations(&events).is_empty(), when == "coordination", "{place}");
            let expected = json!([
                {"path": project.join("new.txt"), "change": "new"},
                {"path": project.join("old.txt"), "change": "modified"},
            ]);
            assert_eq!(result["context_path_writes"], expected, "{place}");
            assert_eq!(std::fs::read_to_string(project.join("same.txt")).unwrap(), "before\n");
            if let Some(last) = claude_calls(&fixture).last() {
                let shown = format!("- {} (you may write here", project.display());
                assert!(prompt(last).contains(&shown), "{place}: {}", prompt(last));
            }
        }
    }
}

fn set_claude_command(fixture: &Fixture, command: &str) {
    if claude_file(fixture, "").is_dir() {
        set_claude(fixture, "command-present", command);
    }
}

#[track_caller]
fn click(terminal: &mut Terminal, text: &str) {
    let (column, row) = terminal.find(text).unwrap_or_else(|| panic!("no `{text}`:\n{}", terminal.screen()));
    terminal.click(column, row);
}

// spec: modes/agent-mode-toggle/context-preservation-across-agent-switches
#[test]
fn an_agent_of_any_kind_that_takes_over_knows_the_questions_and_answers_before_it() {
    let fixture = with_claude(2, Script::parliament(), &json!({}));
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(110, 40);
    terminal.wait_for("Plan · Multi · Refine", LIMIT);
    click(&mut terminal, "Multi");
    terminal.wait_for("1 claude works", LIMIT);
    click(&mut terminal, "Refine");
    terminal.wait_for("Plan · Single · Refine off", LIMIT);
    let turns = [
        ("2 a", "What is a fjord?", "Final answer of model-a"),
        ("1 claude", "And a glacier?", "Text of claude"),
        ("3 b", "Which is colder?", "Final answer of model-b"),
    ];
    for (tab, question, answer) in turns {
        click(&mut terminal, tab);
        terminal.wait_for(&format!("{tab} works"), LIMIT);
        terminal.keys(question).keys("\r");
        terminal.wait_for(answer, LIMIT);
        terminal.wait_for("Status: Idle", LIMIT);
    }
    let calls = claude_calls(&fixture);
    assert_eq!(calls.len(), 1);
    let request = fixture.server.requests_of("model-b").remove(0);
    for (text, known) in [(prompt(&calls[0]).to_owned(), 1), (texts(&request), 2)] {
        for (_, question, answer) in &turns[..known] {
            assert!(text.contains(question) && text.contains(answer), "{question} {answer}: {text}");
        }
        assert!(text.contains(turns[known].1), "{text}");
    }
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
}

// spec: modes/human-override/override-selection
#[test]
fn an_agent_of_any_kind_chosen_over_the_winner_does_the_final_presentation() {
    for (winner, chosen, attempt, answer) in [
        (["agent2", "a"], "claude", "r1.a1", "Text of claude"),
        (["agent1", "claude"], "a", "r1.a2", "Final answer of model-a"),
    ] {
        let [vote, winner] = winner;
        let script = Script::from_fn(move |request: &RecordedRequest| {
            let votes = request.tool_names().contains(&"vote");
            if votes { Reply::vote(vote, "clear") } else { Parliament::default().reply(request) }
        });
        let fixture = with_claude(1, script, &json!({}));
        set_claude(&fixture, "vote", vote);
        let mut terminal =
            fixture.althing.new_command().args(["--config", "team.yaml", TASK]).terminal(110, 40);
        terminal.wait_for("Press Ctrl+O to override, Enter to continue", LIMIT);
        assert_eq!(presentations(&fixture.althing.events()), [""; 0], "nobody presents before the choice");
        terminal.keys("\x0f");
        terminal.wait_for("Choose who presents", LIMIT);
        terminal.keys("\x1b[B").keys("\r");
        terminal.wait_for(answer, LIMIT);
        terminal.wait_for("Complete ✓", LIMIT);
        let events = fixture.althing.events();
        assert_eq!(presentations(&events), [attempt], "only the chosen agent presents");
        let finished = events.iter().find(|event| event["data"]["verdict"] == "finished").unwrap();
        let (result, expected) = (&finished["data"]["result"], [winner, chosen]);
        let summary = &result["coordination_summary"];
        assert_eq!([&summary["winner"], &summary["presenter"]], expected, "{summary}");
        assert_eq!((&summary["overridden"], &result["final_answer"]), (&json!(true), &json!(answer)));
        terminal.keys("\x04");
        assert_eq!(terminal.wait(LIMIT), 0);
    }
}

fn executes_plan(prompt: &str) -> bool {
    prompt.contains("<PLAN ")
}

/// A model that plans two parts, wins the vote, and does as the plan says.
fn planner(request: &RecordedRequest) -> Reply {
    let tasks = json!([{"id": "t1", "description": "Part 1"}, {"id": "t2", "description": "Part 2"}]);
    let text = if executes_plan(&texts(request)) {
        "All is done.".to_owned()
    } else {
        json!({ "tasks": tasks }).to_string()
    };
    let tools = request.tool_names();
    if tools.contains(&"vote") {
        Reply::vote("agent2", "clear")
    } else if tools.contains(&"new_answer") {
        Reply::new_answer(&text)
    } else {
        Reply::text(text)
    }
}

// spec: modes/plan-mode/plan-approval-with-additions
#[test]
fn agents_of_every_kind_that_execute_an_approved_plan_get_its_tasks_and_the_users_additions() {
    let fixture = with_claude(1, Script::from_fn(planner), &json!({}));
    set_claude(&fixture, "vote", "agent2");
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(120, 45);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("\x1b[Z");
    terminal.wait_for("Describe what to plan...", LIMIT);
    terminal.keys("Write a book\r");
    terminal.wait_for("Press Ctrl+O to override, Enter to continue", LIMIT);
    terminal.keys("\r");
    let screen = terminal.wait_for("Add instructions", LIMIT);
    assert!(screen.contains("Part 1") && screen.contains("Part 2"), "{screen}");
    terminal.keys("\t").keys("also write an index").keys("\r");
    // Each agent is called for its answer and for its vote.
    wait::until(LIMIT, || {
        let calls = claude_calls(&fixture);
        let requests = fixture.server.requests();
        calls.iter().filter(|call| executes_plan(prompt(call))).count() >= 2
            && requests.iter().filter(|request| executes_plan(&texts(request))).count() >= 2
    });
    let calls = claude_calls(&fixture);
    let prompts = calls.iter().map(|call| prompt(call).to_owned());
    let requests = fixture.server.requests();
    let (executions, plans): (Vec<String>, Vec<String>) =
        prompts.chain(requests.iter().map(texts)).partition(|text| executes_plan(text));
    for text in &executions {
        for part in ["The user adds: also write an index", "- t1 (pending): Part 1", "- t2 (pending): Part 2"]
        {
            assert!(text.contains(part), "`{part}` is missing: {text}");
        }
    }
    assert!(plans.iter().all(|text| !text.contains("also write an index")), "{plans:#?}");
    terminal.keys("\x03\x03\x03");
    terminal.wait(LIMIT);
}
