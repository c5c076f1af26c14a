//! Approvals of runs: valid once, for exactly the run that was asked about, under any race (row S4 of
//! docs/reliability.md). If the question or its answer fails in any way, the run is denied (row S5).

use super::pipe::{Pipe, patient};
use super::scripted::Scripted;
use super::support::scale;
use super::wire::{Raw, modern};
use althing_mcp::{McpListener, McpServer, ServeOptions, WebLimits};
use serde_json::{Value, json};
use std::sync::Arc;

fn approving() -> ServeOptions {
    ServeOptions { require_approval: true, ..patient() }
}

/// The call comes from a client of the newest revision that can ask its user.
fn calling(params: Value) -> Value {
    let mut message = modern("tools/call", params);
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"elicitation": {"form": {}}});
    message
}

async fn send(server: &McpListener, message: &Value) -> Value {
    Raw::post(server.url(), server.token().reveal(), message).send().await.message()["result"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_that_many_use_at_once_starts_one_run_at_most_and_never_another() {
    const AT_ONCE: usize = 8;
    let runs = Arc::new(Scripted::default());
    let server = McpServer::new(runs.clone(), approving());
    let listening = server.listen("127.0.0.1:0".parse().unwrap(), None, WebLimits::default()).await.unwrap();
    let server = Arc::new(listening);
    for round in 0..scale(125, 1_000) {
        let approved = format!("say approved {round}");
        let ask = json!({"name": "launch_run", "arguments": {"task": approved}});
        let asked = send(&server, &calling(ask.clone())).await;
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let before = runs.launched().len();
        let mut calls = Vec::new();
        for n in 0..AT_ONCE {
            let mut again = ask.clone();
            again["requestState"] = asked["requestState"].clone();
            again["inputResponses"] = json!({"approve": {"action": "accept", "content": {}}});
            // Every fourth call asks for the approved run; which calls these are changes from round to round.
            if n % 4 != round % 4 {
                again["arguments"]["task"] = json!(format!("say another {n}"));
            }
            let server = Arc::clone(&server);
            calls.push(tokio::spawn(async move { send(&server, &calling(again)).await }));
        }
        for call in calls {
            call.await.unwrap();
        }
        let launched = runs.launched();
        let new: Vec<&str> = launched[before..].iter().map(|launch| launch.task.as_str()).collect();
        assert!(new.is_empty() || new == [approved.as_str()], "round {round}: {new:?}");
    }
    assert!(!runs.launched().is_empty(), "now and then the approved one was the first");
}

#[tokio::test]
async fn a_question_that_fails_or_is_answered_with_nonsense_starts_no_run() {
    let answers = [
        json!({"error": {"code": -32603, "message": "the dialog crashed"}}),
        json!({"error": {"code": -32601, "message": "elicitation/create is not known"}}),
        json!({"result": {"action": "maybe", "content": {}}}),
        json!({"result": {"action": "ACCEPT", "content": {}}}),
        json!({"result": {"action": true}}),
        json!({"result": {}}),
        json!({"result": "accept"}),
        json!({"result": null}),
        json!({"result": [{"action": "accept"}]}),
    ];
    for answer in answers {
        let (mut pipe, runs, _) = Pipe::earlier(approving(), json!({"elicitation": {"form": {}}})).await;
        let id = pipe.ask("tools/call", json!({"name": "launch_run", "arguments": {"task": "say hi"}})).await;
        let question = pipe.receive().await;
        assert_eq!(question["method"], "elicitation/create");
        let mut message = answer.clone();
        (message["jsonrpc"], message["id"]) = (json!("2.0"), question["id"].clone());
        pipe.send(&message).await;
        // The server may ignore a message that is not an answer; the ping ensures that it has read the message.
        pipe.request("ping", json!({})).await;
        let response =
            pipe.other_messages.iter().find(|message| message["id"] == id && message.get("method").is_none());
        let refused = response
            .is_none_or(|response| response["result"]["isError"] == true || response.get("error").is_some());
        assert!(refused, "{answer}: {response:?}");
        assert_eq!(runs.launched(), [], "{answer}");
    }
    // In the newest revision the client asks and repeats the call with the answer.
    let nonsense = [
        json!({}),
        json!({"approve": null}),
        json!({"approve": "accept"}),
        json!({"approve": {}}),
        json!({"approve": {"action": "yes"}}),
        json!({"approve": {"action": ["accept"]}}),
        json!({"another": {"action": "accept", "content": {}}}),
    ];
    for answers in nonsense {
        let (mut pipe, runs) = Pipe::newest(approving(), json!({"elicitation": {"form": {}}})).await;
        let mut call = json!({"name": "launch_run", "arguments": {"task": "say hi"}});
        let asked = pipe.request("tools/call", call.clone()).await["result"].clone();
        call["requestState"] = asked["requestState"].clone();
        call["inputResponses"] = answers.clone();
        let response = pipe.request("tools/call", call).await;
        assert!(
            response["result"]["isError"] == true || response.get("error").is_some(),
            "{answers}: {response}"
        );
        assert_eq!(runs.launched(), [], "{answers}");
    }
    for state in [json!(""), json!("guessed"), json!("0".repeat(64))] {
        let (mut pipe, runs) = Pipe::newest(approving(), json!({"elicitation": {"form": {}}})).await;
        let call = json!({"name": "launch_run", "arguments": {"task": "say hi"}, "requestState": state,
            "inputResponses": {"approve": {"action": "accept", "content": {}}}});
        let response = pipe.request("tools/call", call).await;
        assert_eq!(response["result"]["isError"], true, "{response}");
        assert_eq!(runs.launched(), []);
    }
}
