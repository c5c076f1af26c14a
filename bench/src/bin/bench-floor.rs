//! The baseline: a bare HTTP client that makes the same requests as a run.
//!
//! `bench-floor nothing` is an empty process; `bench-floor requests URL FILE N` posts the recorded bodies in a run's
//! three waves (N answers, N votes, the rest) and reads every reply to its end; `bench-floor flood N plain|colored`
//! writes N MiB of a build log; `bench-floor clock N` prints the time N times, every ten milliseconds.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads its input")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "a benchmark that cannot run stops"
)]

#[path = "../build_log.rs"]
mod build_log;

use futures_util::future::join_all;
use std::io::Write;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args[0] == "nothing" {
        return;
    }
    if args[0] == "flood" {
        return flood(args[1].parse().unwrap(), args[2] == "colored");
    }
    if args[0] == "clock" {
        return clock(args[1].parse().unwrap());
    }
    let (url, file, agents) =
        (format!("{}/chat/completions", args[1]), &args[2], args[3].parse::<usize>().unwrap());
    let text = std::fs::read_to_string(file).unwrap();
    let bodies: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter_map(|request| request.get("body").filter(|body| body.is_object()).map(ToString::to_string))
        .collect();
    assert_eq!(bodies.len(), 2 * agents + 1, "the recording is of a unanimous run");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client =
            reqwest::Client::builder().tcp_nodelay(true).tls_backend_preconfigured(tls()).build().unwrap();
        for wave in [&bodies[..agents], &bodies[agents..2 * agents], &bodies[2 * agents..]] {
            join_all(wave.iter().map(|body| post(&client, &url, body))).await;
        }
    });
}

/// Without certificates, because the requests use plain HTTP and a client would load the system's certificates.
fn tls() -> rustls::ClientConfig {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
}

async fn post(client: &reqwest::Client, url: &str, body: &str) {
    let request = client.post(url).header("content-type", "application/json").body(body.to_owned());
    let mut response = request.send().await.unwrap();
    assert!(response.status().is_success());
    let mut read = 0;
    while let Some(chunk) = response.chunk().await.unwrap() {
        read += chunk.len();
    }
    assert!(read > 0);
}

fn flood(mebibytes: usize, colors: bool) {
    let block = build_log::block(colors);
    let mut out = std::io::stdout().lock();
    for _ in 0..mebibytes {
        if out.write_all(&block).is_err() {
            return;
        }
    }
}

/// In nanoseconds since 1970, one number per line.
fn clock(times: usize) {
    let mut out = std::io::stdout().lock();
    for _ in 0..times {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        writeln!(out, "{}", now.as_nanos()).and_then(|()| out.flush()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
