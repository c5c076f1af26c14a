//! The progress of a plan's tasks.

use althing_protocol::{PlanStatus, PlanTask};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The progress of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskProgress {
    /// The status of the task.
    pub status: PlanStatus,
    /// The result of the task, or the reason for its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

pub(crate) type ProgressByTask = BTreeMap<String, TaskProgress>;

pub(crate) fn ready<'a>(tasks: &'a [PlanTask], progress_by_task: &ProgressByTask) -> Vec<&'a PlanTask> {
    let at = |id: &str| progress_by_task.get(id).map(|task| task.status).unwrap_or_default();
    let done = |id: &String| at(id) == PlanStatus::Completed;
    tasks
        .iter()
        .filter(|task| at(&task.id) == PlanStatus::Pending && task.depends_on.iter().all(done))
        .collect()
}
