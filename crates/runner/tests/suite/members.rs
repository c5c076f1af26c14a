//! CLI agents as members of a run: each model call is one run of the program, with our tools at an endpoint.

use super::programs::{AGENT, TaskFixture, agents, unconfined};
use super::support::{SANDBOXES, launcher, sandbox};
use althing_protocol::{
    AGENT_KINDS, AgentOptions, Backend, BackendErrorKind, BoxFuture, CallContext, ContextPath, Delta,
    Endpoint, EndpointHandler, Endpoints, Grant, GrantRoot, LateNotices, Message, ModelRequest,
    PermissionMode, Secret, TaskId, ToolCall, ToolSpec,
};
use althing_runner::adapter::{
    Adapters, AgentAdapter, ClaudeCode, Conversations, LaunchConfig, LaunchRequest, OutputParser,
    PermissionLevel, PlainTextParser,
};
use althing_runner::{
    CliAgentConfig, CliBackend, NoticeSink, PlantedCode, ProgramLimits, ProgramStarter, Sandbox, SandboxKind,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Default)]
struct FakeEndpoints {
    connected: bool,
    opened: Mutex<Vec<Opened>>,
}

type Opened = (Vec<ToolSpec>, Arc<dyn EndpointHandler>);

struct FakeEndpoint(Secret, bool);

impl Endpoint for FakeEndpoint {
    fn url(&self) -> &'static str {
        "http://127.0.0.1:1/agent/x"
    }

    fn token(&self) -> &Secret {
        &self.0
    }

    fn is_connected(&self) -> bool {
        self.1
    }
}

impl Endpoints for FakeEndpoints {
    fn open(
        &self,
        tools: Vec<ToolSpec>,
        calls: Arc<dyn EndpointHandler>,
    ) -> BoxFuture<'_, Result<Box<dyn Endpoint>, String>> {
        self.opened.lock().unwrap().push((tools, calls));
        let endpoint: Box<dyn Endpoint> = Box::new(FakeEndpoint(Secret::new("t"), self.connected));
        Box::pin(async { Ok(endpoint) })
    }
}

fn backend(fixture: &TaskFixture, endpoints: &Arc<FakeEndpoints>) -> CliBackend {
    let agent_log = fixture.path("work/diary").to_str().unwrap().to_owned();
    let env = BTreeMap::from([("FAKE_AGENT_DIARY".to_owned(), agent_log)]);
    backend_in(unconfined(), fixture, endpoints, env)
}

fn backend_in(
    sandbox: Sandbox,
    fixture: &TaskFixture,
    endpoints: &Arc<FakeEndpoints>,
    env: BTreeMap<String, String>,
) -> CliBackend {
    backend_of(Adapters::with(agents()), sandbox, fixture, endpoints, env)
}

fn backend_of(
    adapters: Adapters,
    sandbox: Sandbox,
    fixture: &TaskFixture,
    endpoints: &Arc<FakeEndpoints>,
    env: BTreeMap<String, String>,
) -> CliBackend {
    let starter = ProgramStarter {
        adapters,
        launcher: launcher(),
        sandbox,
        state_dir: None,
        settings_dir: None,
        trusts_project_settings: false,
        limits: ProgramLimits::default(),
        output_masking: None,
    };
    let member = CliAgentConfig {
        kind: "claude_code".to_owned(),
        env,
        dir: fixture.path("state/members"),
        ..CliAgentConfig::default()
    };
    CliBackend::new(Arc::new(starter), endpoints.clone(), member).unwrap()
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec { name: name.to_owned(), description: String::new(), parameters: json!({"type": "object"}) }
}

fn request(fixture: &TaskFixture, script: &str, tools: &[&str]) -> ModelRequest {
    ModelRequest {
        system: "note system".into(),
        messages: vec![Message::User(script.to_owned())],
        tools: tools.iter().map(|name| tool(name)).collect(),
        call_context: Some(CallContext {
            work: TaskId::from("r1.a1"),
            attempt: 1,
            native: None,
            workspace: Some(fixture.path("work").to_str().unwrap().to_owned()),
            grant: Grant::default(),
            late_notices: LateNotices::default(),
        }),
    }
}

#[tokio::test]
async fn the_final_message_of_a_program_that_never_connected_is_its_answer() {
    let fixture = TaskFixture::new();
    let endpoints = Arc::new(FakeEndpoints::default());
    let backend = backend(&fixture, &endpoints);
    assert_eq!(backend.info().kind, "claude_code");
    let mut streamed = String::new();
    let mut on_delta = |delta: Delta<'_>| {
        if let Delta::Text(text) = delta {
            streamed.push_str(text);
        }
    };
    let request = request(&fixture, "say hm\nsay forty-two", &["new_answer", "vote"]);
    let reply = backend.call(&request, &mut on_delta).await.unwrap();
    assert_eq!(reply.text, "forty-two");
    assert_eq!(reply.tool_calls.len(), 1);
    assert_eq!(reply.tool_calls[0].name, "new_answer");
    assert_eq!(reply.tool_calls[0].arguments, r#"{"content":"forty-two"}"#);
    assert_eq!(reply.usage.input_tokens, 10);
    assert!(streamed.contains("hm\n") && streamed.contains("forty-two"), "{streamed}");
    assert!(fixture.agent_log().contains(&"note system".to_owned()), "{:?}", fixture.agent_log());
    let offered: Vec<String> =
        endpoints.opened.lock().unwrap()[0].0.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["new_answer", "vote"]);
}

#[tokio::test]
async fn a_call_of_our_tools_is_recorded_and_returned_in_the_reply() {
    let fixture = TaskFixture::new();
    let endpoints = Arc::new(FakeEndpoints { connected: true, ..FakeEndpoints::default() });
    let backend = backend(&fixture, &endpoints);
    let go = fixture.path("work/go");
    let request = request(&fixture, &format!("say thinking\nwait {}\nsay done", go.display()), &["vote"]);
    let mut ignore = |_: Delta<'_>| ();
    let program = async {
        let calls = loop {
            if let Some((_, calls)) = endpoints.opened.lock().unwrap().first() {
                break calls.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let arguments = r#"{"agent_id":"agent2","reason":"best"}"#.to_owned();
        let reported = calls.call(ToolCall { id: "x".to_owned(), name: "vote".to_owned(), arguments }).await;
        assert!(reported.content.contains("End your turn") && !reported.is_error);
        std::fs::write(&go, "").unwrap();
    };
    let (reply, ()) = tokio::join!(backend.call(&request, &mut ignore), program);
    let reply = reply.unwrap();
    assert_eq!(reply.text, "done");
    assert_eq!(reply.tool_calls.len(), 1);
    assert_eq!((reply.tool_calls[0].id.as_str(), reply.tool_calls[0].name.as_str()), ("call-1", "vote"));
    assert!(reply.tool_calls[0].arguments.contains("agent2"));
}

#[tokio::test]
async fn a_resumed_conversation_gets_only_new_messages_and_counts_only_new_usage() {
    let fixture = TaskFixture::new();
    let endpoints = Arc::new(FakeEndpoints { connected: true, ..FakeEndpoints::default() });
    let backend = backend(&fixture, &endpoints);
    let mut ignore = |_: Delta<'_>| ();
    let mut request = request(&fixture, "say one", &["vote"]);
    let first = backend.call(&request, &mut ignore).await.unwrap();
    assert!(first.tool_calls.is_empty(), "a connected program that called nothing gets no implicit call");
    let native = first.native.clone().unwrap();
    request.messages.push(Message::Assistant { text: first.text, tool_calls: Vec::new() });
    request.messages.push(Message::User("say two".to_owned()));
    request.call_context.as_mut().unwrap().native = Some(native.clone());
    let second = backend.call(&request, &mut ignore).await.unwrap();
    assert_eq!((second.text.as_str(), second.native.as_deref()), ("two", Some(native.as_str())));
    let agent_log = fixture.agent_log();
    let steps: Vec<&str> =
        agent_log.iter().map(String::as_str).filter(|line| line.starts_with("say")).collect();
    assert_eq!(steps, ["say one", "say two"]);
    assert_eq!((first.usage.cost_usd, second.usage.cost_usd), (0.01, 0.0));
}

#[tokio::test]
async fn a_call_that_was_cut_off_continues_in_its_conversation_with_only_what_is_new() {
    for news in [None, Some("say two")] {
        let fixture = TaskFixture::new();
        let endpoints = Arc::new(FakeEndpoints { connected: true, ..FakeEndpoints::default() });
        let never = fixture.path("work/never");
        let mut request = request(&fixture, &format!("say one\nwait {}", never.display()), &["vote"]);
        let mut ignore = |_: Delta<'_>| ();
        let first = backend(&fixture, &endpoints);
        let stored = fixture.path("state/members/r1.a1/unfinished-turn.json");
        let begun = async {
            while !stored.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            ended = first.call(&request, &mut ignore) => panic!("{ended:?}"),
            () = begun => {}
        }
        request.call_context.as_mut().unwrap().attempt = 2;
        request.messages.extend(news.map(|text| Message::User(text.to_owned())));
        // Another process, which knows only what was stored.
        let second = backend(&fixture, &endpoints);
        let reply = second.call(&request, &mut ignore).await.unwrap();
        assert_eq!(reply.text, news.map_or("", |_| "two"));
        let agent_log = fixture.agent_log();
        let starts: Vec<usize> =
            (0..agent_log.len()).filter(|at| agent_log[*at].starts_with("start ")).collect();
        assert_eq!(starts.len(), 2, "{agent_log:?}");
        let conversation = |start: usize| agent_log[start].rsplit(' ').next();
        assert_eq!(conversation(starts[0]), conversation(starts[1]), "{agent_log:?}");
        let (before, after) = agent_log.split_at(starts[1]);
        assert!(before.contains(&"note system".to_owned()) && before.contains(&"say one".to_owned()));
        assert!(after[1].starts_with("You were cut off before you had finished."), "{after:?}");
        assert!(!after.iter().any(|line| line.starts_with("note ") || line == "say one"), "{after:?}");
        assert_eq!(after.iter().filter(|line| *line == "say two").count(), usize::from(news.is_some()));
        // The turn is over, so the next call begins one.
        std::fs::write(never, "").unwrap();
        second.call(&request, &mut ignore).await.unwrap();
        assert_eq!(fixture.agent_log().iter().filter(|line| *line == "say one").count(), 2);
    }
}

/// An adapter whose executable, if the file `damaged` exists, prints that file and fails in a resumed conversation.
#[derive(Debug)]
struct DamagedConversation;

impl AgentAdapter for DamagedConversation {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn executable(&self) -> Option<&str> {
        None
    }

    fn launch_config(&self, _task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        None
    }

    fn headless_launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        let (id, option) = match task.resume {
            Some(id) => (id, "--resume"),
            None => (task.new_conversation_id, "--session-id"),
        };
        let script = r#"[ "$4" = --resume ] && cat damaged >&2 && exit 1; exec "$@""#;
        let args = ["-c", script, "sh", AGENT, "--like", "claude", option, id].map(str::to_owned).to_vec();
        Some(LaunchConfig { program: "/bin/sh".to_owned(), args, ..LaunchConfig::default() })
    }

    fn conversations(&self) -> Conversations {
        Conversations::IdChosen
    }

    fn parser(&self) -> Box<dyn OutputParser> {
        ClaudeCode.parser()
    }
}

#[tokio::test]
async fn a_cut_off_conversation_that_fails_at_once_is_given_up_for_the_complete_prompt() {
    let damage = "Error: the file of the session is damaged\n";
    for (native, damage, goes_on) in
        [(None, damage, true), (Some("earlier"), damage, true), (None, "Error: 401 Invalid API key\n", false)]
    {
        let fixture = TaskFixture::new();
        let endpoints = Arc::new(FakeEndpoints { connected: true, ..FakeEndpoints::default() });
        let adapter = || Adapters::of(AGENT_KINDS, vec![Arc::new(DamagedConversation)]);
        let agent_log = fixture.path("work/diary").to_str().unwrap().to_owned();
        let env = || BTreeMap::from([("FAKE_AGENT_DIARY".to_owned(), agent_log.clone())]);
        let go = fixture.path("work/go");
        let mut request = request(&fixture, &format!("say one\nwait {}", go.display()), &["vote"]);
        request.call_context.as_mut().unwrap().native = native.map(str::to_owned);
        let mut ignore = |_: Delta<'_>| ();
        let first = backend_of(adapter(), unconfined(), &fixture, &endpoints, env());
        let stored = fixture.path("state/members/r1.a1/unfinished-turn.json");
        let begun = async {
            while !stored.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            ended = first.call(&request, &mut ignore) => panic!("{ended:?}"),
            () = begun => {}
        }
        std::fs::write(fixture.path("work/damaged"), damage).unwrap();
        std::fs::write(go, "").unwrap();
        let second = backend_of(adapter(), unconfined(), &fixture, &endpoints, env());
        let reply = second.call(&request, &mut ignore).await;
        let agent_log = fixture.agent_log();
        let count = |step: &str| agent_log.iter().filter(|line| line.starts_with(step)).count();
        if goes_on {
            let reply = reply.unwrap();
            assert_eq!((reply.text.as_str(), reply.usage.calls), ("one", 2), "{reply:?}");
            assert_ne!(reply.native.as_deref(), native);
            assert_eq!((count("note system"), count("say one")), (2, 2), "{agent_log:?}");
        } else {
            assert_eq!(reply.unwrap_err().kind, BackendErrorKind::Auth, "another start would not help");
            assert_eq!(count("say one"), 1, "{agent_log:?}");
        }
    }
}

#[derive(Debug)]
struct MayMissTools;

impl AgentAdapter for MayMissTools {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn executable(&self) -> Option<&str> {
        None
    }

    fn may_miss_tools(&self) -> bool {
        true
    }

    fn launch_config(&self, _task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        None
    }

    fn headless_launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        let id = task.resume.unwrap_or(task.new_conversation_id);
        let args = ["--like", "claude", "--session-id", id].map(str::to_owned).to_vec();
        Some(LaunchConfig { program: AGENT.to_owned(), args, ..LaunchConfig::default() })
    }

    fn parser(&self) -> Box<dyn OutputParser> {
        ClaudeCode.parser()
    }
}

#[tokio::test]
async fn a_program_that_may_miss_our_tools_and_never_listed_them_is_asked_again_once() {
    let mut ignore = |_: Delta<'_>| ();
    for (may_miss, connected, starts) in [(true, false, 2), (true, true, 1), (false, false, 1)] {
        let fixture = TaskFixture::new();
        let endpoints = Arc::new(FakeEndpoints { connected, ..FakeEndpoints::default() });
        let adapters = if may_miss {
            Adapters::of(AGENT_KINDS, vec![Arc::new(MayMissTools)])
        } else {
            Adapters::with(agents())
        };
        let agent_log = fixture.path("work/diary").to_str().unwrap().to_owned();
        let env = BTreeMap::from([("FAKE_AGENT_DIARY".to_owned(), agent_log)]);
        let backend = backend_of(adapters, unconfined(), &fixture, &endpoints, env);
        let request = request(&fixture, "say one", &["launch_run"]);
        let reply = backend.call(&request, &mut ignore).await.unwrap();
        assert!(reply.native.is_some() && reply.tool_calls.is_empty());
        let agent_log = fixture.agent_log();
        let count = |start: &str| agent_log.iter().filter(|line| line.starts_with(start)).count();
        assert_eq!(count("start "), starts, "{agent_log:?}");
        // The second start continues the first conversation: its prompt does not repeat the task.
        assert_eq!(count("say one"), 1, "{agent_log:?}");
        let told = count("The tools could not be reached during your last turn.");
        assert_eq!(told, starts - 1, "{agent_log:?}");
    }
}

#[tokio::test]
async fn a_message_that_looks_like_a_command_reaches_the_program_as_prose() {
    let fixture = TaskFixture::new();
    let endpoints = Arc::new(FakeEndpoints { connected: true, ..FakeEndpoints::default() });
    let backend = backend(&fixture, &endpoints);
    let mut ignore = |_: Delta<'_>| ();
    for (goes_on, message) in [(false, "!touch x"), (true, "!touch x"), (true, " /clear it"), (true, "exit")]
    {
        let mut request = request(&fixture, message, &[]);
        request.system = "".into();
        if goes_on {
            let said = Message::Assistant { text: "hm".to_owned(), tool_calls: Vec::new() };
            request.messages.insert(0, said);
            request.call_context.as_mut().unwrap().native = Some("a-conversation".to_owned());
        }
        let _ = backend.call(&request, &mut ignore).await;
        let agent_log = fixture.agent_log();
        let start = agent_log.iter().rposition(|line| line.starts_with("start ")).unwrap();
        assert_eq!(agent_log[start + 1..start + 3], ["Task:", message], "{agent_log:?}");
    }
}

/// The workspace (`work`), a writable project with a repository (`project`), a writable project without a repository
/// (`bare`), a read-only project (`reading`), and the agent's own directory (`own`).
const DIRS: [&str; 7] =
    ["work", "project/.git", "project/src", "project/vendor/locked", "bare/src", "reading/src", "own"];

/// Which of these files the program could write inside this sandbox; `None` if the tests were told to skip the
/// sandbox. If `shared`, the program works in the project and has another workspace; if `planning`, it may only plan.
async fn written(kind: SandboxKind, shared: bool, planning: bool, files: &[&str]) -> Option<Vec<String>> {
    let sandbox = sandbox(kind).await?;
    let (fixture, endpoints) = (TaskFixture::new(), Arc::new(FakeEndpoints::default()));
    for path in DIRS {
        std::fs::create_dir_all(fixture.path(path)).unwrap();
    }
    std::fs::write(fixture.path("note.txt"), "before").unwrap();
    let backend = backend_in(sandbox, &fixture, &endpoints, BTreeMap::new());
    let path = |inside: &str| fixture.path(inside).to_str().unwrap().to_owned();
    let context = |inside: &str, writable: bool, protected: &[&str]| ContextPath {
        path: path(inside),
        writable,
        protected: protected.iter().map(|part| (*part).to_owned()).collect(),
    };
    let context = [
        context("project", true, &["vendor/locked", "absent"]),
        context("bare", true, &[]),
        context("reading", false, &[]),
        context("note.txt", true, &[]),
    ];
    let grant = Grant {
        workspace: Some(fixture.path(if shared { "own" } else { "work" })),
        roots: context.iter().map(GrantRoot::from).collect(),
        planning,
        ..Grant::default()
    };
    let mut ignore = |_: Delta<'_>| ();
    let mut found = Vec::new();
    for file in files {
        // The program must say `seen`, even where it cannot write: it can read the project.
        let script = format!("wait {}\nsay seen\ntouch {}\nsay written", path("project/src"), path(file));
        let mut request = request(&fixture, &script, &[]);
        let call_context = request.call_context.as_mut().unwrap();
        call_context.grant = grant.clone();
        if shared {
            call_context.workspace = Some(path("project"));
        }
        let raw = fixture.path("state/members/r1.a1/1/output.raw");
        let _ = std::fs::remove_file(&raw);
        let _ = backend.call(&request, &mut ignore).await;
        let said = std::fs::read_to_string(&raw).unwrap();
        assert!(said.contains("seen"), "{kind:?} {file}: {said}");
        let is_new = std::fs::read(fixture.path(file)).is_ok_and(|bytes| bytes.is_empty());
        found.extend(is_new.then(|| (*file).to_owned()));
    }
    assert!(!fixture.path("bare/.git").exists(), "the placeholder is removed");
    Some(found)
}

#[tokio::test]
async fn a_member_writes_to_its_paths_but_never_to_repositories_and_protected_paths() {
    let open = ["project/src/x", "bare/src/x", "note.txt"];
    let closed = [
        "project/.git/x",
        "project/vendor/locked/x",
        "project/absent/x",
        "project/absent",
        "bare/.git/x",
        "reading/src/x",
    ];
    for kind in SANDBOXES {
        let all = [&open[..], &closed, &["work/x", "own/x"]].concat();
        let Some(found) = written(kind, false, false, &all).await else { continue };
        assert_eq!(found, [&open[..], &["work/x"]].concat(), "{kind:?}");
        let Some(found) = written(kind, true, false, &all).await else { continue };
        assert_eq!(found, [&open[..], &["own/x"]].concat(), "{kind:?}");
    }
}

#[tokio::test]
async fn a_member_that_only_plans_can_read_but_not_write() {
    let all = ["work/x", "project/x", "project/src/x", "bare/src/x", "own/x", "note.txt", "reading/src/x"];
    for kind in SANDBOXES {
        for shared in [false, true] {
            let Some(found) = written(kind, shared, true, &all).await else { continue };
            assert_eq!(found, [] as [&str; 0], "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_failed_program_gives_a_typed_error() {
    let fixture = TaskFixture::new();
    let endpoints = Arc::new(FakeEndpoints::default());
    let backend = backend(&fixture, &endpoints);
    let mut ignore = |_: Delta<'_>| ();
    let failed = request(&fixture, "complain Error: 401 Invalid API key\nexit 1", &["new_answer"]);
    let error = backend.call(&failed, &mut ignore).await.unwrap_err();
    assert_eq!(error.kind, BackendErrorKind::Auth, "{error:?}");
    assert!(error.message.starts_with("claude_code: ") && error.hint.is_some(), "{error:?}");
    let crashed = request(&fixture, "kill -KILL", &["new_answer"]);
    let error = backend.call(&crashed, &mut ignore).await.unwrap_err();
    assert_eq!(error.kind, BackendErrorKind::Server, "{error:?}");
    assert!(error.message.contains("signal 9"), "{error:?}");
}

#[derive(Debug, Default)]
struct PermissionRecorder(Mutex<Vec<PermissionLevel>>);

impl AgentAdapter for PermissionRecorder {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn executable(&self) -> Option<&str> {
        None
    }

    fn launch_config(&self, _task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        None
    }

    fn headless_launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        self.0.lock().unwrap().push(task.permissions);
        let args = ["--like", "claude"].map(str::to_owned).to_vec();
        Some(LaunchConfig { program: AGENT.to_owned(), args, ..LaunchConfig::default() })
    }

    fn parser(&self) -> Box<dyn OutputParser> {
        ClaudeCode.parser()
    }
}

#[tokio::test]
async fn a_permission_mode_only_removes_permissions() {
    let modes = [
        (None, PermissionLevel::Full),
        (Some(PermissionMode::BypassPermissions), PermissionLevel::Full),
        (Some(PermissionMode::AcceptEdits), PermissionLevel::Workspace),
        (Some(PermissionMode::Default), PermissionLevel::ReadOnly),
        (Some(PermissionMode::Plan), PermissionLevel::ReadOnly),
    ];
    for ((permission_mode, expected), plans) in
        modes.into_iter().flat_map(|mode| [(mode, false), (mode, true)])
    {
        let fixture = TaskFixture::new();
        let recorder = Arc::new(PermissionRecorder::default());
        let starter = ProgramStarter {
            adapters: Adapters::of(AGENT_KINDS, vec![recorder.clone()]),
            launcher: launcher(),
            sandbox: unconfined(),
            state_dir: None,
            settings_dir: None,
            trusts_project_settings: false,
            limits: ProgramLimits::default(),
            output_masking: None,
        };
        let member = CliAgentConfig {
            kind: "claude_code".to_owned(),
            dir: fixture.path("state/members"),
            options: AgentOptions { permission_mode, ..AgentOptions::default() },
            ..CliAgentConfig::default()
        };
        let backend = CliBackend::new(Arc::new(starter), Arc::new(FakeEndpoints::default()), member).unwrap();
        let mut request = request(&fixture, "say hm", &["new_answer"]);
        // Planning takes precedence over every permission mode.
        request.call_context.as_mut().unwrap().grant.planning = plans;
        backend.call(&request, &mut |_| {}).await.unwrap();
        let expected = if plans { PermissionLevel::ReadOnly } else { expected };
        assert_eq!(*recorder.0.lock().unwrap(), [expected], "{permission_mode:?}, plans: {plans}");
    }
}

/// A program that reports neither its usage nor the reason for a failure.
#[derive(Debug)]
struct PlainText;

impl AgentAdapter for PlainText {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn executable(&self) -> Option<&str> {
        None
    }

    fn launch_config(&self, _task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        None
    }

    fn headless_launch_config(&self, _task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        Some(LaunchConfig { program: "sh".to_owned(), ..LaunchConfig::default() })
    }

    fn parser(&self) -> Box<dyn OutputParser> {
        Box::new(PlainTextParser)
    }
}

#[tokio::test]
async fn a_plain_text_program_counts_as_one_call_and_fails_with_its_last_error_line() {
    let fixture = TaskFixture::new();
    let starter = ProgramStarter {
        adapters: Adapters::of(AGENT_KINDS, vec![Arc::new(PlainText)]),
        launcher: launcher(),
        sandbox: unconfined(),
        state_dir: None,
        settings_dir: None,
        trusts_project_settings: false,
        limits: ProgramLimits::default(),
        output_masking: None,
    };
    let member = CliAgentConfig {
        kind: "claude_code".to_owned(),
        dir: fixture.path("state/members"),
        ..CliAgentConfig::default()
    };
    let backend = CliBackend::new(Arc::new(starter), Arc::new(FakeEndpoints::default()), member).unwrap();
    let script = |text: &str| ModelRequest {
        system: ":".into(),
        ..request(&fixture, &format!("{text}\nexit"), &["new_answer", "vote"])
    };
    let mut streamed = String::new();
    let mut on_delta = |delta: Delta<'_>| {
        if let Delta::Text(text) = delta {
            streamed.push_str(text);
        }
    };
    let reply = backend.call(&script("echo one; echo two"), &mut on_delta).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.usage.calls), ("one\ntwo\n", 1));
    assert_eq!(reply.tool_calls[0].arguments, r#"{"content":"one\ntwo"}"#);
    assert_eq!(streamed, "one\ntwo\n");
    // The shell joins the parts: a vote that stands in the request would not count.
    let vote = script("echo '{\"agent_id\": \"agent''2\"}'");
    assert_eq!(backend.call(&vote, &mut |_| {}).await.unwrap().tool_calls[0].name, "vote");
    let failing = [
        ("echo no luck >&2; exit 7", "it ended with exit code 7: no luck"),
        ("echo gone >&2; kill -KILL $$", "it was ended by signal 9: gone"),
    ];
    for (text, why) in failing {
        let error = backend.call(&script(text), &mut |_| {}).await.unwrap_err();
        assert_eq!((error.message, error.usage.calls), (format!("claude_code: {why}"), 1));
    }
}

#[tokio::test]
async fn a_member_without_a_sandbox_that_trusts_settings_does_not_start_on_planted_code() {
    for (written, starts) in [(".mcp.json", false), ("main.py", true)] {
        let fixture = TaskFixture::new();
        let planted = Arc::new(PlantedCode::default());
        let starter = ProgramStarter {
            adapters: Adapters::of(AGENT_KINDS, vec![Arc::new(PlainText)]),
            launcher: launcher(),
            sandbox: unconfined(),
            state_dir: None,
            settings_dir: None,
            trusts_project_settings: true,
            limits: ProgramLimits::default(),
            output_masking: None,
        };
        let member = CliAgentConfig {
            kind: "claude_code".to_owned(),
            dir: fixture.path("state/members"),
            planted: Arc::clone(&planted),
            ..CliAgentConfig::default()
        };
        let backend = CliBackend::new(Arc::new(starter), Arc::new(FakeEndpoints::default()), member).unwrap();
        let (run, grant) = (fixture.path("state/tasks/r1"), Grant::project(fixture.path("work")));
        let write = || std::fs::write(fixture.path("work").join(written), "{}").unwrap();
        planted.during_blocking(&run, &grant, &(Arc::new(|_| {}) as NoticeSink), write).unwrap();
        let request =
            ModelRequest { system: ":".into(), ..request(&fixture, "echo one\nexit", &["new_answer"]) };
        let reply = backend.call(&request, &mut |_| {}).await;
        assert_eq!(reply.is_ok(), starts, "{written}: {reply:?}");
        if let Err(error) = reply {
            assert!(
                error.message.contains(written) && error.hint.unwrap().contains("--trust"),
                "{}",
                error.message
            );
        }
    }
}

#[test]
fn only_cli_agents_are_backends_of_this_kind() {
    let adapters = Adapters::default();
    assert!(AGENT_KINDS.iter().all(|row| adapters.kind(row.kind) == Some(row)));
    assert_eq!(adapters.kind("anthropic"), None);
}
