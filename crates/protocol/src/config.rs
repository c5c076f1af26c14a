//! Resolved settings: what a config file comes down to once defaults, environment and names are settled.
//!
//! The YAML model with its lines and columns stays in `config`.

use crate::{AgentId, AgentOptions, ContextPath, CustomAdapter, Millis, RunRules, VotingSensitivity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A value that must never reach a log, a file or a screen. It has no `Serialize` and no telling `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that sends it where it belongs.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A whole configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The agents, in the order of the file.
    pub agents: Vec<AgentConfig>,
    /// The rules of runs, before modes.
    pub rules: RunRules,
    /// The conversation's settings; None where the section is absent.
    pub interactive: Option<InteractiveConfig>,
    /// The user's own prices, by model.
    pub prices: BTreeMap<String, Price>,
    /// Paths that every run is about, as written: relative ones are still to be resolved.
    pub context_paths: Vec<ContextPath>,
    /// Whether agents are told what `AGENTS.md` and `CLAUDE.md` in the context paths say.
    pub project_instructions: bool,
    /// Skills for the agents; None: they get none.
    pub skills: Option<SkillsConfig>,
    /// Whether agents keep memories as files in their workspaces.
    pub file_memory: bool,
    /// Task lists of the agents; None: they keep none.
    pub task_planning: Option<TaskPlanning>,
    /// Planning mode by config: agents only plan until the presentation; None: they act.
    pub planning: Option<PlanningConfig>,
    /// Agents that agents start; None: they start none.
    pub subagents: Option<SubagentsConfig>,
    /// Agents' command lines that the user describes, for workflows.
    pub adapters: Vec<CustomAdapter>,
}

/// Skills: folders with a `SKILL.md` that agents are told about and read when they need them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillsConfig {
    /// Where they are, as written: a relative path counts from where Althing was started.
    pub directory: String,
}

/// How agents keep task lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPlanning {
    /// The longest list.
    pub max_tasks: u32,
    /// Whether a list is also a file in the agent's workspace, which others see with its answer.
    pub as_files: bool,
}

/// Planning mode by config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanningConfig {
    /// What agents are told about it, in place of our own words.
    pub instruction: Option<String>,
}

/// Agents that agents start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentsConfig {
    /// How long one may take where nothing else is asked for.
    pub default_timeout: Millis,
    /// The shortest time that may be asked for.
    pub min_timeout: Millis,
    /// The longest time that may be asked for.
    pub max_timeout: Millis,
    /// How many work at once.
    pub max_concurrent: u32,
    /// Whether they may be started in the background.
    pub background: bool,
}

impl Default for SubagentsConfig {
    fn default() -> Self {
        Self {
            default_timeout: Millis::from_secs(300),
            min_timeout: Millis::from_secs(60),
            max_timeout: Millis::from_secs(600),
            max_concurrent: 3,
            background: true,
        }
    }
}

/// One agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentConfig {
    /// The user's name for it.
    pub id: AgentId,
    /// The user's own words about who it is.
    pub system_message: Option<String>,
    /// Its own sensitivity, over the run's.
    pub voting_sensitivity: Option<VotingSensitivity>,
    /// What it runs on.
    pub backend: BackendConfig,
    /// What it may do besides talking.
    pub tools: ToolsConfig,
}

/// What an agent may do besides talking.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolsConfig {
    /// A workspace and the file tools.
    pub files: bool,
    /// Running commands; None: it may not.
    pub commands: Option<CommandsConfig>,
    /// The MCP servers whose tools it has.
    pub mcp_servers: Vec<McpServerConfig>,
    /// Tools it does not get, by name.
    pub excluded_tools: Vec<String>,
}

impl ToolsConfig {
    /// Whether it may do anything at all.
    pub fn any(&self) -> bool {
        self.files || self.commands.is_some() || !self.mcp_servers.is_empty()
    }
}

/// How an agent runs commands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandsConfig {
    /// In a container; None: on this machine, confined.
    pub docker: Option<DockerConfig>,
    /// Whether commands reach the network.
    pub network: bool,
    /// The limit of one command.
    pub timeout: Option<Millis>,
    /// Patterns (of the `regex` crate) of which a command must match one, at its beginning; empty: any may run.
    pub allowed: Vec<String>,
    /// Patterns of commands that may not run, at their beginning; they win over `allowed`.
    pub blocked: Vec<String>,
}

/// The container in which an agent runs commands.
#[derive(Clone, Debug, PartialEq)]
pub struct DockerConfig {
    /// The image.
    pub image: String,
    /// Docker's network mode.
    pub network_mode: String,
    /// Docker's memory limit, such as `2g`.
    pub memory_limit: Option<String>,
    /// How many processors.
    pub cpu_limit: Option<f64>,
}

/// An MCP server of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServerConfig {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
    /// Only these of its tools.
    pub allowed_tools: Option<Vec<String>>,
    /// None of these.
    pub exclude_tools: Vec<String>,
    /// The longest time of one call; the usual one where None.
    pub call_timeout: Option<Millis>,
}

impl McpServerConfig {
    /// Whether it is a program that is started here.
    pub fn is_started(&self) -> bool {
        matches!(self.transport, McpTransport::Stdio { .. })
    }
}

/// How an MCP server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum McpTransport {
    /// A program that speaks over its stdin and stdout.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment besides the usual. Secret: it often carries keys.
        env: Vec<(String, Secret)>,
        /// Where it runs.
        cwd: Option<String>,
    },
    /// Streamable HTTP.
    Http {
        /// The address.
        url: String,
        /// Headers to send. Secret: they often carry keys.
        headers: Vec<(String, Secret)>,
    },
}

/// What an agent runs on.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendConfig {
    /// `backend.type`.
    pub kind: String,
    /// The model; the backend's default where None.
    pub model: Option<String>,
    /// The address of the API; the provider's own where the config names none.
    pub base_url: Option<String>,
    /// The key to send.
    pub api_key: Option<Secret>,
    /// More headers to send. Secret: they often carry keys.
    pub headers: Vec<(String, Secret)>,
    /// Everything else of the backend section that is meant for the wire, as written.
    pub params: serde_json::Map<String, serde_json::Value>,
    /// Of a CLI agent: its own permissions, tools and prompt.
    pub options: AgentOptions,
}

/// The settings of the conversation (`orchestrator.interactive_mode`).
#[derive(Clone, Debug, PartialEq)]
pub struct InteractiveConfig {
    /// Whether the conversation is on.
    pub enabled: bool,
    /// Whether a run needs the user's approval.
    pub require_approval: bool,
    /// What the interactive agent runs on; the first agent's backend where None.
    pub backend: Option<BackendConfig>,
    /// The MCP servers and tool lists of its own backend; it has no other hands by config.
    pub tools: ToolsConfig,
    /// The user's words at the end of its system prompt.
    pub append_system_prompt: Option<String>,
    /// How a long conversation is shortened.
    pub context_compaction: ContextCompaction,
    /// Ask before the session costs more than this.
    pub budget_usd: Option<f64>,
}

impl Default for InteractiveConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            require_approval: true,
            backend: None,
            tools: ToolsConfig::default(),
            append_system_prompt: None,
            context_compaction: ContextCompaction::default(),
            budget_usd: None,
        }
    }
}

/// How a long conversation is shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextCompaction {
    /// Whether it is.
    pub enabled: bool,
    /// From how many tokens.
    pub threshold_tokens: u64,
    /// How many of the newest exchanges stay word for word.
    pub preserve_recent: u32,
}

impl Default for ContextCompaction {
    fn default() -> Self {
        Self { enabled: true, threshold_tokens: 100_000, preserve_recent: 10 }
    }
}

/// What a model costs, in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Input.
    pub input_per_million: f64,
    /// Output.
    pub output_per_million: f64,
    /// Input that the provider had cached; the input price where None.
    pub cached_input_per_million: Option<f64>,
}
