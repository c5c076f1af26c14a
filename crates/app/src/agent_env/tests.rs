//! What agents' environments contain under each config switch: tools and prompt texts.

use super::grant::Grantee;
use super::{Sandboxes, SessionEnvs, TeamTools};
use crate::context::Notify;
use crate::environment::Environment;
use althing_protocol::{
    AgentConfig, AgentEnv, AgentEnvs, AgentId, BackendConfig, CommandsConfig, Config, ContextAccess,
    ContextPath, McpServerConfig, McpTransport, Member, Modes, PlanningConfig, RunRules, RunSpec, SessionId,
    SkillsConfig, TaskId, TaskPlanning, ToolCall, ToolOutcome, ToolsConfig,
};
use althing_runner::{AcceptedByUser, GuardLauncher, Sandbox};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const READ_ONLY_TOOLS: [&str; 4] = ["read_file", "list_directory", "glob", "search"];

struct Fixture {
    _dir: tempfile::TempDir,
    base: PathBuf,
    config: Config,
    spec: RunSpec,
    notices: Arc<Mutex<Vec<String>>>,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("project")).unwrap();
        let server = McpServerConfig {
            name: "marker".into(),
            transport: McpTransport::Stdio {
                command: "touch".into(),
                args: vec![base.join("started").display().to_string()],
                env: Vec::new(),
                cwd: None,
            },
            allowed_tools: None,
            exclude_tools: Vec::new(),
            call_timeout: None,
        };
        let tools = ToolsConfig {
            files: true,
            commands: Some(CommandsConfig::default()),
            mcp_servers: vec![server],
            excluded_tools: Vec::new(),
        };
        let backend = BackendConfig {
            kind: "offline".into(),
            model: None,
            base_url: None,
            api_key: None,
            headers: Vec::new(),
            params: serde_json::Map::new(),
            options: althing_protocol::AgentOptions::default(),
        };
        let agent =
            AgentConfig { id: "a".into(), system_message: None, voting_sensitivity: None, backend, tools };
        let member = Member {
            id: AgentId::from("a"),
            backend: "offline".into(),
            model: "m".into(),
            offline: true,
            system_message: None,
            has_tools: true,
            voting_sensitivity: None,
        };
        let path = base.join("project").display().to_string();
        let spec = RunSpec {
            task: "task".into(),
            context: None,
            history: Vec::new(),
            members: vec![member],
            context_paths: vec![ContextPath { path, writable: true, protected: Vec::new() }],
            modes: Modes::default(),
            rules: RunRules::default(),
            subagent_of: None,
            plan: None,
            execution: None,
            unapproved_paths: Vec::new(),
            tie_break_seed: 0,
        };
        let config = Config { agents: vec![agent], ..Config::default() };
        Self { _dir: dir, base, config, spec, notices: Arc::default() }
    }

    fn envs(&self) -> SessionEnvs {
        let mut environment = Environment::read().unwrap();
        environment.cwd.clone_from(&self.base);
        let notices = self.notices.clone();
        let notify: Notify = Arc::new(move |text| notices.lock().unwrap().push(text.to_owned()));
        let local = Sandbox::Unconfined(AcceptedByUser::explicitly());
        let sandboxes = Sandboxes { launcher: GuardLauncher::default(), local, docker: None };
        let session = SessionId::new("20261115-120000-0001");
        SessionEnvs::new(
            session,
            self.base.join("state"),
            TeamTools::of(&self.config),
            None,
            sandboxes,
            &environment,
            notify,
        )
    }

    async fn env(&self, envs: &SessionEnvs, run: &str) -> Arc<dyn AgentEnv> {
        let dir = self.base.join("state/sessions/20261115-120000-0001/tasks").join(run);
        std::fs::create_dir_all(&dir).unwrap();
        envs.open(&TaskId::from(run), &dir.display().to_string(), &self.spec, 0).await.unwrap()
    }
}

fn tools(env: &Arc<dyn AgentEnv>, access: ContextAccess) -> Vec<String> {
    env.tool_host().tools(access).into_iter().map(|tool| tool.name).collect()
}

async fn call(env: &Arc<dyn AgentEnv>, tool: &str, arguments: Value, access: ContextAccess) -> ToolOutcome {
    let call = ToolCall { id: "1".into(), name: tool.into(), arguments: arguments.to_string() };
    env.tool_host().call(&call, access).await
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

// spec: interactive/launch-run-tool/planning-mode-run
#[tokio::test]
async fn a_planning_run_has_only_read_only_tools_with_any_config() {
    let mut fixture = Fixture::new();
    fixture.spec.modes.planning = true;
    let envs = fixture.envs();
    let env = fixture.env(&envs, "r1").await;
    for access in [ContextAccess::ReadOnly, ContextAccess::Writable] {
        assert_eq!(tools(&env, access), READ_ONLY_TOOLS);
        let file = fixture.base.join("project/new.txt");
        for (tool, arguments) in [
            ("write_file", json!({ "path": file, "content": "x" })),
            ("write_file", json!({ "path": "own.txt", "content": "x" })),
            ("run_command", json!({ "command": format!("touch {}", file.display()) })),
            ("mcp__marker__anything", json!({})),
        ] {
            assert!(call(&env, tool, arguments, access).await.is_error, "{tool}");
        }
        assert!(!file.exists() && !Path::new(env.path()).join("own.txt").exists());
    }
    assert!(!fixture.base.join("started").exists(), "its MCP servers were not even started");
    envs.close().await;
}

#[tokio::test]
async fn with_plan_first_agents_only_read_until_the_presentation() {
    let mut fixture = Fixture::new();
    fixture.config.agents[0].tools.mcp_servers.clear();
    fixture.config.planning = Some(PlanningConfig { instruction: Some("Think before you act.".into()) });
    fixture.spec.rules.plan_first = true;
    let envs = fixture.envs();
    let env = fixture.env(&envs, "r1").await;
    assert_eq!(tools(&env, ContextAccess::ReadOnly), READ_ONLY_TOOLS);
    let plans = |access| env.grant(access).planning;
    assert!(
        plans(ContextAccess::ReadOnly) && !plans(ContextAccess::Writable),
        "the grant confines CLI agents in the same way"
    );
    let briefing = env.briefing(ContextAccess::ReadOnly);
    assert!(briefing.contains("Think before you act.") && !briefing.contains("run commands"), "{briefing}");
    let command = json!({ "command": "echo done > proof.txt" });
    let early = call(&env, "run_command", command.clone(), ContextAccess::ReadOnly).await;
    assert!(early.is_error, "{}", early.content);
    let early = json!({ "path": "own.txt", "content": "x" });
    assert!(call(&env, "write_file", early.clone(), ContextAccess::ReadOnly).await.is_error);
    assert_eq!(std::fs::read_dir(env.path()).unwrap().count(), 0);
    env.open_context().await.unwrap();
    let all = tools(&env, ContextAccess::Writable);
    assert!(all.contains(&"run_command".to_owned()) && all.contains(&"write_file".to_owned()), "{all:?}");
    assert!(!env.briefing(ContextAccess::Writable).contains("Think before you act."));
    assert!(!call(&env, "write_file", early, ContextAccess::Writable).await.is_error);
    envs.close().await;
}

#[tokio::test]
async fn the_chat_agent_may_write_files_that_run_code_later_only_if_the_config_names_them() {
    let fixture = Fixture::new();
    let context_path = |inside: &str| ContextPath {
        path: fixture.base.join(inside).display().to_string().trim_end_matches('/').to_owned(),
        writable: true,
        protected: Vec::new(),
    };
    let context_paths = [context_path("sub/.envrc"), context_path("sub/notes.txt")];
    let grantee = Grantee::ChatAgent { dir: &fixture.base.join("state/chat"), context_paths: &context_paths };
    let granted = fixture.envs().grant(&grantee, &ToolsConfig::default()).context_paths();
    assert_eq!(
        granted,
        [context_path(""), context_path("sub/.envrc")],
        "the project includes ordinary files"
    );
}

#[tokio::test]
async fn prompts_contain_readable_skills_and_the_projects_instructions() {
    let mut fixture = Fixture::new();
    fixture.config.agents[0].tools.mcp_servers.clear();
    fixture.config.skills = Some(SkillsConfig { directory: "my-skills".into() });
    fixture.config.project_instructions = true;
    let base = fixture.base.clone();
    write(
        &base.join("my-skills/pdf/SKILL.md"),
        "---\nname: pdf\ndescription: Reads PDF.\n---\nUse pdftotext.\n",
    );
    write(&base.join(".agent/skills/tea/SKILL.md"), "---\ndescription: Makes tea.\n---\n");
    write(&base.join("my-skills/broken/SKILL.md"), "no front matter");
    write(&base.join("project/AGENTS.md"), "Indent with tabs.\n");
    let envs = fixture.envs();
    assert!(fixture.notices.lock().unwrap()[0].contains("broken"), "{:?}", fixture.notices);
    let env = fixture.env(&envs, "r1").await;
    let briefing = env.briefing(ContextAccess::ReadOnly);
    let skill = base.join("my-skills/pdf/SKILL.md");
    assert!(briefing.contains(&format!("- pdf: Reads PDF. ({})", skill.display())), "{briefing}");
    assert!(briefing.contains("- tea: Makes tea."), "{briefing}");
    assert!(briefing.contains("Indent with tabs."), "{briefing}");
    let read = call(&env, "read_file", json!({ "path": skill }), ContextAccess::ReadOnly).await;
    assert!(read.content.contains("Use pdftotext."), "{}", read.content);
    let change = json!({ "path": skill, "content": "mine now" });
    assert!(call(&env, "write_file", change, ContextAccess::Writable).await.is_error, "it is not its own");
}

#[tokio::test]
async fn notes_of_one_run_are_in_the_prompt_of_the_next() {
    let mut fixture = Fixture::new();
    fixture.config.agents[0].tools.mcp_servers.clear();
    fixture.config.file_memory = true;
    let envs = fixture.envs();
    let first = fixture.env(&envs, "r1").await;
    assert!(first.briefing(ContextAccess::ReadOnly).contains("memory/short_term"));
    let note = |name: &str, text: &str| json!({ "path": format!("memory/{name}"), "content": text });
    call(&first, "write_file", note("short_term/user.md", "They like tea."), ContextAccess::ReadOnly).await;
    call(&first, "write_file", note("long_term/port.md", "# The port\nIt is 8080."), ContextAccess::ReadOnly)
        .await;
    assert!(
        !first.briefing(ContextAccess::ReadOnly).contains("They like tea."),
        "not in the middle of its work"
    );
    first.snapshot("agent1.1".parse().unwrap()).await.unwrap();
    assert!(first.briefing(ContextAccess::ReadOnly).contains("They like tea."), "but after its answer");
    call(&first, "write_file", note("short_term/late.md", "After the answer."), ContextAccess::ReadOnly)
        .await;
    let second = fixture.env(&envs, "r2").await;
    let briefing = second.briefing(ContextAccess::ReadOnly);
    assert_ne!(second.path(), first.path());
    assert!(briefing.contains("They like tea.") && briefing.contains("After the answer."), "{briefing}");
    assert!(briefing.contains("long_term/port.md: The port") && !briefing.contains("8080"), "{briefing}");
}

#[tokio::test]
async fn a_task_list_is_a_workspace_file_only_if_the_config_says_so() {
    for as_files in [true, false] {
        let mut fixture = Fixture::new();
        fixture.config.agents[0].tools.mcp_servers.clear();
        fixture.config.task_planning = Some(TaskPlanning { max_tasks: 2, as_files });
        let envs = fixture.envs();
        let env = fixture.env(&envs, "r1").await;
        assert!(env.briefing(ContextAccess::ReadOnly).contains("create_task_plan"));
        let two = json!({ "tasks": ["Read", "Write"] });
        let made = call(&env, "create_task_plan", two, ContextAccess::ReadOnly).await;
        assert!(!made.is_error, "{}", made.content);
        let third = call(&env, "add_task", json!({ "description": "Rest" }), ContextAccess::ReadOnly).await;
        assert!(third.is_error && third.content.contains("2 are allowed"), "{}", third.content);
        assert_eq!(Path::new(env.path()).join("tasks/plan.json").exists(), as_files);
        let again = fixture.env(&fixture.envs(), "r1").await;
        let kept = call(&again, "get_task_plan", json!({}), ContextAccess::ReadOnly).await;
        assert!(kept.content.starts_with("0 of 2 done"), "{}", kept.content);
    }
}

#[tokio::test]
async fn a_notice_says_what_undo_cannot_restore_in_a_large_project() {
    let fixture = Fixture::new();
    // A sparse file takes no disk space.
    let large = std::fs::File::create(fixture.base.join("project/large")).unwrap();
    large.set_len(1 << 30).unwrap();
    let envs = fixture.envs();
    let env = fixture.env(&envs, "r1").await;
    env.open_context().await.unwrap();
    let notices = fixture.notices.lock().unwrap().join("\n");
    assert!(notices.contains("a: ") && notices.contains("too much to keep a copy of"), "{notices}");
    envs.close().await;
}
