//! The conversation: what it is made of, what the user chose, and what `launch_run` takes.

use crate::{AgentId, AgentMode, ContextCompaction, ContextPath, Member, Modes, RunRules};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatSpec {
    /// The agent that is talked to; None: interactive mode is off, and each message is a run.
    pub agent: Option<InteractiveAgent>,
    /// Who runs are made of.
    pub team: TeamSpec,
    /// The project workspace's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// What the user had toggled when it began.
    #[serde(default)]
    pub modes: ModeChoice,
}

/// The agent that is talked to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InteractiveAgent {
    /// Who it is. Its id names its backend.
    pub member: Member,
    /// Whether a run needs the user's approval.
    pub require_approval: bool,
    /// The user's words at the end of its system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<String>,
    /// How a long conversation is shortened.
    pub compaction: ContextCompaction,
    /// Ask before the session costs more than this, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_micro_usd: Option<u64>,
}

/// The agents and rules that a conversation's runs are made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TeamSpec {
    /// The agents, in config order.
    pub members: Vec<Member>,
    /// The rules, before modes.
    pub rules: RunRules,
    /// The paths that every run is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_paths: Vec<ContextPath>,
}

/// What the user toggled. What is None was left alone: a default that the agent may set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModeChoice {
    /// One agent or several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_mode: Option<AgentMode>,
    /// Which agent, in single-agent mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Refine, or be quick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refinement: Option<bool>,
    /// Plan first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planning: Option<bool>,
}

/// What `launch_run` takes: the same for the interactive agent, for MCP clients and for approvals that were edited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchRun {
    /// What to accomplish.
    pub task: String,
    /// Background, constraints, earlier decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// One agent or several; several by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_mode: Option<AgentMode>,
    /// Which agents; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<AgentId>>,
    /// Refine and vote; by default with several agents, not with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refinement: Option<bool>,
    /// Plan without acting.
    #[serde(default)]
    pub planning_mode: bool,
    /// Then carry the plan out in a second run.
    #[serde(default)]
    pub execute_after_planning: bool,
    /// More paths that the run is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_paths: Vec<PathGrant>,
    /// More words for an agent's system prompt, by agent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agent_system_prompts: BTreeMap<AgentId, String>,
    /// Changes to the run's rules, by their config keys.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub coordination_overrides: serde_json::Map<String, serde_json::Value>,
}

/// A context path as `launch_run` takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathGrant {
    /// Where.
    pub path: String,
    /// `read` or `write`.
    #[serde(default)]
    pub permission: Permission,
}

/// What may be done with a context path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Read it.
    #[default]
    Read,
    /// Write to it, too.
    Write,
}

/// A run that waits for approval, exactly as it would be started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// What the agent asked for, with what the user toggled applied.
    pub launch: LaunchRun,
    /// Who takes part.
    pub members: Vec<Member>,
    /// The modes in force.
    pub modes: Modes,
    /// Which of them are the user's own choice: `agent_mode`, `refinement`, `planning`.
    pub chosen: Vec<String>,
    /// Context paths that the agents may only read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_read: Vec<String>,
    /// Paths that the presenter may write to.
    pub may_write: Vec<String>,
    /// What an approval must name: it holds for exactly this proposal, once.
    pub digest: String,
}

/// Where a conversation stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ChatState {
    /// It waits for the user.
    #[default]
    Idle,
    /// The agent answers.
    Chatting,
    /// A run waits for approval.
    AwaitingApproval,
    /// A run is under way.
    Running,
    /// The agent takes in a run's result.
    ProcessingResults,
    /// The agent takes in what a run had when it failed or ran out of time.
    ProcessingPartial,
    /// The agent takes in what a run had when it was cancelled.
    ProcessingCancelled,
}
