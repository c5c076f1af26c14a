//! How models are asked to call tools: the provider's own calls, JSON with a schema, calls written as text; and how
//! `auto` finds out.

use super::support::{LONG, build, call, config_of, http, request};
use althing_llm::{BuildError, PriceTable, backend};
use althing_protocol::{Backend, BackendConfig, CallsFrom, Message, ModelRequest, ToolSpec};
use althing_testkit::{
    Action, CallStyle, FakeModel, FakeModelOptions, Finish, Gate, Reply, Script, ServerProgram, SmallModel,
};
use serde_json::{Value, json};
use std::sync::Arc;

const SMALL_LLAMA: ServerProgram =
    ServerProgram::LlamaCpp { context: 8192, slots: 3, parameters: 1_500_000_000 };
const BIG_LLAMA: ServerProgram =
    ServerProgram::LlamaCpp { context: 8192, slots: 3, parameters: 30_000_000_000 };

async fn server(program: ServerProgram, script: impl Into<Script>) -> FakeModel {
    FakeModel::start_with(FakeModelOptions { program, ..FakeModelOptions::default() }, script).await
}

fn config(kind: &str, server: &FakeModel, params: Value) -> BackendConfig {
    let mut section = config_of(kind, &server.base_url(), params);
    section.model = Some("model-a".into());
    section
}

fn model(kind: &str, server: &FakeModel, params: Value) -> Arc<dyn Backend> {
    build(&config(kind, server, params))
}

fn answering() -> ModelRequest {
    let mut asked = request("What is 6 times 7?");
    asked.tools[0].parameters["required"] = json!(["content"]);
    asked
}

fn small() -> Script {
    Script::from_fn(|request| SmallModel::default().reply(request))
}

#[tokio::test]
async fn requests_to_hosted_providers_are_byte_for_byte_the_same_as_before() {
    let tool = r#"{"name":"new_answer","description":"Answers.","parameters":{"type":"object","properties":{"content":{"type":"string"}}}}"#;
    let messages =
        r#""messages":[{"role":"system","content":"You are an agent."},{"role":"user","content":"hi"}]"#;
    let chat = format!(
        r#"{{"model":"model-a",{messages},"tools":[{{"type":"function","function":{tool}}}],"stream":true,"stream_options":{{"include_usage":true}},"tool_choice":"required"}}"#
    );
    let written = "```json\n{\"name\": \"new_answer\", \"arguments\": {\"content\": \"42\"}}\n```";
    for kind in [
        "openai",
        "grok",
        "openrouter",
        "groq",
        "together",
        "fireworks",
        "cerebras",
        "moonshot",
        "nebius",
        "qwen",
        "zai",
    ] {
        let server = server(SMALL_LLAMA, Script::always(Reply::text(written))).await;
        let hosted = model(kind, &server, json!({"api": "chat", "tool_choice": "required"}));
        for _ in 0..2 {
            let called = call(&*hosted, &request("hi")).await;
            assert_eq!(
                (called.reply().text.as_str(), called.reply().tool_calls.len()),
                (written, 0),
                "{kind}"
            );
            assert_eq!(
                (called.text.as_str(), called.reply().notices.len()),
                (written, 0),
                "{kind}: all of it is shown"
            );
        }
        for sent in server.requests() {
            assert_eq!(String::from_utf8_lossy(sent.raw_body()), chat, "{kind}");
        }
        assert!(server.other_requests().is_empty(), "{kind}: a hosted provider is asked nothing");
    }
}

#[tokio::test]
async fn an_unknown_server_with_native_calls_gets_the_same_requests_as_before() {
    let server = server(ServerProgram::Plain, Script::parliament()).await;
    let own = model("chatcompletion", &server, json!({}));
    let called = call(&*own, &request("hi")).await;
    assert_eq!((called.reply().tool_calls.len(), called.reply().calls_from), (1, None));
    let keys: Vec<String> = server.requests()[0].body().as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["model", "messages", "tools", "stream", "stream_options"]);
}

#[tokio::test]
async fn a_small_model_on_a_known_server_is_asked_with_a_schema_from_the_start() {
    for (kind, program) in [
        ("chatcompletion", SMALL_LLAMA),
        ("ollama", ServerProgram::Ollama { context: 8192, parameters: 1_500_000_000, tools: true, bytes: 1 }),
        (
            "ollama",
            ServerProgram::Ollama { context: 8192, parameters: 8_000_000_000, tools: false, bytes: 1 },
        ),
        ("lmstudio", ServerProgram::LmStudio { context: 8192, tools: false }),
    ] {
        let server = server(program, small()).await;
        let called = call(&*model(kind, &server, json!({"tool_choice": "required"})), &answering()).await;
        let reply = called.reply();
        assert_eq!(reply.tool_calls[0].name, "new_answer", "{program:?}");
        assert_eq!(reply.tool_calls[0].arguments, r#"{"content":"Answer of model-a"}"#);
        assert_eq!((reply.calls_from, reply.text.as_str()), (Some(CallsFrom::Schema), ""));
        assert_eq!(
            (called.text.as_str(), called.tools.as_slice()),
            ("Answer of model-a", &["new_answer".to_owned()][..])
        );
        let sent = server.requests()[0].body().clone();
        assert!(sent.get("tools").is_none() && sent.get("tool_choice").is_none(), "{sent}");
        assert_eq!(sent.pointer("/response_format/type"), Some(&json!("json_schema")));
        assert_eq!(sent["max_tokens"], 2048, "a quarter of the context");
        assert!(server.requests()[0].system_text().contains("## new_answer\nAnswers."));
    }
}

#[tokio::test]
async fn auto_moves_to_a_schema_once_the_model_writes_a_call_as_text_and_says_so_once() {
    let styles = [CallStyle::Fence, CallStyle::ToolCall, CallStyle::Tools, CallStyle::Bare];
    for style in styles {
        let server =
            server(BIG_LLAMA, Script::from_fn(move |request| SmallModel::new(style).reply(request))).await;
        let http = http();
        let one =
            backend(&config("chatcompletion", &server, json!({})), &http, &PriceTable::default()).unwrap();
        let first = call(&*one, &answering()).await;
        assert_eq!(first.reply().calls_from, Some(CallsFrom::Text), "{style:?}");
        assert_eq!(first.reply().tool_calls[0].arguments, r#"{"content":"Answer of model-a"}"#);
        assert_eq!((first.text.as_str(), first.reply().text.as_str()), ("", ""), "no markup is shown");
        let [notice] = first.reply().notices.as_slice() else { panic!("{:?}", first.reply().notices) };
        assert!(notice.text.contains("wrote its tool call as text"), "{}", notice.text);
        // Another agent on the same model begins with the form that this agent found.
        let two =
            backend(&config("chatcompletion", &server, json!({})), &http, &PriceTable::default()).unwrap();
        let second = call(&*two, &answering()).await;
        assert_eq!((second.reply().calls_from, second.reply().notices.len()), (Some(CallsFrom::Schema), 0));
        let sent = server.requests();
        assert!(sent[0].body().get("tools").is_some() && sent[1].body().get("tools").is_none());
    }
}

#[tokio::test]
async fn a_server_that_rejects_tools_or_schemas_is_asked_without_them() {
    let refused = [
        (
            ServerProgram::Vllm { context: 8192 },
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
            400,
        ),
        (BIG_LLAMA, "tools param requires --jinja flag", 500),
        (ServerProgram::Plain, "registry.ollama.ai/library/x does not support tools", 400),
    ];
    for (program, message, status) in refused {
        let server = server(
            program,
            Script::from_fn(move |request| match request.body() {
                body if body.get("tools").is_some() => Action::refuse(status, message),
                body if body.get("response_format").is_some() => {
                    Action::refuse(400, "unknown field `response_format`")
                }
                _ => SmallModel::default().reply(request).into(),
            }),
        )
        .await;
        let own = model("chatcompletion", &server, json!({}));
        let called = call(&*own, &answering()).await;
        assert_eq!(called.reply().calls_from, Some(CallsFrom::Text), "{message}");
        let told: Vec<&str> = called.reply().notices.iter().map(|notice| notice.text.as_str()).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].contains("rejects `tool_calling: native`")
                && told[1].contains("rejects `tool_calling: schema`")
        );
        assert_eq!(server.request_count(), 3);
        let again = call(&*own, &answering()).await;
        assert_eq!((again.reply().notices.len(), server.request_count()), (0, 4), "it is remembered");
        let last = server.requests()[3].last_user_text();
        assert!(last.ends_with("one JSON object with `name` and `arguments`."), "{last}");
    }
}

#[tokio::test]
async fn the_setting_decides_if_it_is_not_auto() {
    let native = server(SMALL_LLAMA, small()).await;
    let called =
        call(&*model("chatcompletion", &native, json!({"tool_calling": "native"})), &answering()).await;
    assert!(called.reply().text.starts_with("```json") && called.reply().tool_calls.is_empty());
    assert!(called.text.starts_with("```json"), "nothing is hidden");
    let text = server(SMALL_LLAMA, small()).await;
    let called = call(&*model("chatcompletion", &text, json!({"tool_calling": "text"})), &answering()).await;
    assert_eq!(called.reply().calls_from, Some(CallsFrom::Text));
    let sent = text.requests()[0].body().clone();
    assert!(sent.get("tools").is_none() && sent.get("response_format").is_none(), "{sent}");
    let hosted = server(ServerProgram::Plain, small()).await;
    let called = call(&*model("groq", &hosted, json!({"tool_calling": "schema"})), &answering()).await;
    assert_eq!(called.reply().calls_from, Some(CallsFrom::Schema));
    let wrong = |kind: &str, value: Value| {
        let section = config_of(kind, "http://127.0.0.1:9/v1", json!({"tool_calling": value}));
        backend(&section, &http(), &PriceTable::default()).err()
    };
    assert!(matches!(
        wrong("groq", json!("sometimes")),
        Some(BuildError::BadParam { name: "tool_calling", .. })
    ));
    assert!(matches!(
        wrong("claude", json!("schema")),
        Some(BuildError::BadParam { name: "tool_calling", .. })
    ));
    assert_eq!(wrong("claude", json!("native")), None);
}

#[tokio::test]
async fn a_schema_reply_that_is_cut_shows_its_text_and_never_json() {
    let cut = Reply::text(r#"{"name": "new_answer", "arguments": {"content": "The first half"#)
        .finish(Finish::Length);
    let server = server(SMALL_LLAMA, Script::always(cut)).await;
    let called = call(&*model("chatcompletion", &server, json!({})), &answering()).await;
    let reply = called.reply();
    assert_eq!((reply.text.as_str(), reply.tool_calls.len(), reply.cut), ("The first half", 0, true));
    assert_eq!(called.text, "The first half");
}

#[tokio::test]
async fn a_chat_with_a_small_model_may_be_plain_text() {
    let server = server(SMALL_LLAMA, Script::always(Reply::text(r#"{"text": "Hello!"}"#).chunks(5))).await;
    let mut chat = request("Hi");
    chat.tools = vec![ToolSpec {
        name: "read_file".into(),
        description: "Reads.".into(),
        parameters: json!({"type": "object"}),
    }];
    let called = call(&*model("chatcompletion", &server, json!({})), &chat).await;
    assert_eq!((called.reply().text.as_str(), called.reply().calls_from), ("Hello!", None));
    assert_eq!(called.text, "Hello!");
}

#[tokio::test]
async fn tool_choice_required_is_never_sent_to_llama_cpp() {
    for (program, sent) in [(BIG_LLAMA, false), (ServerProgram::Vllm { context: 8192 }, true)] {
        let server = server(program, Script::parliament()).await;
        let own = model("chatcompletion", &server, json!({"tool_choice": "required"}));
        assert_eq!(call(&*own, &answering()).await.reply().tool_calls.len(), 1);
        assert_eq!(server.requests()[0].body().get("tool_choice").is_some(), sent, "{program:?}");
    }
}

#[tokio::test]
async fn a_long_prompt_is_kept_within_the_context_that_the_server_reports_or_the_config_sets() {
    let programs = [
        ServerProgram::LlamaCpp { context: 2048, slots: 1, parameters: 8_000_000_000 },
        ServerProgram::Ollama { context: 2048, parameters: 8_000_000_000, tools: true, bytes: 1 },
        ServerProgram::LmStudio { context: 2048, tools: true },
        ServerProgram::Vllm { context: 2048 },
    ];
    let mut long = answering();
    for n in 0..40 {
        long.messages.push(Message::Assistant {
            text: format!("turn {n} {}", "x".repeat(400)),
            tool_calls: Vec::new(),
        });
        long.messages.push(Message::User(format!("go on {n}")));
    }
    for (program, params) in programs
        .map(|program| (program, json!({})))
        .into_iter()
        .chain([(ServerProgram::Plain, json!({"context_length": 2048}))])
    {
        let server = server(program, Script::parliament()).await;
        call(&*model("chatcompletion", &server, params), &long).await.reply();
        let sent = &server.requests()[0];
        let bytes = sent.raw_body().len();
        assert!(bytes < 3 * 2048, "{program:?}: {bytes} bytes");
        let text = String::from_utf8_lossy(sent.raw_body()).into_owned();
        assert!(text.contains("What is 6 times 7?") && text.contains("go on 39"), "{program:?}");
        assert!(text.contains("earlier messages left out here") && !text.contains("turn 0 "), "{program:?}");
        assert!(sent.body()["max_tokens"].as_u64().is_some_and(|n| n <= 2048), "{program:?}");
    }
}

#[tokio::test]
async fn a_prompt_that_is_still_too_long_is_shortened_and_sent_again() {
    let message = "the request exceeds the available context size (9000 tokens > 8192)";
    let script = Script::from_fn(move |request| {
        if request.raw_body().len() > 16_000 {
            Action::refuse(400, message)
        } else {
            Reply::new_answer("ok").into()
        }
    });
    let server = server(BIG_LLAMA, script).await;
    let mut long = answering();
    long.messages[0] = Message::User(format!("Task: {}", "字".repeat(5900)));
    let called = call(&*model("chatcompletion", &server, json!({})), &long).await;
    assert_eq!(called.reply().tool_calls.len(), 1);
    assert!(server.request_count() >= 2);
}

#[tokio::test]
async fn calls_wait_for_a_free_slot_of_the_server_and_say_so() {
    for (program, params) in [
        (ServerProgram::LlamaCpp { context: 8192, slots: 1, parameters: 1_500_000_000 }, json!({})),
        (ServerProgram::Plain, json!({"max_concurrent": 1})),
    ] {
        let gate = Gate::new();
        let held = gate.clone();
        let server = server(
            program,
            small().nth(
                0,
                Action::with(move |request| Action::gated(SmallModel::default().reply(request), &held)),
            ),
        )
        .await;
        let http = http();
        let built = || {
            backend(&config("chatcompletion", &server, params.clone()), &http, &PriceTable::default())
                .unwrap()
        };
        let (one, two) = (built(), built());
        let asked = answering();
        let first = call(&*one, &asked);
        let second = async {
            server.wait_for_requests(1, LONG).await;
            let mut second = Box::pin(call(&*two, &asked));
            assert!(futures_poll(&mut second).await.is_none());
            assert_eq!(server.request_count(), 1, "the second call waits");
            gate.release_all();
            second.await
        };
        let (first, second) = tokio::join!(first, second);
        assert!(first.result.is_ok() && first.waits.is_empty(), "{:?}", first.waits);
        assert_eq!(second.waits, ["the server is busy with other calls"], "{program:?}");
        assert!(second.result.is_ok());
    }
}

async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    for _ in 0..100 {
        tokio::select! {
            biased;
            output = &mut *future => return Some(output),
            () = tokio::task::yield_now() => {}
        }
    }
    None
}

#[tokio::test]
async fn a_server_that_loads_its_model_is_waited_for() {
    let script =
        small().nth(0, Action::refuse(503, "Loading model")).nth(1, Action::refuse(503, "Loading model"));
    let server = server(SMALL_LLAMA, script).await;
    let called = call(&*model("chatcompletion", &server, json!({"max_retries": 0})), &answering()).await;
    assert!(called.result.is_ok(), "{:?}", called.result);
    assert_eq!(called.waits, ["the server is loading the model"; 2]);
}

#[tokio::test]
async fn a_reply_without_a_finish_reason_counts_if_it_is_complete() {
    let body = r#"{"choices": [{"index": 0, "message": {"role": "assistant", "content": "Done."}}]}"#;
    let whole = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let stream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\
                  data: {\"choices\":[{\"delta\":{\"content\":\"Done.\"}}]}\n\ndata: [DONE]\n\n";
    for response in [whole, stream.to_owned()] {
        let server = server(ServerProgram::Plain, Script::always(Action::Raw(response.into()))).await;
        let called = call(&*model("chatcompletion", &server, json!({})), &request("hi")).await;
        assert_eq!(called.reply().text, "Done.");
    }
}

#[tokio::test]
async fn llama_cpp_python_is_called_once_at_a_time_and_a_cut_reply_says_what_to_set() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"Do\"}}]}\n\n";
    let server = server(ServerProgram::LlamaCppPython, Script::always(Action::Raw(cut.into()))).await;
    let called = call(&*model("chatcompletion", &server, json!({"max_retries": 0})), &request("hi")).await;
    assert!(
        called.error().hint.as_deref().unwrap().contains("--interrupt_requests false"),
        "{:?}",
        called.error()
    );
}
