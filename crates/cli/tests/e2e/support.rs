//! What the test files share: a team on the fake server, the binary in fresh directories, and reading what it wrote.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_testkit::process::newest_session;
use althing_testkit::{Althing, FakeModel, Output, RecordedRequest, RunningProcess, Script, Terminal};
use serde_json::{Value, json};

/// Longer than anything takes on a busy machine. Stricter limits are set where they matter.
pub const LIMIT: Duration = althing_testkit::wait::PATIENCE;

pub const SKY: &str = r#"
import json, sys
for line in sys.stdin:
    ask = json.loads(line)
    if "id" not in ask: continue
    method = ask["method"]
    if method == "initialize":
        result = {"protocolVersion": ask["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "fake", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "weather", "description": "The weather", "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}}}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": "Sunny in " + ask["params"]["arguments"]["city"]}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result}), flush=True)
"#;

pub fn althing() -> Althing {
    Althing::new(env!("CARGO_BIN_EXE_althing"))
}

/// The directory `~/.claude`, which a stand-in for `claude` shares with the test. The directory in which the sandbox
/// lets Claude Code store its conversations becomes a link to it.
pub fn claude_dir(althing: &Althing) -> PathBuf {
    shared_claude_dir(&althing.home_dir(), &althing.state_dir())
}

pub fn shared_claude_dir(home: &Path, state: &Path) -> PathBuf {
    let (dir, store) = (home.join(".claude"), state.join("agents/.settings/shared/claude/projects"));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::create_dir_all(store.parent().unwrap()).unwrap();
    if store.symlink_metadata().is_err() {
        std::os::unix::fs::symlink(&dir, store).unwrap();
    }
    dir
}

/// A machine without CLI agents and without Ollama.
pub fn bare() -> Althing {
    althing().env("PATH", "/nowhere").env("OLLAMA_HOST", "127.0.0.1:9")
}

/// Waits for the offline model's reply to `hello`. The greeting, which also names the offline model, is gone then.
pub fn wait_for_reply_to_hello(terminal: &Terminal) {
    terminal.wait_until(LIMIT, "the reply", |screen| {
        screen.contains("hello") && screen.contains("not an AI") && !screen.contains("several AI agents")
    });
}

#[track_caller]
pub fn run(althing: &Althing, args: &[&str]) -> Output {
    althing.new_command().args(args).spawn().wait(LIMIT)
}

/// A config: agent `a` on `model-a`, `b` on `model-b` and so on. It is written as JSON, which is valid YAML.
#[derive(Debug, Clone)]
pub struct Team {
    config: Value,
}

impl Team {
    /// This many agents, all on one server. No judge is stopped early, so that the number of calls and votes does not
    /// depend on how fast they are.
    pub fn on(base_url: &str, agents: usize) -> Self {
        let agent = |name: char| {
            let backend = json!({
                "type": "chatcompletion", "model": format!("model-{name}"), "base_url": base_url,
                "retry_base_ms": 10,
            });
            json!({ "id": name.to_string(), "backend": backend })
        };
        let agents: Vec<Value> = ('a'..).take(agents).map(agent).collect();
        Self { config: json!({ "agents": agents, "orchestrator": {"stop_when_decided": false} }) }
    }

    pub fn rule(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.config["orchestrator"][key] = value.into();
        self
    }

    pub fn timeout(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.config["timeout_settings"][key] = value.into();
        self
    }

    /// The price per million tokens, for input and output alike.
    pub fn price(mut self, model: &str, dollars: f64) -> Self {
        self.config["prices"][model] = json!({ "input_per_million": dollars, "output_per_million": dollars });
        self
    }

    /// A price of output alone: what a call costs is known only after the call.
    pub fn output_price(mut self, model: &str, dollars: f64) -> Self {
        self.config["prices"][model] = json!({ "input_per_million": 0, "output_per_million": dollars });
        self
    }

    /// Sets a key of one agent's backend.
    pub fn backend(mut self, agent: usize, key: &str, value: impl Into<Value>) -> Self {
        self.config["agents"][agent]["backend"][key] = value.into();
        self
    }

    pub fn every_backend(self, key: &str, value: impl Into<Value>) -> Self {
        let (count, value) = (self.config["agents"].as_array().map_or(0, Vec::len), value.into());
        (0..count).fold(self, |team, agent| team.backend(agent, key, value.clone()))
    }

    pub fn agent(mut self, id: &str, backend: &Value) -> Self {
        let agents = self.config["agents"].as_array_mut().expect("a list of agents");
        agents.push(json!({ "id": id, "backend": backend }));
        self
    }

    pub fn text(&self) -> String {
        format!("{:#}", self.config)
    }
}

pub struct Fixture {
    pub server: FakeModel,
    pub althing: Althing,
}

impl Fixture {
    pub fn new(agents: usize, script: impl Into<Script>) -> Self {
        Self::with(agents, script, |team| team)
    }

    pub fn with(agents: usize, script: impl Into<Script>, change: impl FnOnce(Team) -> Team) -> Self {
        let server = FakeModel::start_on_thread(script);
        let althing = althing();
        althing.file("team.yaml", change(Team::on(&server.base_url(), agents)).text());
        Self { server, althing }
    }

    pub fn command(&self, args: &[&str]) -> Althing {
        self.althing.new_command().args(["--config", "team.yaml", "--automation"]).args(args)
    }

    pub fn spawn(&self, args: &[&str]) -> RunningProcess {
        self.command(args).spawn()
    }

    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Output {
        self.spawn(args).wait(LIMIT)
    }

    /// Runs the program with `--json` until it exits, which must succeed, and returns the result.
    #[track_caller]
    pub fn result(&self, args: &[&str]) -> Value {
        let output = self.command(&["--json"]).args(args).spawn().wait(LIMIT).expect_code(0);
        serde_json::from_str(&output.stdout)
            .unwrap_or_else(|error| panic!("stdout is not one JSON object ({error}): {}", output.stdout))
    }

    /// Resumes the newest session that is neither over nor in use or, if there is none, the newest.
    #[track_caller]
    pub fn resume(&self) -> Output {
        run(&self.althing, &["resume"])
    }

    #[track_caller]
    pub fn session(&self) -> PathBuf {
        newest_session(&self.althing.state_dir()).expect("there is a session")
    }

    #[track_caller]
    pub fn session_id(&self) -> String {
        self.session().file_name().unwrap().to_string_lossy().into_owned()
    }

    pub fn log(&self) -> PathBuf {
        self.session().join("events.jsonl")
    }

    pub fn calls(&self) -> BTreeMap<String, usize> {
        let mut calls = BTreeMap::new();
        for request in self.server.requests() {
            *calls.entry(request.model().to_owned()).or_default() += 1;
        }
        calls
    }
}

/// The contents of all messages of a request, joined. A message whose content is not a plain string is left out.
pub fn texts(request: &RecordedRequest) -> String {
    let texts: Vec<&str> =
        request.messages().iter().filter_map(|message| message["content"].as_str()).collect();
    texts.join("\n")
}

/// The newest task in a prompt: the text between the marker lines of the original message.
pub fn task_of(prompt: &str) -> Option<&str> {
    let (_, after) = prompt.rsplit_once("<ORIGINAL MESSAGE ")?;
    let (token, after) = after.split_once(">\n")?;
    after.split_once(&format!("\n<END OF ORIGINAL MESSAGE {token}>")).map(|(task, _)| task)
}

pub fn tools_text(request: &RecordedRequest) -> String {
    request.body()["tools"].to_string()
}

pub fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

pub fn items<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let of_kind = |event: &'a Value| {
        let item = &event["data"]["item"];
        (event["type"] == "item_added" && item["kind"] == kind).then_some(item)
    };
    events.iter().filter_map(of_kind).collect()
}

pub fn files_below(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for path in paths_below(dir) {
        if path.is_file() {
            let content = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            found.push((path, content));
        }
    }
    found
}

pub fn paths_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry.expect("an entry of a directory").path();
        found.push(path.clone());
        if path.is_dir() && !path.is_symlink() {
            found.extend(paths_below(&path));
        }
    }
    found
}

#[track_caller]
pub fn in_parallel<T: Send>(
    threads: usize,
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> Result<(), String> + Sync,
) {
    let queue = std::sync::Mutex::new(items.into_iter().collect::<Vec<_>>().into_iter());
    let complaints = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().next();
                    let Some(item) = next else { return };
                    if let Err(complaint) = work(item) {
                        complaints.lock().unwrap().push(complaint);
                    }
                }
            });
        }
    });
    let complaints = complaints.into_inner().unwrap();
    assert!(complaints.is_empty(), "{} went wrong:\n{}", complaints.len(), complaints.join("\n---\n"));
}

pub fn ensure(holds: bool, complaint: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint()) }
}
