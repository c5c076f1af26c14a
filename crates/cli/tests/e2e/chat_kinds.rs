//! A conversation with a chat agent of each kind: a model behind an API, or a CLI agent, for which a script stands in.
//! What the chat agent was given has the same form for both kinds, [`AgentCall`].

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use althing_testkit::{Action, Althing, FakeModel, Output, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, althing, claude_dir, of_type, texts};

pub const CHAT_MODEL: &str = "talker";

/// A message with these words makes the chat agent launch its runs. It answers every other message itself.
pub const DELEGATE: &str = "all of you";

/// A stand-in for `claude` that uses Althing's tools over MCP, as the real program does. As a member of a run it tries
/// `launch_run`, answers, and votes for the second agent. As chat agent it launches the runs in the file
/// `launches.json`, one in each call, gives a long reply to a message that begins with `Tell me`, and repeats a message
/// that begins with `It must`. It also writes summaries. If the file `price` exists, each call costs that much, and the
/// program reports the cost of the whole conversation, as the real one does. It records what it was given in a
/// directory that it shares with the test.
const CLAUDE: &str = r#"#!/usr/bin/env python3
import json, os, sys, urllib.request
own = os.path.join(os.environ["HOME"], ".claude")
prompt, arguments = sys.stdin.read(), sys.argv[1:]
server, session, count = None, None, 0
if "--mcp-config" in arguments:
    server = json.loads(arguments[arguments.index("--mcp-config") + 1])["mcpServers"]["althingtools"]
def ask(method, params, answered=True):
    global session, count
    count += 1
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    if answered: body["id"] = count
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers["Authorization"] = os.path.expandvars(server["headers"]["Authorization"])
    if session: headers["Mcp-Session-Id"] = session
    answer = urllib.request.urlopen(urllib.request.Request(server["url"], json.dumps(body).encode(), headers))
    session = answer.headers.get("Mcp-Session-Id") or session
    lines = [line[5:] if line.startswith("data:") else line for line in answer.read().decode().splitlines()]
    found = [json.loads(line) for line in lines if line.strip().startswith("{")]
    return next((message["result"] for message in found if message.get("id") == count and "result" in message), None)
def call(tool, values):
    return ask("tools/call", {"name": tool, "arguments": values})
tools, refused, said = [], None, "Noted."
if server:
    ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "claude", "version": "1"}})
    ask("notifications/initialized", {}, False)
    tools = ask("tools/list", {})["tools"]
names = [tool["name"] for tool in tools]
if "launch_run" in names:
    file = os.path.join(own, "launches.json")
    launches = json.load(open(file)) if os.path.exists(file) else []
    if "all of you" in prompt or " of your call to launch_run " in prompt:
        said = "Done."
        if launches:
            json.dump(launches[1:], open(file, "w"))
            call("launch_run", launches[0])
            said = "Launching."
elif server:
    refused = json.dumps(call("launch_run", {"task": "Call back"}))
if "vote" in names:
    call("vote", {"agent_id": "agent2", "reason": "clear"})
elif "new_answer" in names:
    call("new_answer", {"content": "Answer of claude"})
message = prompt.rsplit("\n\n(", 1)[0].rsplit("\n\n", 1)[-1]
message = message.split("\n", 1)[-1] if message.startswith("<message of the user ") else message
if prompt.startswith("You summarize "):
    said = "THE SUMMARY of what was said."
elif message.startswith("Tell me "):
    said = "word " * 4000
elif message.startswith("It must "):
    said = "Noted: " + message
record = {"prompt": prompt, "arguments": arguments, "tools": tools, "refused": refused, "cwd": os.getcwd()}
open(os.path.join(own, "calls.jsonl"), "a").write(json.dumps(record) + "\n")
flag = "--resume" if "--resume" in arguments else "--session-id"
id = arguments[arguments.index(flag) + 1]
print(json.dumps({"type": "system", "subtype": "init", "session_id": id}))
result = {"type": "result", "subtype": "success", "is_error": False, "result": said, "session_id": id}
price, total = os.path.join(own, "price"), os.path.join(own, "cost-" + id)
if os.path.exists(price):
    cost = float(open(price).read()) + (float(open(total).read()) if os.path.exists(total) else 0)
    open(total, "w").write(str(cost))
    result.update({"total_cost_usd": cost, "usage": {"input_tokens": 100, "output_tokens": 20}})
print(json.dumps(result))
"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatAgentKind {
    Model,
    ClaudeCode,
}

pub const BOTH_KINDS: [ChatAgentKind; 2] = [ChatAgentKind::Model, ChatAgentKind::ClaudeCode];

#[derive(Debug)]
pub struct AgentCall {
    pub prompt: String,
    /// The tools in the form of `tools/list`.
    pub tools: Vec<Value>,
    /// The arguments of the program; empty for a model.
    pub arguments: Vec<String>,
}

impl AgentCall {
    pub fn tool_names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
    }

    pub fn tool(&self, name: &str) -> &Value {
        self.tools
            .iter()
            .find(|tool| tool["name"] == name)
            .unwrap_or_else(|| panic!("no {name}: {:?}", self.tools))
    }

    pub fn argument(&self, flag: &str) -> Option<&str> {
        let at = self.arguments.iter().position(|argument| argument == flag)?;
        self.arguments.get(at + 1).map(String::as_str)
    }
}

pub struct Conversation {
    kind: ChatAgentKind,
    pub fixture: Fixture,
}

impl Conversation {
    /// A team of models, and a chat agent with a backend of its own that launches the runs in `launches` without
    /// approval. `change` edits the config.
    pub fn new(
        kind: ChatAgentKind,
        agents: usize,
        script: impl Into<Script>,
        launches: &[Value],
        change: impl FnOnce(&mut Value),
    ) -> Self {
        let talker = talker(launches.to_vec());
        let server = FakeModel::start_on_thread(script.into().on(CHAT_MODEL).always(talker));
        let base = server.base_url();
        let backend = match kind {
            ChatAgentKind::Model => {
                json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base})
            }
            ChatAgentKind::ClaudeCode => json!({"type": "claude_code"}),
        };
        let team = Team::on(&base, agents)
            .rule("interactive_mode", json!({"backend": backend, "require_approval": false}));
        let mut config: Value = serde_json::from_str(&team.text()).unwrap();
        change(&mut config);
        let althing = with_claude(&althing(), launches);
        althing.file("team.yaml", config.to_string());
        Self { kind, fixture: Fixture { server, althing } }
    }

    pub fn command(&self, args: &[&str]) -> Althing {
        self.fixture.althing.new_command().args(["chat", "--config", "team.yaml"]).args(args)
    }

    pub fn screen_command(&self, args: &[&str]) -> Althing {
        self.fixture.althing.new_command().args(["--config", "team.yaml"]).args(args)
    }

    #[track_caller]
    pub fn chat(&self, lines: &str, args: &[&str]) -> Output {
        self.command(args).stdin(lines).spawn().wait(LIMIT).expect_code(0)
    }

    pub fn chat_calls(&self) -> Vec<AgentCall> {
        match self.kind {
            ChatAgentKind::Model => {
                self.fixture.server.requests_of(CHAT_MODEL).iter().map(model_call).collect()
            }
            ChatAgentKind::ClaudeCode => self.claude_calls(true),
        }
    }

    /// What Claude Code was given in each call, as chat agent or as a member of runs. As chat agent, its working
    /// directory is the user's.
    pub fn claude_calls(&self, as_chat_agent: bool) -> Vec<AgentCall> {
        let project = self.fixture.althing.work_dir().canonicalize().unwrap();
        let recorded = recorded_calls(&self.fixture.althing).into_iter();
        recorded
            .filter(|call| (Path::new(call["cwd"].as_str().unwrap()) == project) == as_chat_agent)
            .map(|call| AgentCall {
                prompt: call["prompt"].as_str().unwrap().to_owned(),
                tools: call["tools"].as_array().unwrap().clone(),
                arguments: serde_json::from_value(call["arguments"].clone()).unwrap(),
            })
            .collect()
    }

    pub fn worker_requests(&self) -> Vec<RecordedRequest> {
        let requests = self.fixture.server.requests().into_iter();
        requests.filter(|request| request.model() != CHAT_MODEL).collect()
    }

    pub fn results(&self) -> Vec<String> {
        match self.kind {
            ChatAgentKind::Model => {
                let last = self.fixture.server.requests_of(CHAT_MODEL).pop().unwrap();
                let results = last.messages().iter().filter(|message| message["role"] == "tool");
                results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
            }
            ChatAgentKind::ClaudeCode => {
                let calls = self.claude_calls(true).into_iter();
                let after = |call: AgentCall| {
                    let (_, text) = call.prompt.split_once(" of your call to launch_run ")?;
                    text.split_once(">\n").map(|(_, result)| result.to_owned())
                };
                calls.filter_map(after).collect()
            }
        }
    }

    #[track_caller]
    pub fn result(&self) -> Value {
        let results = self.results();
        assert_eq!(results.len(), 1, "{:?}: {results:?}", self.kind);
        first_json(&results[0])
    }

    pub fn runs(&self) -> Vec<Value> {
        let events = self.fixture.althing.events();
        let specs = of_type(&events, "task_created").into_iter().map(|event| event["data"]["spec"].clone());
        specs.filter(|spec| spec["kind"] == "run").collect()
    }
}

fn talker(launches: Vec<Value>) -> Action {
    Action::with(move |request: &RecordedRequest| {
        let last = request.messages().last().cloned().unwrap_or_default();
        if last["role"] == "user" && !last["content"].as_str().unwrap_or_default().contains(DELEGATE) {
            return Reply::text("Noted.");
        }
        let results = request.messages().iter().filter(|message| message["role"] == "tool").count();
        match launches.get(results) {
            Some(launch) => Reply::call("launch_run", launch),
            None => Reply::text("Done."),
        }
    })
}

fn with_claude(althing: &Althing, launches: &[Value]) -> Althing {
    let (bin, own) = (althing.home_dir().join("bin"), claude_dir(althing));
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(own.join("launches.json"), json!(launches).to_string()).unwrap();
    let program = bin.join("claude");
    std::fs::write(&program, CLAUDE).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    althing.new_command().env("PATH", path)
}

pub fn recorded_calls(althing: &Althing) -> Vec<Value> {
    let log = althing.home_dir().join(".claude/calls.jsonl");
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn model_call(request: &RecordedRequest) -> AgentCall {
    let tools = request.body()["tools"].as_array().cloned().unwrap_or_default();
    let tool = |tool: &Value| {
        let function = &tool["function"];
        json!({"name": function["name"], "description": function["description"], "inputSchema": function["parameters"]})
    };
    AgentCall { prompt: texts(request), tools: tools.iter().map(tool).collect(), arguments: Vec::new() }
}

#[track_caller]
pub fn first_json(text: &str) -> Value {
    // In the prompt of a CLI agent, the result of a call stands between marker lines.
    let inside =
        text.strip_prefix("<result ").and_then(|rest| rest.split_once(">\n")).map(|(_, inside)| inside);
    let mut values = serde_json::Deserializer::from_str(inside.unwrap_or(text)).into_iter::<Value>();
    values.next().unwrap().unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub fn mcp_answers(althing: &Althing, requests: &[(&str, Value)]) -> Vec<Value> {
    let running = althing.new_command().args(["mcp", "--config", "team.yaml"]).open_stdin().spawn();
    let mut answers = Vec::new();
    for (id, (method, params)) in (1_u64..).zip(requests) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        running.write_stdin(format!("{request}\n"));
        let is_answer = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|value| value["id"] == id);
        let answer: Value = serde_json::from_str(&running.wait_for_stdout(is_answer, LIMIT)).unwrap();
        answers.push(answer["result"].clone());
        if *method == "initialize" {
            running.write_stdin("{\"jsonrpc\": \"2.0\", \"method\": \"notifications/initialized\"}\n");
        }
    }
    running.close_stdin();
    running.wait(LIMIT).expect_code(0);
    answers
}

pub fn initialize() -> (&'static str, Value) {
    let client = json!({"name": "client", "version": "1"});
    ("initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}))
}

pub fn set_every_backend(config: &mut Value, key: &str, value: &Value) {
    for agent in config["agents"].as_array_mut().unwrap() {
        agent["backend"][key] = value.clone();
    }
}
