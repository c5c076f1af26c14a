//! What a run may be besides one that a person asked for: the errand of an agent, or the execution of a plan.

use crate::{PlanRef, TaskId, Timestamp};
use serde::{Deserialize, Serialize};

/// Whose errand a run is: an agent of another run asked for it with `spawn_subagents`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentOf {
    /// The work of the agent that asked.
    pub work: TaskId,
    /// The attempt in which it did; the first one, where interruptions made it several.
    pub attempt: u32,
    /// After how many turns of it.
    pub step: usize,
    /// The call, by the model's own id for it.
    pub call: String,
    /// Which of the call's tasks, from 1.
    pub nth: u32,
    /// Whether the agent goes on meanwhile.
    #[serde(default)]
    pub background: bool,
    /// The workspace of the agent that asked: to be read, not to be written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

/// A run that carries out a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRun {
    /// Which plan.
    pub plan: PlanRef,
    /// Its tasks.
    pub tasks: Vec<PlanTask>,
    /// How far they were when the run began: those that are not named had not begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub progress: Vec<PlanProgress>,
    /// What was said when it was approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additions: Option<String>,
}

/// What a planning run came to, for the one who stores its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanDraft {
    /// The run, as results name it.
    pub run_id: String,
    /// When the run began.
    pub started_at: Timestamp,
    /// What the plan is for.
    pub task: String,
    /// The answer that holds the plan.
    pub answer: String,
}

/// A task of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanTask {
    /// Its name in the plan.
    pub id: String,
    /// What to do.
    pub description: String,
    /// The tasks that must be done before it.
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// How one sees that it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<String>,
}

/// Where a task of a plan stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// Nobody has begun it.
    #[default]
    Pending,
    /// Somebody works on it.
    InProgress,
    /// It is done.
    #[serde(alias = "done")]
    Completed,
    /// It could not be done.
    Failed,
}

impl PlanStatus {
    /// All of them, with the words that tools and files use.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("pending", Self::Pending),
        ("in_progress", Self::InProgress),
        ("completed", Self::Completed),
        ("failed", Self::Failed),
    ];
}

/// How far a task of a plan is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanProgress {
    /// Which task.
    pub task: String,
    /// Where it stands.
    pub status: PlanStatus,
    /// What there is to say about it: a result, a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
