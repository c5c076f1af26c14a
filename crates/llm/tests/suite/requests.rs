//! Request bodies, headers and URLs.

use super::support::{KEY, build, call, config, model, request};
use althing_protocol::{Message, ModelRequest, Secret, ToolCall, ToolSpec};
use althing_testkit::{Action, FakeModel, Reply, Script};
use serde_json::{Value, json};

async fn body(kind: &str, params: Value, request: &ModelRequest) -> Value {
    let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
    let mut section = config(&server.base_url(), params);
    section.kind = kind.into();
    section.model = Some("some-model".into());
    call(&*build(&section), request).await.result.unwrap();
    server.requests()[0].body().clone()
}

fn plain() -> ModelRequest {
    ModelRequest { messages: vec![Message::User("hi".into())], ..ModelRequest::default() }
}

#[tokio::test]
async fn a_conversation_with_tool_results_is_sent_in_the_wire_format() {
    let call_of = |id: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: "read".into(),
        arguments: arguments.into(),
    };
    let request = ModelRequest {
        system: "Be brief.".into(),
        call_context: None,
        messages: vec![
            Message::User("Read both.".into()),
            Message::Assistant {
                text: String::new(),
                tool_calls: vec![call_of("a", r#"{"path":"x"}"#), call_of("b", "{\"path\": oops")],
            },
            Message::Tool { call: "a".into(), content: "text of x".into(), is_error: false },
            Message::Tool { call: "b".into(), content: "bad arguments".into(), is_error: true },
            Message::Assistant { text: "Hm.".into(), tool_calls: Vec::new() },
            Message::User("Well?".into()),
        ],
        tools: vec![ToolSpec {
            name: "read".into(),
            description: "Reads.".into(),
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        }],
    };
    let expected = json!({
        "model": "some-model",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Read both."},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}},
                {"id": "b", "type": "function",
                 "function": {"name": "read", "arguments": "{\"invalid_arguments\":\"{\\\"path\\\": oops\"}"}},
            ]},
            {"role": "tool", "content": "text of x", "tool_call_id": "a"},
            {"role": "tool", "content": "Error: bad arguments", "tool_call_id": "b"},
            {"role": "assistant", "content": "Hm."},
            {"role": "user", "content": "Well?"},
        ],
        "tools": [{"type": "function", "function": {
            "name": "read", "description": "Reads.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        }}],
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    assert_eq!(body("openai", json!({}), &request).await, expected);
}

#[tokio::test]
async fn parameters_reach_the_wire_under_the_names_it_knows() {
    let params = json!({
        "temperature": 0.5, "top_p": 0.9, "max_tokens": 100, "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low"}, "seed": 7, "stop": ["END"], "presence_penalty": 0.1, "frequency_penalty": null,
        "parallel_tool_calls": true, "cwd": "workspace", "enable_web_search": true, "idle_timeout_seconds": 5,
        "extra_body": {"custom": {"a": 1}, "temperature": 0.7, "stream": false, "model": "other"},
    });
    let expected = json!({
        "model": "some-model", "messages": [{"role": "user", "content": "hi"}],
        "stream": true, "stream_options": {"include_usage": true},
        "max_completion_tokens": 100, "temperature": 0.7, "top_p": 0.9, "seed": 7, "stop": ["END"],
        "presence_penalty": 0.1, "reasoning_effort": "low", "verbosity": "low", "custom": {"a": 1},
    });
    assert_eq!(body("openai", params, &plain()).await, expected);
}

#[tokio::test]
async fn other_providers_get_their_own_parameter_names() {
    let params = json!({"max_tokens": 100, "reasoning": {"effort": "low"}, "tool_choice": "auto"});
    let sent = body("openrouter", params.clone(), &request("hi")).await;
    assert_eq!(
        (&sent["max_tokens"], &sent["reasoning"], &sent["tool_choice"]),
        (&json!(100), &json!({"effort": "low"}), &json!("auto"))
    );
    assert!(sent.get("reasoning_effort").is_none());
    let sent = body("vllm", params, &plain()).await;
    assert_eq!((&sent["max_tokens"], &sent["reasoning_effort"]), (&json!(100), &json!("low")));
    assert!(sent.get("tool_choice").is_none(), "only with tools");
}

#[tokio::test]
async fn key_headers_and_path_are_sent_and_nothing_else_tells_who_we_are() {
    let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
    let mut section = config(&format!("{}/?api-version=1", server.base_url()), json!({}));
    section.headers =
        vec![("X-Team".into(), Secret::new("blue")), ("HTTP-Referer".into(), Secret::new("here"))];
    call(&*build(&section), &request("hi")).await.result.unwrap();
    let seen = &server.requests()[0];
    assert_eq!((seen.method(), seen.path()), ("POST", "/v1/chat/completions?api-version=1"));
    assert_eq!(seen.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!((seen.header("x-team"), seen.header("http-referer")), (Some("blue"), Some("here")));
    assert!(seen.header("user-agent").unwrap().starts_with("althing/"));
}

#[tokio::test]
async fn a_custom_header_overrides_the_key() {
    let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
    let mut section = config(&format!("{}/chat/completions", server.base_url()), json!({}));
    section.headers = vec![("Authorization".into(), Secret::new("Basic abc"))];
    call(&*build(&section), &request("hi")).await.result.unwrap();
    assert_eq!(server.requests()[0].header("authorization"), Some("Basic abc"));
    assert_eq!(server.requests()[0].path(), "/v1/chat/completions");
}

#[tokio::test]
async fn a_refused_field_is_left_out_or_renamed_once_and_for_all_later_calls() {
    let refuse = |sentence: &'static str| {
        let body = json!({"error": {"message": sentence, "type": "invalid_request_error"}}).to_string();
        let length = body.len();
        Action::Raw(format!("HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").into())
    };
    let server = FakeModel::start(Script::from_fn(move |request| {
        let body = request.body();
        if body.get("stream_options").is_some() {
            refuse("Unknown field: stream_options")
        } else if body.get("max_completion_tokens").is_some() {
            refuse("Unsupported parameter: max_completion_tokens")
        } else {
            Reply::text("ok").without_usage().into()
        }
    }))
    .await;
    let backend = model(&server.base_url(), json!({"max_tokens": 5}));
    let first = call(&*backend, &request("hi")).await;
    assert_eq!((first.reply().text.as_str(), first.reply().usage.calls), ("ok", 3));
    let second = call(&*backend, &request("hi")).await;
    assert_eq!(second.reply().usage.calls, 1);
    assert_eq!(server.requests()[3].body()["max_tokens"], json!(5));
}

#[tokio::test]
async fn a_field_rejected_under_every_name_is_a_bad_request_without_a_loop() {
    let body = r#"{"error":{"message":"max_completion_tokens and stream_options are wrong"}}"#;
    let answer = format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let server = FakeModel::start(Script::always(Action::Raw(answer.into()))).await;
    let called = call(&*model(&server.base_url(), json!({"max_tokens": 5})), &request("hi")).await;
    assert_eq!(called.error().kind, althing_protocol::BackendErrorKind::BadRequest);
    assert!(server.request_count() <= 4, "{}", server.request_count());
}

#[tokio::test]
async fn calls_one_after_another_use_one_connection() {
    let server = FakeModel::start(Script::always(Reply::text("ok").chunks(2))).await;
    let backend = model(&server.base_url(), json!({}));
    for _ in 0..5 {
        call(&*backend, &request("hi")).await.result.unwrap();
    }
    assert_eq!((server.request_count(), server.connections()), (5, 1));
}
