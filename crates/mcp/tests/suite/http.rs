//! Servers over streamable HTTP.

use super::support::{DEADLINE, call, good, notices, options, script};
use althing_mcp::{McpToolHost, NoticeKind, ServerSpec, ServerTransport, StartError};
use althing_protocol::Secret;
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Instant;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

struct HttpFake {
    _child: Child,
    port: u16,
}

impl HttpFake {
    async fn start(flags: &[&str]) -> Self {
        let mut child = Command::new("python3")
            .arg(script())
            .arg("--http")
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        Self { _child: child, port: line.trim().parse().unwrap() }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn spec(&self) -> ServerSpec {
        ServerSpec::http("fake", self.url("/mcp?key=sesame"))
    }
}

async fn host(spec: ServerSpec) -> McpToolHost {
    McpToolHost::start(vec![spec], options().0).await
}

fn with_header(mut spec: ServerSpec, name: &str, value: &str) -> ServerSpec {
    let ServerTransport::Http { headers, .. } = &mut spec.transport else { unreachable!() };
    headers.push((name.to_owned(), Secret::new(value)));
    spec
}

#[tokio::test]
async fn tools_are_listed_and_called_with_json_answers_and_with_event_streams() {
    for flags in [&[][..], &["--sse"][..]] {
        let server = HttpFake::start(flags).await;
        let host = host(server.spec()).await;
        assert_eq!(notices(&host), [], "{flags:?}");
        assert_eq!(call(&host, "echo", json!({"text": "hi"})).await, good("hi"));
        assert!(call(&host, "fail", json!({})).await.is_error);
        host.close().await;
    }
}

#[tokio::test]
async fn a_server_that_knows_only_the_newest_revision_works_over_http_too() {
    let server = HttpFake::start(&["--modern-only"]).await;
    let host = host(server.spec()).await;
    assert_eq!(
        host.servers().first().and_then(|state| state.protocol.clone()).as_deref(),
        Some("2026-07-28"),
        "{:?}",
        host.notices()
    );
    assert_eq!(call(&host, "echo", json!({"text": "new"})).await, good("new"));
}

#[tokio::test]
async fn configured_headers_go_with_every_request() {
    let server = HttpFake::start(&["--token", "open"]).await;
    let host = host(with_header(server.spec(), "Authorization", "Bearer open")).await;
    let seen: Value = serde_json::from_str(&call(&host, "seen", json!({})).await.content).unwrap();
    let all: Vec<_> = seen.as_array().unwrap().iter().filter_map(|request| request.get("headers")).collect();
    assert!(all.len() >= 4, "{seen}");
    assert!(all.iter().all(|headers| headers["authorization"] == "Bearer open"), "{seen}");
}

#[tokio::test]
async fn a_server_that_requires_a_key_is_left_out_with_a_hint() {
    let server = HttpFake::start(&["--token", "open"]).await;
    let host = host(with_header(server.spec(), "Authorization", "Bearer wrong-sesame")).await;
    let notice = &host.notices()[0];
    assert!(matches!(notice.kind, NoticeKind::NotStarted(StartError::Unauthorized { .. })), "{notice:?}");
    assert!(notice.hint().unwrap().contains("headers"));
    assert!(!format!("{notice:?} {notice}").contains("sesame"));
}

#[tokio::test]
async fn rejections_and_dead_urls_are_reported_without_the_query() {
    let server = HttpFake::start(&["--refuse", "500"]).await;
    let dead = ServerSpec::http("dead", "http://127.0.0.1:1/mcp?key=sesame");
    let host = McpToolHost::start(vec![server.spec(), dead], options().0).await;
    assert_eq!(host.notices().len(), 2);
    for notice in host.notices() {
        let NoticeKind::NotStarted(StartError::Http { origin, .. }) = &notice.kind else {
            panic!("{notice:?}")
        };
        assert!(origin.starts_with("http://127.0.0.1:"));
        assert!(!format!("{notice:?} {notice}").contains("sesame"), "{notice:?}");
    }
    assert!(host.notices().iter().any(|notice| notice.to_string().contains("500")));
}

#[tokio::test]
async fn an_expired_session_is_reopened_transparently() {
    let server = HttpFake::start(&[]).await;
    let host = host(server.spec()).await;
    assert_eq!(call(&host, "expire", json!({})).await, good("expired"));
    assert_eq!(call(&host, "echo", json!({"text": "again"})).await, good("again"));
}

#[tokio::test]
async fn an_http_error_fails_the_call_with_its_status() {
    let server = HttpFake::start(&[]).await;
    let host = host(server.spec()).await;
    assert!(!call(&host, "deny_next", json!({"status": 503})).await.is_error);
    let outcome = call(&host, "echo", json!({})).await;
    assert!(outcome.is_error && outcome.content.contains("503"), "{outcome:?}");
    assert!(!outcome.content.contains("sesame"), "{outcome:?}");
}

#[tokio::test]
async fn a_server_that_goes_away_fails_the_call_in_flight_and_works_again_once_it_is_back() {
    let server = HttpFake::start(&["--sse"]).await;
    let host = host(server.spec()).await;
    let outcome = call(&host, "die", json!({})).await;
    assert!(outcome.is_error && outcome.content.contains("took effect"), "{outcome:?}");
    let next = call(&host, "echo", json!({})).await;
    assert!(next.is_error && !next.content.contains("sesame"), "{next:?}");
    let _again = HttpFake::start(&["--sse", "--port", &server.port.to_string()]).await;
    assert_eq!(call(&host, "echo", json!({"text": "back"})).await, good("back"));
}

#[tokio::test]
async fn answers_of_more_than_16_mib_are_refused() {
    for flags in [&[][..], &["--sse"][..]] {
        let server = HttpFake::start(flags).await;
        let host = host(server.spec()).await;
        let outcome = call(&host, "huge_frame", json!({})).await;
        assert!(outcome.is_error, "{flags:?}");
        assert!(outcome.content.contains("more than 16 MiB"), "{flags:?}: {outcome:?}");
        assert_eq!(call(&host, "echo", json!({"text": "still here"})).await, good("still here"));
    }
}

#[tokio::test]
async fn malformed_tools_are_left_out_over_http_too() {
    for flags in [&["--bad-tools"][..], &["--bad-tools", "--sse"][..]] {
        let server = HttpFake::start(flags).await;
        let host = host(server.spec()).await;
        assert_eq!(call(&host, "echo", json!({"text": "hi"})).await, good("hi"));
        assert_eq!(notices(&host).len(), 6, "{:?}", host.notices());
    }
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_and_one_away_from_it_is_not() {
    let target = HttpFake::start(&[]).await;
    let within = HttpFake::start(&["--redirect", "/real/mcp"]).await;
    let away = HttpFake::start(&["--redirect", &target.url("/real/mcp")]).await;
    let followed = host(with_header(within.spec(), "X-Key", "k")).await;
    assert_eq!(call(&followed, "echo", json!({"text": "hi"})).await, good("hi"));
    let stopped = host(with_header(away.spec(), "X-Key", "k")).await;
    assert!(matches!(notices(&stopped)[..], [NoticeKind::NotStarted(StartError::Http { .. })]));
    let direct = host(target.spec()).await;
    let seen = call(&direct, "seen", json!({})).await.content;
    assert!(!seen.to_lowercase().contains("x-key"), "{seen}");
}

#[tokio::test]
async fn dropping_a_call_cancels_it_at_the_server() {
    let server = HttpFake::start(&["--sse"]).await;
    let host = host(server.spec()).await;
    {
        let hanging = call(&host, "hang", json!({}));
        tokio::select! {
            outcome = hanging => panic!("{outcome:?}"),
            () = seen(&host, "tools/call:hang") => {}
        }
    }
    seen(&host, "notifications/cancelled").await;
}

async fn seen(host: &McpToolHost, what: &str) {
    let begin = Instant::now();
    while !call(host, "seen", json!({})).await.content.contains(what) {
        assert!(begin.elapsed() < DEADLINE, "{what} did not come");
    }
}

#[tokio::test]
async fn an_invalid_url_or_header_is_reported() {
    let bad = [
        ServerSpec::http("scheme", "ftp://example.org/"),
        with_header(ServerSpec::http("reserved", "http://127.0.0.1:1/"), "Mcp-Session-Id", "x"),
    ];
    let host = McpToolHost::start(bad.to_vec(), options().0).await;
    let is_told = |kind: &NoticeKind| matches!(kind, NoticeKind::NotStarted(StartError::BadSpec { .. }));
    assert!(notices(&host).iter().all(is_told) && notices(&host).len() == 2, "{:?}", host.notices());
}

#[tokio::test]
async fn a_server_that_sends_requests_over_http_and_does_not_take_the_replies_is_disconnected() {
    let server = HttpFake::start(&["--sse"]).await;
    let host = host(server.spec()).await;
    let outcome = call(&host, "pings", json!({"count": 500})).await;
    assert_eq!(outcome, good("pinged"), "replies that are taken have no limit");
    let outcome = call(&host, "pings", json!({"count": 20_000, "stuck": true})).await;
    let reason = "more than 64 requests without taking the replies";
    assert!(outcome.is_error && outcome.content.contains(reason), "{outcome:?}");
}

#[tokio::test]
async fn a_server_that_ends_its_stream_and_asks_to_be_called_at_once_is_called_after_a_pause() {
    let server = HttpFake::start(&["--end-streams"]).await;
    let host = host(server.spec()).await;
    let start = Instant::now();
    let times = loop {
        assert!(start.elapsed() < DEADLINE, "the stream is not opened again");
        let seen: Value = serde_json::from_str(&call(&host, "seen", json!({})).await.content).unwrap();
        let opened = seen.as_array().unwrap().iter().filter(|request| request["method"] == "GET");
        let times: Vec<f64> = opened.map(|request| request["at"].as_f64().unwrap()).collect();
        if times.len() >= 3 {
            break times;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(pauses.clone().all(|pause| pause >= 0.99), "{:?}", pauses.collect::<Vec<f64>>());
    host.close().await;
}
