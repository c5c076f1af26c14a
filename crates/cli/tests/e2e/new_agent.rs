//! Adding a CLI agent takes a row in the table of agent kinds and an adapter: this file adds such an agent. It calls
//! the crates below the binary, because the table of the binary is fixed; the binary only guards the processes that are
//! started.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use althing_config::{
    BackendTypes, LoadPurpose, Source, TaskBody, Variables, WorkflowContext, load_config_with, load_workflow,
    workflow_agents,
};
use althing_mcp::{AgentEndpoints, WebLimits};
use althing_protocol::{
    AGENT_KINDS, AgentKind, Backend, BoxFuture, Config, Endpoint, EndpointHandler, Endpoints, ExecutionMode,
    Message, ModelRequest, ProgramJob, ProgramSpec, Programs, TaskId, ToolSpec,
};
use althing_runner::adapter::{
    Adapters, AgentAdapter, LaunchConfig, LaunchRequest, OutputParser, PlainTextParser, find_agents,
};
use althing_runner::{
    AcceptedByUser, CliAgentConfig, CliBackend, GuardLauncher, PatternTable, ProgramLimits, ProgramRunner,
    ProgramStarter, Sandbox,
};

const TOY: AgentKind = AgentKind {
    kind: "toy_cli",
    adapter: "toy",
    title: "Toy CLI",
    program: "toy",
    install_hint: "npm install -g toy",
    tool_name_pattern: Some("{server}.{tool}"),
    vendor: "toys",
    supports: &[],
    reports_cost: false,
    project_dirs: &[],
};

static KINDS: LazyLock<Vec<AgentKind>> = LazyLock::new(|| AGENT_KINDS.iter().copied().chain([TOY]).collect());
static WITHOUT_MCP: [AgentKind; 1] = [AgentKind { tool_name_pattern: None, ..TOY }];
static BACKENDS: LazyLock<BackendTypes> = LazyLock::new(|| BackendTypes::with_agents(&KINDS));

/// The adapter of the new agent, which would normally be a file of its own.
#[derive(Debug)]
struct Toy(PathBuf);

impl AgentAdapter for Toy {
    fn name(&self) -> &'static str {
        TOY.adapter
    }

    fn executable(&self) -> Option<&str> {
        Some(TOY.program)
    }

    fn launch_config(&self, _task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        None
    }

    fn headless_launch_config(&self, _task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        Some(LaunchConfig { program: self.0.display().to_string(), ..LaunchConfig::default() })
    }

    fn parser(&self) -> Box<dyn OutputParser> {
        Box::new(PlainTextParser)
    }
}

/// A program that saves its prompt in its working directory, and succeeds, votes or fails, as the prompt says.
const PROGRAM: &str = "#!/bin/sh
[ \"$1\" = --version ] && { echo 1.2.3; exit; }
cat > prompt.txt
grep -q 'choose an answer' prompt.txt && { echo '{\"agent_id\": \"agent2\", \"reason\": \"best\"}'; exit; }
grep -q 'break the toy' prompt.txt && { echo 'no spring' >&2; exit 7; }
echo toy is done
";

fn installed(dir: &Path) -> PathBuf {
    let path = dir.join(TOY.program);
    std::fs::write(&path, PROGRAM).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn adapters(toy: &Path) -> Adapters {
    let own: Arc<dyn AgentAdapter> = Arc::new(Toy(toy.to_owned()));
    Adapters::of(&KINDS, Adapters::default().all().cloned().chain([own]).collect())
}

fn launcher() -> GuardLauncher {
    GuardLauncher::of(PathBuf::from(env!("CARGO_BIN_EXE_althing")))
}

fn starter(adapters: Adapters) -> Arc<ProgramStarter> {
    Arc::new(ProgramStarter {
        adapters,
        launcher: launcher(),
        sandbox: Sandbox::Unconfined(AcceptedByUser::explicitly()),
        state_dir: None,
        settings_dir: None,
        trusts_project_settings: false,
        limits: ProgramLimits::default(),
        output_masking: None,
    })
}

fn config() -> Config {
    let text = "agents: [{id: t, backend: {type: toy_cli, model: m}}]";
    let source = Source { name: "team.yaml", text };
    let report = load_config_with(&BACKENDS, source, Variables::all_own(&|_| None), LoadPurpose::Run);
    assert_eq!((report.errors.as_slice(), report.warnings.as_slice()), ([].as_slice(), [].as_slice()));
    report.config.unwrap().config
}

#[test]
fn a_config_may_name_a_new_cli_agent() {
    let config = config();
    assert_eq!(config.agents[0].backend.kind, TOY.kind);
    let text = "agents: [{id: t, backend: {type: toy_clo}}]";
    let source = Source { name: "team.yaml", text };
    let wrong = load_config_with(&BACKENDS, source, Variables::all_own(&|_| None), LoadPurpose::Run);
    assert_eq!(wrong.errors[0].suggestion.as_deref(), Some("did you mean `toy_cli`?"));
}

#[tokio::test]
async fn a_new_cli_agent_is_listed_with_its_version_and_how_to_install_it() {
    let dir = tempfile::tempdir().unwrap();
    let toy = installed(dir.path());
    let search = dir.path().display().to_string();
    let found =
        find_agents(&adapters(&toy), &launcher(), (&search, &[]), Duration::from_secs(30), None).await;
    let found = found.iter().find(|found| found.name == TOY.adapter).unwrap();
    assert_eq!((found.path.as_ref(), found.version.as_deref()), (Some(&toy), Some("1.2.3")));
    let backend = BACKENDS.named(TOY.kind).unwrap();
    assert!(backend.is_supported());
    assert_eq!(backend.agent, Some(&TOY));
}

fn tool(name: &str) -> ToolSpec {
    let parameters = serde_json::json!({"type": "object"});
    ToolSpec { name: name.to_owned(), description: String::new(), parameters }
}

#[tokio::test]
async fn a_new_cli_agent_answers_as_a_member_of_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let member =
        CliAgentConfig { kind: TOY.kind.to_owned(), dir: dir.path().join("t"), ..CliAgentConfig::default() };
    let endpoints = Arc::new(AgentEndpoints::new(WebLimits::default()));
    let backend = CliBackend::new(starter(adapters(&installed(dir.path()))), endpoints, member).unwrap();
    let request = ModelRequest {
        messages: vec![Message::User("the task".to_owned())],
        tools: vec![tool("new_answer"), tool("vote")],
        ..ModelRequest::default()
    };
    let reply = backend.call(&request, &mut |_| {}).await.unwrap();
    assert_eq!(reply.tool_calls[0].name, "new_answer");
    assert_eq!(reply.tool_calls[0].arguments, r#"{"content":"toy is done"}"#);
    assert_eq!(reply.usage.calls, 1);
    let prompt = std::fs::read_to_string(dir.path().join("workspace/prompt.txt")).unwrap();
    assert!(prompt.contains("the task") && prompt.contains("althingtools.vote"), "{prompt}");
    let broken = ModelRequest { messages: vec![Message::User("break the toy".to_owned())], ..request };
    let error = backend.call(&broken, &mut |_| {}).await.unwrap_err();
    assert_eq!(error.message, "toy_cli: it ended with exit code 7: no spring");
    assert_eq!(error.usage.calls, 1);
}

/// Endpoints that must not be opened.
struct NoEndpoints;

impl Endpoints for NoEndpoints {
    fn open(
        &self,
        _tools: Vec<ToolSpec>,
        _calls: Arc<dyn EndpointHandler>,
    ) -> BoxFuture<'_, Result<Box<dyn Endpoint>, String>> {
        panic!("an endpoint was opened for an agent without MCP");
    }
}

#[tokio::test]
async fn a_new_cli_agent_without_mcp_answers_and_votes_in_its_final_message() {
    let dir = tempfile::tempdir().unwrap();
    let own: Arc<dyn AgentAdapter> = Arc::new(Toy(installed(dir.path())));
    let starter = starter(Adapters::of(&WITHOUT_MCP, vec![own]));
    let member =
        CliAgentConfig { kind: TOY.kind.to_owned(), dir: dir.path().join("t"), ..CliAgentConfig::default() };
    let backend = CliBackend::new(starter, Arc::new(NoEndpoints), member).unwrap();
    for (task, name, arguments) in [
        ("the task", "new_answer", r#"{"content":"toy is done"}"#),
        ("choose an answer", "vote", r#"{"agent_id":"agent2","reason":"best"}"#),
    ] {
        let request = ModelRequest {
            messages: vec![Message::User(task.to_owned())],
            tools: vec![tool("new_answer"), tool("vote")],
            ..ModelRequest::default()
        };
        let reply = backend.call(&request, &mut |_| {}).await.unwrap();
        let call = &reply.tool_calls[0];
        assert_eq!((call.name.as_str(), call.arguments.as_str()), (name, arguments));
        let prompt = std::fs::read_to_string(dir.path().join("workspace/prompt.txt")).unwrap();
        assert!(prompt.contains("You cannot call the tools") && !prompt.contains("MCP"), "{prompt}");
    }
}

#[tokio::test]
async fn a_new_cli_agent_does_tasks_of_a_workflow() {
    let dir = tempfile::tempdir().unwrap();
    let cwd = dir.path().canonicalize().unwrap().display().to_string();
    let agents = workflow_agents(&config(), &KINDS);
    let around = WorkflowContext {
        purpose: LoadPurpose::Run,
        cwd: &cwd,
        env: Variables::all_own(&|_| None),
        kinds: &KINDS,
        custom: &[],
        agents: &agents,
    };
    // The workflow names the agent in two ways: by its adapter, and as an agent of the config.
    let text = "name: n\nstages:\n  - name: s\n    tasks:\n      - {id: a, agent: toy, executionMode: headless, prompt: one}\n      \
                - {id: b, agent: t, executionMode: headless, prompt: two}\n";
    let (workflow, report) = load_workflow(Source { name: "flow.yaml", text }, &around);
    assert_eq!(report.errors, []);
    let runner = ProgramRunner::new(starter(adapters(&installed(dir.path()))), PatternTable::default());
    let bodies = workflow.unwrap().stages.remove(0).tasks.into_iter().map(|task| task.body);
    let specs: Vec<ProgramSpec> = bodies
        .map(|body| match body {
            TaskBody::Program(spec) => *spec,
            other => panic!("{other:?} is no CLI agent's task"),
        })
        .collect();
    assert_eq!((specs[1].adapter.as_str(), specs[1].model.as_deref()), ("toy", Some("m")));
    let mut spec = specs[0].clone();
    spec.mode = ExecutionMode::Interactive;
    let job = ProgramJob {
        task: TaskId::from("t"),
        attempt: 1,
        spec,
        resume: None,
        dir: format!("{cwd}/task-terminal"),
    };
    let end = runner.run(&job, Arc::new(|_| {})).await;
    assert_eq!(end.error.as_deref(), Some("`toy` cannot run in a terminal"));
    assert_eq!(end.hint.as_deref(), Some("run it as a headless task"));
    for (spec, prompt) in specs.into_iter().zip(["one", "two"]) {
        let dir = format!("{cwd}/task-{prompt}");
        let job = ProgramJob { task: TaskId::from(prompt), attempt: 1, spec, resume: None, dir };
        let end = runner.run(&job, Arc::new(|_| {})).await;
        assert_eq!((end.output.as_str(), end.error), ("toy is done\n", None));
        assert_eq!(std::fs::read_to_string(format!("{cwd}/prompt.txt")).unwrap().trim(), prompt);
    }
}
