//! One list of forbidden acts, tried by every kind of agent in every sandbox. The test judges from outside whether an
//! act was refused, by the file or by the listener that would have been reached. Allowed acts are tried too:
//! otherwise a refusal would prove nothing.

use althing_app::Environment;
use althing_app::agent_env::{Sandboxes, SessionEnvs, TeamTools};
use althing_engine::workspace_of;
use althing_protocol::{
    AgentConfig, AgentEnv, AgentEnvs, AgentId, AgentOptions, Backend, BackendConfig, BoxFuture, CallContext,
    ChatLimits, ChatSpec, CommandsConfig, Config, ContextAccess, ContextCompaction, ContextPath, Delta,
    DockerConfig, DockerPackages, Endpoint, EndpointHandler, Endpoints, ExecutionMode, InteractiveAgent,
    LateNotices, McpServerConfig, McpTransport, Member, Message, Millis, ModeChoice, ModelRequest, Modes,
    ProgramJob, ProgramSpec, Programs, RunRules, RunSpec, SessionId, TaskId, TeamSpec, ToolCall, ToolSpec,
    ToolsConfig,
};
use althing_runner::adapter::{Adapters, UserDefinedAdapter};
use althing_runner::{
    CliAgentConfig, CliBackend, DockerClient, GuardLauncher, PatternTable, ProgramLimits, ProgramRunner,
    ProgramStarter, ProtectedPaths, Sandbox, detect_sandboxes,
};
use althing_testkit::attacks::SHELL_SERVER;
use althing_testkit::docker::{IMAGE, TestDockerDaemon, is_excluded};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    FileTools,
    Command,
    McpServer,
    CliHeadless,
    CliInteractive,
    ChatFileTools,
    ChatMcpServer,
    ChatCli,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SandboxName {
    Bubblewrap,
    Landlock,
    Docker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Agents work in parallel; context paths are read-only.
    Working,
    /// One agent writes; context paths are writable.
    Presenting,
    /// Nothing may be written.
    Planning,
    /// Nothing may be written until one agent presents.
    PlanningFirst,
}

impl Phase {
    fn plans(self) -> bool {
        matches!(self, Planning | PlanningFirst)
    }
}

use Kind::{
    ChatCli, ChatFileTools, ChatMcpServer, CliHeadless, CliInteractive, Command, FileTools, McpServer,
};
use Phase::{Planning, PlanningFirst, Presenting, Working};
use SandboxName::{Bubblewrap, Docker, Landlock};

const KINDS: [Kind; 8] =
    [FileTools, Command, McpServer, CliHeadless, CliInteractive, ChatFileTools, ChatMcpServer, ChatCli];
const SANDBOXES: [SandboxName; 3] = [Bubblewrap, Landlock, Docker];
const PHASES: [Phase; 4] = [Working, Presenting, Planning, PlanningFirst];

fn exempt(kind: Kind, sandbox_name: SandboxName, phase: Phase) -> Option<&'static str> {
    match (kind, sandbox_name, phase) {
        (McpServer | ChatMcpServer, Landlock, _) => Some(
            "Landlock cannot protect paths from a server that keeps the user's other rights; a notice says so",
        ),
        (McpServer | ChatMcpServer, Docker, _) => {
            Some("MCP servers do not run in containers: the local sandbox limits them, or a notice is given")
        }
        (CliHeadless | CliInteractive | ChatCli, Docker, _) => {
            Some("CLI agents do not run in containers: the local sandbox confines them")
        }
        (CliInteractive, _, Working | Planning | PlanningFirst) => {
            Some("a workflow's task is not part of a run: its project is always writable")
        }
        (ChatFileTools | ChatMcpServer | ChatCli, _, Working | Planning | PlanningFirst) => {
            Some("the chat agent works alone and does not plan: its project is always writable")
        }
        _ => None,
    }
}

fn exempt_act(kind: Kind, path: &str) -> Option<&'static str> {
    match (kind, path) {
        (CliInteractive, READ_ONLY_INSIDE | NAMED) => {
            Some("context paths belong to runs: a workflow's task has its working directory instead")
        }
        _ => None,
    }
}

/// `None` if this kind of agent has no means to try.
fn reaches_network(kind: Kind, phase: Phase) -> Option<bool> {
    match kind {
        FileTools | ChatFileTools => None,
        // An agent has neither commands nor servers while it plans.
        Command | McpServer => Some(!phase.plans()),
        // A CLI agent must reach its model, also while it plans. The chat agent does not plan.
        CliHeadless | CliInteractive | ChatCli | ChatMcpServer => Some(true),
    }
}

/// A description, the path that is written to, and the phases in which that is forbidden. `{own}` and `{other}` stand
/// for the agent's own workspace and another agent's.
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
        READ_ONLY_INSIDE,
        &[Working, Presenting, Planning],
    ),
    ("write another agent's workspace", "{other}/own.txt", &[Working, Presenting, Planning]),
    ("change what a shell runs on entering", "project/sub/.envrc", &[Working, Presenting, Planning]),
    ("change what an editor runs", "project/.vscode/tasks.json", &[Working, Presenting, Planning]),
    ("write an open context path too early", "project/src/work.txt", &[Working, Planning]),
    ("write the workspace", "{own}/note.txt", &[Planning]),
];

/// A file in a read-only context path inside the project.
const READ_ONLY_INSIDE: &str = "project/nest/er/docs/page.txt";

/// A file that runs code later, and that the user named as a writable context path.
const NAMED: &str = "project/src/.envrc";

/// The CLI agents of these tests call none of Althing's tools.
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

struct World {
    _dir: tempfile::TempDir,
    base: PathBuf,
    run_dir: PathBuf,
    spec: RunSpec,
    sandbox: Sandbox,
    envs: SessionEnvs,
    env: Arc<dyn AgentEnv>,
    /// The directories and environments of two chat agents: one on a model, one that is a CLI agent.
    chats: Vec<(PathBuf, Arc<dyn AgentEnv>)>,
    phase: Phase,
    notices: Arc<Mutex<Vec<String>>>,
}

fn launcher() -> GuardLauncher {
    GuardLauncher::of(PathBuf::from(env!("CARGO_BIN_EXE_althing-app-helper")))
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

fn config(sandbox_name: SandboxName, network: bool, base: &Path) -> Config {
    let docker_config = DockerConfig {
        image: IMAGE.into(),
        network_mode: if network { "host" } else { "none" }.into(),
        memory_limit: None,
        cpu_limit: None,
        env_vars: Vec::new(),
        env_file: None,
        env_vars_from_file: None,
        packages: DockerPackages::default(),
    };
    let commands = CommandsConfig {
        docker: (sandbox_name == Docker).then_some(docker_config),
        network,
        ..CommandsConfig::default()
    };
    let tools = ToolsConfig {
        files: true,
        commands: Some(commands),
        mcp_servers: vec![server(base)],
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
    Config { agents: vec![agent], ..Config::default() }
}

impl World {
    async fn new(
        sandbox_name: SandboxName,
        sandbox: Sandbox,
        docker: Option<DockerClient>,
        phase: Phase,
        network: bool,
    ) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let base = dir.path().canonicalize().expect("a directory");
        for (_, path, _) in ACTS.iter().filter(|(_, path, _)| !path.starts_with('{')) {
            if !path.ends_with("pre-commit") {
                write(&base.join(path), "before");
            }
        }
        for hooks in ["project/.git/hooks", "project/sub/.git/hooks"] {
            write(&base.join(hooks).join("sample"), "before");
        }
        write(&base.join(NAMED), "before");
        write(&base.join("server.py"), SHELL_SERVER);
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
            rules: RunRules { plan_first: phase == PlanningFirst, ..RunRules::default() },
            subagent_of: None,
            plan: None,
            unapproved_paths: Vec::new(),
            tie_break_seed: 0,
        };
        let config = config(sandbox_name, network, &base);
        let mut environment = Environment::read().expect("an environment");
        environment.cwd = base.join("project");
        let session = SessionId::new("20261115-120000-0001");
        let run_dir = base.join("state/sessions/20261115-120000-0001/tasks/r1");
        let sandboxes = Sandboxes { launcher: launcher(), local: sandbox.clone(), docker };
        let notices: Arc<Mutex<Vec<String>>> = Arc::default();
        let shown = notices.clone();
        let notify = Arc::new(move |text: &str| shown.lock().expect("notices").push(text.to_owned()));
        let (state, tools) = (base.join("state"), TeamTools::of(&config));
        let envs = SessionEnvs::new(session, state, tools, None, sandboxes, &environment, notify);
        std::fs::create_dir_all(&run_dir).expect("room");
        write(&PathBuf::from(workspace_of(&spec, &run_dir.to_string_lossy(), 1)).join("own.txt"), "before");
        let opened = envs.open(&TaskId::from("r1"), &run_dir.to_string_lossy(), &spec, 0).await;
        let env = opened.expect("a workspace");
        let mut chats = Vec::new();
        if phase == Presenting {
            env.open_context().await.expect("open context paths");
            for (task, backend) in [("c1", "offline"), ("c2", "claude_code")] {
                let dir = run_dir.with_file_name(task);
                let opened = envs.open_chat(&dir.to_string_lossy(), &chat(backend, &spec)).await;
                chats.push((dir, opened.expect("a workspace").expect("a chat agent")));
            }
        }
        Self { _dir: dir, base, run_dir, spec, sandbox, envs, env, chats, phase, notices }
    }

    /// The environment of an agent of this kind and, for a chat agent, the directory of its files.
    fn agent_env(&self, kind: Kind) -> (Option<&Path>, &Arc<dyn AgentEnv>) {
        let chat = match kind {
            ChatFileTools | ChatMcpServer => self.chats.first(),
            ChatCli => self.chats.get(1),
            FileTools | Command | McpServer | CliHeadless | CliInteractive => None,
        };
        chat.map_or((None, &self.env), |(dir, env)| (Some(dir), env))
    }

    fn access(&self) -> ContextAccess {
        if self.phase == Presenting { ContextAccess::Writable } else { ContextAccess::ReadOnly }
    }

    fn at(&self, kind: Kind, path: &str) -> PathBuf {
        let workspace = |index| workspace_of(&self.spec, &self.run_dir.to_string_lossy(), index);
        let own = match self.agent_env(kind).0 {
            Some(chat) => chat.join("workspace").display().to_string(),
            None => workspace(0),
        };
        self.base.join(path.replace("{own}", &own).replace("{other}", &workspace(1)))
    }

    async fn tool(&self, kind: Kind, name: &str, arguments: Value) -> String {
        let call = ToolCall { id: "1".into(), name: name.into(), arguments: arguments.to_string() };
        self.agent_env(kind).1.tool_host().call(&call, self.access()).await.content
    }

    fn starter(&self) -> Arc<ProgramStarter> {
        let arguments = || ["-c", "eval \"$ATTEMPT\""].map(str::to_owned).to_vec();
        let shell = UserDefinedAdapter {
            name: "claude".into(),
            program: "/bin/sh".into(),
            args: arguments(),
            headless_args: Some(arguments()),
            ..UserDefinedAdapter::default()
        };
        Arc::new(ProgramStarter {
            adapters: Adapters::with(vec![shell]),
            launcher: launcher(),
            sandbox: self.sandbox.clone(),
            state_dir: Some(self.base.join("state")),
            settings_dir: None,
            trusts_project_settings: false,
            limits: ProgramLimits::default(),
            output_masking: None,
        })
    }

    async fn headless(&self, kind: Kind, env: BTreeMap<String, String>) -> String {
        let agent_env = self.agent_env(kind).1;
        let dir = self.base.join("state/members");
        let member = CliAgentConfig { kind: "claude_code".into(), env, dir, ..CliAgentConfig::default() };
        let backend = CliBackend::new(self.starter(), Arc::new(NoEndpoints), member).expect("a CLI agent");
        let call_context = CallContext {
            work: TaskId::from("r1.a1"),
            attempt: 1,
            native: None,
            workspace: Some(agent_env.path().to_owned()),
            grant: agent_env.grant(self.access()),
            late_notices: LateNotices::default(),
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

    /// Runs a CLI agent as a task of a workflow, in a terminal; returns its output and error.
    async fn interactive(&self, env: BTreeMap<String, String>) -> String {
        let runner = ProgramRunner::new(self.starter(), PatternTable::default());
        let paths = vec![self.base.join("project/locked")];
        let runner = runner.with_protected(ProtectedPaths { paths, ..ProtectedPaths::default() });
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
            FileTools | ChatFileTools => String::new(),
            Command => self.tool(kind, "run_command", json!({ "command": command })).await,
            McpServer | ChatMcpServer => {
                self.tool(kind, "mcp__shell__act", json!({ "command": command })).await
            }
            CliHeadless | ChatCli => self.headless(kind, env()).await,
            CliInteractive => self.interactive(env()).await,
        }
    }

    async fn write(&self, kind: Kind, path: &str) -> String {
        let path = self.at(kind, path);
        if matches!(kind, FileTools | ChatFileTools) {
            return self.tool(kind, "write_file", json!({ "path": path, "content": "changed" })).await;
        }
        self.shell(kind, &format!("printf changed > '{}'", path.display())).await
    }

    async fn read(&self, kind: Kind, path: &str) -> String {
        let path = self.at(kind, path);
        if matches!(kind, FileTools | ChatFileTools) {
            return self.tool(kind, "read_file", json!({ "path": path })).await;
        }
        self.shell(kind, &format!("cat '{}'", path.display())).await
    }

    fn was_changed(&self, kind: Kind, path: &str) -> bool {
        std::fs::read_to_string(self.at(kind, path)).is_ok_and(|text| text == "changed")
    }

    async fn reach_network(&self, kind: Kind) -> (String, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let listening = std::thread::spawn(move || attempt_arrived(&listener));
        let bash = format!("bash -c 'exec 3<> /dev/tcp/127.0.0.1/{} && printf reached >&3'", address.port());
        let netcat = format!("printf reached | nc 127.0.0.1 {}", address.port());
        let attempt = format!("if command -v bash > /dev/null; then {bash}; else {netcat}; fi");
        let output = self.shell(kind, &attempt).await;
        let mut last = TcpStream::connect(address).expect("the listener");
        last.write_all(OVER).expect("the listener");
        drop(last);
        (output, listening.join().expect("the listener"))
    }
}

const OVER: &[u8] = b"over";

fn attempt_arrived(listener: &TcpListener) -> bool {
    let mut arrived = false;
    loop {
        let (mut from, _) = listener.accept().expect("a connection");
        from.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        let mut received = [0; 4];
        let read = from.read_exact(&mut received);
        if received == OVER {
            return arrived;
        }
        arrived |= read.is_ok() && received == *b"reac";
    }
}

fn chat(backend: &str, run: &RunSpec) -> ChatSpec {
    let agent = InteractiveAgent {
        member: Member { backend: backend.into(), ..member("a") },
        require_approval: true,
        append_system_prompt: None,
        compaction: ContextCompaction::default(),
        can_ask: false,
        budget_micro_usd: None,
        limits: ChatLimits::default(),
    };
    let (members, context_paths) = (run.members.clone(), run.context_paths.clone());
    let team = TeamSpec {
        members,
        rules: RunRules::default(),
        context_paths,
        readable_dirs: Vec::new(),
        costs: None,
        not_signed_in: BTreeMap::new(),
    };
    ChatSpec {
        agent: Some(agent),
        team,
        project: None,
        modes: ModeChoice::default(),
        history: Vec::new(),
        branch_of: None,
    }
}

async fn try_acts(world: &World, kind: Kind, sandbox_name: SandboxName) -> Vec<String> {
    let mut failures = Vec::new();
    let mut fail = |act: &str, output: &str| {
        failures.push(format!(
            "(act: {act}, kind: {kind:?}, sandbox: {sandbox_name:?}, {:?}): {output}",
            world.phase
        ));
    };
    let has_tool = !world.phase.plans() || matches!(kind, FileTools | CliHeadless);
    let output = world.read(kind, "project/.git/config").await;
    if has_tool && !output.contains("before") {
        fail("read what is protected", &output);
    }
    let phase = if world.phase == PlanningFirst { Planning } else { world.phase };
    for (act, path, _) in ACTS.iter().filter(|(_, _, phases)| phases.contains(&phase)) {
        if exempt_act(kind, path).is_some() {
            continue;
        }
        let output = world.write(kind, path).await;
        if world.was_changed(kind, path) {
            fail(act, &output);
            write(&world.at(kind, path), "before");
        }
    }
    // The agent must not get around its own mounts through the root of another process.
    for process in [1, std::process::id()] {
        let path = "project/.git/config";
        let output =
            world.write(kind, &format!("/proc/{process}/root{}", world.at(kind, path).display())).await;
        if world.was_changed(kind, path) {
            fail("change git's configuration through the root of another process", &output);
            write(&world.at(kind, path), "before");
        }
    }
    let open: &[&str] = match world.phase {
        Working => &["{own}/note.txt"],
        Presenting if world.agent_env(kind).0.is_some() => &["project/src/work.txt", NAMED, "{own}/note.txt"],
        Presenting => &["project/src/work.txt", NAMED],
        Planning | PlanningFirst => &[],
    };
    for path in open.iter().filter(|path| exempt_act(kind, path).is_none()) {
        let output = world.write(kind, path).await;
        if !world.was_changed(kind, path) {
            fail(&format!("write {path}, where it may"), &output);
        }
        write(&world.at(kind, path), "before");
    }
    if let Some(may) = reaches_network(kind, world.phase) {
        let (output, arrived) = world.reach_network(kind).await;
        if arrived != may {
            fail(if may { "reach the network, where it may" } else { "reach the network" }, &output);
        }
    }
    // An agent that moves a protected directory away could replace it, or change the moved files.
    if !matches!(kind, FileTools | ChatFileTools) && world.phase == Presenting {
        let dirs: &[&str] = match kind {
            CliInteractive => &["project/deep", "project/sub"],
            _ => &["project/nest", "project/nest/er", "project/deep", "project/sub"],
        };
        for dir in dirs {
            let (from, to) = (world.at(kind, dir), world.at(kind, &format!("{dir}-moved")));
            let output = world.shell(kind, &format!("mv '{}' '{}'", from.display(), to.display())).await;
            if to.exists() {
                fail(&format!("move {dir} away"), &output);
                std::fs::rename(&to, &from).expect("the way back");
            }
        }
    }
    // A repository that the agent created itself is no danger to the user's repository.
    let made = "project/src/fresh/.git/config";
    if kind == Command && world.phase == Presenting {
        let dir = world.at(kind, "project/src/fresh/.git").display().to_string();
        world.shell(kind, &format!("mkdir -p '{dir}'")).await;
        let output = world.write(kind, made).await;
        if !world.was_changed(kind, made) {
            fail("write a repository of its own", &output);
        }
    }
    failures
}

async fn make_what_runs_code(world: &World, sandbox_name: SandboxName) -> Vec<String> {
    let mut made = Vec::new();
    let members = [FileTools, Command, McpServer, CliHeadless];
    for kind in members.into_iter().filter(|kind| exempt(*kind, sandbox_name, Presenting).is_none()) {
        let path = world.at(kind, &format!("project/src/{kind:?}/.envrc"));
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("room");
        let output = world.write(kind, &path.to_string_lossy()).await;
        made.push((kind, path, output));
    }
    let writes = world.env.close_context().await.expect("close context paths");
    let missed = |(kind, path, output): (Kind, PathBuf, String)| {
        let reported = writes.iter().any(|write| Path::new(&write.path) == path && write.note.is_some());
        let prevented = !path.exists();
        let fine = if kind == FileTools { prevented } else { prevented || reported };
        (!fine).then(|| format!("(act: make an .envrc, kind: {kind:?}, sandbox: {sandbox_name:?}): {output}"))
    };
    made.into_iter().filter_map(missed).collect()
}

/// A server that ran while the path was writable must not write to it afterwards.
async fn write_too_late(world: &World, sandbox_name: SandboxName) -> Option<String> {
    let path = "project/src/work.txt";
    if exempt(McpServer, sandbox_name, Presenting).is_some() {
        return None;
    }
    let output = world.write(McpServer, path).await;
    let late = world.was_changed(McpServer, path);
    late.then(|| {
        format!("(act: write a closed context path, kind: McpServer, sandbox: {sandbox_name:?}): {output}")
    })
}

struct TestSandbox {
    sandbox_name: SandboxName,
    local: Sandbox,
    daemon: Option<TestDockerDaemon>,
}

impl TestSandbox {
    async fn start(sandbox_name: SandboxName) -> Self {
        let scratch = tempfile::tempdir().expect("a directory");
        let found = detect_sandboxes(&launcher(), scratch.path()).await;
        let local = match sandbox_name {
            Bubblewrap => Sandbox::Bubblewrap(found.bubblewrap.works.expect("run tests/setup.sh")),
            Landlock => {
                assert!(found.landlock.works.is_some(), "{}", found.landlock.note);
                Sandbox::Landlock
            }
            Docker => Sandbox::Refused { why: "commands run in a container".into() },
        };
        Self { sandbox_name, local, daemon: (sandbox_name == Docker).then(TestDockerDaemon::start) }
    }

    async fn world(&self, phase: Phase, network: bool) -> World {
        let docker = match &self.daemon {
            Some(daemon) => Some(DockerClient::connect(&daemon.socket()).await.expect("a daemon")),
            None => None,
        };
        World::new(self.sandbox_name, self.local.clone(), docker, phase, network).await
    }
}

fn sandboxes() -> impl Iterator<Item = SandboxName> {
    SANDBOXES.into_iter().filter(|sandbox_name| !is_excluded(&format!("{sandbox_name:?}").to_lowercase()))
}

async fn try_in(sandbox_name: SandboxName) -> Vec<String> {
    let test_sandbox = TestSandbox::start(sandbox_name).await;
    let mut failures = Vec::new();
    for phase in PHASES {
        let world = test_sandbox.world(phase, true).await;
        for kind in KINDS {
            match exempt(kind, sandbox_name, phase) {
                Some(why) => println!("not tried: {kind:?}, {sandbox_name:?}, {phase:?}: {why}"),
                None => failures.extend(try_acts(&world, kind, sandbox_name).await),
            }
        }
        if phase == Presenting {
            failures.extend(make_what_runs_code(&world, sandbox_name).await);
            failures.extend(write_too_late(&world, sandbox_name).await);
        }
        world.envs.close().await;
    }
    failures
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kind_of_agent_does_a_forbidden_act_in_any_sandbox() {
    for kind in KINDS {
        for (act, path, _) in ACTS {
            if let Some(why) = exempt_act(kind, path) {
                println!("not tried: {kind:?}, {act}: {why}");
            }
        }
    }
    let mut failures = Vec::new();
    for sandbox_name in sandboxes() {
        failures.extend(try_in(sandbox_name).await);
    }
    assert!(failures.is_empty(), "not refused:\n{}", failures.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_reach_no_network_in_any_sandbox_unless_the_config_opens_it() {
    for sandbox_name in sandboxes() {
        let test_sandbox = TestSandbox::start(sandbox_name).await;
        let world = test_sandbox.world(Working, false).await;
        let (output, arrived) = world.reach_network(Command).await;
        assert!(!arrived, "{sandbox_name:?}: {output}");
        let written = world.write(Command, "{own}/note.txt").await;
        assert!(
            world.was_changed(Command, "{own}/note.txt"),
            "{sandbox_name:?}: commands do not work: {written}"
        );
        world.envs.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_mcp_servers_cannot_be_protected_a_notice_says_so() {
    for sandbox_name in sandboxes() {
        let test_sandbox = TestSandbox::start(sandbox_name).await;
        let world = test_sandbox.world(Presenting, true).await;
        let notice = "MCP servers run with all your permissions: bubblewrap does not work here";
        let count = world.notices.lock().expect("notices").iter().filter(|text| *text == notice).count();
        // One notice each for the member of the run and for the two chat agents.
        assert_eq!(
            count,
            if sandbox_name == Bubblewrap { 0 } else { 3 },
            "{sandbox_name:?}: {:?}",
            world.notices
        );
        let path = "project/.git/config";
        let output = world.write(McpServer, path).await;
        let was_changed = world.was_changed(McpServer, path);
        assert_eq!(
            was_changed,
            sandbox_name != Bubblewrap,
            "{sandbox_name:?}, the notice is wrong: {output}"
        );
        world.envs.close().await;
    }
}
