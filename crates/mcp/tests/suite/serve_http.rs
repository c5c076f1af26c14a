//! The MCP server over streamable HTTP: which clients are served, and which are refused.

use super::attacks::{is_refusal, statuses, tight};
use super::pipe::patient;
use super::scripted::Scripted;
use super::support::{call_named, names, notices, options};
use super::wire::{Raw, modern};
use althing_mcp::{McpListener, McpServer, McpToolHost, ServerSpec, ServerTransport, WebLimits};
use althing_protocol::Secret;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;

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
