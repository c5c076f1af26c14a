//! The server itself: records, keep-alive, other paths, refusing connections.

use std::io::ErrorKind;

use althing_testkit::{FakeModel, Parliament, RequestOutcome, Script, refused_base_url};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::client::{Client, End, SOON, ask, request};

#[tokio::test]
async fn every_request_is_recorded_with_what_was_sent() {
    let server = FakeModel::start(Script::parliament()).await;
    ask(server.address(), &request("model-a", &["new_answer", "vote"])).await;
    ask(server.address(), &request("model-b", &[])).await;
    ask(server.address(), &request("model-a", &[])).await;
    let calls = server.wait_for_requests(3, SOON).await;
    let first = &calls[0];
    assert_eq!(first.model(), "model-a");
    assert_eq!(first.tool_names(), ["new_answer", "vote"]);
    assert_eq!(first.system_text(), "You are one of three.");
    assert_eq!(first.last_user_text(), "Why?");
    assert_eq!(first.messages().len(), 2);
    assert_eq!(first.header("Authorization"), Some("Bearer k"));
    assert_eq!((first.method(), first.path()), ("POST", "/v1/chat/completions"));
    let numbers: Vec<_> = calls.iter().map(|r| (r.seq(), r.nth_of_model())).collect();
    assert_eq!(numbers, [(0, 0), (1, 0), (2, 1)]);
    assert_eq!(server.requests_of("model-a").len(), 2);
    assert_eq!(first.body(), &request("model-a", &["new_answer", "vote"]));
}

#[tokio::test]
async fn a_connection_serves_many_requests() {
    let server = FakeModel::start(Script::parliament()).await;
    let mut client = Client::connect(server.address()).await;
    for _ in 0..50 {
        client.post(&request("m", &["new_answer"])).await;
        assert_eq!(client.response().await.end, End::Complete);
    }
    assert_eq!((server.connections(), server.request_count()), (1, 50));
    assert!(server.requests().iter().all(|r| r.connection() == 0));
    assert_eq!(server.open_connections(), 1);
}

#[tokio::test]
async fn many_connections_are_served_at_once() {
    let server = FakeModel::start(Script::from_fn(|r| Parliament::chatter(2_000).reply(r))).await;
    let address = server.address();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        tasks.spawn(async move { ask(address, &request("m", &[])).await.chunks.len() });
    }
    while let Some(chunks) = tasks.join_next().await {
        assert_eq!(chunks.unwrap(), 2_004);
    }
    assert_eq!(server.connections(), 16);
    assert!(server.peak_connections() >= 2);
}

#[tokio::test]
async fn requests_may_come_in_pieces_and_in_chunks() {
    let server = FakeModel::start(Script::parliament()).await;
    let mut client = Client::connect(server.address()).await;
    let body = request("m", &[]).to_string();
    let (left, right) = body.split_at(40);
    let head =
        "POST /x/chat/completions?v=1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
    client.send(&head[..20]).await;
    client.send(&head[20..]).await;
    client.send(&format!("{:x}\r\n{left}\r\n{:x}\r\n", left.len(), right.len())).await;
    client.send(&format!("{right}\r\n0\r\n\r\n")).await;
    server.wait_until(SOON, |calls| !calls.is_empty()).await;
    assert_eq!(server.requests()[0].model(), "m");
    assert!(String::from_utf8_lossy(server.requests()[0].raw_body()).ends_with(right));
}

#[tokio::test]
async fn models_are_listed_and_other_paths_are_not_found() {
    let server = FakeModel::start(Script::parliament()).await;
    let mut client = Client::connect(server.address()).await;
    client.send("GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let list: Value = serde_json::from_str(&client.response().await.body()).unwrap();
    assert_eq!(list["data"][0]["id"], "model-a");
    client.send("GET /elsewhere HTTP/1.1\r\n\r\n").await;
    assert_eq!(client.response().await.status, 404);
    assert_eq!((server.requests().len(), server.other_requests().len()), (0, 2));
}

#[tokio::test]
async fn a_body_that_is_not_json_gets_400() {
    let server = FakeModel::start(Script::parliament()).await;
    let response = ask(server.address(), &json!("only a string")).await;
    assert_eq!(response.status, 400);
}

#[tokio::test]
async fn nobody_listens_at_a_refused_base_url() {
    let url = refused_base_url();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap();
    let error = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_server_can_refuse_for_a_while() {
    let server = FakeModel::start(Script::parliament()).await;
    let mut before = Client::connect(server.address()).await;
    // A first exchange, because a connection that is not accepted yet would be reset with the listener.
    before.post(&request("m", &[])).await;
    before.response().await;
    server.refuse().await;
    let error = TcpStream::connect(server.address()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    before.post(&request("m", &[])).await;
    assert_eq!(before.response().await.end, End::Complete, "open connections stay");
    server.listen_again().await;
    assert_eq!(ask(server.address(), &request("m", &[])).await.end, End::Complete);
}

#[tokio::test]
async fn a_dropped_server_drops_its_connections() {
    let server = FakeModel::start(Script::always(althing_testkit::Action::Hang)).await;
    let mut client = Client::connect(server.address()).await;
    client.post(&request("m", &[])).await;
    let calls = server.wait_for_requests(1, SOON).await;
    assert_eq!(calls[0].outcome(), RequestOutcome::Underway);
    drop(server);
    let response = client.response().await;
    assert!(matches!(response.end, End::Closed | End::Reset), "{response:?}");
}
