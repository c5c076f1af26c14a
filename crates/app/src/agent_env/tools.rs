//! The tools that the config gives to the agents of a team. Which of them one agent is offered is decided in `mod.rs`.

use super::named_code::{CodeInUse, Lookup};
use super::server_code::server_code;
use crate::base_dirs::BaseDirs;
use althing_config::WORKSPACE_PLACEHOLDER;
use althing_disk::real_path;
use althing_protocol::{
    AgentId, Config, McpServerConfig, McpTransport, PlanningConfig, ProcessLimits, Secret, TaskPlanning,
    ToolsConfig,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// This directory is searched for skills in addition to the configured one.
const USUAL_SKILLS: &str = ".agent/skills";

/// The tools of a team.
#[derive(Clone, Default)]
pub struct TeamTools {
    agents: HashMap<AgentId, ToolsConfig>,
    /// What every agent with tools has in addition to its own tools.
    pub shared: SharedAbilities,
    /// The limits of the agents' processes.
    pub limits: ProcessLimits,
    /// The files of the session's config and workflow, and the code of custom adapters. No agent may write them,
    /// because the next start would use them.
    pub code_in_use: CodeInUse,
    /// The directory that the paths of MCP servers without `cwd` are relative to; `None` means the directory in which
    /// the session was started.
    pub server_dir: Option<PathBuf>,
    /// Whether commands and MCP servers are only simulated.
    pub simulated: bool,
    /// Whether a CLI agent runs without a sandbox and uses the settings of the directory where it works.
    pub has_trusting_agents: bool,
    /// Whether a person who resumes a conversation can be asked about the chat agent's changes, even if nobody could
    /// be asked when it was started.
    pub can_ask_now: bool,
    /// The variables that each agent's commands get in its container.
    pub container_variables: HashMap<AgentId, Vec<(String, Secret)>>,
}

/// Abilities that every agent with tools has in addition to its own tools.
#[derive(Clone, Default)]
pub struct SharedAbilities {
    /// The skills directories; empty if the config does not turn skills on.
    pub skills: Vec<String>,
    pub instructions: bool,
    /// The maximum size of a snapshot in bytes; `None` means the default.
    pub max_snapshot_bytes: Option<u64>,
    pub memory: bool,
    pub tasks: Option<TaskPlanning>,
    pub planning: Option<PlanningConfig>,
}

impl TeamTools {
    /// The tools that a config gives its agents.
    pub fn of(config: &Config) -> Self {
        let agents = config.agents.iter().map(|agent| (agent.id.clone(), agent.tools.clone())).collect();
        let skills = config.skills.as_ref();
        let shared = SharedAbilities {
            skills: skills
                .map(|skills| vec![skills.directory.clone(), USUAL_SKILLS.to_owned()])
                .unwrap_or_default(),
            instructions: config.project_instructions,
            max_snapshot_bytes: config.max_snapshot_bytes,
            memory: config.file_memory,
            tasks: config.task_planning,
            planning: config.planning.clone(),
        };
        Self { agents, shared, limits: config.process_limits, ..Self::default() }
    }

    /// Sets the tools of one more agent.
    pub fn insert(&mut self, id: AgentId, tools: ToolsConfig) {
        self.agents.insert(id, tools);
    }

    /// The tools of one agent; none if the agent is unknown.
    pub fn agent(&self, id: &AgentId) -> ToolsConfig {
        self.agents.get(id).cloned().unwrap_or_default()
    }

    /// Whether an agent gets tools, by its own config or because every agent gets skills, notes or a task list.
    pub fn has(&self, id: &AgentId) -> bool {
        let SharedAbilities { skills, memory, tasks, .. } = &self.shared;
        !skills.is_empty() || *memory || tasks.is_some() || self.agents.get(id).is_some_and(ToolsConfig::any)
    }

    /// Whether any agent runs commands (not simulated ones).
    pub fn runs_commands(&self) -> bool {
        !self.simulated && self.agents.values().any(|tools| tools.commands.is_some())
    }

    /// Whether Althing starts an MCP server for any agent.
    pub fn starts_servers(&self) -> bool {
        !self.simulated && self.servers().any(McpServerConfig::is_started)
    }

    /// The MCP servers of all agents.
    pub fn servers(&self) -> impl Iterator<Item = &McpServerConfig> {
        self.agents.values().flat_map(|tools| &tools.mcp_servers)
    }

    /// Everything that no agent may write, because the next start would run it or do what it says: config, workflow,
    /// and the code of custom adapters and MCP servers. `workspace` replaces the placeholder for the agent's
    /// workspace; `search` is the value of `PATH`.
    pub fn unwritable_code(&self, from: &BaseDirs, workspace: &str, search: Option<&OsStr>) -> CodeInUse {
        let mut all = self.code_in_use.clone();
        let default = self.server_dir.as_ref().unwrap_or(&from.cwd);
        for server in self.servers() {
            let McpTransport::Stdio { cwd, .. } = &server.transport else { continue };
            let cwd = cwd.as_ref().map(|cwd| cwd.replace(WORKSPACE_PLACEHOLDER, workspace));
            let base = cwd.map_or_else(|| default.clone(), |cwd| from.path(Path::new(&cwd)));
            let base = real_path(&base);
            let lookup = Lookup { base: &base, search, home: from.home.as_deref() };
            all.extend(server_code(server, workspace, lookup));
        }
        all.dirs.iter_mut().for_each(|dir| *dir = real_path(dir));
        all
    }

    /// Whether any agent runs commands in Docker.
    pub fn needs_docker(&self) -> bool {
        let in_docker =
            |tools: &ToolsConfig| tools.commands.as_ref().is_some_and(|commands| commands.docker.is_some());
        !self.simulated && self.agents.values().any(in_docker)
    }
}

impl SharedAbilities {
    pub fn skill_dirs(&self, cwd: &Path) -> Vec<PathBuf> {
        self.skills.iter().map(|dir| cwd.join(dir)).collect()
    }
}
