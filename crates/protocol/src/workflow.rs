//! Workflows: ordered stages of tasks, as a workflow file describes them once names and paths are settled.

use crate::{AgentId, AgentOptions, AskKind, Millis, RunSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A whole workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkflowSpec {
    /// What it is called.
    pub name: String,
    /// What it is for, in the user's words; `{{goal}}` in prompts.
    pub goal: String,
    /// The stages, in order.
    pub stages: Vec<StageSpec>,
    /// The adapters that its file and config describe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adapters: Vec<CustomAdapter>,
    /// The file it came from.
    pub source: String,
    /// SHA-256 of that file as it was, to notice changes.
    pub digest: String,
}

/// One stage: its tasks run in parallel, and all of them end before the next stage begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageSpec {
    /// What it is called.
    pub name: String,
    /// Its tasks.
    pub tasks: Vec<StageTask>,
}

/// A task of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageTask {
    /// The user's name for it, unique in the workflow: letters, digits, `-` and `_`.
    pub id: String,
    /// What it is.
    #[serde(flatten)]
    pub body: StageBody,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    /// Whether the workflow goes on although it failed.
    #[serde(default)]
    pub continue_on_failure: bool,
}

/// What a task of a stage is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StageBody {
    /// A program: an agent's command line, or the user's own command.
    Program(Box<ProgramSpec>),
    /// A coordination run; its `task` and `context` may hold templates.
    Run(Box<RunSpec>),
}

/// How a program is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionMode {
    /// Over pipes: prompt in, output out, nobody asked.
    Headless,
    /// In a terminal that a person can attach to.
    Interactive,
}

/// What becomes of a program that was cut off, when its session is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInterrupt {
    /// It is started over.
    Restart,
    /// A person is asked.
    Ask,
    /// It counts as failed.
    Fail,
}

/// A program to be run for a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramSpec {
    /// The adapter that knows it: one of [`crate::AGENT_KINDS`], `command`, or one the user defined.
    pub adapter: String,
    /// The command itself, for the adapter `command`: program and arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// How it is driven.
    pub mode: ExecutionMode,
    /// What it is told. May hold templates until it is started.
    pub prompt: String,
    /// Where it works: absolute.
    pub cwd: String,
    /// More environment, as the user wrote it: `${VARIABLE}`s are filled in when it is started, and never recorded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The model it is to use; its own default where None.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What becomes of it after an interruption; None: its own conversation goes on if it has one, else it starts over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_interrupt: Option<OnInterrupt>,
    /// Whether it runs inside our walls; None: an agent with its bypass flag does, the user's own command does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<bool>,
    /// How long it may say nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Millis>,
    /// Whether the program asks a person for approvals over its structured protocol, rather than being given its
    /// bypass flag. Headless only.
    #[serde(default)]
    pub approvals: bool,
    /// The agent of the config that this is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// What the config says of its own permissions, tools and prompt.
    #[serde(default, skip_serializing_if = "AgentOptions::is_empty")]
    pub options: AgentOptions,
}

/// An agent's command line that the user describes, so that no code is needed to drive it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomAdapter {
    /// The name by which tasks call it.
    pub name: String,
    /// The program.
    pub program: String,
    /// Its arguments in a terminal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its arguments over pipes, where the prompt comes on stdin; None: it cannot be driven that way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headless_args: Option<Vec<String>>,
    /// Arguments behind the others that go on with a conversation, `{session}` standing for its id; None: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_args: Option<Vec<String>>,
    /// Pattern of its output whose first group is its conversation's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Pattern of its screen once it takes a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Patterns of its screen when it waits for a person, the first that matches telling for what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interactions: Vec<InteractionPattern>,
    /// More environment, as the user wrote it; see [`ProgramSpec::env`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// How a program's screen tells that it waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InteractionPattern {
    /// The pattern (of the `regex` crate), looked for in the screen's text.
    pub pattern: String,
    /// What it waits for.
    pub about: AskKind,
}
