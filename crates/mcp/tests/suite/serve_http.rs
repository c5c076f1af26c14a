//! The MCP server over streamable HTTP: which clients are served, and which are refused.

use super::attacks::{is_refusal, statuses, tight};
use super::pipe::patient;
use super::scripted::Scripted;
use super::support::{call_named, names, notices, options, until};
use super::wire::{Raw, call, modern, read_until};
use althing_mcp::{
    McpListener, McpServer, McpToolHost, ServeOptions, ServerSpec, ServerTransport, WebLimits,
};
use althing_protocol::Secret;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

async fn listening(limits: WebLimits) -> (McpListener, Arc<Scripted>) {
    let runs = Arc::new(Scripted::default());
    let server = McpServer::new(runs.clone(), patient());
    (server.listen(anywhere(), None, limits).await.unwrap(), runs)
}

async fn client(server: &McpListener) -> McpToolHost {
    let mut spec = ServerSpec::http("althing", server.url());
    let ServerTransport::Http { headers, .. } = &mut spec.transport else { unreachable!() };
    headers.push(("Authorization".to_owned(), Secret::new(format!("Bearer {}", server.token().reveal()))));
    McpToolHost::start(vec![spec], options().0).await
}

// spec: design/launch-run/mcp-server
#[tokio::test]
async fn a_client_with_the_token_launches_runs_over_http_in_either_era() {
    let (server, runs) = listening(WebLimits::default()).await;
    let host = client(&server).await;
    assert_eq!(notices(&host), [], "{:?}", host.notices());
    assert!(names(&host).contains(&"mcp__althing__launch_run".to_owned()));
    let outcome = call_named(&host, "mcp__althing__launch_run", "{\"task\": \"say hi\"}").await;
    let result: Value = serde_json::from_str(&outcome.content).unwrap();
    assert_eq!(result["final_answer"], "hi");
    let call = modern("tools/call", json!({"name": "launch_run", "arguments": {"task": "say ho"}}));
    let answer = Raw::post(server.url(), server.token().reveal(), &call).send().await;
    assert_eq!(answer.message()["result"]["structuredContent"]["final_answer"], "ho", "{answer:?}");
    assert_eq!(runs.launched().len(), 2);
}

#[tokio::test]
async fn no_event_is_empty_since_a_client_ends_the_connection_over_it() {
    let (server, _) = listening(WebLimits::default()).await;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let welcome = Raw::post(server.url(), server.token().reveal(), &hello).send().await;
    let session =
        welcome.text.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let list = Raw::post(server.url(), server.token().reveal(), &list).with("Mcp-Session-Id", Some(session));
    for answer in [&welcome, &list.send().await] {
        assert_eq!(answer.message()["id"], 1);
        let events = answer.text.lines().filter_map(|line| line.strip_prefix("data:"));
        assert!(events.into_iter().all(|data| !data.trim().is_empty()), "{answer:?}");
    }
}

fn hello(client: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": {"name": client, "version": "1"}}})
}

async fn session(server: &McpListener) -> String {
    let welcome = Raw::post(server.url(), server.token().reveal(), &hello("test")).send().await;
    let id = welcome.text.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    let id = id.unwrap_or_else(|| panic!("a session: {welcome:?}")).to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(in_session(server, &id, &ready).send().await.status, 202);
    id
}

fn in_session(server: &McpListener, id: &str, message: &Value) -> Raw {
    Raw::post(server.url(), server.token().reveal(), message).with("Mcp-Session-Id", Some(id))
}

// Attack S83 of docs/reliability.md: sessions that nobody ends.
#[tokio::test]
async fn only_the_last_sessions_stay_open_and_those_with_a_running_call() {
    let runs = Arc::new(Scripted::default());
    let options = ServeOptions { wait: Duration::from_secs(3600), ..patient() };
    let server = McpServer::new(runs.clone(), options);
    let server = server.listen(anywhere(), None, WebLimits::default()).await.unwrap();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let status = async |id: &str| in_session(&server, id, &list).send().await.status;
    let busy = session(&server).await;
    let mut running = in_session(&server, &busy, &call("launch_run", json!({"task": "hold"}))).open().await;
    until("the run", || runs.launched().len() == 1).await;
    let (unused, used) = (session(&server).await, session(&server).await);
    let mut last = String::new();
    for _ in 0..70 {
        assert_eq!(status(&used).await, 200, "a session in use stays");
        last = session(&server).await;
    }
    assert_eq!(status(&last).await, 200);
    assert_eq!(status(&unused).await, 404, "the session that was not used for the longest time is ended");
    let mut cancel = call("cancel_run", json!({"run_id": "s1.r1"}));
    cancel["id"] = json!(3);
    assert_eq!(in_session(&server, &busy, &cancel).send().await.status, 200);
    read_until(&mut running, "what there was").await;
}

#[tokio::test]
async fn a_huge_introduction_or_message_is_refused_and_not_kept() {
    let (server, runs) = listening(WebLimits::default()).await;
    let send = async |message: &Value| Raw::post(server.url(), server.token().reveal(), message).send().await;
    let answer = send(&hello(&"x".repeat(1_000_000))).await;
    assert!(answer.status >= 400 && answer.text.contains("larger than 32 KiB"), "{answer:?}");
    let many = vec![0; 100_001];
    let mut launch = modern("tools/call", json!({"name": "launch_run", "arguments": {"task": "say hi"}}));
    launch["params"]["_meta"]["many"] = json!(many);
    assert_eq!(send(&launch).await.status, 413);
    assert_eq!(runs.launched(), []);
}

// Attack S11 of docs/reliability.md: foreign requests on the loopback interface.
#[tokio::test]
async fn requests_without_the_token_or_from_another_origin_are_refused_and_start_no_run() {
    let (server, runs) = listening(tight()).await;
    let got = statuses(server.url(), server.token().reveal(), "launch_run").await;
    assert!(got.len() >= 1040, "{}", got.len());
    let through: Vec<_> = got.iter().filter(|(_, status)| !is_refusal(*status)).collect();
    assert!(through.is_empty(), "{through:?}");
    assert_eq!(runs.launched(), []);
}

#[tokio::test]
async fn it_listens_on_the_loopback_only_and_never_with_a_token_that_can_be_guessed() {
    let server = McpServer::new(Arc::new(Scripted::default()), patient());
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let refused = server.listen(address.parse().unwrap(), None, WebLimits::default()).await;
        let reason = refused.err().expect("a refusal");
        assert!(reason.contains("127.0.0.1"), "{reason}");
    }
    let short = Some(Secret::new("sesame"));
    let reason = server.listen(anywhere(), short, WebLimits::default()).await.err().expect("a refusal");
    assert!(reason.contains("too short"), "{reason}");
    let own = Secret::new("a token of the user's own");
    let listening = server.listen(anywhere(), Some(own.clone()), WebLimits::default()).await.unwrap();
    assert_eq!(listening.token(), &own);
}

#[tokio::test]
async fn dropping_it_stops_serving() {
    let (server, _) = listening(WebLimits::default()).await;
    let host = client(&server).await;
    drop(server);
    assert!(call_named(&host, "mcp__althing__list_runs", "{}").await.is_error);
}
