//! The test, not the clock, decides when a chunk is sent.

use althing_testkit::{Action, FakeModel, Gate, Reply, RequestOutcome, Script};
use tokio::io::AsyncReadExt;

use crate::client::{Client, End, MOMENT, SOON, request};

#[tokio::test]
async fn a_gate_releases_a_stream_chunk_by_chunk() {
    let gate = Gate::new();
    let reply = Reply::text("one two").text_chunks(["one ", "two"]);
    let server = FakeModel::start(Script::always(Action::gated(reply, &gate))).await;
    let mut client = Client::connect(server.address()).await;
    client.post(&request("m", &[])).await;

    gate.wait_waiting(1, SOON).await;
    assert_eq!(server.requests()[0].outcome(), RequestOutcome::Underway);
    let mut seen = String::new();
    read_until(&mut client, &mut seen, r#""role":"assistant""#).await;
    assert!(!seen.contains("one "));

    gate.release(1);
    gate.wait_sent(1, SOON).await;
    read_until(&mut client, &mut seen, "one ").await;
    assert!(!seen.contains("two"));

    gate.release(1);
    gate.wait_sent(2, SOON).await;
    read_until(&mut client, &mut seen, "two").await;
    gate.wait_waiting(1, SOON).await;
    assert!(!seen.contains("[DONE]"), "the end needs a permit of its own");

    gate.release_all();
    read_until(&mut client, &mut seen, "[DONE]").await;
    server.wait_until(SOON, |calls| calls[0].outcome() == RequestOutcome::Served).await;
}

#[tokio::test]
async fn a_gate_before_the_headers_holds_everything() {
    let gate = Gate::before_headers();
    let server =
        FakeModel::start(Script::parliament().on("m").always(Action::gated(Action::Usual, &gate))).await;
    let mut client = Client::connect(server.address()).await;
    client.post(&request("m", &[])).await;
    gate.wait_waiting(1, SOON).await;
    let mut byte = [0];
    assert!(tokio::time::timeout(MOMENT, client.stream.peek(&mut byte)).await.is_err());
    gate.release_all();
    let response = client.response().await;
    assert_eq!((response.end, response.text().as_str()), (End::Complete, "Final answer of m"));
}

#[tokio::test]
async fn a_client_that_hangs_up_at_a_gate_is_noticed() {
    let gate = Gate::new();
    let server = FakeModel::start(Script::always(Action::gated(Reply::text("x"), &gate))).await;
    let mut client = Client::connect(server.address()).await;
    client.post(&request("m", &[])).await;
    gate.wait_waiting(1, SOON).await;
    drop(client);
    let calls = server.wait_until(SOON, |calls| calls[0].hung_up()).await;
    assert!(calls[0].ended().is_some());
}

#[test]
fn gates_and_records_work_without_a_runtime() {
    use std::io::{Read, Write};

    let gate = Gate::new();
    let server = FakeModel::start_on_thread(Script::always(Action::gated(Reply::text("x"), &gate)));
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    let body = request("m", &[]).to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    assert_eq!(server.wait_for_requests_blocking(1, SOON)[0].model(), "m");
    gate.wait_waiting_blocking(1, SOON);
    gate.release(1);
    gate.wait_sent_blocking(1, SOON);
    gate.release_all();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert!(all.contains("[DONE]"));
}

async fn read_until(client: &mut Client, seen: &mut String, wanted: &str) {
    while !seen.contains(wanted) {
        let mut buffer = [0; 4096];
        let read = tokio::time::timeout(SOON, client.stream.read(&mut buffer)).await.unwrap().unwrap();
        assert!(read > 0, "the stream ended before `{wanted}`");
        seen.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
}
