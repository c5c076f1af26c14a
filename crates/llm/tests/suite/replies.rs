//! Parsing of streams as providers actually send them.

use super::support::{call, model, request};
use althing_protocol::{BackendErrorKind as Kind, ToolCall, Usage};
use althing_testkit::{Action, FakeModel, Finish, Reply, Script, Usage as Counted};
use serde_json::json;

async fn understood(content_type: &str, body: &str) -> super::support::Called {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n");
    let server = FakeModel::start(Script::always(Action::Raw(format!("{head}{body}").into()))).await;
    call(&*model(&server.base_url(), json!({"max_retries": 0})), &request("hi")).await
}

async fn stream(frames: &[&str]) -> super::support::Called {
    let body: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    understood("text/event-stream", &body).await
}

#[tokio::test]
async fn text_reasoning_usage_and_cost_are_counted() {
    let counted = Counted { input: 1000, output: 500, cached: 400, reasoning: 300 };
    let reply = Reply::text("Hello, wörld.").chunks(3).reasoning("Hm. ").reasoning("Yes.").usage(counted);
    for field in ["reasoning_content", "reasoning"] {
        let server = FakeModel::start(Script::always(reply.clone()).reasoning_field(field)).await;
        let called = call(&*model(&server.base_url(), json!({})), &request("hi")).await;
        let reply = called.reply();
        assert_eq!((reply.text.as_str(), reply.reasoning.as_str()), ("Hello, wörld.", "Hm. Yes."));
        assert_eq!((called.text.as_str(), called.reasoning.as_str()), ("Hello, wörld.", "Hm. Yes."));
        let expected = Usage {
            input_tokens: 1000,
            output_tokens: 500,
            cached_input_tokens: 400,
            reasoning_tokens: 300,
            cost_usd: (600.0 * 0.25 + 400.0 * 0.025 + 500.0 * 2.0) / 1e6,
            calls: 1,
            unpriced_calls: 0,
        };
        assert_eq!(reply.usage, expected);
    }
}

#[tokio::test]
async fn parallel_tool_calls_come_out_in_order_with_their_arguments_as_written() {
    let reply = Reply::text("Both.")
        .and_call("read", &json!({"path": "ä b"}))
        .and_call("vote", &json!({"id": 1}))
        .fragments(4);
    let server = FakeModel::start(Script::always(reply)).await;
    let called = call(&*model(&server.base_url(), json!({})), &request("hi")).await;
    let calls: Vec<(&str, &str)> =
        called.reply().tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("read", r#"{"path":"ä b"}"#), ("vote", r#"{"id":1}"#)]);
    assert_eq!(called.tools, ["read", "vote"]);
}

#[tokio::test]
async fn similar_frames_are_read_exactly_for_any_text() {
    let chunks = [
        "plain",
        " words",
        "",
        "a \"quoted\" \\ word",
        "\n",
        "plain\u{7f}",
        "漢字",
        "🦀",
        "\t}",
        "\"},",
        "end",
        ".",
    ];
    let server = FakeModel::start(Script::always(Reply::empty().text_chunks(chunks))).await;
    let called = call(&*model(&server.base_url(), json!({})), &request("hi")).await;
    assert_eq!(called.reply().text, chunks.concat());
    assert_eq!(called.text, chunks.concat());
}

#[tokio::test]
async fn a_finish_reason_ends_the_reply_well_without_done_and_without_usage() {
    let called = stream(&[
        r#"{"choices":[{"index":0,"delta":{"content":"whole"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    ])
    .await;
    assert_eq!(called.reply().text, "whole");
    assert!(called.reply().usage.input_tokens > 0, "estimated: {:?}", called.reply().usage);
}

#[tokio::test]
async fn done_ends_a_reply_well_without_a_finish_reason_if_there_is_one() {
    let called = stream(&[r#"{"choices":[{"delta":{"content":"whole"}}]}"#, "[DONE]"]).await;
    assert_eq!(called.reply().text, "whole");
    assert_eq!(stream(&["[DONE]"]).await.error().kind, Kind::Cut);
    assert_eq!(stream(&[]).await.error().kind, Kind::Cut);
}

#[tokio::test]
async fn a_reply_without_an_end_is_truncated_and_its_tool_call_is_dropped() {
    let called = stream(&[
        r#"{"choices":[{"delta":{"content":"half"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"vote","arguments":"{}"}}]}}]}"#,
    ])
    .await;
    let error = called.error();
    assert_eq!(error.kind, Kind::Cut);
    assert!(
        error.usage.input_tokens > 0 && error.usage.cost_usd > 0.0,
        "it cost something all the same: {error:?}"
    );
}

#[tokio::test]
async fn whole_calls_without_index_or_id_are_calls() {
    let called = stream(&[
        r#"{"choices":[{"delta":{"tool_calls":[
            {"function":{"name":"a","arguments":{"x":1}}},{"function":{"name":"b","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#
            .replace('\n', "").as_str(),
        "[DONE]",
    ])
    .await;
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    };
    assert_eq!(called.reply().tool_calls, [call("call_1", "a", r#"{"x":1}"#), call("call_2", "b", "{}")]);
}

#[tokio::test]
async fn a_reply_without_streaming_is_parsed() {
    let body = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    let called = understood("application/json; charset=utf-8", body).await;
    assert_eq!((called.reply().text.as_str(), called.text.as_str()), ("whole", "whole"));
    assert_eq!(called.reply().usage.input_tokens, 3);
}

#[tokio::test]
async fn only_the_first_choice_is_read() {
    let called = stream(&[
        r#"{"choices":[{"index":1,"delta":{"content":"other"},"finish_reason":"stop"},{"index":0,"delta":{"content":"first"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    ])
    .await;
    assert_eq!(called.reply().text, "first");
}

#[tokio::test]
async fn a_last_frame_without_its_line_end_still_counts_and_a_torn_one_does_not() {
    let start = "data: {\"choices\":[{\"delta\":{\"content\":\"whole\"}}]}\n\n";
    let called = understood("text/event-stream", &format!("{start}data: [DONE]")).await;
    assert_eq!(called.reply().text, "whole");
    let called = understood("text/event-stream", &format!("{start}data: {{\"choices\":[{{\"fin")).await;
    assert_eq!(called.error().kind, Kind::Cut);
}

#[tokio::test]
async fn a_reply_that_reaches_its_limit_without_text_is_not_retried() {
    let server =
        FakeModel::start(Script::always(Reply::empty().reasoning("Hm…").finish(Finish::Length))).await;
    let called = call(&*model(&server.base_url(), json!({})), &request("hi")).await;
    let error = called.error();
    assert_eq!((error.kind, server.request_count()), (Kind::Empty, 1));
    assert!(error.hint.as_deref().unwrap().contains("max_tokens"), "{error:?}");
}

#[tokio::test]
async fn a_withheld_reply_is_a_bad_request() {
    let server = FakeModel::start(Script::always(Reply::empty().finish(Finish::ContentFilter))).await;
    let called = call(&*model(&server.base_url(), json!({})), &request("hi")).await;
    assert_eq!((called.error().kind, server.request_count()), (Kind::BadRequest, 1));
}
