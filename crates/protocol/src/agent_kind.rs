//! The table of agent kinds: the CLI agents that Althing drives, one row each.
//!
//! Every list of CLI agents is made from this table. How an agent is started and how its output is read is in its own
//! file in `runner/src/adapter/`; a test there fails when the table and those files differ.

use serde::{Deserialize, Serialize};

/// One kind of CLI agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentKind {
    /// The config's `backend.type`.
    pub kind: &'static str,
    /// The name of the adapter that drives it, which a workflow's task names as its `agent`.
    pub adapter: &'static str,
    /// The name of the product.
    pub title: &'static str,
    /// The program, as it is found in `PATH`.
    pub program: &'static str,
    /// A command that installs the program.
    pub install_hint: &'static str,
    /// The name under which its model sees a tool of an MCP server, with `{server}` and `{tool}` for their names.
    pub tool_name_pattern: &'static str,
    /// Its vendor, as OpenTelemetry's `gen_ai.provider.name`.
    pub vendor: &'static str,
    /// Keys of [`AgentOptions`] that its program has no option for, each with what to use instead.
    pub lacks: &'static [(&'static str, &'static str)],
}

/// The CLI agents that Althing drives.
pub static AGENT_KINDS: &[AgentKind] = &[
    AgentKind {
        kind: "claude_code",
        adapter: "claude",
        title: "Claude Code",
        program: "claude",
        install_hint: "npm install -g @anthropic-ai/claude-code",
        tool_name_pattern: "mcp__{server}__{tool}",
        vendor: "anthropic",
        lacks: &[],
    },
    AgentKind {
        kind: "codex",
        adapter: "codex",
        title: "Codex",
        program: "codex",
        install_hint: "npm install -g @openai/codex",
        tool_name_pattern: "{tool}",
        vendor: "openai",
        lacks: &[
            ("allowed_tools", "bound it with `permission_mode: plan` or `acceptEdits`"),
            ("disallowed_tools", "bound it with `permission_mode: plan` or `acceptEdits`"),
        ],
    },
    AgentKind {
        kind: "gemini_cli",
        adapter: "gemini",
        title: "Gemini CLI",
        program: "gemini",
        install_hint: "npm install -g @google/gemini-cli",
        tool_name_pattern: "mcp_{server}_{tool}",
        vendor: "gcp.gemini",
        lacks: &[("append_system_prompt", "use the agent's own `system_message`")],
    },
    AgentKind {
        kind: "opencode",
        adapter: "opencode",
        title: "OpenCode",
        program: "opencode",
        install_hint: "npm install -g opencode-ai",
        tool_name_pattern: "{server}_{tool}",
        vendor: "opencode",
        lacks: &[],
    },
];

impl AgentKind {
    /// The CLI agent that a config's `backend.type` names, if it is one.
    pub fn of(kind: &str) -> Option<&'static Self> {
        AGENT_KINDS.iter().find(|row| row.kind == kind)
    }

    /// The name under which its model sees a tool of an MCP server.
    pub fn tool_name(&self, server: &str, tool: &str) -> String {
        self.tool_name_pattern.replace("{server}", server).replace("{tool}", tool)
    }
}

/// What a config says of a CLI agent's own permissions, tools and prompt. None of it lets the agent do more than it may do
/// anyway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentOptions {
    /// What it may do without asking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// The only tools of its own that it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Tools of its own that it does not get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// Text in place of its own system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Text behind its own system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<String>,
}

impl AgentOptions {
    /// The config keys that these are.
    pub const KEYS: [&'static str; 5] =
        ["permission_mode", "allowed_tools", "disallowed_tools", "system_prompt", "append_system_prompt"];

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a CLI agent may do without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// It asks before it changes or runs anything; where nobody can answer, it does neither.
    Default,
    /// It may edit files in the directory it works in.
    AcceptEdits,
    /// It may do everything that its sandbox leaves it.
    BypassPermissions,
    /// It may only read.
    Plan,
}
