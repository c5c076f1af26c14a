//! Attack S11 of docs/reliability.md: what web pages, unauthenticated processes and broken clients send to a listener
//! on the loopback interface.

use super::support::DEADLINE;
use super::wire::{Raw, call, modern, read};
use althing_mcp::WebLimits;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// An attack reaches these limits soon; an honest request does not, even on a busy machine.
pub fn tight() -> WebLimits {
    WebLimits {
        head: Duration::from_millis(1500),
        body: Duration::from_millis(1500),
        unauthenticated: 16,
        ..WebLimits::default()
    }
}

/// Returns the status of each response. `tool` would be called if a request got through.
pub async fn statuses(url: &str, token: &str, tool: &str) -> Vec<(String, u16)> {
    let call = call(tool, json!({}));
    let newest = modern("tools/call", json!({"name": tool, "arguments": {}}));
    let mut requests = Vec::new();
    for message in [&call, &newest] {
        requests.extend(bent(url, token, message));
    }
    let mut got = Vec::new();
    for (name, request) in requests {
        got.push((name, request.send().await.status));
    }
    let good = Raw::post(url, token, &call);
    got.extend(slow(&good).await);
    got.extend(many(&Raw::post(url, token, &modern("tools/list", json!({})))).await);
    got
}

fn bent(url: &str, token: &str, message: &Value) -> Vec<(String, Raw)> {
    let good = Raw::post(url, token, message);
    let port = good.address.port();
    let mut all = Vec::new();
    let rebound = format!("rebound.example:{port}");
    for host in ["evil.example", &rebound, "127.0.0.1", "127.0.0.1.nip.io", "[::1]", "0.0.0.0:80"] {
        all.push((format!("Host {host}"), good.clone().with("Host", Some(host))));
    }
    all.push(("no Host".to_owned(), good.clone().with("Host", None)));
    for origin in ["null", "http://evil.example", "https://evil.example:443", "http://localhost.evil.example"]
    {
        all.push((format!("Origin {origin}"), good.clone().with("Origin", Some(origin))));
    }
    let wrong = format!("Bearer {}", token.chars().rev().collect::<String>());
    for credentials in [wrong.as_str(), "Bearer", "Bearer ", "Basic YTpi", token] {
        let request = good.clone().with("Authorization", Some(credentials));
        all.push((format!("Authorization {}", credentials.replace(token, "TOKEN")), request));
    }
    let mut query = good.clone().with("Authorization", None);
    query.target = format!("{}?token={token}&access_token={token}", query.target);
    all.push(("a token in the query".to_owned(), query));
    let mut large = good.clone();
    large.body = vec![b' '; 10_000_000];
    all.push(("a body of 10 MB".to_owned(), large));
    let mut absolute = good;
    absolute.target = format!("http://evil.example{}", absolute.target);
    all.push(("another address in the request line".to_owned(), absolute));
    all
}

async fn slow(good: &Raw) -> Vec<(String, u16)> {
    let mut got = Vec::new();
    let head = good.head();
    for (name, at_once, trickle) in
        [("a slow head", Vec::new(), head.clone()), ("a slow body", head, good.body.clone())]
    {
        let stream = TcpStream::connect(good.address).await.unwrap();
        let (reader, mut writer) = stream.into_split();
        let sending = tokio::spawn(async move {
            writer.write_all(&at_once).await.unwrap();
            for byte in trickle {
                if writer.write_all(&[byte]).await.is_err() {
                    break;
                }
                sleep(Duration::from_millis(20)).await;
            }
            writer
        });
        let status = read_half(reader).await;
        sending.abort();
        got.push((name.to_owned(), status));
    }
    got
}

async fn read_half(mut reader: tokio::net::tcp::OwnedReadHalf) -> u16 {
    let mut text = String::new();
    let reading = tokio::io::AsyncReadExt::read_to_string(&mut reader, &mut text);
    timeout(DEADLINE, reading).await.expect("an answer in time").unwrap();
    text.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

async fn many(good: &Raw) -> Vec<(String, u16)> {
    let mut silent = Vec::new();
    for _ in 0..1000 {
        silent.push(TcpStream::connect(good.address).await.unwrap());
    }
    let served = timeout(DEADLINE, good.send()).await.expect("an answer in time");
    assert_eq!(served.status, 200, "{served:?}");
    let mut got = Vec::new();
    for stream in silent {
        got.push(("one of 1000 connections".to_owned(), read(stream).await.status));
    }
    got
}

pub fn is_refusal(status: u16) -> bool {
    [401, 403, 408, 413].contains(&status)
}
