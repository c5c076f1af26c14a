//! Plans: their tasks, their progress, and the runs that make and execute them.

use crate::{PlanRef, Timestamp};
use serde::{Deserialize, Serialize};

/// The plan that a run executes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRun {
    /// The stored plan.
    pub plan: PlanRef,
    /// The plan's tasks.
    pub tasks: Vec<PlanTask>,
    /// The tasks' progress when the run began; tasks that are not listed had not begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub progress: Vec<PlanProgress>,
    /// What the user added when approving the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additions: Option<String>,
}

/// The outcome of a planning run, from which its plan is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanDraft {
    /// The id of the run, as in its result.
    pub run_id: String,
    /// When the run began.
    pub started_at: Timestamp,
    /// The task that the plan is for.
    pub task: String,
    /// The final answer, which contains the plan.
    pub answer: String,
}

/// A task of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanTask {
    /// The task's name in the plan.
    pub id: String,
    /// What to do.
    pub description: String,
    /// The ids of the tasks that must be completed before this one.
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// How to check that the task is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<String>,
}

/// The status of a plan's task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Being worked on.
    InProgress,
    /// Done.
    #[serde(alias = "done")]
    Completed,
    /// Ended without success.
    Failed,
}

impl PlanStatus {
    /// All statuses with their names in tools and files.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("pending", Self::Pending),
        ("in_progress", Self::InProgress),
        ("completed", Self::Completed),
        ("failed", Self::Failed),
    ];
}

/// The progress of a plan's task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanProgress {
    /// The task's id in the plan.
    pub task: String,
    /// The task's status.
    pub status: PlanStatus,
    /// A remark: the result, or why the task failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
