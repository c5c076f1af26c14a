//! Endpoints: an agent's tools, for the one CLI agent that works as that agent.

use super::attacks::{is_refusal, statuses, tight};
use super::support::{call as call_through, call_named, good, names, notices, options, until};
use super::wire::{Raw, call, modern, read, read_until};
use althing_mcp::{AgentEndpoints, McpToolHost, ServerSpec, ServerTransport, WebLimits};
use althing_protocol::{
    BoxFuture, Endpoint, EndpointHandler, Endpoints, Secret, ToolCall, ToolOutcome, ToolSpec,
};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// `echo` is answered at once, `wait` when released, `fail` with an error.
#[derive(Default)]
struct ScriptedTools {
    calls: Mutex<Vec<ToolCall>>,
    go: Notify,
    dropped: AtomicUsize,
}

struct Dropped<'a>(&'a AtomicUsize);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl EndpointHandler for ScriptedTools {
    fn call(&self, call: ToolCall) -> BoxFuture<'_, ToolOutcome> {
        Box::pin(async move {
            self.calls.lock().unwrap().push(call.clone());
            if call.name == "wait" {
                let unfinished = Dropped(&self.dropped);
                self.go.notified().await;
                std::mem::forget(unfinished);
            }
            ToolOutcome { content: call.arguments, is_error: call.name == "fail" }
        })
    }
}

impl ScriptedTools {
    fn count(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Ordering::Relaxed)
    }
}

fn specs() -> Vec<ToolSpec> {
    let spec = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: format!("does {name}"),
        parameters: json!({"type": "object", "properties": {"text": {"type": "string"}}}),
    };
    ["echo", "wait", "fail"].map(spec).to_vec()
}

async fn open(endpoints: &AgentEndpoints) -> (Box<dyn Endpoint>, Arc<ScriptedTools>) {
    let tools = Arc::new(ScriptedTools::default());
    (endpoints.open(specs(), tools.clone()).await.unwrap(), tools)
}

fn quick() -> AgentEndpoints {
    let moment = Duration::from_millis(20);
    AgentEndpoints::new(WebLimits { first_byte: moment, keep_alive: moment, ..WebLimits::default() })
}

async fn client(endpoint: &dyn Endpoint, token: &Secret) -> McpToolHost {
    let mut spec = ServerSpec::http("fake", endpoint.url());
    let ServerTransport::Http { headers, .. } = &mut spec.transport else { unreachable!() };
    headers.push(("Authorization".to_owned(), Secret::new(format!("Bearer {}", token.reveal()))));
    McpToolHost::start(vec![spec], options().0).await
}

#[tokio::test]
async fn a_client_lists_and_calls_the_tools_and_counts_as_connected_once_it_has_listed_them() {
    let endpoints = AgentEndpoints::default();
    let (endpoint, tools) = open(&endpoints).await;
    assert!(!endpoint.is_connected());
    let host = client(&*endpoint, endpoint.token()).await;
    assert_eq!(notices(&host), [], "{:?}", host.notices());
    assert!(endpoint.is_connected());
    assert_eq!(names(&host), ["mcp__fake__echo", "mcp__fake__wait", "mcp__fake__fail"]);
    assert_eq!(call_through(&host, "echo", json!({"text": "hi"})).await, good("{\"text\":\"hi\"}"));
    assert!(call_named(&host, "mcp__fake__fail", "{}").await.is_error);
    let ids: Vec<String> = tools.calls.lock().unwrap().iter().map(|call| call.id.clone()).collect();
    assert_eq!(ids, ["mcp-1", "mcp-2"]);
}

#[tokio::test]
async fn both_eras_of_the_protocol_are_served() {
    let endpoints = AgentEndpoints::default();
    let (endpoint, _) = open(&endpoints).await;
    let send = |message| Raw::post(endpoint.url(), endpoint.token().reveal(), &message);
    let old = send(call("echo", json!({"text": "old"}))).send().await;
    assert_eq!(old.message()["result"]["content"][0]["text"], "{\"text\":\"old\"}", "{old:?}");
    let listed = send(modern("tools/list", json!({}))).send().await;
    assert_eq!(listed.message()["result"]["tools"][0]["name"], "echo", "{listed:?}");
    let new = send(modern("tools/call", json!({"name": "echo", "arguments": {"text": "new"}}))).send().await;
    assert_eq!(new.message()["result"]["content"][0]["text"], "{\"text\":\"new\"}", "{new:?}");
    let found = send(modern("server/discover", json!({}))).send().await;
    let revisions = found.message()["result"]["supportedVersions"].clone();
    assert!(["2025-06-18", "2025-11-25", "2026-07-28"].iter().all(|one| revisions.to_string().contains(one)));
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_that_names_the_known_ones() {
    let endpoints = AgentEndpoints::default();
    let (endpoint, tools) = open(&endpoints).await;
    let answer = Raw::post(endpoint.url(), endpoint.token().reveal(), &call("ecco", json!({}))).send().await;
    let result = &answer.message()["result"];
    assert_eq!(result["isError"], true, "{answer:?}");
    assert_eq!(result["content"][0]["text"], "there is no tool `ecco`; use one of: echo, wait, fail");
    assert_eq!(tools.count(), 0);
}

/// An hour, so that only the limits on connections close any.
fn crowded(connections: usize, of_one_token: usize) -> WebLimits {
    let head = Duration::from_secs(3600);
    WebLimits { head, connections, of_one_token, unauthenticated: 8, ..WebLimits::default() }
}

/// A request that is refused although its token is right; the connection stays open.
fn refused(endpoint: &dyn Endpoint) -> Raw {
    let request = Raw::post(endpoint.url(), endpoint.token().reveal(), &call("echo", json!({})));
    request.with("Content-Type", Some("text/plain")).with("Connection", None)
}

// Attack S82 of docs/reliability.md: one agent holds the connections of the common listener.
#[tokio::test]
async fn an_agent_that_holds_connections_keeps_no_other_agent_from_its_tools() {
    // With 64, the hostile agent alone reaches the limit of the listener.
    for of_one_token in [8, 64] {
        let endpoints = AgentEndpoints::new(crowded(40, of_one_token));
        let ((hostile, _), (honest, tools)) = (open(&endpoints).await, open(&endpoints).await);
        let mut held = Vec::new();
        for _ in 0..40 {
            let mut stream = refused(&*hostile).open().await;
            read_until(&mut stream, "415").await;
            held.push(stream);
        }
        let echo = Raw::post(honest.url(), honest.token().reveal(), &call("echo", json!({})));
        assert_eq!(echo.send().await.status, 200);
        assert_eq!(tools.count(), 1);
    }
}

#[tokio::test]
async fn an_agent_whose_calls_fill_its_connections_is_told_and_others_are_served() {
    let endpoints = AgentEndpoints::new(crowded(40, 8));
    let ((busy, tools), (honest, _)) = (open(&endpoints).await, open(&endpoints).await);
    let send = |endpoint: &dyn Endpoint, tool: &str| {
        Raw::post(endpoint.url(), endpoint.token().reveal(), &call(tool, json!({})))
    };
    let mut calls = Vec::new();
    for count in 1..=8 {
        calls.push(send(&*busy, "wait").open().await);
        until("the call", || tools.count() == count).await;
    }
    let more = send(&*busy, "echo").send().await;
    assert_eq!(more.status, 503, "{more:?}");
    assert!(more.text.contains("too many requests at once"), "{more:?}");
    assert_eq!(send(&*honest, "echo").send().await.status, 200);
    tools.go.notify_waiters();
    for call in calls {
        assert_eq!(read(call).await.status, 200, "no call is ended for another");
    }
    assert_eq!(send(&*busy, "echo").send().await.status, 200);
}

#[tokio::test]
async fn a_connection_ends_after_some_error_responses() {
    let endpoints = AgentEndpoints::new(crowded(40, 8));
    let (endpoint, _) = open(&endpoints).await;
    let request = refused(&*endpoint);
    let mut stream = request.open().await;
    for _ in 1..WebLimits::default().errors {
        read_until(&mut stream, "415").await;
        stream.write_all(&[request.head(), request.body.clone()].concat()).await.unwrap();
    }
    assert_eq!(read(stream).await.status, 415, "and the end of the connection");
}

// Attack S12 of docs/reliability.md: one agent tries to act as another, or after its endpoint was closed.
#[tokio::test]
async fn a_token_is_good_for_its_own_endpoint_and_only_while_it_is_open() {
    let endpoints = AgentEndpoints::default();
    let (one, desk_of_one) = open(&endpoints).await;
    let (two, desk_of_two) = open(&endpoints).await;
    assert_ne!(one.token(), two.token());
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        call("echo", json!({})),
        modern("tools/list", json!({})),
        modern("tools/call", json!({"name": "echo", "arguments": {}})),
    ];
    for message in &messages {
        for (url, token) in [(two.url(), one.token()), (one.url(), two.token())] {
            assert_eq!(Raw::post(url, token.reveal(), message).send().await.status, 401, "{message}");
        }
    }
    assert_eq!(client(&*two, one.token()).await.servers(), [], "a server that refuses us is left out");
    let good = |message| Raw::post(one.url(), one.token().reveal(), message);
    assert_eq!(good(&messages[1]).send().await.status, 200);
    let late: Vec<Raw> = messages.iter().map(good).collect();
    drop(one);
    for request in late {
        assert_eq!(request.send().await.status, 401);
    }
    assert_eq!((desk_of_one.count(), desk_of_two.count()), (1, 0));
    assert!(!two.is_connected());
}

#[tokio::test]
async fn a_long_call_is_answered_at_once_with_a_stream_that_stays_alive() {
    let endpoints = quick();
    let (endpoint, tools) = open(&endpoints).await;
    let new = modern("tools/call", json!({"name": "wait", "arguments": {}}));
    for message in [call("wait", json!({})), new] {
        let before = tools.count();
        let mut stream = Raw::post(endpoint.url(), endpoint.token().reveal(), &message).open().await;
        let mut begin = read_until(&mut stream, "\n:").await;
        assert!(begin.contains("text/event-stream"), "{begin}");
        begin.push_str(&read_until(&mut stream, ":\n\n").await);
        assert!(!begin.contains("\"result\""), "{begin}");
        until("the call", || tools.count() > before).await;
        tools.go.notify_one();
        let rest = read_until(&mut stream, "\"result\"").await;
        assert!(rest.contains("data: {"), "{rest}");
    }
}

#[tokio::test]
async fn a_client_that_asks_for_progress_gets_keepalives() {
    let endpoints = quick();
    let (endpoint, tools) = open(&endpoints).await;
    let mut message = call("wait", json!({}));
    message["params"]["_meta"] = json!({"progressToken": "p"});
    let mut stream = Raw::post(endpoint.url(), endpoint.token().reveal(), &message).open().await;
    let received = read_until(&mut stream, "\"progress\":2").await;
    assert!(
        received.contains("notifications/progress") && received.contains("\"progressToken\":\"p\""),
        "{received}"
    );
    tools.go.notify_one();
    read_until(&mut stream, "\"result\"").await;
}

#[tokio::test]
async fn a_call_ends_with_its_connection_and_with_its_endpoint() {
    let endpoints = quick();
    let (endpoint, tools) = open(&endpoints).await;
    let new = modern("tools/call", json!({"name": "wait", "arguments": {}}));
    let messages = [call("wait", json!({})), new];
    for (done, message) in messages.iter().enumerate() {
        let stream = Raw::post(endpoint.url(), endpoint.token().reveal(), message).open().await;
        until("the call", || tools.count() == done + 1).await;
        drop(stream);
        until("its end", || tools.dropped() == done + 1).await;
    }
    let stream = Raw::post(endpoint.url(), endpoint.token().reveal(), &messages[0]).open().await;
    until("the call", || tools.count() == 3).await;
    drop(endpoint);
    until("its end", || tools.dropped() == 3).await;
    assert!(!read(stream).await.text.contains("\"result\""));
}

/// The SDK of opencode sends this request before it lists the tools. Streams are not offered.
fn stream_request(endpoint: &dyn Endpoint) -> Vec<u8> {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let mut request = Raw::post(endpoint.url(), endpoint.token().reveal(), &list)
        .with("Connection", None)
        .with("Content-Type", None)
        .with("Accept", Some("text/event-stream"));
    request.body.clear();
    let head = String::from_utf8(request.head()).unwrap();
    head.replacen("POST", "GET", 1).replace("Content-Length: 0\r\n", "").into_bytes()
}

// Older versions of Bun reuse a connection after an error, whatever the response says.
#[tokio::test]
async fn a_client_that_reuses_a_connection_after_an_error_is_answered() {
    let endpoints = AgentEndpoints::default();
    let (endpoint, _) = open(&endpoints).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let list = Raw::post(endpoint.url(), endpoint.token().reveal(), &list).with("Connection", None);
    let mut stream = TcpStream::connect(list.address).await.unwrap();
    for _ in 0..2 {
        stream.write_all(&stream_request(&*endpoint)).await.unwrap();
        read_until(&mut stream, "405 Method Not Allowed").await;
    }
    stream.write_all(&[list.head(), list.body.clone()].concat()).await.unwrap();
    let answer = read(stream).await;
    assert!(answer.text.contains("200 OK") && answer.text.contains("connection: close"), "{answer:?}");
    assert!(answer.text.contains("\"name\":\"echo\"") && endpoint.is_connected(), "{answer:?}");
}

#[tokio::test]
async fn a_connection_that_stays_silent_after_an_error_is_closed() {
    let endpoints = AgentEndpoints::new(tight());
    let (endpoint, _) = open(&endpoints).await;
    let address = Raw::post(endpoint.url(), "", &json!({})).address;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&stream_request(&*endpoint)).await.unwrap();
    let answer = read(stream).await;
    assert_eq!(answer.status, 405, "{answer:?}");
    assert!(!answer.text.contains("408"), "nothing is answered that was not asked: {answer:?}");
}

// Attack S11 of docs/reliability.md, on the listener that all endpoints share.
#[tokio::test]
async fn everything_that_is_not_the_agents_own_program_is_refused_and_runs_no_tool() {
    let endpoints = AgentEndpoints::new(tight());
    let (endpoint, tools) = open(&endpoints).await;
    let got = statuses(endpoint.url(), endpoint.token().reveal(), "echo").await;
    assert!(got.len() >= 1040, "{}", got.len());
    let through: Vec<_> = got.iter().filter(|(_, status)| !is_refusal(*status)).collect();
    assert!(through.is_empty(), "{through:?}");
    assert_eq!(tools.count(), 0);
}
