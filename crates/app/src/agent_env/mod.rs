//! Environments of agents with tools: combines file tools of the workspace, sandboxed commands and MCP servers into
//! one environment per agent, limited to what the agent's config grants. Chooses the sandbox of an agent's commands:
//! Docker, or one of this machine.

mod chat;
mod commands;
mod credentials;
mod grant;
mod guidance;
mod mcp_servers;
mod member_env;
mod module_places;
mod named_code;
mod server_code;
mod tool_hosts;
mod tools;
mod watch;

use crate::base_dirs::BaseDirs;
use crate::context::Notify;
use crate::edit_trust::EditTrust;
use crate::environment::Environment;
use crate::project::Project;
use crate::simulated::SimulatedTools;
use crate::work_dirs::{SessionDirs, unwritable_dirs};
use althing_engine::{AgentNotes, Guidance, Planning, ToolRouter, WorkspaceBriefing};
use althing_mcp::McpToolHost;
use althing_protocol::{
    AgentEnv, AgentEnvs, AgentId, BoxFuture, ChatSpec, CommandsConfig, ContextAccess, Grant, McpServerConfig,
    RunSpec, SessionId, TaskId, ToolHost, ToolsConfig,
};
use althing_runner::{CommandHost, Container, DockerClient, PlantedCode, Sandbox};
use althing_workspace::{
    AgentFiles, AgentFilesOptions, Memory, Skills, TaskHost, ToolSet, UndoCoverage, UndoLimits, Workspace,
    find_skills, is_read_only_tool, project_instructions, run_blocking,
};
use grant::Grantee;
use mcp_servers::{AgentServers, ProtectionPolicy};
use member_env::{AgentNotifier, MemberEnv};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use tool_hosts::{FileToolHost, PlanFirstHost};
use watch::AgentWatch;
pub use watch::DeliveryWatch;

pub(crate) use commands::command_host;
pub use commands::{Sandboxes, docker_socket};
pub use credentials::container_variables;
pub use named_code::{CodeInUse, CommandLine, Lookup};
pub use server_code::server_dir;
pub use tools::TeamTools;

/// Makes the environments of one session's agents.
pub struct SessionEnvs {
    session: SessionId,
    state_dir: PathBuf,
    tools: TeamTools,
    skills: Skills,
    notes: PathBuf,
    sandboxes: Sandboxes,
    environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    cwd: PathBuf,
    project: Option<Arc<Project>>,
    home: Option<PathBuf>,
    /// Althing's config and state directories of the user. No agent may write there.
    own_dirs: Vec<PathBuf>,
    /// An empty directory to which no agent may write. An MCP server without `cwd` starts there if agents may write
    /// to the directory in which it would start otherwise.
    empty_dir: PathBuf,
    /// The directories with the settings of CLI agents, and those of `PATH`.
    unwritable_dirs: Vec<PathBuf>,
    dirs: SessionDirs,
    planted: Arc<PlantedCode>,
    /// Where the chat agent may change files without asking.
    edit_trust: EditTrust,
    /// Whether the user was told which directories of `PATH` are not searched for programs of MCP servers.
    told_path: AtomicBool,
    notify: Notify,
    started: Mutex<Vec<AgentResource>>,
    memories: Mutex<Vec<Memory>>,
}

#[derive(Clone)]
enum AgentResource {
    Container(Arc<Container>),
    Servers(Arc<McpToolHost>),
}

impl SessionEnvs {
    /// The environments of one session's agents. Finds the skills, and notifies the user of skills that cannot be
    /// used.
    pub fn new(
        session: SessionId,
        state_dir: PathBuf,
        tools: TeamTools,
        project: Option<Arc<Project>>,
        sandboxes: Sandboxes,
        environment: &Environment,
        notify: Notify,
    ) -> Self {
        let variables = environment.variables();
        let skills = find_skills(&tools.shared.skill_dirs(&environment.cwd), &environment.cwd);
        for notice in &skills.notices {
            notify(notice);
        }
        let notes = match &project {
            Some(project) => project.workspace.notes_dir(),
            None => althing_journal::session_dir(&state_dir, &session).join("memory"),
        };
        let empty_dir = environment.user_state_dir().unwrap_or_else(|| state_dir.clone()).join("empty");
        Self {
            session,
            state_dir,
            tools,
            skills,
            notes,
            sandboxes,
            environment: variables,
            cwd: althing_disk::real_path(&environment.cwd),
            project,
            home: environment.variable("HOME").map(PathBuf::from),
            own_dirs: environment.own_dirs(),
            empty_dir: althing_disk::real_path(&empty_dir),
            unwritable_dirs: unwritable_dirs(environment),
            dirs: SessionDirs::default(),
            planted: Arc::default(),
            edit_trust: EditTrust::of(environment),
            told_path: AtomicBool::new(false),
            notify,
            started: Mutex::default(),
            memories: Mutex::default(),
        }
    }

    #[must_use]
    pub(crate) fn with_dirs(self, dirs: SessionDirs) -> Self {
        Self { dirs, ..self }
    }

    /// Sets the list to which everything belongs that agents of the session write and that could run code.
    #[must_use]
    pub fn with_planted_code(self, planted: Arc<PlantedCode>) -> Self {
        Self { planted, ..self }
    }

    fn register(&self, started: AgentResource) {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).push(started);
    }

    async fn save_notes(&self) {
        let memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for memory in memories {
            if let Err(error) = run_blocking(move || memory.save()).await {
                (self.notify)(&format!("an agent's notes could not be saved: {error}"));
            }
        }
    }

    /// Saves the agents' notes, and closes the containers and MCP servers that were started for them.
    pub async fn close(&self) {
        self.save_notes().await;
        let started = std::mem::take(&mut *self.started.lock().unwrap_or_else(PoisonError::into_inner));
        for one in started {
            match one {
                AgentResource::Container(container) => {
                    if let Err(error) = container.close().await {
                        (self.notify)(&format!(
                            "a container could not be removed: {error} ({})",
                            error.hint()
                        ));
                    }
                }
                AgentResource::Servers(servers) => servers.close().await,
            }
        }
    }

    async fn open_member_env(
        &self,
        run: &TaskId,
        run_dir: &str,
        spec: &RunSpec,
        member_index: usize,
    ) -> Result<MemberEnv, String> {
        let member = spec.members.get(member_index).ok_or("no such agent")?;
        let tools = self.tools.agent(&member.id);
        // CLI agents, commands and MCP servers write without the file tools, so an undo needs a copy of every file in
        // advance.
        let is_cli_agent = member.is_cli_agent();
        let coverage = if is_cli_agent || tools.commands.is_some() || !tools.mcp_servers.is_empty() {
            UndoCoverage::Everything
        } else {
            UndoCoverage::ToolWrites
        };
        let grant = self.grant(&Grantee::Member { run_dir: Path::new(run_dir), spec, member_index }, &tools);
        let grant = self.protected(grant).await;
        let planning = grant.planning;
        let watch = AgentWatch::new(&self.planted, Path::new(run_dir), grant.clone(), &self.notify);
        watch.reopen().await?;
        let outputs = grant.output_dir.clone().unwrap_or_default();
        let name = outputs.file_name().unwrap_or_default();
        make_dir(&outputs)?;
        let options = AgentFilesOptions {
            grant: grant.clone(),
            tools: if planning { ToolSet::ReadOnly } else { ToolSet::All },
            coverage,
            limits: UndoLimits::default(),
            max_snapshot_bytes: self.tools.shared.max_snapshot_bytes,
            disk_limit: self.tools.limits.disk,
        };
        let local = AgentFiles::open(Path::new(run_dir), &options).map_err(|error| error.to_string())?;
        let local = Arc::new(local);
        let notify = AgentNotifier { notify: self.notify.clone(), agent: member.id.clone() };
        notify.notices(&local);
        let plan_first = spec.rules.plan_first;
        // A CLI agent has its own tools for files and commands.
        let mut hosts: Vec<Arc<dyn ToolHost>> = Vec::new();
        if !is_cli_agent {
            let files = Arc::new(FileToolHost(local.clone()));
            hosts.push(PlanFirstHost::wrap(files, is_read_only_tool, plan_first));
        }
        let (mut container, mut has_commands, mut servers) = (None, false, None);
        // In planning mode, agents get no tool that acts.
        if let Some(commands) = tools.commands.as_ref().filter(|_| !planning && !is_cli_agent) {
            let host;
            (host, has_commands, container) = self.command_tools(commands, &grant, run, &member.id).await?;
            hosts.push(PlanFirstHost::wrap(host, |_| false, plan_first));
        }
        if !tools.mcp_servers.is_empty() && !planning {
            let start = (local.path(), ContextAccess::ReadOnly);
            let host;
            (host, servers) = self.server_tools(&tools, start, &grant, &outputs).await;
            let host = watch.servers(host, servers.as_ref());
            hosts.push(PlanFirstHost::wrap(host, |_| false, plan_first));
        }
        if let Some(tasks) = self.tools.shared.tasks {
            let root = if tasks.as_files { Path::new(local.path()) } else { &outputs };
            let host = TaskHost::open(root, tasks.max_tasks).map_err(|error| error.to_string())?;
            hosts.push(Arc::new(host));
        }
        let briefing = self.workspace_briefing(&local, run_dir, spec, (planning, has_commands));
        let memory = self.memory(Path::new(local.path()), &self.notes.join(name), &member.id).await;
        let guidance =
            Mutex::new(self.guidance(&local, spec, self.notes_for_prompt(memory.as_ref(), &member.id)));
        let router = ToolRouter::new(hosts, tools.excluded_tools);
        Ok(MemberEnv {
            local,
            grant,
            plan_first,
            router,
            briefing,
            guidance,
            memory,
            container,
            servers,
            watch,
            notify,
        })
    }

    fn workspace_briefing(
        &self,
        local: &AgentFiles,
        run_dir: &str,
        spec: &RunSpec,
        (planning, commands): (bool, bool),
    ) -> WorkspaceBriefing {
        let deliverables = self.project.as_ref().filter(|_| !planning);
        WorkspaceBriefing {
            workspace: local.path().to_owned(),
            views: Workspace::view_dir_of(Path::new(run_dir), Path::new(local.path())).display().to_string(),
            context: spec.context_paths.clone(),
            commands,
            deliverables: deliverables
                .map(|project| project.workspace.deliverables_dir().display().to_string()),
        }
    }

    async fn command_tools(
        &self,
        config: &CommandsConfig,
        grant: &Grant,
        run: &TaskId,
        agent: &AgentId,
    ) -> Result<(Arc<dyn ToolHost>, bool, Option<Arc<Container>>), String> {
        if self.tools.simulated {
            return Ok((Arc::new(SimulatedTools::commands()), true, None));
        }
        let (host, container) = self.choose_command_sandbox(config, grant, run, agent).await?;
        if let Some(container) = &container {
            self.register(AgentResource::Container(container.clone()));
        }
        let can_run = host.refusal().is_none();
        Ok((Arc::new(host), can_run, container))
    }

    async fn server_tools(
        &self,
        tools: &ToolsConfig,
        start: (&str, ContextAccess),
        grant: &Grant,
        outputs: &Path,
    ) -> (Arc<dyn ToolHost>, Option<AgentServers>) {
        if self.tools.simulated {
            return (Arc::new(SimulatedTools::servers(&tools.mcp_servers)), None);
        }
        let started = self.start_servers(tools, start, grant, outputs).await;
        (started.host.clone(), Some(started))
    }

    async fn start_servers(
        &self,
        tools: &ToolsConfig,
        (workspace, access): (&str, ContextAccess),
        grant: &Grant,
        outputs: &Path,
    ) -> AgentServers {
        let from = BaseDirs { cwd: self.cwd.clone(), home: self.home.clone() };
        let mut configs =
            mcp_servers::with_real_dirs(tools.mcp_servers.clone(), workspace, &from, &self.notify);
        let dirs = self.server_dirs(grant, workspace);
        let place = |config| server_code::placed(config, &dirs, workspace, &self.notify);
        configs = self.without_exposed(configs.into_iter().map(place).collect(), &dirs.search).await;
        let mut environment = self.environment.clone();
        self.restrict_search(&mut configs, &mut environment, &dirs.writable);
        if configs.iter().any(|config| server_code::starts_in(config, &self.empty_dir))
            && let Err(error) = althing_disk::create_real_dir(&self.empty_dir, 0o700)
        {
            configs.retain(|config| !server_code::starts_in(config, &self.empty_dir));
            (self.notify)(&format!(
                "MCP servers that would start in {} are not started: the directory cannot be created: {error}",
                self.empty_dir.display()
            ));
        }
        let local = &self.sandboxes.local;
        let (mut policy, mut protection) = (None, None);
        if configs.iter().any(McpServerConfig::is_started) {
            let wanted = ProtectionPolicy::new(grant.clone(), local, self.home.as_deref());
            match wanted.protection(access).await {
                Ok(None) if !matches!(local, Sandbox::Unconfined(_)) => {
                    (self.notify)("MCP servers run with all your permissions: bubblewrap does not work here")
                }
                Ok(found) => (policy, protection) = (Some(wanted), found),
                Err(why) => {
                    configs.retain(|config| !config.is_started());
                    (self.notify)(&format!("MCP servers are not started: {why}"));
                }
            }
        }
        let started = mcp_servers::start_mcp_servers(
            &configs,
            workspace,
            (self.sandboxes.launcher.clone(), policy, protection),
            environment,
            outputs.to_owned(),
            self.notify.clone(),
        )
        .await;
        self.register(AgentResource::Servers(started.host.clone()));
        started
    }

    async fn memory(&self, workspace: &Path, store: &Path, agent: &AgentId) -> Option<Memory> {
        if !self.tools.shared.memory {
            return None;
        }
        // The agent may have written notes in an earlier run of this session.
        self.save_notes().await;
        let (workspace, store) = (workspace.to_owned(), store.to_owned());
        match run_blocking(move || Memory::open(&workspace, &store)).await {
            Ok(memory) => {
                self.memories.lock().unwrap_or_else(PoisonError::into_inner).push(memory.clone());
                Some(memory)
            }
            Err(error) => {
                (self.notify)(&format!("{agent} works without its notes: {error}"));
                None
            }
        }
    }

    fn notes_for_prompt(&self, memory: Option<&Memory>, agent: &AgentId) -> Option<AgentNotes> {
        let notes = guidance::notes(memory?);
        notes.inspect_err(|error| (self.notify)(&format!("{agent} works without its notes: {error}"))).ok()
    }

    fn guidance(&self, local: &AgentFiles, spec: &RunSpec, notes: Option<AgentNotes>) -> Guidance {
        let shared = &self.tools.shared;
        let instructions = if shared.instructions {
            guidance::instructions(project_instructions(local.files(), &spec.context_paths))
        } else {
            Vec::new()
        };
        let instruction = shared.planning.as_ref().and_then(|planning| planning.instruction.clone());
        Guidance {
            instructions,
            skills: guidance::skills(&self.skills),
            notes,
            tasks: shared.tasks.is_some(),
            planning: if spec.rules.plan_first { Planning::First(instruction) } else { Planning::Off },
        }
    }

    async fn choose_command_sandbox(
        &self,
        config: &CommandsConfig,
        grant: &Grant,
        run: &TaskId,
        agent: &AgentId,
    ) -> Result<(CommandHost, Option<Arc<Container>>), String> {
        let container = match (&config.docker, &self.sandboxes.docker) {
            (Some(docker), Some(containers)) => {
                let owner = commands::ContainerOwner { session: &self.session, run, agent };
                let limits = self.tools.limits;
                Some(
                    commands::start_container(containers, docker, grant, &owner, limits, &self.notify)
                        .await?,
                )
            }
            (Some(_), None) => {
                return Err("its commands need Docker, and no Docker daemon answers".into());
            }
            (None, _) => None,
        };
        let sandbox = match &container {
            Some(container) => Sandbox::Docker(container.clone()),
            None => self.sandboxes.local.clone(),
        };
        let variables = self.tools.container_variables.get(agent).map(Vec::as_slice).unwrap_or_default();
        let host = command_host(grant, sandbox, (config, variables), self.sandboxes.launcher.clone())?;
        Ok((host, container))
    }
}

impl AgentEnvs for SessionEnvs {
    fn open<'a>(
        &'a self,
        run: &'a TaskId,
        run_dir: &'a str,
        spec: &'a RunSpec,
        member_index: usize,
    ) -> BoxFuture<'a, Result<Arc<dyn AgentEnv>, String>> {
        Box::pin(async move {
            let env = self.open_member_env(run, run_dir, &*self.confined_spec(spec)?, member_index).await?;
            Ok(Arc::new(env) as Arc<dyn AgentEnv>)
        })
    }

    fn open_chat<'a>(
        &'a self,
        dir: &'a str,
        spec: &'a ChatSpec,
    ) -> BoxFuture<'a, Result<Option<Arc<dyn AgentEnv>>, String>> {
        Box::pin(async move {
            crate::failpoint::hit("workplace");
            let env = self.open_chat_env(Path::new(dir), spec).await?;
            Ok(env.map(|env| Arc::new(env) as Arc<dyn AgentEnv>))
        })
    }
}

fn make_dir(dir: &Path) -> Result<(), String> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| format!("{} cannot be created: {error}", dir.display()))
}

/// Connects to Docker and removes containers that earlier sessions left; None, with a notice, if the daemon does not
/// answer.
pub async fn connect_docker(notify: &Notify, socket: &Path) -> Option<DockerClient> {
    match DockerClient::connect(socket).await {
        Ok(containers) => {
            match containers.sweep().await {
                Ok(removed) if !removed.is_empty() => {
                    notify(&format!("containers of earlier sessions removed: {}", removed.len()))
                }
                Ok(_) => {}
                Err(error) => notify(&format!("old containers could not be removed: {error}")),
            }
            Some(containers)
        }
        Err(error) => {
            notify(&format!("Docker cannot be used: {error} ({})", error.hint()));
            None
        }
    }
}

#[cfg(test)]
mod tests;
