//! Properties of every wire format: parsing, cost, history, and that requests match the documented shapes.

use super::schemas;
use super::support::{KEY, KINDS, build, call, config_of, request};
use althing_protocol::{BackendErrorKind as Kind, Message, ModelRequest, ToolCall, ToolSpec, Usage};
use althing_testkit::{Action, FakeModel, Finish, Reply, Script, Usage as Counted};
use serde_json::{Value, json};

/// The prices are for input, cached input and output.
fn priced(kind: &str) -> (&'static str, [f64; 3]) {
    match kind {
        "claude" => ("claude-sonnet-4-5", [3.0, 0.3, 15.0]),
        "gemini" => ("gemini-2.5-flash", [0.3, 0.03, 2.5]),
        _ => ("gpt-5-mini", [0.25, 0.025, 2.0]),
    }
}

#[tokio::test]
async fn text_reasoning_usage_and_cost_are_counted() {
    let counted = Counted { input: 1000, output: 500, cached: 400, reasoning: 300 };
    let reply = Reply::text("Hello, wörld.").chunks(3).reasoning("Hm. ").reasoning("Yes.").usage(counted);
    for kind in KINDS {
        let server = FakeModel::start(Script::always(reply.clone())).await;
        let mut section = config_of(kind, &server.base_url(), json!({}));
        let (model, [input, cached, output]) = priced(kind);
        section.model = Some(model.into());
        let called = call(&*build(&section), &request("hi")).await;
        let reply = called.reply();
        assert_eq!((reply.text.as_str(), reply.reasoning.as_str()), ("Hello, wörld.", "Hm. Yes."), "{kind}");
        assert_eq!((&called.text, &called.reasoning), (&reply.text, &reply.reasoning), "{kind}");
        let cost = (600.0 * input + 400.0 * cached + 500.0 * output) / 1e6;
        assert!((reply.usage.cost_usd - cost).abs() < 1e-12, "{kind}: {:?}", reply.usage);
        let expected = Usage {
            input_tokens: 1000,
            output_tokens: 500,
            cached_input_tokens: 400,
            // Anthropic does not report reasoning tokens separately.
            reasoning_tokens: if kind == "claude" { 0 } else { 300 },
            cost_usd: reply.usage.cost_usd,
            calls: 1,
            unpriced_calls: 0,
        };
        assert_eq!(reply.usage, expected, "{kind}");
    }
}

#[tokio::test]
async fn token_counts_that_cannot_be_true_are_cut_and_never_overflow() {
    for tokens in [1 << 62, 4_000_000_000_000] {
        let counted = Counted { input: tokens, output: tokens, cached: tokens / 2, reasoning: tokens / 2 };
        for kind in KINDS {
            let server = FakeModel::start(Script::always(Reply::text("Hello.").usage(counted))).await;
            let called = call(&*build(&config_of(kind, &server.base_url(), json!({}))), &request("hi")).await;
            let usage = called.reply().usage;
            assert_eq!(
                (usage.input_tokens, usage.output_tokens),
                (1_000_000_000_000, 1_000_000_000_000),
                "{kind}"
            );
            assert!(
                usage.cached_input_tokens <= 1_000_000_000_000 && usage.reasoning_tokens <= 1_000_000_000_000,
                "{kind}"
            );
        }
    }
    let usage = json!({"input_tokens": u64::MAX, "cache_read_input_tokens": u64::MAX,
        "cache_creation_input_tokens": u64::MAX, "output_tokens": u64::MAX});
    let started = json!({"type": "message_start", "message": {"usage": usage}});
    let text =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi."}});
    let ended = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage});
    let frames = [started, text, ended, json!({"type": "message_stop"})];
    let body: String = frames
        .iter()
        .map(|frame| format!("event: {}\ndata: {frame}\n\n", frame["type"].as_str().unwrap()))
        .collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let server = FakeModel::start(Script::always(Action::Raw(format!("{head}{body}").into()))).await;
    let called = call(&*build(&config_of("claude", &server.base_url(), json!({}))), &request("hi")).await;
    assert_eq!(called.reply().usage.input_tokens, 1_000_000_000_000);
}

#[tokio::test]
async fn parallel_tool_calls_come_out_in_order_each_with_an_id() {
    let reply = Reply::text("Both.")
        .and_call("read", &json!({"path": "ä b"}))
        .and_call("vote", &json!({"id": 1}))
        .fragments(4);
    for kind in KINDS {
        let server = FakeModel::start(Script::always(reply.clone())).await;
        let called = call(&*build(&config_of(kind, &server.base_url(), json!({}))), &request("hi")).await;
        let calls = &called.reply().tool_calls;
        let said: Vec<(&str, &str)> =
            calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(said, [("read", r#"{"path":"ä b"}"#), ("vote", r#"{"id":1}"#)], "{kind}");
        assert_eq!(called.tools, ["read", "vote"], "{kind}");
        assert!(!calls[0].id.is_empty() && calls[0].id != calls[1].id, "{kind}: {calls:?}");
    }
}

#[tokio::test]
async fn a_reply_without_streaming_is_parsed() {
    for kind in KINDS {
        let mut reply = Reply::new_answer("An answer.").and_text("Look:").reasoning("Hm.");
        reply.pace = std::time::Duration::ZERO;
        // The fake server answers without streaming if the request does not ask for a stream.
        let script = Script::always(reply);
        let server = FakeModel::start(script).await;
        let whole = whole_body(kind, &server).await;
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{whole}",
            whole.len()
        );
        let plain = FakeModel::start(Script::always(Action::Raw(answer.into()))).await;
        let called = call(&*build(&config_of(kind, &plain.base_url(), json!({}))), &request("hi")).await;
        let reply = called.reply();
        assert_eq!((reply.text.as_str(), reply.reasoning.as_str()), ("Look:", "Hm."), "{kind}");
        assert_eq!(reply.tool_calls[0].arguments, r#"{"content":"An answer."}"#, "{kind}");
        assert_eq!(reply.usage.input_tokens, 100, "{kind}");
    }
}

async fn whole_body(kind: &str, server: &FakeModel) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let path = match kind {
        "openai" => "/v1/responses",
        "claude" => "/v1/messages",
        "gemini" => "/v1/models/m:generateContent",
        _ => "/v1/chat/completions",
    };
    let mut socket = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 13\r\n\r\n");
    socket.write_all(format!("{head}{{\"model\":\"m\"}}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[tokio::test]
async fn a_withheld_reply_is_a_bad_request_and_a_truncated_one_is_marked() {
    for kind in KINDS {
        for (reply, expected) in [
            (Reply::empty().finish(Finish::ContentFilter), Kind::BadRequest),
            (Reply::text("half a sent").finish(Finish::ContentFilter), Kind::BadRequest),
            (Reply::empty().reasoning("Hm…").finish(Finish::Length), Kind::Empty),
        ] {
            let server = FakeModel::start(Script::always(reply)).await;
            let called = call(&*build(&config_of(kind, &server.base_url(), json!({}))), &request("hi")).await;
            let error = called.error();
            assert_eq!((error.kind, server.request_count()), (expected, 1), "{kind}: {error}");
            assert!(error.hint.is_some(), "{kind}: {error}");
        }
    }
}

#[tokio::test]
async fn a_cooperative_agent_votes_answers_and_chats_in_every_format() {
    let tool = |name: &str, parameters: Value| ToolSpec {
        name: name.into(),
        description: format!("Does {name}."),
        parameters,
    };
    let answer = tool("new_answer", json!({"type": "object", "properties": {"content": {"type": "string"}}}));
    let vote = tool(
        "vote",
        json!({"type": "object", "additionalProperties": false, "properties": {
            "agent_id": {"type": "string", "enum": ["agent3", "agent2"]}, "reason": {"type": "string"}}}),
    );
    for kind in KINDS {
        let server = FakeModel::start(Script::parliament()).await;
        let backend = build(&config_of(kind, &server.base_url(), json!({})));
        let mut request = request("Why?");
        request.tools = vec![answer.clone(), vote.clone()];
        let voted = call(&*backend, &request).await.reply().tool_calls[0].clone();
        assert_eq!(voted.name, "vote", "{kind}");
        assert!(voted.arguments.contains(r#""agent_id":"agent2""#), "{kind}: {voted:?}");
        request.tools.pop();
        assert_eq!(call(&*backend, &request).await.reply().tool_calls[0].name, "new_answer", "{kind}");
        request.tools.clear();
        assert_eq!(call(&*backend, &request).await.reply().text, "Final answer of gpt-5-mini", "{kind}");
        let seen = &server.requests()[0];
        assert_eq!(seen.tool_names(), ["new_answer", "vote"], "{kind}");
        assert_eq!(
            (seen.system_text(), seen.last_user_text()),
            ("You are an agent.".into(), "Why?".into()),
            "{kind}"
        );
        assert_eq!((seen.model(), seen.wants_stream()), ("gpt-5-mini", true), "{kind}");
        assert!(!seen.messages().is_empty(), "{kind}");
    }
}

fn long_conversation(calls: Vec<ToolCall>) -> ModelRequest {
    let [first, second] = [calls[0].id.clone(), calls[1].id.clone()];
    let mut request = request("Read both.");
    request.tools.push(ToolSpec {
        name: "read".into(),
        description: "Reads.".into(),
        parameters: json!({"type": "object", "properties": {"path": {"type": ["string", "null"]}}, "additionalProperties": false}),
    });
    request.messages.extend([
        Message::Assistant { text: "Let me look.".into(), tool_calls: calls },
        Message::Tool { call: first, content: "text of x".into(), is_error: false },
        Message::Tool { call: second, content: "no such file".into(), is_error: true },
        Message::User("Hurry up.".into()),
        Message::Assistant { text: "Hm.".into(), tool_calls: Vec::new() },
        Message::User("Well?".into()),
    ]);
    request
}

fn calls() -> Vec<ToolCall> {
    let made = |id: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: "read".into(),
        arguments: arguments.into(),
    };
    vec![made("call_a", r#"{"path":"x"}"#), made("call_b", "{\"path\": oops")]
}

#[tokio::test]
async fn every_request_is_as_its_provider_documents_it() {
    let params = [
        json!({}),
        json!({
            "temperature": 0.5, "top_p": 0.9, "max_tokens": 20_000, "reasoning": {"effort": "low", "summary": "auto"},
            "stop": "END", "tool_choice": "required", "parallel_tool_calls": false,
            "enable_web_search": true, "user": "u",
        }),
        json!({"tool_choice": {"type": "function", "function": {"name": "read"}}, "thinking_budget": 2048,
            "text": {"verbosity": "low"}, "enable_code_execution": true, "service_tier": "auto"}),
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}}),
    ];
    for kind in KINDS {
        let models = match kind {
            "claude" => {
                &["claude-haiku-4-5", "claude-sonnet-4-6", "claude-opus-5", "claude-3-haiku-20240307"][..]
            }
            "gemini" => &["gemini-2.5-flash", "gemini-3-pro-preview"],
            _ => &["gpt-5-mini"],
        };
        for (model, params) in
            models.iter().flat_map(|model| params.iter().map(move |params| (model, params)))
        {
            let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
            let mut params = params.clone();
            if kind == "chatcompletion" {
                params.as_object_mut().unwrap().retain(|key, _| key != "thinking_budget");
            }
            let mut section = config_of(kind, &server.base_url(), params.clone());
            section.model = Some((*model).into());
            let backend = build(&section);
            for request in [request("hi"), long_conversation(calls())] {
                call(&*backend, &request).await.result.unwrap();
            }
            for seen in server.requests() {
                schemas::check(kind, seen.body())
                    .unwrap_or_else(|found| panic!("{kind} {model} {params}: {found}\n{:#}", seen.body()));
            }
        }
    }
}

#[tokio::test]
async fn a_tool_call_and_its_result_go_back_and_forth_on_every_wire() {
    for kind in KINDS {
        let script = Script::always(Reply::text("Done."))
            .nth(0, Reply::call("read", &json!({"path": "x"})).and_call("read", &json!({"path": "y"})));
        let server = FakeModel::start(script).await;
        let backend = build(&config_of(kind, &server.base_url(), json!({})));
        let mut request = request("Read both.");
        let first = call(&*backend, &request).await.reply().clone();
        let ids: Vec<String> = first.tool_calls.iter().map(|call| call.id.clone()).collect();
        request.messages.push(Message::Assistant { text: first.text, tool_calls: first.tool_calls });
        for id in &ids {
            request.messages.push(Message::Tool {
                call: id.clone(),
                content: "text".into(),
                is_error: false,
            });
        }
        assert_eq!(call(&*backend, &request).await.reply().text, "Done.", "{kind}");
        let sent = server.requests()[1].body().to_string();
        // Ids that Althing assigned, because the provider sent none, are not sent back.
        assert!(
            ids.iter().all(|id| sent.contains(id.as_str()) != id.starts_with("althing-")),
            "{kind}: {sent}"
        );
        schemas::check(kind, server.requests()[1].body()).unwrap();
        assert_eq!(server.requests()[1].last_user_text(), "Read both.", "{kind}");
    }
}

#[tokio::test]
async fn the_key_goes_into_the_header_that_each_provider_reads_and_nowhere_else() {
    for (kind, header, path) in [
        ("chatcompletion", "authorization", "/v1/chat/completions"),
        ("openai", "authorization", "/v1/responses"),
        ("claude", "x-api-key", "/v1/messages"),
        ("gemini", "x-goog-api-key", "/v1/models/gpt-5-mini:streamGenerateContent?alt=sse"),
    ] {
        let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
        call(&*build(&config_of(kind, &server.base_url(), json!({}))), &request("hi")).await.result.unwrap();
        let seen = &server.requests()[0];
        assert_eq!(seen.path(), path);
        assert!(seen.header(header).unwrap().ends_with(KEY), "{kind}");
        let elsewhere = seen.headers().iter().filter(|(name, _)| name != header);
        assert!(elsewhere.clone().all(|(_, value)| !value.contains(KEY)), "{kind}");
        assert!(!seen.body().to_string().contains(KEY) && !seen.path().contains(KEY), "{kind}");
    }
}

#[tokio::test]
async fn calls_one_after_another_use_one_connection() {
    for kind in KINDS {
        let server = FakeModel::start(Script::always(Reply::text("ok").chunks(2))).await;
        let backend = build(&config_of(kind, &server.base_url(), json!({})));
        for _ in 0..3 {
            call(&*backend, &request("hi")).await.result.unwrap();
        }
        assert_eq!((server.request_count(), server.connections()), (3, 1), "{kind}");
    }
}

#[tokio::test]
async fn a_reply_past_its_size_is_too_large_and_not_tried_again() {
    for kind in KINDS {
        let chunks = (0..5).map(|_| "x".repeat(1 << 20));
        let server = FakeModel::start(Script::always(Reply::empty().text_chunks(chunks))).await;
        let called = call(&*build(&config_of(kind, &server.base_url(), json!({}))), &request("hi")).await;
        assert_eq!((called.error().kind, server.request_count()), (Kind::TooLarge, 1), "{kind}");
    }
}

#[tokio::test]
async fn any_text_is_read_exactly() {
    let chunks =
        ["plain", " words", "a \"quoted\" \\ word", "\n", "plain\u{7f}", "漢字", "🦀", "\t}", "\"},", "."];
    for kind in KINDS {
        let reply = Reply::empty().text_chunks(chunks).reasoning("why\n\"");
        let server = FakeModel::start(Script::always(reply)).await;
        let called = call(&*build(&config_of(kind, &server.base_url(), json!({}))), &request("hi")).await;
        assert_eq!((&called.reply().text, &called.text), (&chunks.concat(), &chunks.concat()), "{kind}");
        assert_eq!(called.reasoning, "why\n\"", "{kind}");
    }
}
