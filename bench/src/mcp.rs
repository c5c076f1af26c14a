//! `althing mcp` on stdio: from the call to `launch_run` to the run's first model request.

use crate::conversation::config;
use crate::measure::{Programs, median};
use crate::verdict::below_ms;
use althing_testkit::{Althing, FakeModel, Script};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

pub fn all(programs: &Programs, rounds: usize) {
    let server = FakeModel::start_on_thread(Script::parliament());
    let althing = Althing::new(programs.althing.clone());
    althing.file("team.yaml", config(&server.base_url(), 3));
    let client = althing.new_command().args(["mcp", "--config", "team.yaml"]).open_stdin().spawn();
    let ask = |id: usize, method: &str, params: &Value| {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        client.write_stdin(format!("{message}\n"));
    };
    let answered = |id: usize| {
        let answers = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|value| value["id"] == id);
        client.wait_for_stdout(answers, LIMIT)
    };
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
    ask(1, "initialize", &hello);
    answered(1);
    client.write_stdin("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    let mut times = Vec::new();
    // The first call pays for initialization, so it is reported separately.
    for n in 0..=rounds {
        let before = server.request_count();
        let began = Instant::now();
        ask(n + 2, "tools/call", &json!({"name": "launch_run", "arguments": {"task": "Say hi"}}));
        let answer = answered(n + 2);
        let requests = server.requests();
        assert!(requests.len() > before, "{answer}");
        times.push(requests[before].arrived().duration_since(began).as_secs_f64());
    }
    let first = times.remove(0);
    let what = format!("tool call to first model request (for the first call: {:.1} ms)", first * 1e3);
    below_ms(&what, median(times), 10.0);
    client.close_stdin();
    client.wait(LIMIT).expect_code(0);
}
