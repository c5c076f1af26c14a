//! What flows between a conversation and its runs: task and context go into the first user message of every agent, and
//! the result comes back. Checks the requests that the model server received.

use althing_testkit::{Action, FakeModel, Parliament, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::mcp::Client;
use super::support::{Fixture, LIMIT, Team, items, task_of, texts};

const CHAT_MODEL: &str = "talker";
const TASK: &str = "Refactor the parser";
const CONTEXT: &str = "Keep the public API; the lexer was rewritten in May";

fn launcher(launch: Value) -> Action {
    Action::with(move |request: &RecordedRequest| {
        let is_told = request.messages().iter().any(|message| message["role"] == "tool");
        if is_told { Reply::text("It is done.") } else { Reply::call("launch_run", &launch) }
    })
}

fn fixture(launch: &Value, script: Script) -> Fixture {
    let fixture = Fixture::new(2, script.on(CHAT_MODEL).always(launcher(launch.clone())));
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
    let interactive = json!({"backend": backend, "require_approval": false});
    let team = Team::on(&base, 2).every_backend("cwd", "work").rule("interactive_mode", interactive);
    fixture.althing.file("team.yaml", team.text());
    fixture
}

fn chat(fixture: &Fixture) {
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
    let output =
        command.stdin("Please clean the parser up, it is a mess\n").spawn().wait(LIMIT).expect_code(0);
    assert_eq!(output.stdout, "It is done.\n");
}

fn result_told(server: &FakeModel) -> Value {
    let requests = server.requests();
    let last = requests.iter().rfind(|request| request.model() == CHAT_MODEL).unwrap();
    let told = last.messages().iter().find(|message| message["role"] == "tool").unwrap();
    serde_json::from_str(told["content"].as_str().unwrap()).unwrap()
}

/// Checks every request of the agents: the first message is a user message and begins with the context, if there is
/// one, and the task; the system prompt contains neither; the request contains nothing else of the conversation;
/// `launch_run` is not offered.
#[track_caller]
fn check_first_messages(server: &FakeModel, context: Option<&str>) {
    let requests = server.requests();
    let of_agents: Vec<_> = requests.iter().filter(|request| request.model() != CHAT_MODEL).collect();
    for model in ["model-a", "model-b"] {
        assert!(of_agents.iter().any(|request| request.model() == model), "{model} was asked");
    }
    for request in of_agents {
        let messages = request.messages();
        let first = messages.iter().find(|message| message["role"] != "system").unwrap();
        assert_eq!(first["role"], "user", "{messages:?}");
        let text = first["content"].as_str().unwrap();
        assert_eq!(task_of(text), Some(TASK), "{text}");
        let begin = context.map(|context| format!(">\n{context}\n<END OF CONTEXT "));
        assert!(begin.is_none_or(|begin| text.starts_with("<CONTEXT ") && text.contains(&begin)), "{text}");
        let system = request.system_text();
        assert!(!system.contains(TASK) && !system.contains(CONTEXT), "{system}");
        assert_eq!(context.is_some(), text.contains("<CONTEXT "), "{text}");
        assert!(!texts(request).contains("it is a mess"), "the conversation itself stays where it is");
        assert!(!request.tool_names().contains(&"launch_run"), "a run cannot call back");
    }
}

// spec: interactive/context-flow-between-interactive-and-runs/context-injection
// spec: interactive/launch-run-tool/run-execution-via-tool
// spec: design/context-flow/one-way
#[test]
fn task_and_context_of_launch_run_are_the_first_user_message_of_every_agent() {
    let with_context = json!({"task": TASK, "context": CONTEXT});
    for (launch, context) in [(with_context, Some(CONTEXT)), (json!({"task": TASK}), None)] {
        let by_chat_agent = fixture(&launch, Script::parliament());
        chat(&by_chat_agent);
        check_first_messages(&by_chat_agent.server, context);

        let by_client = fixture(&launch, Script::parliament());
        let mut client = Client::start(&by_client.althing, &["--config", "team.yaml"]);
        let launched = client.tool("launch_run", &launch);
        assert_eq!(launched["structuredContent"]["status"], "completed", "{launched}");
        client.running.close_stdin();
        client.running.wait(LIMIT).expect_code(0);
        check_first_messages(&by_client.server, context);
    }
}

/// The first agent improves its answer once it has seen the other's; the other prefers its own answer until then.
fn refine(request: &RecordedRequest) -> Reply {
    let tools = request.tool_names();
    let model = request.model();
    if tools.contains(&"vote") {
        let is_improved = texts(request).contains("First draft of model-a, with what model-b adds");
        return if model == "model-a" && !is_improved && tools.contains(&"new_answer") {
            Reply::new_answer("First draft of model-a, with what model-b adds")
        } else if model == "model-b" && !is_improved {
            Reply::vote("agent2", "it is shorter")
        } else {
            Reply::vote("agent1", "it has both")
        };
    }
    if tools.contains(&"new_answer") {
        return Reply::new_answer(&format!("First draft of {model}"));
    }
    Reply::text("The final text")
}

// spec: interactive/launch-run-tool/multi-agent-run-with-refinement
// spec: interactive/context-flow-between-interactive-and-runs/results-consumption
// spec: interactive/launch-run-tool/results-returned-to-agent
#[test]
fn agents_refine_their_answers_after_seeing_the_others_vote_and_the_chat_agent_gets_the_result() {
    let launch = json!({"task": TASK, "agent_mode": "multi", "refinement": true});
    let fixture = fixture(&launch, Script::from_fn(refine));
    chat(&fixture);
    let requests = fixture.server.requests();
    let of_a: Vec<_> = requests.iter().filter(|request| request.model() == "model-a").collect();
    assert!(!texts(of_a[0]).contains("model-b"), "the first answer is independent");
    let judging = of_a.iter().find(|request| request.tool_names().contains(&"vote")).unwrap();
    assert!(texts(judging).contains("First draft of model-b"), "it is shown the other's answer");
    let events = fixture.althing.events();
    let answers = items(&events, "answer");
    let labels: Vec<&str> = answers.iter().map(|answer| answer["label"].as_str().unwrap()).collect();
    assert_eq!(labels.len(), 3, "{labels:?}");
    assert_eq!(
        *labels.last().unwrap(),
        "agent1.2",
        "a second answer, after the others' first ones: {labels:?}"
    );
    let improved = "First draft of model-a, with what model-b adds";
    assert_eq!(answers[2]["content"], improved);
    let voter = |request: &&RecordedRequest| {
        request.model() == "model-b"
            && texts(request).contains(improved)
            && request.tool_names().contains(&"vote")
    };
    assert!(requests.iter().any(|request| voter(&request)), "the other agent judges the improved answer");
    assert!(texts(requests.iter().rfind(|request| request.model() == "model-a").unwrap()).contains(improved));

    let result = result_told(&fixture.server);
    assert_eq!((&result["status"], &result["final_answer"]), (&json!("completed"), &json!("The final text")));
    let workspace = std::path::Path::new(result["workspace_path"].as_str().unwrap());
    assert!(workspace.is_dir(), "{result}");
    let summary = &result["coordination_summary"];
    assert_eq!((&summary["winner"], &summary["presenter"]), (&json!("a"), &json!("a")), "{summary}");
    assert_eq!(summary["votes"], json!({"a": 2}), "{summary}");
    assert!(summary["rounds"].as_u64().unwrap() >= 2, "{summary}");
    assert_eq!(summary["ballots"].as_array().unwrap().len(), 2, "{summary}");
    let kept =
        std::fs::read_to_string(format!("{}/result.json", result["log_dir"].as_str().unwrap())).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    for field in ["run_id", "final_answer", "workspace_path", "coordination_summary"] {
        assert_eq!(kept[field], result[field], "{field}");
    }
}

#[test]
fn the_default_behavior_of_the_fake_agents_is_one_answer_each() {
    let fixture =
        fixture(&json!({"task": TASK}), Script::from_fn(|request| Parliament::default().reply(request)));
    chat(&fixture);
    assert_eq!(items(&fixture.althing.events(), "answer").len(), 2);
}
