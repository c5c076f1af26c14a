//! The table of agent kinds: one row for each CLI agent (Claude Code, Codex, …) that Althing drives. Every list of CLI
//! agents is derived from this table.

use serde::{Deserialize, Serialize};

/// One kind of CLI agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentKind {
    /// The config's `backend.type`.
    pub kind: &'static str,
    /// The name of the agent's adapter; a workflow's task names it as `agent`.
    pub adapter: &'static str,
    /// The name of the product.
    pub title: &'static str,
    /// The executable's name in `PATH`.
    pub program: &'static str,
    /// A command that installs the agent.
    pub install_hint: &'static str,
    /// How the agent's model names a tool of an MCP server, with the placeholders `{server}` and `{tool}`; None if the
    /// agent does not support MCP.
    pub tool_name_pattern: Option<&'static str>,
    /// The vendor, as a value of OpenTelemetry's `gen_ai.provider.name`.
    pub vendor: &'static str,
    /// The keys of [`AgentOptions`] that the agent's adapter can pass on. A config with another key of [`AgentOptions`]
    /// is an error (`reasoning_effort`: only a warning).
    pub supports: &'static [&'static str],
    /// Whether the CLI agent reports its cost. If not, its cost is known only if the price of its model is known.
    pub reports_cost: bool,
    /// The names of settings directories and files that the CLI agent reads in a project. They can run code, so they
    /// are protected in context paths.
    pub project_dirs: &'static [&'static str],
}

/// The CLI agents that Althing drives.
pub static AGENT_KINDS: &[AgentKind] = &[
    AgentKind {
        kind: "claude_code",
        adapter: "claude",
        title: "Claude Code",
        program: "claude",
        install_hint: "npm install -g @anthropic-ai/claude-code",
        tool_name_pattern: Some("mcp__{server}__{tool}"),
        vendor: "anthropic",
        supports: &AgentOptions::KEYS,
        reports_cost: true,
        project_dirs: &[".claude"],
    },
    AgentKind {
        kind: "codex",
        adapter: "codex",
        title: "Codex",
        program: "codex",
        install_hint: "npm install -g @openai/codex",
        tool_name_pattern: Some("{tool}"),
        vendor: "openai",
        supports: &["permission_mode", "system_prompt", "append_system_prompt", "reasoning_effort"],
        reports_cost: false,
        project_dirs: &[".codex"],
    },
    AgentKind {
        kind: "gemini_cli",
        adapter: "gemini",
        title: "Gemini CLI",
        program: "gemini",
        install_hint: "npm install -g @google/gemini-cli",
        tool_name_pattern: Some("mcp_{server}_{tool}"),
        vendor: "gcp.gemini",
        supports: &["permission_mode", "allowed_tools", "disallowed_tools", "system_prompt"],
        reports_cost: false,
        project_dirs: &[".gemini"],
    },
    AgentKind {
        kind: "opencode",
        adapter: "opencode",
        title: "OpenCode",
        program: "opencode",
        install_hint: "npm install -g opencode-ai",
        tool_name_pattern: Some("{server}_{tool}"),
        vendor: "opencode",
        supports: &AgentOptions::KEYS,
        reports_cost: true,
        project_dirs: &[".opencode", "opencode.json", "opencode.jsonc"],
    },
];

impl AgentKind {
    /// The CLI agent with this `backend.type`.
    pub fn of(kind: &str) -> Option<&'static Self> {
        AGENT_KINDS.iter().find(|row| row.kind == kind)
    }

    /// How the agent's model names a tool of an MCP server; None if the agent does not support MCP.
    pub fn tool_name(&self, server: &str, tool: &str) -> Option<String> {
        Some(self.tool_name_pattern?.replace("{server}", server).replace("{tool}", tool))
    }

    /// What to use instead of an unsupported key of [`AgentOptions`]; None if the key is supported.
    pub fn instead_of(&self, key: &str) -> Option<&'static str> {
        let supports = |key: &str| self.supports.contains(&key);
        match key {
            _ if supports(key) => None,
            "system_prompt" | "append_system_prompt" => Some("use the agent's own `system_message`"),
            "allowed_tools" | "disallowed_tools" if supports("permission_mode") => {
                Some("limit the agent with `permission_mode: plan` or `acceptEdits`")
            }
            AgentOptions::REASONING_EFFORT => Some("set the effort in the CLI agent's own settings"),
            _ => Some("the sandbox limits the CLI agent"),
        }
    }
}

/// The config's settings of a CLI agent's own permissions, tools, prompt and reasoning. They can narrow Althing's
/// limits (for example the sandbox), never widen them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentOptions {
    /// What the agent may do without asking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// If set, the agent gets only these of its own tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Tools of its own that the agent does not get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// Text that replaces the agent's own system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Text that is appended to the agent's own system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<String>,
    /// How much the agent's model reasons; the agent defines the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
}

impl AgentOptions {
    /// The config keys of these options.
    pub const KEYS: [&'static str; 6] = [
        "permission_mode",
        "allowed_tools",
        "disallowed_tools",
        "system_prompt",
        "append_system_prompt",
        Self::REASONING_EFFORT,
    ];

    /// The config key of [`Self::reasoning_effort`]. An agent that does not support it causes only a warning.
    pub const REASONING_EFFORT: &'static str = "reasoning_effort";

    /// Whether no option is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a CLI agent may do without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// The agent asks before it changes or runs anything; if nobody can answer, the action is denied.
    Default,
    /// The agent may edit files in its working directory without asking.
    AcceptEdits,
    /// The agent may do everything that its sandbox allows without asking.
    BypassPermissions,
    /// The agent may only read.
    Plan,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(kind: &str) -> Vec<(&'static str, &'static str)> {
        let row = AgentKind::of(kind).unwrap();
        AgentOptions::KEYS.iter().filter_map(|key| Some((*key, row.instead_of(key)?))).collect()
    }

    #[test]
    fn an_unsupported_option_has_an_alternative() {
        let bounded = "limit the agent with `permission_mode: plan` or `acceptEdits`";
        assert_eq!(refused("claude_code"), []);
        assert_eq!(refused("codex"), [("allowed_tools", bounded), ("disallowed_tools", bounded)]);
        let message = "use the agent's own `system_message`";
        let settings = "set the effort in the CLI agent's own settings";
        assert_eq!(
            refused("gemini_cli"),
            [("append_system_prompt", message), ("reasoning_effort", settings)]
        );
        assert_eq!(refused("opencode"), []);
        let new = AgentKind { supports: &[], ..AGENT_KINDS[0] };
        for key in AgentOptions::KEYS {
            let instead = new.instead_of(key).unwrap();
            assert!(!instead.contains("permission_mode"), "{key}: {instead}");
        }
    }

    #[test]
    fn every_supported_option_is_a_config_key_of_cli_agents() {
        for row in AGENT_KINDS {
            for key in row.supports {
                assert!(
                    AgentOptions::KEYS.contains(key),
                    "{}: `{key}` is not in `AgentOptions::KEYS`",
                    row.kind
                );
            }
        }
    }
}
