//! What a config gives its agents: tools of their own, and what all who have tools share.

use althing_protocol::{AgentId, Config, McpServerConfig, PlanningConfig, TaskPlanning, ToolsConfig};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Where skills are besides the directory that the config names.
const USUAL_SKILLS: &str = ".agent/skills";

/// The tools of a team.
#[derive(Clone, Default)]
pub struct TeamTools {
    agents: HashMap<AgentId, ToolsConfig>,
    /// What every agent with tools has besides its own.
    pub extras: Extras,
}

/// What agents with tools have besides.
#[derive(Clone, Default)]
pub struct Extras {
    /// Where skills are looked for, as written.
    pub skills: Vec<String>,
    pub instructions: bool,
    pub memory: bool,
    pub tasks: Option<TaskPlanning>,
    pub planning: Option<PlanningConfig>,
}

impl TeamTools {
    /// What a config gives.
    pub fn of(config: &Config) -> Self {
        let agents = config.agents.iter().map(|agent| (agent.id.clone(), agent.tools.clone())).collect();
        let skills = config.skills.as_ref();
        let extras = Extras {
            skills: skills
                .map(|skills| vec![skills.directory.clone(), USUAL_SKILLS.to_owned()])
                .unwrap_or_default(),
            instructions: config.project_instructions,
            memory: config.file_memory,
            tasks: config.task_planning,
            planning: config.planning.clone(),
        };
        Self { agents, extras }
    }

    /// Gives one more agent its tools.
    pub fn insert(&mut self, id: AgentId, tools: ToolsConfig) {
        self.agents.insert(id, tools);
    }

    /// What one agent may do; nothing for one that is not known.
    pub fn agent(&self, id: &AgentId) -> ToolsConfig {
        self.agents.get(id).cloned().unwrap_or_default()
    }

    /// Whether an agent has tools by the config.
    pub fn has(&self, id: &AgentId) -> bool {
        let Extras { skills, memory, tasks, .. } = &self.extras;
        !skills.is_empty() || *memory || tasks.is_some() || self.agents.get(id).is_some_and(ToolsConfig::any)
    }

    /// Whether any agent runs commands: then it matters what this machine can confine.
    pub fn runs_commands(&self) -> bool {
        self.agents.values().any(|tools| tools.commands.is_some())
    }

    /// Whether any agent has MCP servers that are started here: then, too.
    pub fn starts_servers(&self) -> bool {
        self.agents.values().flat_map(|tools| &tools.mcp_servers).any(McpServerConfig::is_started)
    }

    /// Whether any agent runs commands in Docker.
    pub fn needs_docker(&self) -> bool {
        let in_docker =
            |tools: &ToolsConfig| tools.commands.as_ref().is_some_and(|commands| commands.docker.is_some());
        self.agents.values().any(in_docker)
    }
}

impl Extras {
    /// The directories of skills, relative ones below `cwd`.
    pub fn skill_dirs(&self, cwd: &Path) -> Vec<PathBuf> {
        self.skills.iter().map(|dir| cwd.join(dir)).collect()
    }
}
