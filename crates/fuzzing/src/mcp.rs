//! Messages of MCP clients to our server: for any lines, every response is valid JSON-RPC, and the next valid
//! request is answered.
//!
//! If the first byte is `h`, the client sends the lines without a handshake, else after its handshake.

use crate::cut::{choice, pieces};
use althing_mcp::{
    McpServer, RunDir, RunFeed, RunFile, RunOutcome, RunService, RunSummary, RunUpdate, ServeOptions,
};
use althing_protocol::{BoxFuture, Decision, InteractionId, LaunchRun, RunStatus, ToolSpec};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex, split};

/// The largest input, in bytes: the responses to it fit into the pipe.
const ROOM: usize = 64 * 1024;
const PIPE: usize = 16 * 1024 * 1024;
/// An unguessable id, so that no input cancels the request that must be answered.
const LAST: &str = "the-last-request-5b1f0c";
const HELLO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","#,
    r#""capabilities":{},"clientInfo":{"name":"fuzz","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n"
);

pub(crate) fn check(bytes: &[u8]) {
    let (mode, rest) = choice(bytes);
    let (how, lines) = choice(rest);
    let lines = &lines[..lines.len().min(ROOM)];
    // Time is paused, so waiting takes no real time.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        let options = ServeOptions { wait: Duration::from_secs(1), ..ServeOptions::new("guidance") };
        let server = McpServer::new(Arc::new(Runs::default()), options);
        let (ours, theirs) = duplex(PIPE);
        let (input, output) = split(theirs);
        let serving = tokio::spawn(async move { server.serve_pipes(input, output).await });
        let (reader, mut writer) = split(ours);
        let introduced = mode != b'h';
        if introduced {
            writer.write_all(HELLO.as_bytes()).await.expect("room");
        }
        for piece in pieces(lines, how.max(1)) {
            // The server may disconnect if there was no handshake.
            assert!(writer.write_all(piece).await.is_ok() || !introduced, "the server hung up");
        }
        let last = json!({"jsonrpc": "2.0", "id": LAST, "method": "tools/list"});
        let sent = writer.write_all(format!("\n{last}\n").as_bytes()).await;
        assert!(sent.is_ok() || !introduced, "the server hung up");
        let mut answered = false;
        let mut responses = BufReader::new(reader).lines();
        while !answered {
            let line = tokio::time::timeout(Duration::from_secs(600), responses.next_line()).await;
            let Ok(Some(line)) = line.expect("the last request is answered") else { break };
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
            valid(&message);
            answered = message["id"] == LAST;
        }
        assert!(answered || !introduced, "the server hung up before the last request");
        drop((responses, writer));
        let end =
            tokio::time::timeout(Duration::from_secs(600), serving).await.expect("it ends with its client");
        let end = end.expect("no panic");
        assert!(end.is_ok() || !introduced, "{end:?}");
    });
}

fn valid(message: &Value) {
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    let kinds = ["method", "result", "error"].iter().filter(|name| message.get(**name).is_some()).count();
    assert_eq!(kinds, 1, "{message}");
    // An error about a line whose id could not be parsed has no id; MCP allows that.
    assert!(
        message.get("result").is_none() || message.get("id").is_some(),
        "an answer to nothing: {message}"
    );
    if let Some(error) = message.get("error") {
        assert!(error["code"].is_i64() && error["message"].is_string(), "{message}");
    }
}

/// Runs that end immediately, except that a run whose task begins with `hold` waits to be cancelled.
#[derive(Default)]
struct Runs(Mutex<Vec<(LaunchRun, Option<RunStatus>)>>);

impl Runs {
    fn with<T>(&self, run: &str, act: impl FnOnce(&mut (LaunchRun, Option<RunStatus>)) -> T) -> Option<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at: usize = run.strip_prefix('r')?.parse().ok()?;
        all.get_mut(at).map(act)
    }

    fn seen(&self, run: &str) -> Option<RunSummary> {
        self.with(run, |(launch, status)| RunSummary {
            run_id: run.to_owned(),
            task: launch.task.clone(),
            status: *status,
            progress: Some("step".to_owned()),
            interactions: Vec::new(),
            has_workspace: status.is_some(),
        })
    }

    fn ended(&self, run: &str) -> Option<RunOutcome> {
        let (task, status) = self.with(run, |(launch, status)| (launch.task.clone(), *status))?;
        let result = json!({
            "run_id": run, "task": task, "status": status?,
            "modes": {"agent_mode": "multi", "refinement": true, "planning": false},
            "final_answer": "done", "workspace_path": null,
            "coordination_summary": {"winner": null, "presenter": null, "strategy": "winner_present",
                "overridden": false, "rounds": 1, "votes": {}, "ballots": [], "agents": []},
            "context_path_writes": [], "plan": null, "follow_up": null,
            "usage": {"input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0, "calls": 0},
            "duration_ms": 1, "log_dir": "logs", "error": null,
        });
        Some(serde_json::from_value(result).expect("a result"))
    }
}

impl RunService for Runs {
    fn launch_tool(&self) -> ToolSpec {
        let parameters =
            json!({"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]});
        ToolSpec { name: "launch_run".into(), description: "Runs.".into(), parameters }
    }

    fn approval_question(&self, launch: &LaunchRun) -> Result<String, String> {
        Ok(format!("Launch this run? {}", launch.task))
    }

    fn launch(&self, launch: LaunchRun, _approved: bool) -> BoxFuture<'_, Result<String, String>> {
        let status = (!launch.task.starts_with("hold")).then_some(RunStatus::Completed);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((launch, status));
        let id = format!("r{}", all.len() - 1);
        Box::pin(async move { Ok(id) })
    }

    fn view<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunSummary>> {
        Box::pin(async move { self.seen(run) })
    }

    fn list(&self, most: usize) -> BoxFuture<'_, Vec<RunSummary>> {
        let count = self.0.lock().unwrap_or_else(PoisonError::into_inner).len();
        let runs = (0..count).rev().take(most).filter_map(|n| self.seen(&format!("r{n}"))).collect();
        Box::pin(async move { runs })
    }

    fn follow<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<Box<dyn RunFeed>>> {
        let exists = self.seen(run).is_some();
        let feed = Feed(self.ended(run));
        Box::pin(async move { exists.then(|| Box::new(feed) as Box<dyn RunFeed>) })
    }

    fn result<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunOutcome>> {
        Box::pin(async move { self.ended(run) })
    }

    fn cancel<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Result<(), String>> {
        let known = self.with(run, |(_, status)| {
            status.get_or_insert(RunStatus::Cancelled);
        });
        Box::pin(async move { known.ok_or_else(|| "there is no such run".to_owned()) })
    }

    fn answer<'a>(&'a self, _: &'a str, _: InteractionId, _: Decision) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err("parameter `interaction_id`: nothing is asked".to_owned()) })
    }

    fn file<'a>(&'a self, run: &'a str, _: RunDir, path: &'a str) -> BoxFuture<'a, Result<RunFile, String>> {
        let found = self.seen(run).map(|_| match path {
            "" => RunFile::Directory(vec!["a.txt".to_owned()]),
            path => RunFile::Text(path.to_owned()),
        });
        Box::pin(async move { found.ok_or_else(|| "there is no such run".to_owned()) })
    }
}

struct Feed(Option<RunOutcome>);

impl RunFeed for Feed {
    fn next(&mut self) -> BoxFuture<'_, RunUpdate> {
        let end = self.0.clone();
        Box::pin(async move {
            match end {
                Some(result) => RunUpdate::Ended(Box::new(result)),
                None => std::future::pending().await,
            }
        })
    }
}
