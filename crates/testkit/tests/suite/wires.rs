//! The other wire formats: the same reply and the same faults in each provider's format, selected by the request path.

use althing_testkit::{FakeModel, Fault, FaultMoment, Reply, RetryAfter, Script};
use serde_json::{Value, json};

use crate::client::{Client, End, Response};

const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages?beta=true";
const GEMINI: &str = "/v1beta/models/model-a:streamGenerateContent?alt=sse";

async fn post(server: &FakeModel, path: &str, body: &Value) -> Response {
    let mut client = Client::connect(server.address()).await;
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
    client.send(&(head + &body)).await;
    client.response().await
}

/// A system prompt, a question, and the tool `vote` for agent1 and agent2.
fn request(path: &str) -> Value {
    let schema = json!({ "type": "object", "properties": {
        "agent_id": { "type": "string", "enum": ["agent1", "agent2"] }, "reason": { "type": "string" } } });
    match path {
        RESPONSES => json!({
            "model": "model-a", "stream": true, "instructions": "You are one of three.",
            "input": [{ "role": "user", "content": [{ "type": "input_text", "text": "Why?" }] },
                { "type": "function_call_output", "call_id": "c", "output": "42" }],
            "tools": [{ "type": "function", "name": "vote", "parameters": schema }, { "type": "web_search" }],
        }),
        MESSAGES => json!({
            "model": "model-a", "stream": true, "max_tokens": 9,
            "system": [{ "type": "text", "text": "You are one of three." }],
            "messages": [{ "role": "user", "content": "Why?" },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": "42" }] }],
            "tools": [{ "name": "vote", "input_schema": schema }, { "type": "web_search_20250305", "name": "web_search" }],
        }),
        _ => json!({
            "systemInstruction": { "parts": [{ "text": "You are one of three." }] },
            "contents": [{ "role": "user", "parts": [{ "text": "Why?" }] },
                { "role": "user", "parts": [{ "functionResponse": { "name": "f", "response": { "output": 42 } } }] }],
            "tools": [{ "functionDeclarations": [{ "name": "vote", "parameters": schema }] }, { "googleSearch": {} }],
        }),
    }
}

#[tokio::test]
async fn a_request_is_parsed_and_answered_in_the_format_of_its_path() {
    for path in [RESPONSES, MESSAGES, GEMINI] {
        let server = FakeModel::start(Script::parliament()).await;
        let response = post(&server, path, &request(path)).await;
        assert_eq!((response.end, response.status), (End::Complete, 200), "{path}");
        assert!(response.body().contains(r#""name":"vote""#), "{path}: {}", response.body());
        let seen = &server.requests()[0];
        assert_eq!((seen.model(), seen.wants_stream()), ("model-a", true), "{path}");
        assert_eq!(seen.tool_names(), ["vote"], "{path}: what the provider runs is not offered to the agent");
        assert_eq!(seen.system_text(), "You are one of three.", "{path}");
        assert_eq!(seen.last_user_text(), "Why?", "{path}: a result is not the user's");
        assert_eq!(seen.messages().len(), 2, "{path}");
    }
}

#[tokio::test]
async fn rules_count_the_requests_of_a_model_on_whichever_wire_they_come() {
    let script = Script::always(Reply::text("other")).on("model-a").nth(2, Reply::text("third of model-a"));
    let server = FakeModel::start(script).await;
    for path in [RESPONSES, MESSAGES, GEMINI] {
        let said = post(&server, path, &request(path)).await.body();
        assert_eq!(said.contains("third of model-a"), path == GEMINI, "{path}");
    }
}

#[tokio::test]
async fn each_wire_ends_its_stream_as_its_provider_does() {
    let reply = Reply::new_answer("An answer.").and_text("Look: ").chunks(2).reasoning("Hm.");
    let server = FakeModel::start(Script::always(reply)).await;
    let kinds = |response: &Response| -> Vec<String> {
        let events = response.events();
        events.iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let responses = kinds(&post(&server, RESPONSES, &request(RESPONSES)).await);
    assert_eq!(
        (responses[0].as_str(), responses.last().unwrap().as_str()),
        ("response.created", "response.completed")
    );
    let messages = kinds(&post(&server, MESSAGES, &request(MESSAGES)).await);
    assert_eq!(messages[0], "message_start");
    assert_eq!(messages[messages.len() - 2..], ["message_delta", "message_stop"]);
    let gemini = post(&server, GEMINI, &request(GEMINI)).await.events();
    let last = gemini.last().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["usageMetadata"]["totalTokenCount"], 120);
    // Reasoning, two texts, the call, the end.
    assert_eq!(gemini.len(), 5);
}

#[tokio::test]
async fn errors_use_each_providers_wording_before_and_inside_a_stream() {
    let limited = Fault::RateLimited(RetryAfter::Seconds(1));
    for (path, fault, before, inside) in [
        (RESPONSES, limited, "rate_limit_exceeded", r#""type":"error""#),
        (MESSAGES, Fault::Status(529), "overloaded_error", "event: error"),
        (GEMINI, Fault::Status(503), "UNAVAILABLE", r#""code":503"#),
    ] {
        let server =
            FakeModel::start(Script::parliament().fault_always(fault, FaultMoment::BeforeHeaders)).await;
        let response = post(&server, path, &request(path)).await;
        assert!(response.status >= 400 && response.body().contains(before), "{path}: {}", response.body());
        let server = FakeModel::start(Script::parliament().fault_always(fault, FaultMoment::MidStream)).await;
        let response = post(&server, path, &request(path)).await;
        assert_eq!(response.status, 200, "{path}");
        assert!(response.body().contains(inside), "{path}: {}", response.body());
    }
}

#[tokio::test]
async fn tokens_are_counted_and_models_listed_without_a_model_call() {
    let server = FakeModel::start(Script::parliament()).await;
    let counted = post(&server, "/v1/messages/count_tokens?beta=true", &json!({ "model": "m" })).await;
    assert!(counted.body().starts_with(r#"{"input_tokens":"#), "{}", counted.body());
    let counted = post(&server, "/v1beta/models/m:countTokens", &json!({})).await;
    assert!(counted.body().starts_with(r#"{"totalTokens":"#), "{}", counted.body());
    let mut client = Client::connect(server.address()).await;
    client.send("GET /api/tags HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(client.response().await.body().contains(r#"{"name":"model-a""#));
    assert_eq!((server.request_count(), server.other_requests().len()), (0, 3));
}

#[tokio::test]
async fn a_request_without_a_stream_gets_one_body_on_every_wire() {
    let server = FakeModel::start(Script::always(Reply::vote("agent2", "why not").reasoning("Hm."))).await;
    for (path, pointer) in [
        ("/v1/responses", "/output/1/name"),
        ("/v1/messages", "/content/1/name"),
        ("/v1beta/models/m:generateContent", "/candidates/0/content/parts/1/functionCall/name"),
    ] {
        let whole = post(&server, path, &json!({ "model": "m" })).await.body();
        let whole: Value = serde_json::from_str(&whole).unwrap();
        assert_eq!(whole.pointer(pointer), Some(&json!("vote")), "{path}: {whole}");
    }
}

#[tokio::test]
async fn an_agent_that_is_asked_for_json_fills_it_in_on_every_wire() {
    let schema = json!({ "type": "OBJECT", "properties": {
        "model_choice": { "type": "string", "enum": ["flash", "pro"] }, "score": { "type": "INTEGER", "minimum": 3 },
        "why": { "type": "string" }, "list": { "type": "array" } } });
    let filled = json!({ "model_choice": "flash", "score": 3, "why": "plain", "list": [] }).to_string();
    let server = FakeModel::start(Script::parliament()).await;
    for (path, body) in [
        ("/v1/responses", json!({ "text": { "format": { "schema": schema } } })),
        ("/v1/messages", json!({ "output_config": { "format": { "schema": schema } } })),
        ("/v1/chat/completions", json!({ "response_format": { "json_schema": { "schema": schema } } })),
        ("/v1beta/models/m:generateContent", json!({ "generationConfig": { "responseJsonSchema": schema } })),
    ] {
        let whole = post(&server, path, &body).await.body();
        assert!(whole.contains(&json!(filled).to_string()), "{path}: {whole}");
    }
}

#[tokio::test]
async fn a_call_of_a_tool_in_a_namespace_names_the_namespace_too() {
    let server = FakeModel::start(Script::always(Reply::new_answer("An answer."))).await;
    let inside = json!({ "type": "function", "name": "new_answer", "parameters": {} });
    let space = json!({ "type": "namespace", "name": "mcp__x", "tools": [inside] });
    let body = json!({ "model": "m", "stream": true, "tools": [space] });
    let said = post(&server, RESPONSES, &body).await.body();
    assert!(said.contains(r#""namespace":"mcp__x""#), "{said}");
    assert_eq!(server.requests()[0].tool_names(), ["new_answer"]);
}
