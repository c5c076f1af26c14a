//! Workflows: ordered stages of tasks, with all names and paths of the workflow file resolved.

use crate::{AgentId, AgentOptions, AskKind, Millis, RunSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkflowSpec {
    /// The workflow's name in the workflow file.
    pub name: String,
    /// The goal in the user's words; replaces `{{goal}}` in prompts.
    pub goal: String,
    /// The stages, in order.
    pub stages: Vec<StageSpec>,
    /// The custom adapters of the workflow file, which take precedence over those of the config.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adapters: Vec<CustomAdapter>,
    /// The path of the workflow file.
    pub source: String,
    /// SHA-256 of the workflow file, to detect later changes.
    pub digest: String,
    /// The limit on the cost of all tasks together, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
}

/// A stage: its tasks run in parallel, and all of them end before the next stage begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageSpec {
    /// The stage's name in the workflow file.
    pub name: String,
    /// The stage's tasks.
    pub tasks: Vec<StageTask>,
}

/// A task of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageTask {
    /// The task's id, unique within the workflow: letters, digits, `-` and `_`.
    pub id: String,
    /// What the task runs.
    #[serde(flatten)]
    pub body: StageBody,
    /// The time limit of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    /// Whether later stages run even if this task fails.
    #[serde(default)]
    pub continue_on_failure: bool,
}

/// What a task of a stage runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StageBody {
    /// A program: a CLI agent, or a command of the user.
    Program(Box<ProgramSpec>),
    /// A run; its `task` and `context` may contain templates.
    Run(Box<RunSpec>),
}

/// How a program is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionMode {
    /// The program runs over pipes, without a terminal.
    Headless,
    /// The program runs in a terminal that a person can attach to.
    Interactive,
}

/// What happens to an interrupted program when its session is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInterrupt {
    /// The program is started again, with a new conversation.
    Restart,
    /// A person decides whether the task is started again.
    Ask,
    /// The task fails.
    Fail,
}

/// A program that a task runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramSpec {
    /// The adapter that drives the program: of one of [`crate::AGENT_KINDS`], `command`, or a custom adapter.
    pub adapter: String,
    /// Program and arguments, for the adapter `command`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// How the program is driven.
    pub mode: ExecutionMode,
    /// The prompt. May contain templates until the task is created.
    pub prompt: String,
    /// The absolute path of the working directory.
    pub cwd: String,
    /// Additional environment variables. `${VARIABLE}` is expanded when the program starts; the expanded value is never
    /// recorded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The model to use; None for the program's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What happens after an interruption. None: the program is started again and resumes its conversation, if it has
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_interrupt: Option<OnInterrupt>,
    /// Whether the program runs in a sandbox. None: only a headless CLI agent without `approvals` does, if a sandbox
    /// works on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<bool>,
    /// How long a headless program may produce no output before it is ended; None: the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Millis>,
    /// Whether a headless CLI agent asks a person for approvals. If false, it acts freely in a sandbox; without one it
    /// may only read, unless the user accepted that agents run unconfined.
    #[serde(default)]
    pub approvals: bool,
    /// The agent of the config that the program works as, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// For a CLI agent: the config's settings of its own permissions, tools, prompt and reasoning.
    #[serde(default, skip_serializing_if = "AgentOptions::is_empty")]
    pub options: AgentOptions,
}

/// A CLI agent that the user describes in the config or the workflow file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomAdapter {
    /// The name by which tasks refer to the adapter.
    pub name: String,
    /// The executable.
    pub program: String,
    /// The arguments for an interactive task, in a terminal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The arguments for a headless task, which gets the prompt on stdin; None: the CLI agent cannot run headless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headless_args: Option<Vec<String>>,
    /// Additional arguments that resume a conversation; `{session}` stands for its id. None: conversations cannot be
    /// resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_args: Option<Vec<String>>,
    /// A regex for the CLI agent's output; its first group is the id of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// A regex that matches the screen once the CLI agent accepts a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Regexes that match the screen while the CLI agent waits for a person; the first match tells what for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interactions: Vec<InteractionPattern>,
    /// Additional environment variables; see [`ProgramSpec::env`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// How to recognize on a program's screen that the program waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InteractionPattern {
    /// A regex that is searched for in the screen's text.
    pub pattern: String,
    /// What the program waits for.
    pub about: AskKind,
}
