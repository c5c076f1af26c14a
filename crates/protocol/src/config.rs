//! Resolved settings: a config file after defaults, environment variables and names have been resolved.

use crate::{
    AgentId, AgentOptions, ChatLimits, ContextPath, CustomAdapter, Millis, RunRules, VotingSensitivity,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A value that must never reach a log, a file or a screen: it has no `Serialize`, and its `Debug` hides the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the code that sends it to the service that it belongs to.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A complete configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The agents, in the order of the file.
    pub agents: Vec<AgentConfig>,
    /// The rules of runs, before modes are applied.
    pub rules: RunRules,
    /// The conversation's settings; None if the config has no section `interactive_mode`.
    pub interactive: Option<InteractiveConfig>,
    /// The user's own prices by model, which override the built-in prices.
    pub prices: BTreeMap<String, Price>,
    /// The context paths of every run, as written; relative paths are not resolved yet.
    pub context_paths: Vec<ContextPath>,
    /// Whether agents get the contents of `AGENTS.md` and `CLAUDE.md` in the context paths.
    pub project_instructions: bool,
    /// The maximum size of the snapshot of an answer's files, in bytes; None: the default.
    pub max_snapshot_bytes: Option<u64>,
    /// Skills for the agents, if any.
    pub skills: Option<SkillsConfig>,
    /// Whether agents may write notes to files in their workspaces. Notes are carried over from run to run.
    pub file_memory: bool,
    /// Task lists of the agents, if enabled.
    pub task_planning: Option<TaskPlanning>,
    /// The settings of `enable_planning_mode`, with which agents only plan until the presentation; None: disabled.
    pub planning: Option<PlanningConfig>,
    /// Subagents that agents may start; None: disabled.
    pub subagents: Option<SubagentsConfig>,
    /// Custom adapters for workflows.
    pub adapters: Vec<CustomAdapter>,
    /// How much the chat agent may do for one message.
    pub chat_limits: ChatLimits,
    /// The limits of agents' processes.
    pub process_limits: ProcessLimits,
    /// How the user is notified; only the user's own config, or one that the user named, may set it.
    pub notify: Option<NotifyConfig>,
}

/// How the user is notified while the terminal does not have the focus, besides the terminal's own notifications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotifyConfig {
    /// The program to start, and its arguments. Althing adds the text of the notification as the last argument, and
    /// writes it as JSON to the program's stdin. Empty: no program is started.
    pub command: Vec<String>,
    /// The address that gets the text as JSON.
    pub webhook: Option<String>,
}

/// The limits of a process that is started for an agent (a command, a CLI agent or an MCP server), together with
/// everything that this process starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// The maximum number of processes and threads; None: a default that depends on the machine.
    pub processes: Option<u32>,
    /// The maximum amount of memory, in bytes; None: a default that depends on the machine.
    pub memory: Option<u64>,
    /// The maximum number of open files of each process.
    pub open_files: u32,
    /// The maximum size of the agent's workspace together with what the processes write elsewhere, in bytes.
    pub disk: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self { processes: None, memory: None, open_files: 4096, disk: 20 << 30 }
    }
}

/// Skills: directories with a `SKILL.md`, listed in the agents' prompts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillsConfig {
    /// The skills directory, as written; relative to the directory in which Althing was started.
    pub directory: String,
}

/// The settings of agents' task lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPlanning {
    /// The maximum number of tasks in a list.
    pub max_tasks: u32,
    /// Whether the list is also written to a file in the agent's workspace.
    pub as_files: bool,
}

/// The settings of `enable_planning_mode`, with which agents only plan until the presentation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanningConfig {
    /// The user's instruction for planning agents, instead of the built-in one.
    pub instruction: Option<String>,
}

/// The settings of subagents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentsConfig {
    /// The time limit of a subagent if its caller asks for none.
    pub default_timeout: Millis,
    /// The shortest time limit; a shorter request is raised to it.
    pub min_timeout: Millis,
    /// The longest time limit; a longer request is lowered to it.
    pub max_timeout: Millis,
    /// The maximum number of subagents of one agent that work at once.
    pub max_concurrent: u32,
    /// Whether subagents may be started in the background.
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

/// The configuration of one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentConfig {
    /// The agent's name in the config.
    pub id: AgentId,
    /// The user's system message for the agent.
    pub system_message: Option<String>,
    /// The agent's own voting sensitivity, which overrides the run's.
    pub voting_sensitivity: Option<VotingSensitivity>,
    /// The backend that the agent runs on.
    pub backend: BackendConfig,
    /// The agent's tools.
    pub tools: ToolsConfig,
}

/// The tools of an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolsConfig {
    /// Whether the agent has a workspace and the file tools.
    pub files: bool,
    /// How the agent runs commands; None: the agent cannot run commands.
    pub commands: Option<CommandsConfig>,
    /// The MCP servers whose tools the agent has.
    pub mcp_servers: Vec<McpServerConfig>,
    /// Names of tools that the agent does not get, whatever the other fields say.
    pub excluded_tools: Vec<String>,
}

impl ToolsConfig {
    /// Whether these settings give the agent any tools.
    pub fn any(&self) -> bool {
        self.files || self.commands.is_some() || !self.mcp_servers.is_empty()
    }
}

/// How an agent runs commands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandsConfig {
    /// The container to run commands in; None: a sandbox on this host.
    pub docker: Option<DockerConfig>,
    /// Whether commands on this host have network access; in a container, `DockerConfig::network_mode` decides.
    pub network: bool,
    /// The time limit of one command; None for the default.
    pub timeout: Option<Millis>,
    /// Regexes: a command is allowed only if one of them matches its beginning. Empty: all commands are allowed.
    pub allowed: Vec<String>,
    /// Regexes for the beginning of forbidden commands; they take precedence over `allowed`.
    pub blocked: Vec<String>,
}

/// The Docker container in which an agent runs commands.
#[derive(Clone, Debug, PartialEq)]
pub struct DockerConfig {
    /// The Docker image.
    pub image: String,
    /// Docker's network mode.
    pub network_mode: String,
    /// Docker's memory limit, such as `2g`.
    pub memory_limit: Option<String>,
    /// Docker's CPU limit: a number of CPUs, such as `1.5`.
    pub cpu_limit: Option<f64>,
    /// The names of the environment variables that commands get.
    pub env_vars: Vec<String>,
    /// The file with variables that commands get.
    pub env_file: Option<String>,
    /// The only variables of `env_file` that commands get; None: all.
    pub env_vars_from_file: Option<Vec<String>>,
    /// The packages that are installed before commands run.
    pub packages: DockerPackages,
}

/// Packages that are installed in the image of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DockerPackages {
    /// Packages for the image's own package manager.
    pub system: Vec<String>,
    /// Python packages.
    pub python: Vec<String>,
    /// npm packages.
    pub npm: Vec<String>,
    /// Docker's network mode while packages are installed.
    pub network_mode: String,
}

/// An MCP server that an agent uses.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServerConfig {
    /// The server's name.
    pub name: String,
    /// How the server is reached.
    pub transport: McpTransport,
    /// If set, only these of the server's tools are offered.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools of the server that are not offered.
    pub exclude_tools: Vec<String>,
    /// The time limit of one tool call; None for the default.
    pub call_timeout: Option<Millis>,
}

impl McpServerConfig {
    /// Whether the server is a program that Althing starts.
    pub fn is_started(&self) -> bool {
        matches!(self.transport, McpTransport::Stdio { .. })
    }
}

/// How an MCP server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum McpTransport {
    /// A program that communicates over stdin and stdout.
    Stdio {
        /// The executable.
        command: String,
        /// The arguments.
        args: Vec<String>,
        /// Additional environment variables. Secret, because they often contain keys.
        env: Vec<(String, Secret)>,
        /// The working directory.
        cwd: Option<String>,
    },
    /// A server that is reached over streamable HTTP.
    Http {
        /// The server's URL.
        url: String,
        /// Headers to send. Secret, because they often contain keys.
        headers: Vec<(String, Secret)>,
    },
}

/// The backend of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendConfig {
    /// The config's `backend.type`.
    pub kind: String,
    /// The model; None for the backend's default.
    pub model: Option<String>,
    /// The base URL of the API; None for the provider's default.
    pub base_url: Option<String>,
    /// The API key.
    pub api_key: Option<Secret>,
    /// Additional headers to send. Secret, because they often contain keys.
    pub headers: Vec<(String, Secret)>,
    /// The backend section's parameters of model calls, such as `temperature` and `max_retries`.
    pub params: serde_json::Map<String, serde_json::Value>,
    /// For a CLI agent: the config's settings of its own permissions, tools, prompt and reasoning.
    pub options: AgentOptions,
}

/// The settings of the conversation (`orchestrator.interactive_mode`).
#[derive(Clone, Debug, PartialEq)]
pub struct InteractiveConfig {
    /// Whether the conversation has a chat agent. If false, each message starts a run.
    pub enabled: bool,
    /// Whether a run needs the user's approval.
    pub require_approval: bool,
    /// The chat agent's backend; None for the first agent's backend.
    pub backend: Option<BackendConfig>,
    /// The MCP servers and excluded tools of the chat agent's backend section; no other tools can be configured for it.
    pub tools: ToolsConfig,
    /// The user's text at the end of the chat agent's system prompt.
    pub append_system_prompt: Option<String>,
    /// When and how a long conversation is compacted.
    pub context_compaction: ContextCompaction,
    /// The budget in US dollars. The user is asked before the conversation and its runs exceed it.
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

/// When and how a long conversation is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextCompaction {
    /// Whether compaction is on.
    pub enabled: bool,
    /// The size in tokens above which the conversation is compacted.
    pub threshold_tokens: u64,
    /// How many of the newest exchanges are preserved verbatim; fewer if they are too long.
    pub preserve_recent: u32,
}

impl Default for ContextCompaction {
    fn default() -> Self {
        Self { enabled: true, threshold_tokens: 100_000, preserve_recent: 10 }
    }
}

/// A model's price in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// The price of input tokens.
    pub input_per_million: f64,
    /// The price of output tokens.
    pub output_per_million: f64,
    /// The price of cached input tokens; None: the price of other input tokens.
    pub cached_input_per_million: Option<f64>,
}
