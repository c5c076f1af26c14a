//! Time and size limits: nothing waits or grows beyond its limit.

use super::support::{call, model, request};
use althing_protocol::BackendErrorKind as Kind;
use althing_testkit::{Action, FakeModel, Reply, Script, refused_base_url};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_dead_local_server_fails_after_two_retries_with_the_standard_settings() {
    let params = json!({"retry_base_ms": 500});
    let called = call(&*model(&refused_base_url(), params), &request("hi")).await;
    let error = called.error();
    assert_eq!((error.kind, error.usage.calls, called.retries.len()), (Kind::Connect, 3, 2));
    assert!(error.message.contains("refused"), "{error}");
    assert!(error.hint.as_deref().unwrap().starts_with("is the server running at 127.0.0.1:"), "{error:?}");
}

#[tokio::test]
async fn an_unknown_host_name_is_a_connection_error() {
    let called =
        call(&*model("http://no-such-host.invalid/v1", json!({"max_retries": 0})), &request("hi")).await;
    assert_eq!(called.error().kind, Kind::Connect);
}

#[tokio::test]
async fn comments_keep_a_stream_alive_only_within_the_call_limit() {
    use althing_testkit::{Fault, FaultMoment};
    let server = FakeModel::start(
        Script::always(Reply::text("ok")).fault_always(Fault::EndlessStream, FaultMoment::BeforeHeaders),
    )
    .await;
    let params = json!({"idle_timeout_seconds": 3, "request_timeout_seconds": 5});
    let called = call(&*model(&server.base_url(), params), &request("hi")).await;
    let error = called.error();
    assert_eq!((error.kind, server.request_count()), (Kind::Timeout, 1));
    assert!(error.message.contains("longer than 5 s"), "{error}");
    assert!(called.took.as_secs_f64() >= 4.9, "{:?}", called.took);
}

#[tokio::test]
async fn the_whole_call_has_one_limit_over_all_its_tries() {
    let server = FakeModel::start(Script::always(Action::Hang)).await;
    let params = json!({"first_byte_timeout_seconds": 0.4, "request_timeout_seconds": 0.6});
    let called = call(&*model(&server.base_url(), params), &request("hi")).await;
    assert_eq!(called.error().kind, Kind::Timeout);
    assert!(called.took.as_secs_f64() >= 0.4, "{:?}", called.took);
    assert!(server.request_count() <= 2, "the retries would have gone on");
}

/// Sends these frames of a longer body and then nothing until the client disconnects.
async fn falls_silent_after(frames: &'static str) -> (String, tokio::task::JoinHandle<()>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut sent = vec![0; 65536];
        let _ = socket.read(&mut sent).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100000\r\n\r\n";
        socket.write_all(format!("{head}{frames}").as_bytes()).await.unwrap();
        while socket.read(&mut sent).await.is_ok_and(|n| n > 0) {}
    });
    (base_url, server)
}

#[tokio::test]
async fn a_reply_that_has_ended_is_not_held_back_by_a_server_that_does_not_hang_up() {
    let frames = "data: {\"choices\":[{\"delta\":{\"content\":\"whole\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let (base_url, server) = falls_silent_after(frames).await;
    // The configured limits are hours long, so only the short wait after the end of the reply can end the call.
    let patient = json!({"idle_timeout_seconds": 3600, "request_timeout_seconds": 7200});
    let called = call(&*model(&base_url, patient), &request("hi")).await;
    assert_eq!(called.reply().text, "whole");
    server.await.unwrap();
}

#[tokio::test]
async fn a_complete_reply_waits_only_a_moment_for_what_should_follow_it() {
    let frames = "data: {\"choices\":[{\"delta\":{\"content\":\"whole\"},\"finish_reason\":\"stop\"}]}\n\n";
    let (base_url, _server) = falls_silent_after(frames).await;
    let patient = json!({"idle_timeout_seconds": 3600, "request_timeout_seconds": 7200});
    let called = call(&*model(&base_url, patient), &request("hi")).await;
    assert_eq!(called.reply().text, "whole");
}

#[tokio::test]
async fn a_slow_but_living_stream_outlives_the_idle_limit() {
    // Each pause is well within the limit; together they exceed it.
    let reply = Reply::text("one two three four five").chunks(12).pace(Duration::from_millis(500));
    let server = FakeModel::start(Script::always(reply)).await;
    let params = json!({"idle_timeout_seconds": 5, "max_retries": 0});
    let called = call(&*model(&server.base_url(), params), &request("hi")).await;
    assert_eq!(called.reply().text, "one two three four five");
    assert!(called.took > Duration::from_secs(5), "{:?}", called.took);
}

#[tokio::test]
async fn a_reply_past_its_size_is_too_large_and_not_tried_again() {
    let frame =
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "x".repeat(1 << 20));
    let body = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{}", frame.repeat(5));
    let server = FakeModel::start(Script::always(Action::Raw(body.into()))).await;
    let called = call(&*model(&server.base_url(), json!({})), &request("hi")).await;
    assert_eq!((called.error().kind, server.request_count()), (Kind::TooLarge, 1));
}

#[tokio::test]
async fn one_line_without_an_end_is_too_large() {
    let body =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}", "x".repeat(9 << 20));
    let server = FakeModel::start(Script::always(Action::Raw(body.into()))).await;
    let called = call(&*model(&server.base_url(), json!({})), &request("hi")).await;
    assert_eq!((called.error().kind, server.request_count()), (Kind::TooLarge, 1));
}
