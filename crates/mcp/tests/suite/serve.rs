//! The MCP server over pipes: its six tools, waiting, approvals and tasks.

use super::pipe::{Pipe, brief, patient};
use super::scripted::GUIDANCE;
use super::support::until;
use althing_mcp::{RunService, ServeOptions};
use althing_protocol::{LaunchRun, RunStatus};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn approving() -> ServeOptions {
    ServeOptions { require_approval: true, ..patient() }
}

// spec: design/launch-run/mcp-server
#[tokio::test]
async fn any_client_finds_the_six_tools_and_the_guidance_as_instructions_and_as_a_prompt() {
    let (mut pipe, _, info) = Pipe::earlier(patient(), json!({})).await;
    assert_eq!(info["instructions"], GUIDANCE);
    assert_eq!(info["serverInfo"]["name"], "althing");
    let listed = pipe.request("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    let wanted = ["launch_run", "run_status", "run_result", "list_runs", "cancel_run", "answer_interaction"];
    assert_eq!(names, wanted);
    assert!(tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"), "{listed}");
    let prompts = pipe.request("prompts/list", json!({})).await;
    let name = prompts["result"]["prompts"][0]["name"].clone();
    let prompt = pipe.request("prompts/get", json!({"name": name, "arguments": {"task": "Do it"}})).await;
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], format!("{GUIDANCE}\n\nDo it"));
    let none = pipe.request("prompts/get", json!({"name": "other"})).await;
    assert!(none["error"]["message"].as_str().unwrap().contains("other"), "{none}");
}

// spec: design/launch-run/mcp-server
#[tokio::test]
async fn a_short_run_gives_its_result_from_launch_run_itself_in_either_era() {
    let (earlier, runs, _) = Pipe::earlier(patient(), json!({})).await;
    let (newest, runs_of_newest) = Pipe::newest(patient(), json!({})).await;
    for (mut pipe, runs) in [(earlier, runs), (newest, runs_of_newest)] {
        let arguments = json!({"task": "say forty-two", "agent_mode": "single", "agents": ["gem"],
            "context_paths": [{"path": "/src", "permission": "write"}], "agent_system_prompts": {"gem": "be brief"}});
        let result = pipe.structured("launch_run", arguments.clone()).await;
        assert_eq!(result["final_answer"], "forty-two");
        assert_eq!(result["status"], "completed");
        let wanted: LaunchRun = serde_json::from_value(arguments).unwrap();
        assert_eq!(runs.launched(), [wanted]);
        let again = pipe.structured("run_result", json!({"run_id": result["run_id"]})).await;
        assert_eq!(again, result);
    }
}

// spec: design/launch-run/shared-run-machinery
#[tokio::test]
async fn a_long_run_is_handed_back_as_running_and_its_result_is_fetched_later() {
    let (mut pipe, runs, _) = Pipe::earlier(brief(), json!({})).await;
    let received = pipe.structured("launch_run", json!({"task": "offer"})).await;
    assert_eq!(received, json!({"run_id": "s1.r1", "status": "running"}));
    let status = pipe.structured("run_status", json!({"run_id": "s1.r1"})).await;
    assert_eq!((&status["status"], &status["task"]), (&json!("running"), &json!("offer")));
    for wait in [json!(0), json!(null)] {
        let now = pipe.structured("run_result", json!({"run_id": "s1.r1", "wait_seconds": wait})).await;
        assert_eq!(now, received);
    }
    let go_on = json!({"run_id": "s1.r1", "interaction_id": "i1", "decision": "continue"});
    pipe.structured("answer_interaction", go_on).await;
    let result = pipe.structured("run_result", json!({"run_id": "s1.r1"})).await;
    assert_eq!(result["final_answer"], "{\"decision\":\"continue\"}");
    assert_eq!(runs.launched().len(), 1);
    let listed = pipe.structured("list_runs", json!({})).await;
    assert_eq!(listed["runs"][0]["status"], "completed");
}

#[tokio::test]
async fn progress_is_reported_during_a_run() {
    let (mut pipe, _, _) = Pipe::earlier(patient(), json!({})).await;
    let call =
        json!({"name": "launch_run", "arguments": {"task": "take 80 done"}, "_meta": {"progressToken": 7}});
    let answer = pipe.request("tools/call", call).await;
    assert_eq!(answer["result"]["structuredContent"]["final_answer"], "done");
    let received: Vec<&Value> =
        pipe.other_messages.iter().filter(|message| message["method"] == "notifications/progress").collect();
    let messages: Vec<_> =
        received.iter().map(|message| message["params"]["message"].as_str().unwrap()).collect();
    assert_eq!(messages, ["step 1 of 4", "step 2 of 4", "step 3 of 4", "step 4 of 4"]);
    let steps: Vec<_> =
        received.iter().map(|message| message["params"]["progress"].as_f64().unwrap()).collect();
    assert!(steps.is_sorted_by(|one, next| one < next), "{steps:?}");
    assert!(received.iter().all(|message| message["params"]["progressToken"] == 7));
}

#[tokio::test]
async fn a_silent_run_still_shows_that_the_call_is_alive() {
    let options = ServeOptions { keepalive: Duration::from_millis(20), ..patient() };
    let (mut pipe, _, _) = Pipe::earlier(options, json!({})).await;
    let call = json!({"name": "launch_run", "arguments": {"task": "hold"}, "_meta": {"progressToken": "t"}});
    pipe.ask("tools/call", call).await;
    for _ in 0..3 {
        let received = pipe.receive().await;
        assert_eq!(received["method"], "notifications/progress", "{received}");
        assert_eq!(received["params"]["message"], "the run is in progress");
    }
}

#[tokio::test]
async fn a_run_is_cancelled_by_its_tool_and_by_cancelling_the_call() {
    let (mut pipe, runs, _) = Pipe::earlier(brief(), json!({})).await;
    pipe.structured("launch_run", json!({"task": "hold"})).await;
    let result = pipe.structured("cancel_run", json!({"run_id": "s1.r1"})).await;
    assert_eq!((&result["status"], &result["final_answer"]), (&json!("cancelled"), &json!("what there was")));
    let (mut pipe, second, _) = Pipe::earlier(patient(), json!({})).await;
    let id = pipe.ask("tools/call", json!({"name": "launch_run", "arguments": {"task": "hold"}})).await;
    until("the run", || second.launched().len() == 1).await;
    pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}))
        .await;
    let begin = Instant::now();
    while second.result("s1.r1").await.is_none_or(|result| result.status() != RunStatus::Cancelled) {
        assert!(begin.elapsed() < super::support::DEADLINE);
        tokio::task::yield_now().await;
    }
    assert_eq!(runs.launched().len(), 1);
}

#[tokio::test]
async fn a_question_comes_back_at_once_and_its_answer_reaches_the_run() {
    let (mut pipe, _, _) = Pipe::earlier(patient(), json!({})).await;
    let asks = pipe.structured("launch_run", json!({"task": "ask"})).await;
    assert_eq!(asks["interactions"][0]["id"], "i1", "{asks}");
    let status = pipe.structured("run_status", json!({"run_id": "s1.r1"})).await;
    assert_eq!(status["interactions"], asks["interactions"]);
    let answer = |id: &str, decision: &str| json!({"run_id": "s1.r1", "interaction_id": id, "decision": decision, "reason": "not today"});
    let wrong = pipe.failure("answer_interaction", answer("i2", "reject")).await;
    assert!(wrong.contains("interaction_id"), "{wrong}");
    let unknown = pipe.failure("answer_interaction", answer("i1", "rejekt")).await;
    assert!(unknown.contains("did you mean `reject`?"), "{unknown}");
    pipe.structured("answer_interaction", answer("i1", "reject")).await;
    let result = pipe.structured("run_result", json!({"run_id": "s1.r1"})).await;
    assert_eq!(result["final_answer"], "{\"decision\":\"reject\",\"reason\":\"not today\"}");
}

#[tokio::test]
async fn bad_arguments_are_errors_that_name_the_parameter_and_start_nothing() {
    let (mut pipe, runs, _) = Pipe::earlier(patient(), json!({})).await;
    let cases = [
        ("launch_run", json!({}), "parameter `task` is missing"),
        ("launch_run", json!({"task": "t", "agent_modus": "x"}), "`agent_modus`: did you mean `agent_mode`?"),
        (
            "launch_run",
            json!({"task": "t", "agent_mode": "singel"}),
            "`agent_mode` cannot be `singel`: did you mean `single`?",
        ),
        ("launch_run", json!({"task": ["t"]}), "parameter `task` must be a string"),
        (
            "launch_run",
            json!({"task": "t", "context_paths": [{"path": "/", "permission": "rw"}]}),
            "`context_paths[0].permission` cannot be `rw`",
        ),
        (
            "launch_run",
            json!({"task": "refuse parameter `agents`: there is no agent `x`"}),
            "parameter `agents`",
        ),
        ("run_status", json!({"run_id": 5}), "parameter `run_id` must be a string"),
        ("run_status", json!({"run": "x"}), "`run`"),
        ("run_result", json!({"run_id": "s9.r9"}), "there is no run `s9.r9`"),
        ("run_result", json!({"run_id": "s1.r1", "wait_seconds": -1}), "`wait_seconds`"),
        ("cancel_run", json!({"run_id": "s9.r9"}), "there is no run `s9.r9`"),
        ("lunch_run", json!({"task": "t"}), "there is no tool `lunch_run`: did you mean `launch_run`?"),
    ];
    for (tool, arguments, wanted) in cases {
        let said = pipe.failure(tool, arguments).await;
        assert!(said.contains(wanted), "{tool}: {said}");
    }
    assert_eq!(runs.launched(), []);
}

#[tokio::test]
async fn a_failed_run_is_an_error_with_its_result() {
    let (mut pipe, _, _) = Pipe::earlier(patient(), json!({})).await;
    let result = pipe.call("launch_run", json!({"task": "fail"})).await;
    assert_eq!(
        (&result["isError"], &result["structuredContent"]["status"]),
        (&json!(true), &json!("failed"))
    );
}

#[tokio::test]
async fn where_approval_is_required_a_client_that_cannot_ask_is_denied_with_the_reason() {
    let (earlier, runs, _) = Pipe::earlier(approving(), json!({})).await;
    let (newest, more_runs) = Pipe::newest(approving(), json!({})).await;
    for (mut pipe, runs) in [(earlier, runs), (newest, more_runs)] {
        let said = pipe.failure("launch_run", json!({"task": "say hi"})).await;
        assert!(said.contains("requires approval") && said.contains("require_approval"), "{said}");
        assert_eq!(runs.launched(), []);
    }
}

#[tokio::test]
async fn where_approval_is_required_the_client_asks_its_user_and_only_yes_starts_the_run() {
    for (action, starts) in [("accept", true), ("decline", false), ("cancel", false)] {
        let (mut pipe, runs, _) = Pipe::earlier(approving(), json!({"elicitation": {"form": {}}})).await;
        let id = pipe.ask("tools/call", json!({"name": "launch_run", "arguments": {"task": "say hi"}})).await;
        let question = pipe.receive().await;
        assert_eq!(question["method"], "elicitation/create");
        assert!(question["params"]["message"].as_str().unwrap().contains("say hi"), "{question}");
        assert_eq!(runs.launched(), []);
        let answer =
            json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": action, "content": {}}});
        pipe.send(&answer).await;
        let result = pipe.answer(id).await["result"].clone();
        assert_eq!(result["isError"] != true, starts, "{action}: {result}");
        assert_eq!(runs.launched().len(), usize::from(starts), "{action}");
    }
}

#[tokio::test]
async fn nobody_is_asked_about_a_run_that_cannot_start() {
    let can_ask = json!({"elicitation": {"form": {}}});
    let (earlier, runs, _) = Pipe::earlier(approving(), can_ask.clone()).await;
    let (newest, more_runs) = Pipe::newest(approving(), can_ask).await;
    for (mut pipe, runs) in [(earlier, runs), (newest, more_runs)] {
        let said = pipe.failure("launch_run", json!({"task": "refuse there is no agent x"})).await;
        assert_eq!(said, "there is no agent x");
        assert_eq!(runs.launched(), []);
    }
}

#[tokio::test]
async fn in_the_newest_revision_the_client_asks_and_calls_again_and_an_approval_is_good_once() {
    let (mut pipe, runs) = Pipe::newest(approving(), json!({"elicitation": {"form": {}}})).await;
    let ask = json!({"name": "launch_run", "arguments": {"task": "say hi"}});
    let asked = pipe.request("tools/call", ask.clone()).await["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert_eq!(asked["inputRequests"]["approve"]["method"], "elicitation/create", "{asked}");
    let mut again = ask.clone();
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({"approve": {"action": "accept", "content": {}}});
    let mut other = again.clone();
    other["arguments"]["task"] = json!("say something else");
    let denied = pipe.request("tools/call", other).await;
    assert_eq!(denied["result"]["isError"], true, "{denied}");
    assert_eq!(runs.launched(), []);
    let asked = pipe.request("tools/call", ask).await["result"].clone();
    again["requestState"] = asked["requestState"].clone();
    let done = pipe.request("tools/call", again.clone()).await;
    assert_eq!(done["result"]["structuredContent"]["final_answer"], "hi", "{done}");
    let replayed = pipe.request("tools/call", again).await;
    assert_eq!(replayed["result"]["isError"], true, "{replayed}");
    assert_eq!(runs.launched().len(), 1);
}

#[tokio::test]
async fn a_client_that_knows_tasks_gets_the_result_of_a_run_that_ends_in_time() {
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let (mut pipe, _) = Pipe::newest(patient(), capabilities).await;
    let launch = json!({"name": "launch_run", "arguments": {"task": "take 80 done"}});
    let result = pipe.request("tools/call", launch).await["result"].clone();
    assert_eq!(result["structuredContent"]["final_answer"], "done", "{result}");
}

#[tokio::test]
async fn a_client_that_knows_tasks_gets_a_task_to_poll_and_to_cancel() {
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let (mut pipe, _) = Pipe::newest(brief(), capabilities).await;
    let launch = |task: &str| json!({"name": "launch_run", "arguments": {"task": task}});
    let task = pipe.request("tools/call", launch("take 2000 done")).await["result"].clone();
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task}");
    assert_eq!(task["_meta"]["althing/runId"], "s1.r1");
    let done = ended(&mut pipe, &task).await;
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["result"]["structuredContent"]["final_answer"], "done", "{done}");
    let task = pipe.request("tools/call", launch("hold")).await["result"].clone();
    pipe.request("tasks/cancel", json!({"taskId": task["taskId"]})).await;
    assert_eq!(ended(&mut pipe, &task).await["status"], "cancelled");
    let status = pipe.structured("run_status", json!({"run_id": "s1.r2"})).await;
    assert_eq!(status["status"], "cancelled");
}

async fn ended(pipe: &mut Pipe, task: &Value) -> Value {
    let begin = Instant::now();
    loop {
        let now = pipe.request("tasks/get", json!({"taskId": task["taskId"]})).await["result"].clone();
        if now["status"] != "working" {
            return now;
        }
        assert!(begin.elapsed() < super::support::DEADLINE, "{now}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn results_logs_and_workspaces_are_resources() {
    let (mut pipe, _, _) = Pipe::earlier(brief(), json!({})).await;
    pipe.structured("launch_run", json!({"task": "say hi"})).await;
    pipe.structured("launch_run", json!({"task": "hold"})).await;
    let listed = pipe.request("resources/list", json!({})).await;
    let all = listed["result"]["resources"].as_array().unwrap();
    let uris: Vec<&str> = all.iter().filter_map(|resource| resource["uri"].as_str()).collect();
    let wanted = [
        "althing://runs",
        "althing://runs/s1.r1/result",
        "althing://runs/s1.r1/log",
        "althing://runs/s1.r1/workspace",
        "althing://runs/s1.r2/log",
    ];
    assert!(wanted.iter().all(|uri| uris.contains(uri)), "{uris:?}");
    for missing in ["result", "workspace"] {
        assert!(!uris.contains(&format!("althing://runs/s1.r2/{missing}").as_str()), "it has not ended");
    }
    let templates = pipe.request("resources/templates/list", json!({})).await;
    assert_eq!(templates["result"]["resourceTemplates"].as_array().unwrap().len(), 3);
    let mut read = async |uri: &str| pipe.request("resources/read", json!({"uri": uri})).await;
    let result = read("althing://runs/s1.r1/result").await;
    assert!(
        result["result"]["contents"][0]["text"].as_str().unwrap().contains("\"final_answer\":\"hi\""),
        "{result}"
    );
    let log = read("althing://runs/s1.r1/log/events.jsonl").await;
    assert_eq!(log["result"]["contents"][0]["text"], "{\"seq\":1}\n");
    let place = read("althing://runs/s1.r1/log").await;
    assert!(place["result"]["contents"][0]["text"].as_str().unwrap().contains("events.jsonl"), "{place}");
    let file = read("althing://runs/s1.r1/workspace/notes/a.md").await;
    assert_eq!(file["result"]["contents"][0]["text"], "# Notes\n");
    for (uri, wanted) in [
        ("althing://runs/s1.r2/result", "has not ended"),
        ("althing://runs/s1.r9/result", "there is no run"),
        (
            "althing://runs/s1.r1/workspace/none",
            "there is no resource `althing://runs/s1.r1/workspace/none`: ",
        ),
        ("file:///etc/passwd", "there is no resource"),
    ] {
        let error = read(uri).await;
        assert!(error["error"]["message"].as_str().unwrap_or_default().contains(wanted), "{uri}: {error}");
    }
}
