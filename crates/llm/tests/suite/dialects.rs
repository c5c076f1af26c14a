//! The exact request bodies of each wire format, with the parameters that MassGen's configs contain.

use super::support::{build, call, config, config_of, http, request};
use althing_llm::{BuildError, BuildWarning, PriceTable, backend, ollama_models, served_models, warnings};
use althing_protocol::{BackendErrorKind as Kind, Message, ModelRequest, ToolCall};
use althing_testkit::{Action, FakeModel, Reply, Script, refused_base_url};
use serde_json::{Value, json};
use std::time::Duration;

fn conversation() -> ModelRequest {
    let mut request = request("Read both.");
    let made = |id: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: "read".into(),
        arguments: arguments.into(),
    };
    let tool_calls = vec![made("a", r#"{"path":"x"}"#), made("b", "{\"path\": oops")];
    request.messages.push(Message::Assistant { text: String::new(), tool_calls });
    request.messages.push(Message::Tool { call: "a".into(), content: "text of x".into(), is_error: false });
    request.messages.push(Message::Tool { call: "b".into(), content: "bad".into(), is_error: true });
    request.messages.push(Message::User("Well?".into()));
    request
}

async fn body(kind: &str, model: &str, params: Value, request: &ModelRequest) -> Value {
    let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
    let mut section = config_of(kind, &server.base_url(), params);
    section.model = Some(model.into());
    call(&*build(&section), request).await.result.unwrap();
    server.requests()[0].body().clone()
}

#[tokio::test]
async fn a_responses_request_is_exact() {
    let params = json!({
        "temperature": 0.5, "max_tokens": 100, "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low"}, "enable_web_search": true, "enable_code_interpreter": true,
        "parallel_tool_calls": true, "seed": 7, "extra_body": {"truncation": "auto", "stream": false},
    });
    let expected = json!({
        "model": "gpt-5",
        "instructions": "You are an agent.",
        "input": [
            {"role": "user", "content": "Read both."},
            {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{\"path\":\"x\"}"},
            {"type": "function_call", "call_id": "b", "name": "read",
             "arguments": "{\"invalid_arguments\":\"{\\\"path\\\": oops\"}"},
            {"type": "function_call_output", "call_id": "a", "output": "text of x"},
            {"type": "function_call_output", "call_id": "b", "output": "Error: bad"},
            {"role": "user", "content": "Well?"},
        ],
        "tools": [
            {"type": "function", "name": "new_answer", "description": "Answers.", "strict": false,
             "parameters": {"type": "object", "properties": {"content": {"type": "string"}}}},
            {"type": "web_search"},
            {"type": "code_interpreter", "container": {"type": "auto"}},
        ],
        "stream": true, "store": false, "temperature": 0.5, "max_output_tokens": 100,
        "reasoning": {"effort": "low", "summary": "auto"}, "text": {"verbosity": "low"},
        "parallel_tool_calls": true, "truncation": "auto",
    });
    assert_eq!(body("openai", "gpt-5", params, &conversation()).await, expected);
}

#[tokio::test]
async fn a_messages_request_is_exact() {
    let params = json!({
        "temperature": 1.5, "top_k": 5, "stop": "END", "tool_choice": "required", "parallel_tool_calls": false,
        "enable_web_search": true, "user": "u", "frequency_penalty": 1,
    });
    let cache = json!({"type": "ephemeral"});
    let expected = json!({
        "model": "claude-sonnet-4-5",
        "system": [{"type": "text", "text": "You are an agent.", "cache_control": cache}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Read both.", "cache_control": cache}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}},
                {"type": "tool_use", "id": "b", "name": "read", "input": {"invalid_arguments": "{\"path\": oops"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "text of x"},
                {"type": "tool_result", "tool_use_id": "b", "content": "bad", "is_error": true},
                {"type": "text", "text": "Well?", "cache_control": cache},
            ]},
        ],
        "tools": [
            {"name": "new_answer", "description": "Answers.",
             "input_schema": {"type": "object", "properties": {"content": {"type": "string"}}}},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "stream": true, "max_tokens": 32000, "stop_sequences": ["END"], "metadata": {"user_id": "u"},
        "temperature": 1.0, "top_k": 5, "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
    });
    assert_eq!(body("claude", "claude-sonnet-4-5", params, &conversation()).await, expected);
}

#[tokio::test]
async fn a_gemini_request_is_exact() {
    let params = json!({
        "temperature": 0.5, "top_p": 0.9, "max_tokens": 100, "stop": ["END"], "seed": 7,
        "reasoning": {"effort": "low"}, "tool_choice": {"type": "tool", "name": "new_answer"},
        "extra_body": {"generationConfig": {"topP": 0.8}, "contents": []},
    });
    let expected = json!({
        "generationConfig": {
            "temperature": 0.5, "topP": 0.8, "seed": 7, "maxOutputTokens": 100, "stopSequences": ["END"],
            "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 1024},
        },
        "systemInstruction": {"parts": [{"text": "You are an agent."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Read both."}]},
            {"role": "model", "parts": [
                {"functionCall": {"name": "read", "args": {"path": "x"}, "id": "a"}},
                {"functionCall": {"name": "read", "args": {"invalid_arguments": "{\"path\": oops"}, "id": "b"}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "read", "response": {"output": "text of x"}, "id": "a"}},
                {"functionResponse": {"name": "read", "response": {"error": "bad"}, "id": "b"}},
                {"text": "Well?"},
            ]},
        ],
        "tools": [{"functionDeclarations": [{
            "name": "new_answer", "description": "Answers.",
            "parameters": {"type": "object", "properties": {"content": {"type": "string"}}},
        }]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["new_answer"]}},
    });
    assert_eq!(body("gemini", "gemini-2.5-pro", params, &conversation()).await, expected);
}

#[tokio::test]
async fn geminis_search_is_combined_with_our_tools_only_if_the_model_accepts_both() {
    let search = json!({"enable_web_search": true});
    let old = body("gemini", "gemini-2.5-pro", search.clone(), &request("hi")).await;
    assert!(old["tools"].as_array().unwrap().len() == 1 && old.get("toolConfig").is_none(), "{old}");
    let new = body("gemini", "gemini-3-pro-preview", search.clone(), &request("hi")).await;
    assert_eq!(new["tools"][1], json!({"googleSearch": {}}));
    assert_eq!(new["toolConfig"], json!({"includeServerSideToolInvocations": true}));
    let mut alone = request("hi");
    alone.tools.clear();
    let old = body("gemini", "gemini-2.5-pro", search, &alone).await;
    assert_eq!(old["tools"], json!([{"googleSearch": {}}]));
}

#[tokio::test]
async fn claude_gets_its_version_betas_and_effort_in_the_form_of_its_generation() {
    let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
    let params = json!({"betas": ["one", "two"], "reasoning": {"effort": "xhigh"}, "temperature": 0.2,
        "tool_choice": "required"});
    let mut section = config_of("claude", server.base_url().trim_end_matches("/v1"), params);
    section.model = Some("claude-opus-5".into());
    call(&*build(&section), &request("hi")).await.result.unwrap();
    let seen = &server.requests()[0];
    assert_eq!(seen.path(), "/v1/messages");
    assert_eq!(seen.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(seen.header("anthropic-beta"), Some("one,two"));
    let sent = seen.body();
    assert_eq!(sent["output_config"], json!({"effort": "xhigh"}));
    assert_eq!(sent["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    assert_eq!((sent.get("temperature"), &sent["tool_choice"]["type"]), (None, &json!("auto")));
}

#[tokio::test]
async fn cache_writes_cost_a_quarter_more() {
    let usage = r#"{"input_tokens":100,"cache_creation_input_tokens":1000,"cache_read_input_tokens":2000,"output_tokens":1}"#;
    let stream = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
         event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\"content\":[],\"usage\":{usage}}}}}\n\n\
         data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"text\",\"text\":\"ok\"}}}}\n\n\
         data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"end_turn\"}},\"usage\":{{\"output_tokens\":10}}}}\n\n\
         data: {{\"type\":\"message_stop\"}}\n\n"
    );
    let server = FakeModel::start(Script::always(Action::Raw(stream.into()))).await;
    let mut section = config_of("claude", &server.base_url(), json!({}));
    section.model = Some("claude-sonnet-4-5".into());
    let called = call(&*build(&section), &request("hi")).await;
    let usage = called.reply().usage;
    assert_eq!((usage.input_tokens, usage.cached_input_tokens, usage.output_tokens), (3100, 2000, 10));
    let cost = (100.0 * 3.0 + 1000.0 * 3.75 + 2000.0 * 0.3 + 10.0 * 15.0) / 1e6;
    assert!((usage.cost_usd - cost).abs() < 1e-12, "{usage:?}");
}

#[tokio::test]
async fn a_parameter_that_a_model_does_not_take_is_left_out_once_and_for_all() {
    for (kind, params, pointer, sentence) in [
        (
            "openai",
            json!({"temperature": 0.7}),
            "/temperature",
            "Unsupported parameter: 'temperature' is not supported with this model.",
        ),
        (
            "openai",
            json!({"reasoning": {"effort": "low", "summary": "auto"}}),
            "/reasoning/summary",
            "Your organization must be verified to generate reasoning summaries (`reasoning.summary`).",
        ),
        (
            "claude",
            json!({"temperature": 0.7, "top_p": 0.9}),
            "/top_p",
            "`temperature` and `top_p` cannot both be specified for this model.",
        ),
        (
            "gemini",
            json!({"reasoning": {"effort": "low"}}),
            "/generationConfig/thinkingConfig",
            "Thinking level is not supported for this model.",
        ),
    ] {
        let server = FakeModel::start(Script::from_fn(move |request| {
            if request.body().pointer(pointer).is_none() {
                return Reply::text("ok").into();
            }
            let body = json!({"error": {"message": sentence}}).to_string();
            let head = format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\n\r\n", body.len());
            Action::Raw(format!("{head}{body}").into())
        }))
        .await;
        let mut section = config_of(kind, &server.base_url(), params);
        section.model = Some(if kind == "claude" { "claude-sonnet-4-5" } else { "some-model" }.into());
        let backend = build(&section);
        assert_eq!(call(&*backend, &request("hi")).await.reply().usage.calls, 2, "{kind} {pointer}");
        assert_eq!(call(&*backend, &request("hi")).await.reply().usage.calls, 1, "{kind} {pointer}");
    }
}

#[tokio::test]
async fn the_section_or_the_address_can_choose_the_api_of_openai() {
    for (kind, suffix, api, path) in [
        ("openai", "", json!(null), "/v1/responses"),
        ("openai", "", json!("chat"), "/v1/chat/completions"),
        ("openai", "/chat/completions", json!(null), "/v1/chat/completions"),
        ("chatcompletion", "", json!("responses"), "/v1/responses"),
        ("vllm", "", json!(null), "/v1/chat/completions"),
        ("grok", "", json!(null), "/v1/chat/completions"),
    ] {
        let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
        let section = config_of(kind, &format!("{}{suffix}", server.base_url()), json!({"api": api}));
        call(&*build(&section), &request("hi")).await.result.unwrap();
        assert_eq!(server.requests()[0].path(), path);
    }
    let section = config_of("openai", "http://127.0.0.1:1/v1", json!({"api": "fax"}));
    let error = backend(&section, &http(), &PriceTable::default()).map(|_| ()).unwrap_err();
    assert_eq!(error, BuildError::BadParam { name: "api", expected: "`chat` or `responses`" });
}

#[tokio::test]
async fn grok_searches_through_responses_with_its_system_prompt_as_a_message() {
    let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
    let params = json!({"enable_web_search": true, "enable_x_search": true});
    call(&*build(&config_of("grok", &server.base_url(), params)), &request("hi")).await.result.unwrap();
    let seen = &server.requests()[0];
    assert_eq!((seen.path(), seen.body().get("instructions")), ("/v1/responses", None));
    assert_eq!(seen.system_text(), "You are an agent.");
    assert_eq!(seen.body()["tools"][2], json!({"type": "x_search"}));
}

#[tokio::test]
async fn openrouter_searches_through_its_plugin() {
    let params = json!({"enable_web_search": true, "engine": "exa", "max_results": 3});
    assert!(warnings(&config_of("openrouter", "http://127.0.0.1:1/v1", params.clone())).is_empty());
    let sent = body("openrouter", "openai/gpt-5-mini", params, &request("hi")).await;
    assert_eq!(sent["plugins"], json!([{"id": "web", "engine": "exa", "max_results": 3}]));
}

#[tokio::test]
async fn googles_requested_wait_is_honored_although_it_words_every_quota_as_exhausted() {
    let quota = json!([{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.2s"}]}}])
    .to_string();
    let head = format!("HTTP/1.1 429 Too Many Requests\r\ncontent-length: {}\r\n\r\n", quota.len());
    let refusal = Action::Raw(format!("{head}{quota}").into());
    let server = FakeModel::start(Script::always(Reply::text("ok")).nth(0, refusal)).await;
    let called = call(&*build(&config_of("gemini", &server.base_url(), json!({}))), &request("hi")).await;
    assert_eq!(called.reply().usage.calls, 2);
    assert!(called.retries[0].after >= Duration::from_millis(200), "{called:?}");
}

#[tokio::test]
async fn no_name_of_a_model_leads_to_another_path() {
    let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
    let root = format!("http://{}/v1beta", server.address());
    let section = |kind: &str, model: &str| {
        let mut section = config_of(kind, &root, json!({}));
        section.model = Some(model.into());
        section
    };
    for (model, path) in [
        ("gemini-x", "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"),
        ("tunedModels/mine", "/v1beta/tunedModels/mine:streamGenerateContent?alt=sse"),
        ("a?key=b#c", "/v1beta/models/a%3Fkey=b%23c:streamGenerateContent?alt=sse"),
        ("a%2e%2e%2fb", "/v1beta/models/a%252e%252e%252fb:streamGenerateContent?alt=sse"),
    ] {
        // The fake server knows no such model.
        let _ = call(&*build(&section("gemini", model)), &request("hi")).await.result;
        assert_eq!(server.requests().pop().unwrap().path(), path);
    }
    let _ = call(&*build(&section("azure_openai", "a/../../b?c")), &request("hi")).await.result;
    let path = "/v1beta/openai/deployments/a%2F..%2F..%2Fb%3Fc/chat/completions?api-version=2024-10-21";
    assert_eq!(server.requests().pop().unwrap().path(), path);
    for (kind, model) in
        [("gemini", "../../files"), ("gemini", "a//b"), ("gemini", "a/.."), ("azure_openai", "..")]
    {
        let error = backend(&section(kind, model), &http(), &PriceTable::default()).map(|_| ()).unwrap_err();
        assert!(matches!(error, BuildError::BadModel { .. }), "{kind} {model}: {error}");
    }
}

#[tokio::test]
async fn azure_has_the_deployment_in_its_path_and_its_own_header() {
    let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
    let root = format!("http://{}", server.address());
    let version = json!({"api_version": "2025-01-01-preview"});
    for (base, params, path) in [
        (root.clone(), json!({}), "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21"),
        (
            format!("{root}/openai/"),
            version,
            "/openai/deployments/my-gpt/chat/completions?api-version=2025-01-01-preview",
        ),
        (
            format!("{root}/openai/deployments/other?api-version=1"),
            json!({}),
            "/openai/deployments/other/chat/completions?api-version=1",
        ),
        (format!("{root}/openai/v1/"), json!({}), "/openai/v1/chat/completions"),
    ] {
        let mut section = config_of("azure_openai", &base, params);
        section.model = Some("my-gpt".into());
        call(&*build(&section), &request("hi")).await.result.unwrap();
        let seen = server.requests().pop().unwrap();
        assert_eq!((seen.path(), seen.header("api-key")), (path, Some("sk-test")));
        assert_eq!(seen.header("authorization"), None);
    }
}

#[test]
fn parameters_without_effect_are_named() {
    let section = |kind: &str| {
        config_of(
            kind,
            "http://127.0.0.1:1/v1",
            json!({
                "temperature": 1, "seed": 7, "min_p": 0.1, "max_retries": 1, "stop": null, "enable_web_search": false,
            }),
        )
    };
    let named = |kind: &str| -> Vec<String> {
        warnings(&section(kind)).into_iter().map(|BuildWarning::NotSent { param, .. }| param).collect()
    };
    assert_eq!(named("openai"), ["seed", "min_p"]);
    assert_eq!(named("claude"), ["seed", "min_p"]);
    assert_eq!(named("gemini"), ["min_p"]);
    assert!(named("vllm").is_empty() && named("offline").is_empty());
    let said = warnings(&section("gemini"))[0].to_string();
    assert_eq!(said, "`min_p` has no effect: the Gemini API has no such parameter");
}

#[test]
fn a_budget_for_thinking_must_leave_room_for_the_reply() {
    let mut section = config("http://127.0.0.1:1/v1", json!({"thinking_budget": 5000, "max_tokens": 4000}));
    section.kind = "claude".into();
    section.model = Some("claude-sonnet-4-5".into());
    let error = backend(&section, &http(), &PriceTable::default()).map(|_| ()).unwrap_err();
    assert!(matches!(error, BuildError::BadParam { name: "max_tokens", .. }), "{error}");
}

#[tokio::test]
async fn ollama_is_found_with_its_models_and_missed_at_once_where_it_is_not() {
    let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
    for base in [server.base_url(), format!("http://{}/", server.address())] {
        assert_eq!(ollama_models(&http(), &base).await.unwrap(), ["model-a", "model-b", "model-c"]);
    }
    let error = ollama_models(&http(), &refused_base_url()).await.unwrap_err();
    assert_eq!(error.kind, Kind::Connect);
    assert_eq!(ollama_models(&http(), "localhost").await.unwrap_err().kind, Kind::NotFound);
}

#[tokio::test]
async fn a_local_server_lists_its_models_or_is_absent() {
    let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
    assert_eq!(served_models(&http(), &server.base_url()).await.unwrap(), ["model-a", "model-b", "model-c"]);
    // This server accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", silent.local_addr().unwrap());
    assert_eq!(served_models(&http(), &address).await.unwrap_err().kind, Kind::Timeout);
    // This server answers with something other than a list of models.
    let page = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", other.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut caller, _) = other.accept().unwrap();
        let _ = std::io::Read::read(&mut caller, &mut [0; 4096]);
        std::io::Write::write_all(&mut caller, page.as_bytes()).unwrap();
    });
    assert_eq!(served_models(&http(), &address).await.unwrap_err().kind, Kind::Protocol);
}
