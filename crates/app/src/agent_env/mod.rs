//! Environments of agents with tools: combines `workspace`'s files, `runner`'s commands and `mcp`'s servers into one
//! environment per agent, limited to what the agent's config grants.

mod chat;
mod commands;
mod grant;
mod guidance;
mod mcp_servers;
mod tool_hosts;
mod tools;

use crate::context::Notify;
use crate::environment::Environment;
use crate::project::Project;
use althing_engine::{AgentNotes, Guidance, Planning, ToolRouter, WorkspaceBriefing};
use althing_mcp::McpToolHost;
use althing_protocol::{
    AgentEnv, AgentEnvs, AgentId, AnswerLabel, BoxFuture, ChatSpec, CommandsConfig, ContextAccess, FileWrite,
    Grant, McpServerConfig, RunSpec, SessionId, TaskId, ToolHost, ToolsConfig,
};
use althing_runner::{CommandHost, Container, DockerClient, Sandbox};
use althing_workspace::{
    AgentFiles, AgentFilesOptions, Memory, Skills, TaskHost, ToolSet, UndoCoverage, UndoLimits, Workspace,
    find_skills, is_read_only_tool, project_instructions, run_blocking,
};
use grant::Grantee;
use mcp_servers::{AgentServers, ProtectionPolicy};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tool_hosts::{FileToolHost, PlanFirstHost};

pub use commands::{Sandboxes, docker_socket};
pub use tools::TeamTools;

/// Makes the environments of one session's agents.
pub struct SessionEnvs {
    session: SessionId,
    state_dir: PathBuf,
    tools: TeamTools,
    skills: Skills,
    /// The directory of agents' notes between runs.
    notes: PathBuf,
    sandboxes: Sandboxes,
    environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    /// The directory where the session was started; the chat agent's project if there is no project workspace.
    cwd: PathBuf,
    /// The project workspace, if the session has one.
    project: Option<Arc<Project>>,
    home: Option<PathBuf>,
    notify: Notify,
    /// Containers and MCP servers that must be closed with the session.
    started: Mutex<Vec<AgentResource>>,
    /// The notes of the agents whose environments were opened.
    memories: Mutex<Vec<Memory>>,
}

/// Something that was started for an agent.
#[derive(Clone)]
enum AgentResource {
    Container(Arc<Container>),
    Servers(Arc<McpToolHost>),
}

impl SessionEnvs {
    /// The environments of one session's agents.
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
        let skills = find_skills(&tools.shared.skill_dirs(&environment.cwd));
        for notice in &skills.notices {
            notify(notice);
        }
        let notes = match &project {
            Some(project) => project.workspace.notes_dir(),
            None => althing_journal::session_dir(&state_dir, &session).join("memory"),
        };
        Self {
            session,
            state_dir,
            tools,
            skills,
            notes,
            sandboxes,
            environment: variables,
            cwd: environment.cwd.clone(),
            project,
            home: environment.variable("HOME").map(PathBuf::from),
            notify,
            started: Mutex::default(),
            memories: Mutex::default(),
        }
    }

    fn register(&self, started: AgentResource) {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).push(started);
    }

    /// Saves the notes of every agent whose environment was opened.
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
        // CLI agents, commands and MCP servers write without the file tools, so undo has to look for their changes.
        let is_cli_agent = member.is_cli_agent();
        let coverage = if is_cli_agent || tools.commands.is_some() || !tools.mcp_servers.is_empty() {
            UndoCoverage::Everything
        } else {
            UndoCoverage::ToolWrites
        };
        let grant = self.grant(&Grantee::Member { run_dir: Path::new(run_dir), spec, member_index }, &tools);
        let planning = grant.planning;
        let outputs = grant.output_dir.clone().unwrap_or_default();
        let name = outputs.file_name().unwrap_or_default();
        make_dir(&outputs)?;
        let options = AgentFilesOptions {
            grant: grant.clone(),
            tools: if planning { ToolSet::ReadOnly } else { ToolSet::All },
            coverage,
            limits: UndoLimits::default(),
        };
        let local = AgentFiles::open(Path::new(run_dir), &options).map_err(|error| error.to_string())?;
        let local = Arc::new(local);
        let notify = AgentNotifier { notify: self.notify.clone(), agent: member.id.clone() };
        notify.notices(&local);
        let plan_first = spec.rules.plan_first;
        let mut hosts =
            vec![PlanFirstHost::wrap(Arc::new(FileToolHost(local.clone())), is_read_only_tool, plan_first)];
        let (mut container, mut has_commands, mut servers) = (None, false, None);
        // Planning is enforced by leaving out every tool that acts.
        if let Some(commands) = tools.commands.as_ref().filter(|_| !planning) {
            let (host, made) = self.choose_command_sandbox(commands, &grant, run, &member.id).await?;
            has_commands = host.refusal().is_none();
            container = made;
            if let Some(container) = &container {
                self.register(AgentResource::Container(container.clone()));
            }
            hosts.push(PlanFirstHost::wrap(Arc::new(host), |_| false, plan_first));
        }
        if !tools.mcp_servers.is_empty() && !planning {
            let start = (local.path(), ContextAccess::ReadOnly);
            let started = self.start_servers(&tools, start, &grant, &outputs).await;
            hosts.push(PlanFirstHost::wrap(started.host.clone(), |_| false, plan_first));
            servers = Some(started);
        }
        if let Some(tasks) = self.tools.shared.tasks {
            let root = if tasks.as_files { Path::new(local.path()) } else { &outputs };
            let host = TaskHost::open(root, tasks.max_tasks).map_err(|error| error.to_string())?;
            hosts.push(Arc::new(host));
        }
        let briefing = WorkspaceBriefing {
            workspace: local.path().to_owned(),
            views: Workspace::view_dir_of(Path::new(run_dir), Path::new(local.path())).display().to_string(),
            context: spec.context_paths.clone(),
            commands: has_commands,
            deliverables: self
                .project
                .as_ref()
                .filter(|_| !planning)
                .map(|project| project.workspace.deliverables_dir().display().to_string()),
        };
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
            notify,
        })
    }

    /// Starts an agent's MCP servers in its workspace, with this access to context paths.
    async fn start_servers(
        &self,
        tools: &ToolsConfig,
        (workspace, access): (&str, ContextAccess),
        grant: &Grant,
        outputs: &Path,
    ) -> AgentServers {
        let mut configs = tools.mcp_servers.clone();
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
            self.environment.clone(),
            outputs.to_owned(),
            self.notify.clone(),
        )
        .await;
        self.register(AgentResource::Servers(started.host.clone()));
        started
    }

    /// Loads the agent's notes into its workspace; None if the config does not turn notes on, or if loading fails.
    async fn memory(&self, workspace: &Path, store: &Path, agent: &AgentId) -> Option<Memory> {
        if !self.tools.shared.memory {
            return None;
        }
        // Save first: the agent may have written notes in an earlier run of this session.
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

    /// The notes for an agent's first prompt; None without `memory`, or (with a notice) if reading the notes fails.
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

    /// Decides which sandbox an agent's commands run in: a Docker container if the config says so, otherwise the local
    /// one (which refuses all commands if no sandbox works here). The sandbox policy follows from the grant.
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
                Some(commands::start_container(containers, docker, grant, &owner).await?)
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
        let host = commands::command_host(grant, sandbox, config, self.sandboxes.launcher.clone())?;
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

/// The environment of one member of a run.
struct MemberEnv {
    local: Arc<AgentFiles>,
    grant: Grant,
    /// Whether the agent may do nothing but plan as long as the context paths are read-only.
    plan_first: bool,
    router: ToolRouter,
    briefing: WorkspaceBriefing,
    guidance: Mutex<Guidance>,
    memory: Option<Memory>,
    /// The container of the agent's commands, if they run in one.
    container: Option<Arc<Container>>,
    /// The agent's MCP servers; None if its config has none, or if the run only plans.
    servers: Option<AgentServers>,
    notify: AgentNotifier,
}

/// Shows the user the notices of one agent's environment.
struct AgentNotifier {
    notify: Notify,
    agent: AgentId,
}

impl AgentNotifier {
    fn notices(&self, local: &AgentFiles) {
        for notice in local.take_notices() {
            (self.notify)(&format!("{}: {notice}", self.agent));
        }
    }
}

impl AgentEnv for MemberEnv {
    fn path(&self) -> &str {
        self.local.path()
    }

    fn tool_host(&self) -> &dyn ToolHost {
        &self.router
    }

    fn grant(&self, access: ContextAccess) -> Grant {
        let planning = self.grant.planning || (self.plan_first && access == ContextAccess::ReadOnly);
        Grant { planning, ..self.grant.clone() }.with_access(access)
    }

    fn briefing(&self, access: ContextAccess) -> String {
        let guidance = self.guidance.lock().unwrap_or_else(PoisonError::into_inner);
        let planning = guidance.planning != Planning::Off && access == ContextAccess::ReadOnly;
        let briefing =
            WorkspaceBriefing { commands: self.briefing.commands && !planning, ..self.briefing.clone() };
        format!("{}{}", briefing.text(access), guidance.text(access))
    }

    fn snapshot(&self, label: AnswerLabel) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            // Save the notes even if the snapshot of the files fails.
            let snapshot = self.local.take_snapshot(label).await;
            let notes = self.save_own_notes().await;
            snapshot.and(notes)
        })
    }

    fn show_snapshots(&self, labels: Vec<AnswerLabel>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(self.local.show_snapshots(labels))
    }

    fn view_of(&self, agent: u32) -> String {
        self.local.view_of(agent)
    }

    fn import_dir<'a>(&'a self, from: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.local.import_dir(from, name))
    }

    fn open_context(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            self.local.open_context().await?;
            self.notify.notices(&self.local);
            self.recreate(ContextAccess::Writable).await
        })
    }

    fn close_context(&self) -> BoxFuture<'_, Result<Vec<FileWrite>, String>> {
        Box::pin(async move {
            // Revoke write access first, then list what was written.
            self.recreate(ContextAccess::ReadOnly).await?;
            self.local.close_context().await
        })
    }
}

impl MemberEnv {
    /// Saves the agent's notes after an answer; the agent's prompts contain them from now on.
    async fn save_own_notes(&self) -> Result<(), String> {
        let Some(memory) = self.memory.clone() else { return Ok(()) };
        let notes = run_blocking(move || memory.save().and_then(|()| guidance::notes(&memory))).await?;
        self.guidance.lock().unwrap_or_else(PoisonError::into_inner).notes = Some(notes);
        Ok(())
    }

    /// Gives commands and servers this access to context paths. Mounts cannot be changed, so the container is
    /// replaced; MCP servers whose write protection changes are stopped; the next call of a tool restarts its server.
    async fn recreate(&self, access: ContextAccess) -> Result<(), String> {
        if let Some(servers) = &self.servers {
            servers.set_access(access).await?;
        }
        match &self.container {
            Some(container) => container.recreate(access).await.map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}

/// Creates a directory that only the user can read.
fn make_dir(dir: &Path) -> Result<(), String> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| format!("{} cannot be created: {error}", dir.display()))
}

/// Connects to Docker and removes abandoned containers; None, with a notice, if the daemon does not answer.
pub async fn connect_docker(notify: &Notify, socket: &Path) -> Option<DockerClient> {
    match DockerClient::connect(socket).await {
        Ok(containers) => {
            match containers.sweep().await {
                Ok(removed) if !removed.is_empty() => {
                    notify(&format!("containers of an earlier session removed: {}", removed.len()))
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
