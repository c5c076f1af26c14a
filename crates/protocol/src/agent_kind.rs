//! The table of agent kinds: the CLI agents that Althing drives, one row each.
//!
//! Every list of CLI agents is made from this table. How an agent is started and how its output is read is in its own
//! file in `runner/src/adapter/`; a test there fails when the table and those files differ.

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
    },
    AgentKind {
        kind: "codex",
        adapter: "codex",
        title: "Codex",
        program: "codex",
        install_hint: "npm install -g @openai/codex",
        tool_name_pattern: "{tool}",
        vendor: "openai",
    },
    AgentKind {
        kind: "gemini_cli",
        adapter: "gemini",
        title: "Gemini CLI",
        program: "gemini",
        install_hint: "npm install -g @google/gemini-cli",
        tool_name_pattern: "mcp_{server}_{tool}",
        vendor: "gcp.gemini",
    },
    AgentKind {
        kind: "opencode",
        adapter: "opencode",
        title: "OpenCode",
        program: "opencode",
        install_hint: "npm install -g opencode-ai",
        tool_name_pattern: "{server}_{tool}",
        vendor: "opencode",
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
