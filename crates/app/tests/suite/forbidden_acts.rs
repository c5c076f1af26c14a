//! One list of forbidden acts, tried by every kind of agent in every sandbox.
//!
//! The test checks the files from outside to judge whether an act was refused. Each kind must also be able to read, and
//! to write where it is allowed to: otherwise a refusal would prove nothing.

use althing_app::Environment;
use althing_app::agent_env::{Sandboxes, SessionEnvs, TeamTools};
use althing_engine::workspace_of;
use althing_protocol::{
    AgentConfig, AgentEnv, AgentEnvs, AgentId, AgentOptions, Backend, BackendConfig, BoxFuture, CallContext,
    CommandsConfig, Config, ContextAccess, ContextPath, Delta, DockerConfig, Endpoint, EndpointHandler,
    Endpoints, ExecutionMode, McpServerConfig, McpTransport, Member, Message, Millis, ModelRequest, Modes,
    ProgramJob, ProgramSpec, Programs, RunRules, RunSpec, SessionId, TaskId, ToolCall, ToolSpec, ToolsConfig,
};
use althing_runner::adapter::{Adapters, CustomAdapter};
use althing_runner::{
    CliAgentConfig, CliBackend, Confinement, DockerClient, Launcher, PatternTable, ProgramLimits,
    ProgramRunner, ProgramStarter, detect,
};
use althing_testkit::docker::{IMAGE, TestDockerDaemon, is_excluded};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How an agent acts on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    FileTools,
    Command,
    McpServer,
    CliHeadless,
    CliInteractive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sandbox {
    Bubblewrap,
    Landlock,
    Docker,
}

/// What the agent is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Agents work in parallel; context paths are read-only.
    Working,
    /// The presenter writes; context paths are writable.
    Presenting,
    /// Nothing may be written.
    Planning,
}

use Kind::{CliHeadless, CliInteractive, Command, FileTools, McpServer};
use Phase::{Planning, Presenting, Working};
use Sandbox::{Bubblewrap, Docker, Landlock};

/// Which kinds each sandbox confines. Landlock cannot grant an MCP server all of the user's rights except for some
/// paths, so MCP servers are confined only by bubblewrap.
const KINDS: [(Sandbox, &[Kind]); 3] = [
    (Bubblewrap, &[FileTools, Command, McpServer, CliHeadless, CliInteractive]),
    (Landlock, &[Command, CliHeadless, CliInteractive]),
    (Docker, &[Command]),
];

/// An act: the path that is written to, and the phases in which that is forbidden. `{own}` and `{other}` stand for the
/// agent's own workspace and another agent's.
type Act = (&'static str, &'static str, &'static [Phase]);

const ACTS: [Act; 13] = [
    ("change git's configuration", "project/.git/config", &[Working, Presenting, Planning]),
    ("add a git hook", "project/.git/hooks/pre-commit", &[Working, Presenting, Planning]),
    (
        "change a nested repository's configuration",
        "project/sub/.git/config",
        &[Working, Presenting, Planning],
    ),
    (
        "add a hook to a nested repository",
        "project/sub/.git/hooks/pre-commit",
        &[Working, Presenting, Planning],
    ),
    ("redirect a submodule", "project/deep/er/module/.git", &[Working, Presenting, Planning]),
    ("write a protected path", "project/locked/file", &[Working, Presenting, Planning]),
    ("write a read-only context path", "reading/book.txt", &[Working, Presenting, Planning]),
    (
        "write a read-only context path inside a writable one",
        "project/nest/er/docs/page.txt",
        &[Working, Presenting, Planning],
    ),
    ("write another agent's workspace", "{other}/own.txt", &[Working, Presenting, Planning]),
    ("change what a shell runs on entering", "project/sub/.envrc", &[Working, Presenting, Planning]),
    ("change what an editor runs", "project/.vscode/tasks.json", &[Working, Presenting, Planning]),
    ("write an open context path too early", "project/src/work.txt", &[Working, Planning]),
    ("write the workspace", "{own}/note.txt", &[Planning]),
];

/// A file that runs code later; the user named it as a writable context path.
const NAMED: &str = "project/src/.envrc";

/// An MCP server with one tool, which runs a command.
const SERVER: &str = r#"
import json, subprocess, sys
for line in sys.stdin:
    call = json.loads(line)
    if "id" not in call:
        continue
    method, params = call["method"], call.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "shell", "version": "1"}}
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"command": {"type": "string"}}}
        result = {"tools": [{"name": "act", "description": "Acts.", "inputSchema": schema}]}
    elif method == "tools/call":
        done = subprocess.run(["sh", "-c", params["arguments"]["command"]], capture_output=True, text=True)
        result = {"content": [{"type": "text", "text": done.stdout + done.stderr}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}), flush=True)
"#;

/// Althing's tools are not called in these tests.
struct NoEndpoints;

impl Endpoints for NoEndpoints {
    fn open(
        &self,
        _tools: Vec<ToolSpec>,
        _calls: Arc<dyn EndpointHandler>,
    ) -> BoxFuture<'_, Result<Box<dyn Endpoint>, String>> {
        Box::pin(async { Err("there are none".to_owned()) })
    }
}

/// A project, and an agent with every tool that a config can give.
struct World {
    _dir: tempfile::TempDir,
    base: PathBuf,
    run_dir: PathBuf,
    spec: RunSpec,
    confinement: Confinement,
    envs: SessionEnvs,
    env: Arc<dyn AgentEnv>,
    phase: Phase,
}

fn launcher() -> Launcher {
    Launcher::of(PathBuf::from(env!("CARGO_BIN_EXE_althing-app-helper")))
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("room");
    std::fs::write(path, text).expect("a file");
}

fn member(name: &str) -> Member {
    Member {
        id: AgentId::from(name),
        backend: "offline".into(),
        model: "m".into(),
        offline: true,
        system_message: None,
        has_tools: true,
        voting_sensitivity: None,
    }
}

/// The MCP server whose tool runs commands.
fn server(base: &Path) -> McpServerConfig {
    McpServerConfig {
        name: "shell".into(),
        transport: McpTransport::Stdio {
            command: "python3".into(),
            args: vec![base.join("server.py").display().to_string()],
            env: Vec::new(),
            cwd: None,
        },
        allowed_tools: None,
        exclude_tools: Vec::new(),
        call_timeout: None,
    }
}

impl World {
    async fn new(
        sandbox: Sandbox,
        confinement: Confinement,
        docker: Option<DockerClient>,
        phase: Phase,
    ) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let base = dir.path().canonicalize().expect("a directory");
        for (_, path, _) in ACTS.iter().filter(|(_, path, _)| !path.starts_with('{')) {
            if !path.ends_with("pre-commit") {
                write(&base.join(path), "before");
            }
        }
        write(&base.join("project/sub/.git/hooks/sample"), "before");
        write(&base.join(NAMED), "before");
        write(&base.join("server.py"), SERVER);
        let path = |inside: &str| base.join(inside).display().to_string();
        let context = |inside: &str, writable, protected: &[&str]| ContextPath {
            path: path(inside),
            writable,
            protected: protected.iter().map(|part| (*part).to_owned()).collect(),
        };
        let spec = RunSpec {
            execution: None,
            task: "task".into(),
            context: None,
            history: Vec::new(),
            members: vec![member("a"), member("b")],
            context_paths: vec![
                context("project", true, &["locked"]),
                context("reading", false, &[]),
                context("project/nest/er/docs", false, &[]),
                context(NAMED, true, &[]),
            ],
            modes: Modes { planning: phase == Planning, ..Modes::default() },
            rules: RunRules::default(),
            subagent_of: None,
            plan: None,
            tie_break_seed: 0,
        };
        let docker_config = DockerConfig {
            image: IMAGE.into(),
            network_mode: "none".into(),
            memory_limit: None,
            cpu_limit: None,
        };
        let commands = CommandsConfig {
            docker: (sandbox == Docker).then_some(docker_config),
            ..CommandsConfig::default()
        };
        let tools = ToolsConfig {
            files: true,
            commands: Some(commands),
            mcp_servers: (sandbox == Bubblewrap).then(|| server(&base)).into_iter().collect(),
            excluded_tools: Vec::new(),
        };
        let backend = BackendConfig {
            options: AgentOptions::default(),
            kind: "offline".into(),
            model: None,
            base_url: None,
            api_key: None,
            headers: Vec::new(),
            params: serde_json::Map::new(),
        };
        let agent =
            AgentConfig { id: "a".into(), system_message: None, voting_sensitivity: None, backend, tools };
        let config = Config { agents: vec![agent], ..Config::default() };
        let mut environment = Environment::read().expect("an environment");
        environment.cwd.clone_from(&base);
        let session = SessionId::new("20261115-120000-0001");
        let run_dir = base.join("state/sessions/20261115-120000-0001/tasks/r1");
        let sandboxes = Sandboxes { launcher: launcher(), local: confinement.clone(), docker };
        let notify = Arc::new(|text: &str| println!("notice: {text}"));
        let (state, tools) = (base.join("state"), TeamTools::of(&config));
        let envs = SessionEnvs::new(session, state, tools, None, sandboxes, &environment, notify);
        std::fs::create_dir_all(&run_dir).expect("room");
        write(&PathBuf::from(workspace_of(&spec, &run_dir.to_string_lossy(), 1)).join("own.txt"), "before");
        let opened = envs.open(&TaskId::from("r1"), &run_dir.to_string_lossy(), &spec, 0).await;
        let env = opened.expect("a workspace");
        if phase == Presenting {
            env.open_context().await.expect("open context paths");
        }
        Self { _dir: dir, base, run_dir, spec, confinement, envs, env, phase }
    }

    fn access(&self) -> ContextAccess {
        if self.phase == Presenting { ContextAccess::Writable } else { ContextAccess::ReadOnly }
    }

    fn at(&self, path: &str) -> PathBuf {
        let workspace = |index| workspace_of(&self.spec, &self.run_dir.to_string_lossy(), index);
        self.base.join(path.replace("{own}", &workspace(0)).replace("{other}", &workspace(1)))
    }

    async fn tool(&self, name: &str, arguments: Value) -> String {
        let call = ToolCall { id: "1".into(), name: name.into(), arguments: arguments.to_string() };
        self.env.tool_host().call(&call, self.access()).await.content
    }

    fn starter(&self) -> Arc<ProgramStarter> {
        let arguments = || ["-c", "eval \"$ATTEMPT\""].map(str::to_owned).to_vec();
        let shell = CustomAdapter {
            name: "claude".into(),
            program: "/bin/sh".into(),
            args: arguments(),
            headless_args: Some(arguments()),
            ..CustomAdapter::default()
        };
        Arc::new(ProgramStarter {
            adapters: Adapters::with(vec![shell]),
            launcher: launcher(),
            confinement: self.confinement.clone(),
            state_dir: Some(self.base.join("state")),
            limits: ProgramLimits::default(),
            masks: None,
        })
    }

    /// A CLI agent as a member of the run.
    async fn headless(&self, env: BTreeMap<String, String>) -> String {
        let dir = self.base.join("state/members");
        let member = CliAgentConfig { kind: "claude_code".into(), env, dir, ..CliAgentConfig::default() };
        let backend = CliBackend::new(self.starter(), Arc::new(NoEndpoints), member).expect("a CLI agent");
        let call_context = CallContext {
            work: TaskId::from("r1.a1"),
            attempt: 1,
            native: None,
            workspace: Some(self.env.path().to_owned()),
            grant: self.env.grant(self.access()),
        };
        let request = ModelRequest {
            system: "".into(),
            messages: vec![Message::User("act".into())],
            tools: Vec::new(),
            call_context: Some(call_context),
        };
        let mut ignore = |_: Delta<'_>| ();
        let failed = backend.call(&request, &mut ignore).await.err().map(|error| error.message);
        let output = std::fs::read_to_string(self.base.join("state/members/r1.a1/1/output.raw"));
        format!("{} {}", output.unwrap_or_default(), failed.unwrap_or_default())
    }

    /// A CLI agent as a task of a workflow, in a terminal in the user's project.
    async fn interactive(&self, env: BTreeMap<String, String>) -> String {
        let runner = ProgramRunner::new(self.starter(), PatternTable::default());
        let spec = ProgramSpec {
            options: AgentOptions::default(),
            adapter: "claude".into(),
            command: Vec::new(),
            mode: ExecutionMode::Interactive,
            prompt: String::new(),
            cwd: self.base.join("project").display().to_string(),
            env,
            model: None,
            on_interrupt: None,
            sandbox: Some(true),
            idle_timeout: Some(Millis(30_000)),
            approvals: false,
            agent: None,
        };
        let dir = self.base.join("state/tasks").display().to_string();
        let job = ProgramJob { task: TaskId::from("t1"), attempt: 1, spec, resume: None, dir };
        let end = runner.run(&job, Arc::new(|_| ())).await;
        format!("{} {}", end.output, end.error.unwrap_or_default())
    }

    async fn shell(&self, kind: Kind, command: &str) -> String {
        let env = || BTreeMap::from([("ATTEMPT".to_owned(), command.to_owned())]);
        match kind {
            FileTools => String::new(),
            Command => self.tool("run_command", json!({ "command": command })).await,
            McpServer => self.tool("mcp__shell__act", json!({ "command": command })).await,
            CliHeadless => self.headless(env()).await,
            CliInteractive => self.interactive(env()).await,
        }
    }

    async fn write(&self, kind: Kind, path: &str) -> String {
        let path = self.at(path);
        if kind == FileTools {
            return self.tool("write_file", json!({ "path": path, "content": "changed" })).await;
        }
        self.shell(kind, &format!("printf changed > '{}'", path.display())).await
    }

    async fn read(&self, kind: Kind, path: &str) -> String {
        let path = self.at(path);
        if kind == FileTools {
            return self.tool("read_file", json!({ "path": path })).await;
        }
        self.shell(kind, &format!("cat '{}'", path.display())).await
    }

    fn was_changed(&self, path: &str) -> bool {
        std::fs::read_to_string(self.at(path)).is_ok_and(|text| text == "changed")
    }
}

/// Whether a kind acts in a phase at all: a workflow's task is not part of a run, and an agent on a model has neither
/// commands nor servers while it plans.
fn takes_part(kind: Kind, phase: Phase) -> bool {
    match kind {
        CliInteractive => phase == Presenting,
        FileTools | Command | McpServer | CliHeadless => true,
    }
}

/// Tries every act that is forbidden in this phase, and returns those that were not refused.
async fn try_acts(world: &World, kind: Kind, sandbox: Sandbox) -> Vec<String> {
    let mut failures = Vec::new();
    let mut fail = |act: &str, said: &str| {
        failures
            .push(format!("(act: {act}, kind: {kind:?}, sandbox: {sandbox:?}, {:?}): {said}", world.phase));
    };
    let has_tool = world.phase != Planning || matches!(kind, FileTools | CliHeadless);
    let said = world.read(kind, "project/.git/config").await;
    if has_tool && !said.contains("before") {
        fail("read what is protected", &said);
    }
    for (act, path, _) in ACTS.iter().filter(|(_, _, phases)| phases.contains(&world.phase)) {
        // A workflow's task has no configured context paths, so nothing in its directory is configured as protected.
        let configured = ["write a protected path", "write a read-only context path inside a writable one"];
        if kind == CliInteractive && configured.contains(act) {
            continue;
        }
        // A server is not restarted when the context paths become writable, so they are always writable for it.
        if kind == McpServer && *act == "write an open context path too early" && world.phase == Working {
            continue;
        }
        let said = world.write(kind, path).await;
        if world.was_changed(path) {
            fail(act, &said);
            write(&world.at(path), "before");
        }
    }
    let open: &[&str] = match world.phase {
        Working => &["{own}/note.txt"],
        Presenting if kind == CliInteractive => &["project/src/work.txt"],
        Presenting => &["project/src/work.txt", NAMED],
        Planning => &[],
    };
    for path in open {
        let said = world.write(kind, path).await;
        if !world.was_changed(path) {
            fail(&format!("write {path}, where it may"), &said);
        }
        write(&world.at(path), "before");
    }
    // An agent that can move a directory away could replace it, or change the moved files.
    if matches!(kind, Command | McpServer | CliHeadless) && world.phase == Presenting {
        for dir in ["project/nest", "project/nest/er", "project/deep", "project/sub"] {
            let (from, to) = (world.at(dir), world.at(&format!("{dir}-moved")));
            let said = world.shell(kind, &format!("mv '{}' '{}'", from.display(), to.display())).await;
            if to.exists() {
                fail(&format!("move {dir} away"), &said);
                std::fs::rename(&to, &from).expect("the way back");
            }
        }
    }
    // The hooks of a repository that the agent itself created are not a danger to the user's repository.
    let made = "project/src/fresh/.git/config";
    if kind == Command && world.phase == Presenting {
        let dir = world.at("project/src/fresh/.git").display().to_string();
        world.shell(kind, &format!("mkdir -p '{dir}'")).await;
        let said = world.write(kind, made).await;
        if !world.was_changed(made) {
            fail("write a repository of its own", &said);
        }
    }
    failures
}

/// A file that runs code later and does not exist yet: creating it is prevented, or reported afterwards.
async fn make_what_runs_code(world: &World, kinds: &[Kind], sandbox: Sandbox) -> Vec<String> {
    let mut made = Vec::new();
    for kind in kinds.iter().filter(|kind| **kind != CliInteractive) {
        let path = format!("project/src/{kind:?}/.envrc");
        std::fs::create_dir_all(world.at(&path).parent().expect("a directory")).expect("room");
        let said = world.write(*kind, &path).await;
        made.push((*kind, world.at(&path), said));
    }
    let writes = world.env.close_context().await.expect("close context paths");
    let missed = |(kind, path, said): (Kind, PathBuf, String)| {
        let told = writes.iter().any(|write| Path::new(&write.path) == path && write.note.is_some());
        let prevented = !path.exists();
        let fine = if kind == FileTools { prevented } else { prevented || told };
        (!fine).then(|| format!("(act: make an .envrc, kind: {kind:?}, sandbox: {sandbox:?}): {said}"))
    };
    made.into_iter().filter_map(missed).collect()
}

/// The acts that were not refused in this sandbox.
async fn try_in(sandbox: Sandbox, kinds: &[Kind]) -> Vec<String> {
    let scratch = tempfile::tempdir().expect("a directory");
    let found = detect(&launcher(), scratch.path()).await;
    let daemon = (sandbox == Docker).then(TestDockerDaemon::start);
    let confinement = match sandbox {
        Bubblewrap => Confinement::Bubblewrap(found.bubblewrap.works.expect("run tests/setup.sh")),
        Landlock => {
            assert!(found.landlock.works.is_some(), "{}", found.landlock.note);
            Confinement::Landlock
        }
        Docker => Confinement::Refused { why: "commands run in a container".into() },
    };
    let mut failures = Vec::new();
    for phase in [Working, Presenting, Planning] {
        let docker = match &daemon {
            Some(daemon) => Some(DockerClient::connect(&daemon.socket()).await.expect("a daemon")),
            None => None,
        };
        let world = World::new(sandbox, confinement.clone(), docker, phase).await;
        for kind in kinds.iter().filter(|kind| takes_part(**kind, phase)) {
            failures.extend(try_acts(&world, *kind, sandbox).await);
        }
        if phase == Presenting {
            failures.extend(make_what_runs_code(&world, kinds, sandbox).await);
        }
        world.envs.close().await;
    }
    failures
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kind_of_agent_does_a_forbidden_act_in_any_sandbox() {
    let mut failures = Vec::new();
    for (sandbox, kinds) in KINDS {
        let name = format!("{sandbox:?}").to_lowercase();
        if !is_excluded(&name) {
            failures.extend(try_in(sandbox, kinds).await);
        }
    }
    assert!(failures.is_empty(), "not refused:\n{}", failures.join("\n"));
}
