//! The conversation: its spec, the user's mode choices, and the arguments of `launch_run`.

use crate::{
    AgentId, AgentMode, ContextCompaction, ContextPath, Exchange, KnownCosts, MAX_ROW_NAMES, Member, Modes,
    RunRules, SessionId, runs_code,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The spec of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatSpec {
    /// The chat agent; None if the config enables no `interactive_mode`, so that each message starts a run.
    pub agent: Option<InteractiveAgent>,
    /// The agents and rules of the conversation's runs.
    pub team: TeamSpec,
    /// The directory of the project that the conversation uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The user's mode choices when the conversation began.
    #[serde(default)]
    pub modes: ModeChoice,
    /// What was said in the session that the conversation continues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Exchange>,
    /// The session of which the conversation is a branch: the user edited one of its messages and sent it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_of: Option<SessionId>,
}

/// The chat agent: the agent that the user talks to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InteractiveAgent {
    /// The chat agent as a member; its id selects the backend.
    pub member: Member,
    /// Whether a run needs the user's approval.
    pub require_approval: bool,
    /// Whether a person can be asked to approve a run that needs more access than runs have without approval.
    #[serde(default)]
    pub can_ask: bool,
    /// The user's text at the end of the chat agent's system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<String>,
    /// When and how a long conversation is compacted.
    pub compaction: ContextCompaction,
    /// The budget in millionths of a US dollar. The user is asked before the conversation and its runs exceed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_micro_usd: Option<u64>,
    /// How much the chat agent may do for one message.
    #[serde(default = "ChatLimits::of_first_release")]
    pub limits: ChatLimits,
}

/// How much the chat agent may do for one message of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatLimits {
    /// The number of model calls after which the agent's turn ends.
    pub model_calls: u32,
    /// The number of tool calls after which further calls are refused; None (in logs of 0.1): unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u32>,
}

impl ChatLimits {
    fn of_first_release() -> Self {
        Self { model_calls: 200, tool_calls: None }
    }
}

impl Default for ChatLimits {
    fn default() -> Self {
        Self { model_calls: 200, tool_calls: Some(2000) }
    }
}

/// The agents and rules of a conversation's runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TeamSpec {
    /// The agents, in config order.
    pub members: Vec<Member>,
    /// The rules, before modes are applied.
    pub rules: RunRules,
    /// The context paths of every run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_paths: Vec<ContextPath>,
    /// The directories in which a run may read paths that `launch_run` adds without a person's approval: the working
    /// directory and the opened project, but never the home directory or a directory that contains it. Files that often
    /// contain secrets need approval even there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readable_dirs: Vec<String>,
    /// What is known about the costs of the runs, for estimates. None in logs of 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Box<KnownCosts>>,
    /// The agents to which the user seems not to be signed in, each with how to sign in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_signed_in: BTreeMap<AgentId, String>,
}

/// The modes that the user chose. Where the user made no choice (None), the chat agent may set the mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModeChoice {
    /// Whether one agent or several work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_mode: Option<AgentMode>,
    /// The agent that works alone if `agent_mode` is `Single`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Whether agents may improve their answers after seeing the others'; false (`--quick`): each agent answers once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refinement: Option<bool>,
    /// Whether agents only plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planning: Option<bool>,
}

/// The arguments of `launch_run`; also used for runs of MCP clients and workflows, and for approvals in which the user
/// edited the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchRun {
    /// What the run should accomplish.
    pub task: String,
    /// Background: constraints, earlier decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Whether one agent or several work; by default several, unless the team has only one agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_mode: Option<AgentMode>,
    /// The agents that take part; by default all or, if only one agent works, the one that the user selected, else the
    /// first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<AgentId>>,
    /// Whether agents may improve their answers after seeing the others'; by default yes in mode `multi` and no
    /// in mode `single`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refinement: Option<bool>,
    /// Whether agents only plan and change nothing.
    #[serde(default)]
    pub planning_mode: bool,
    /// Whether a second run executes the plan of this planning run.
    #[serde(default)]
    pub execute_after_planning: bool,
    /// Additional context paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_paths: Vec<PathGrant>,
    /// Additional system prompt text per agent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agent_system_prompts: BTreeMap<AgentId, String>,
    /// Changes to the run's rules, by config key. The user's time limits can be shortened but not extended.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub coordination_overrides: serde_json::Map<String, serde_json::Value>,
}

/// A context path in the arguments of `launch_run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathGrant {
    /// The absolute path.
    pub path: String,
    /// The access: `read` or `write`.
    #[serde(default)]
    pub permission: Permission,
}

/// The access to a context path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Read only.
    #[default]
    Read,
    /// Read and write.
    Write,
}

/// A run that awaits approval, exactly as it would be started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// The requested launch, with the user's mode choices applied and all defaults filled in.
    pub launch: LaunchRun,
    /// The agents that take part.
    pub members: Vec<Member>,
    /// The modes in force.
    pub modes: Modes,
    /// The names of the modes that the user chose, from `agent_mode`, `refinement` and `planning`.
    pub chosen: Vec<String>,
    /// The context paths that are read-only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_read: Vec<String>,
    /// The context paths that may be written to, by the run or by the run that executes its plan.
    pub may_write: Vec<String>,
    /// What is known about the cost of the run. None in logs of 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Box<KnownCosts>>,
    /// The agents of the team to which the user seems not to be signed in, each with how to sign in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_signed_in: BTreeMap<AgentId, String>,
    /// SHA-256 of the other fields. An approval must contain this digest, so that the approval is valid only for this
    /// proposal.
    pub digest: String,
}

impl Proposal {
    /// The context paths that may be written to, as text for people. Paths that run code later, except ordinary project
    /// files, have a note and come first.
    pub fn writes_text(&self) -> String {
        self.writes().join(", ")
    }

    /// The parts of [`Self::writes_text`], one for each path.
    pub fn writes(&self) -> Vec<String> {
        let described = |path: &String| {
            // Only the last names of the path are compared: the directories above are not written to.
            let names: Vec<&OsStr> = Path::new(path).iter().collect();
            let end: PathBuf = names.iter().rev().take(MAX_ROW_NAMES).rev().collect();
            let row = runs_code(&end).filter(|row| !row.ordinary);
            (
                row.is_none(),
                row.map_or_else(|| path.clone(), |row| format!("{path} (runs code when {})", row.when)),
            )
        };
        let mut writes: Vec<(bool, String)> = self.may_write.iter().map(described).collect();
        writes.sort_by_key(|(is_ordinary, _)| *is_ordinary);
        writes.into_iter().map(|(_, text)| text).collect()
    }
}

/// The state of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ChatState {
    /// The conversation waits for the user.
    #[default]
    Idle,
    /// The chat agent works on a reply, or a turn has just begun.
    Chatting,
    /// A run or a plan awaits approval.
    AwaitingApproval,
    /// A run is in progress.
    Running,
    /// The chat agent processes a run's result.
    ProcessingResults,
    /// The chat agent processes the partial result of a run that failed or reached a limit.
    ProcessingPartial,
    /// The chat agent processes the partial result of a cancelled run.
    ProcessingCancelled,
}
