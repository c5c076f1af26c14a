//! Successful replies on the wire, and which request gets which.

use std::time::Duration;

use althing_testkit::{
    Action, FakeModel, Finish, Parliament, Reply, RequestOutcome, Script, ToolCall, Usage,
};
use serde_json::{Value, json};

use crate::client::{End, SOON, ask, request};

#[tokio::test]
async fn an_agent_without_answers_to_judge_answers() {
    let server = FakeModel::start(Script::parliament()).await;
    let response = ask(server.address(), &request("model-a", &["new_answer"])).await;
    assert_eq!(response.end, End::Complete);
    assert!(response.is_done());
    assert_eq!(
        response.calls(),
        [("new_answer".into(), json!({ "content": "Answer of model-a" }).to_string())]
    );
    assert_eq!(response.finish(), "tool_calls");
    assert_eq!(response.usage().unwrap()["total_tokens"], 120);
}

#[tokio::test]
async fn an_agent_that_may_vote_votes_for_the_first_id() {
    let server = FakeModel::start(Script::parliament()).await;
    let response = ask(server.address(), &request("m", &["new_answer", "vote"])).await;
    let calls = response.calls();
    let arguments: Value = serde_json::from_str(&calls[0].1).unwrap();
    assert_eq!((calls.len(), calls[0].0.as_str()), (1, "vote"));
    assert_eq!(arguments["agent_id"], "agent1");
    assert!(!arguments["reason"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn an_agent_without_workflow_tools_talks() {
    let server = FakeModel::start(Script::parliament()).await;
    let response = ask(server.address(), &request("m", &["read_file"])).await;
    assert_eq!(response.text(), "Final answer of m");
    assert_eq!(response.finish(), "stop");
}

#[tokio::test]
async fn a_reply_is_streamed_in_the_chunks_asked_for() {
    let reply = Reply::text("one two three")
        .chunks(3)
        .reasoning("let me ")
        .reasoning("see")
        .and_tool_call(ToolCall::new("read_file", r#"{"path":"a"}"#).id("c1").split(4))
        .usage(Usage { input: 7, output: 5, cached: 3, reasoning: 2 })
        .finish(Finish::Length);
    let server = FakeModel::start(Script::always(reply)).await;
    let response = ask(server.address(), &request("m", &[])).await;
    // Start, 2 reasoning, 3 text, 1 + 4 tool, finish, usage, end marker: one HTTP chunk each.
    assert_eq!(response.chunks.len(), 14);
    assert_eq!(response.reasoning(), "let me see");
    assert_eq!(response.text(), "one two three");
    assert_eq!(response.calls(), [("read_file".into(), r#"{"path":"a"}"#.into())]);
    assert_eq!(response.finish(), "length");
    let usage = response.usage().unwrap();
    assert_eq!(usage["prompt_tokens"], 7);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 3);
    assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], 2);
}

#[tokio::test]
async fn usage_is_reported_only_when_asked_for() {
    let server = FakeModel::start(Script::parliament()).await;
    let mut body = request("m", &[]);
    body.as_object_mut().unwrap().remove("stream_options");
    assert_eq!(ask(server.address(), &body).await.usage(), None);
}

#[tokio::test]
async fn a_request_without_stream_gets_one_json_body() {
    let server = FakeModel::start(Script::always(Reply::vote("agent2", "why not"))).await;
    let mut body = request("m", &["vote"]);
    body["stream"] = false.into();
    let response = ask(server.address(), &body).await;
    let whole: Value = serde_json::from_str(&response.body()).unwrap();
    let call = &whole["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(call["name"], "vote");
    assert_eq!(whole["usage"]["prompt_tokens"], 100);
}

#[tokio::test]
async fn rules_are_by_model_and_number_and_the_particular_one_wins() {
    let script = Script::parliament()
        .nth(0, Reply::text("first of all"))
        .on("a")
        .always(Reply::text("a always"))
        .nth(1, Reply::text("a second"))
        .on("b")
        .each([Reply::text("b first")])
        .on("c")
        .always(Action::with(|request| Reply::text(format!("c{}", request.nth_of_model()))));
    let server = FakeModel::start(script).await;
    let mut said = Vec::new();
    for model in ["z", "a", "a", "a", "b", "b", "c", "c"] {
        said.push(ask(server.address(), &request(model, &[])).await.text());
    }
    let expected =
        ["first of all", "a always", "a second", "a always", "b first", "Final answer of b", "c0", "c1"];
    assert_eq!(said, expected);
}

#[tokio::test]
async fn the_usual_reply_can_be_delayed() {
    let delay = Duration::from_millis(30);
    let server =
        FakeModel::start(Script::parliament().on("m").always(Action::after(delay, Action::Usual))).await;
    let response = ask(server.address(), &request("m", &[])).await;
    assert_eq!(response.text(), "Final answer of m");
    let record = &server.wait_until(SOON, |calls| calls[0].outcome() == RequestOutcome::Served).await[0];
    assert!(record.ended().unwrap() - record.arrived() >= delay);
}

#[tokio::test]
async fn chatter_adds_text_chunks_before_the_content() {
    let server = FakeModel::start(Script::from_fn(|r| Parliament::chatter(500).reply(r))).await;
    let talk = ask(server.address(), &request("m", &[])).await;
    assert_eq!(talk.chunks.len(), 500 + 4);
    assert!(talk.text().ends_with("Final answer of m"));
    let answer = ask(server.address(), &request("m", &["new_answer"])).await;
    assert_eq!(answer.calls().len(), 1);
    assert!(answer.text().starts_with("word 0 of the reply; "));
}
