//! How far a plan is.

use althing_protocol::{PlanStatus, PlanTask};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How far a task is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskProgress {
    /// Where it stands.
    pub status: PlanStatus,
    /// What there is to say about it: a result, a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// How far all tasks are; those that are not named have not begun.
pub(crate) type ProgressByTask = BTreeMap<String, TaskProgress>;

/// The tasks that can begin now: not begun, and all that they need is done.
pub(crate) fn ready<'a>(tasks: &'a [PlanTask], progress_by_task: &ProgressByTask) -> Vec<&'a PlanTask> {
    let at = |id: &str| progress_by_task.get(id).map(|task| task.status).unwrap_or_default();
    let done = |id: &String| at(id) == PlanStatus::Completed;
    tasks
        .iter()
        .filter(|task| at(&task.id) == PlanStatus::Pending && task.depends_on.iter().all(done))
        .collect()
}
