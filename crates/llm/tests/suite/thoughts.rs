//! Thoughts that are sent back with tool results to providers that require them, and what a request contains when the
//! thoughts are lost.

use super::schemas;
use super::support::{build, call, config_of, request};
use althing_protocol::{Backend, BackendConfig, Message, ModelRequest};
use althing_testkit::{Action, FakeModel, Reply, Script};
use serde_json::{Value, json};
use std::sync::Arc;

fn thinking_reply() -> Reply {
    Reply::call("read", &json!({"path": "x"})).and_text("I will read.").reasoning("Hm. ").reasoning("Yes.")
}

async fn server() -> FakeModel {
    FakeModel::start(Script::always(Reply::text("Done.")).nth(0, thinking_reply())).await
}

fn section(kind: &str, model: &str, server: &FakeModel, params: Value) -> BackendConfig {
    let mut section = config_of(kind, &server.base_url(), params);
    section.model = Some(model.into());
    section
}

async fn with_result(backend: &Arc<dyn Backend>) -> ModelRequest {
    let mut request = request("Read it.");
    let reply = call(&**backend, &request).await.reply().clone();
    let id = reply.tool_calls[0].id.clone();
    request.messages.push(Message::Assistant { text: reply.text, tool_calls: reply.tool_calls });
    request.messages.push(Message::Tool { call: id, content: "text of x".into(), is_error: false });
    request
}

#[tokio::test]
async fn claudes_thoughts_are_sent_back_before_their_call() {
    let server = server().await;
    let section = section("claude", "claude-sonnet-4-5", &server, json!({"thinking_budget": 2000}));
    let backend = build(&section);
    let request = with_result(&backend).await;
    call(&*backend, &request).await.result.unwrap();
    let sent = server.requests()[1].body().clone();
    assert_eq!(
        sent["messages"][1]["content"],
        json!([
            {"type": "thinking", "thinking": "Hm. Yes.", "signature": "signature-0"},
            {"type": "text", "text": "I will read."},
            {"type": "tool_use", "id": "toolu_0_0", "name": "read", "input": {"path": "x"}},
        ])
    );
    assert_eq!(sent["thinking"], json!({"type": "enabled", "budget_tokens": 2000}));
    schemas::check("claude", &sent).unwrap();
}

#[tokio::test]
async fn without_claudes_thoughts_a_budget_is_omitted_and_adaptive_thinking_is_kept() {
    for (model, params, thinking) in [
        ("claude-sonnet-4-5", json!({"thinking_budget": 2000, "temperature": 0.5}), Value::Null),
        (
            "claude-opus-5",
            json!({"reasoning": {"effort": "high"}}),
            json!({"type": "adaptive", "display": "summarized"}),
        ),
    ] {
        let server = server().await;
        let section = section("claude", model, &server, params);
        let request = with_result(&build(&section)).await;
        let another = build(&section);
        call(&*another, &request).await.result.unwrap();
        let sent = server.requests()[1].body().clone();
        assert_eq!(sent["thinking"], thinking, "{model}");
        assert_eq!(sent["messages"][1]["content"][0]["type"], "text", "{model}");
        // A new question may enable thinking again, regardless of the earlier conversation.
        let mut request = request.clone();
        request.messages.push(Message::Assistant { text: "Done.".into(), tool_calls: Vec::new() });
        request.messages.push(Message::User("And now?".into()));
        call(&*another, &request).await.result.unwrap();
        assert!(server.requests()[2].body()["thinking"].is_object(), "{model}");
    }
}

#[tokio::test]
async fn geminis_calls_are_sent_back_with_their_signature() {
    let server = server().await;
    let backend = build(&section("gemini", "gemini-3-pro-preview", &server, json!({})));
    let request = with_result(&backend).await;
    call(&*backend, &request).await.result.unwrap();
    let sent = server.requests()[1].body().clone();
    let call_part =
        json!({"functionCall": {"name": "read", "args": {"path": "x"}}, "thoughtSignature": "signature-0"});
    assert_eq!(
        sent["contents"],
        json!([
            {"role": "user", "parts": [{"text": "Read it."}]},
            {"role": "model", "parts": [{"text": "I will read."}, call_part]},
            {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": "text of x"}}}]},
        ])
    );
    schemas::check("gemini", &sent).unwrap();
}

#[tokio::test]
async fn a_missing_signature_is_replaced_by_googles_placeholder_from_gemini_3_on() {
    for (model, signature) in
        [("gemini-3-flash", json!("skip_thought_signature_validator")), ("gemini-2.5-pro", Value::Null)]
    {
        let server = server().await;
        let section = section("gemini", model, &server, json!({}));
        let request = with_result(&build(&section)).await;
        call(&*build(&section), &request).await.result.unwrap();
        let sent = server.requests()[1].body()["contents"][1]["parts"][1].clone();
        assert_eq!(sent["thoughtSignature"], signature, "{model}");
    }
}

#[tokio::test]
async fn a_rejected_form_of_thinking_is_replaced_for_all_later_calls() {
    let refusal = |sentence: &str| {
        let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": sentence}})
            .to_string();
        let head = format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Action::Raw(format!("{head}{body}").into())
    };
    let server = FakeModel::start(Script::from_fn(move |request| {
        let body = request.body();
        if body["thinking"]["type"] == "enabled" {
            refusal(
                "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\".",
            )
        } else if body.get("top_k").is_some() {
            refusal("`top_k` is deprecated for this model.")
        } else {
            Reply::text("ok").into()
        }
    }))
    .await;
    let mut section = section("claude", "claude-sonnet-4-5", &server, json!({"thinking_budget": 2000}));
    section.params.insert("extra_body".into(), json!({"top_k": 5}));
    let backend = build(&section);
    assert_eq!(call(&*backend, &request("hi")).await.reply().usage.calls, 3);
    assert_eq!(call(&*backend, &request("hi")).await.reply().usage.calls, 1);
    assert_eq!(server.requests()[3].body()["thinking"]["type"], "adaptive");
}
