//! The fake model server as a program: the zero-latency server of the benchmarks, and a model for manual tests.
#![expect(
    clippy::disallowed_methods,
    reason = "a program of the test kit: it reads its arguments and writes its record"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test kit fails by panicking"
)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Mutex;
use std::time::Duration;

use althing_testkit::{Action, FakeModel, FakeModelOptions, Parliament, RecordedRequest, Script};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "\
Usage: fake-model-server [--port N] [--chunks N] [--delay-ms N] [--pace-ms N] [--record FILE]

  --port N       listen on this port of 127.0.0.1 (default: any free one)
  --chunks N     chunks of text in each reply, before its tool call if it has one (default: as few as possible)
  --delay-ms N   wait before each reply
  --pace-ms N    wait before each chunk
  --record FILE  write each request as a line of JSON

Prints `listening on 127.0.0.1:PORT`, and on SIGTERM or SIGINT `requests: N, connections: N`.";

#[derive(Debug, Default)]
struct Arguments {
    port: u16,
    chunks: usize,
    delay: Duration,
    pace: Duration,
    record: Option<String>,
}

fn main() {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => return println!("{USAGE}"),
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            std::process::exit(2);
        }
    };
    // One thread, so that the measured client has the other cores to itself.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(serve(arguments));
}

async fn serve(arguments: Arguments) {
    let mut terminate = signal(SignalKind::terminate()).expect("listening for SIGTERM");
    let mut interrupt = signal(SignalKind::interrupt()).expect("listening for SIGINT");
    let options =
        FakeModelOptions { port: arguments.port, keep_requests: false, ..FakeModelOptions::default() };
    let server = FakeModel::start_with(options, script(&arguments)).await;
    println!("listening on {}", server.address());
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    println!("requests: {}, connections: {}", server.request_count(), server.connections());
}

fn script(arguments: &Arguments) -> Script {
    let policy = Parliament::chatter(arguments.chunks);
    let (delay, pace) = (arguments.delay, arguments.pace);
    let record = arguments.record.as_ref().map(|path| {
        let file = File::create(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        Mutex::new(BufWriter::new(file))
    });
    Script::from_fn(move |request| {
        if let Some(file) = &record {
            write_record(file, request);
        }
        Action::after(delay, policy.reply(request).pace(pace))
    })
}

fn write_record(file: &Mutex<BufWriter<File>>, request: &RecordedRequest) {
    let line = json!({
        "seq": request.seq(),
        "connection": request.connection(),
        "path": request.path(),
        "model": request.model(),
        "bytes": request.raw_body().len(),
        "body": request.body(),
    });
    let mut file = file.lock().expect("nobody panics while recording");
    // Flushed after every line, so that readers of the record need not wait for our exit.
    writeln!(file, "{line}").and_then(|()| file.flush()).expect("writing the record");
}

/// `None` if the arguments ask for help.
fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        if word == "--help" || word == "-h" {
            return Ok(None);
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--port" => arguments.port = number(&word, &value)?,
            "--chunks" => arguments.chunks = number(&word, &value)?,
            "--delay-ms" => arguments.delay = Duration::from_millis(number(&word, &value)?),
            "--pace-ms" => arguments.pace = Duration::from_millis(number(&word, &value)?),
            "--record" => arguments.record = Some(value),
            _ => return Err(format!("unknown option {word}")),
        }
    }
    Ok(Some(arguments))
}

fn number<T: std::str::FromStr>(option: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{option}: `{value}` is not a number it can take"))
}
