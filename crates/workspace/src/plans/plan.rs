//! The plan itself, and how far it is.

use super::check;
use super::{PlanError, PlanProblem};
use althing_protocol::{PlanStatus, PlanTask};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most tasks that a plan may have.
pub const MOST_TASKS: usize = 200;

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The tasks, in the order in which they are told.
    pub tasks: Vec<PlanTask>,
}

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
pub(crate) type Stand = BTreeMap<String, TaskProgress>;

impl Plan {
    /// The plan, if it makes sense.
    pub fn checked(self) -> Result<Self, PlanError> {
        match self.problems() {
            problems if problems.is_empty() => Ok(self),
            problems => Err(PlanError::Invalid { problems }),
        }
    }

    /// Everything that is wrong with it.
    pub fn problems(&self) -> Vec<PlanProblem> {
        check::problems(&self.tasks, MOST_TASKS)
    }

    /// The task of that name.
    pub fn task(&self, id: &str) -> Option<&PlanTask> {
        self.tasks.iter().find(|task| task.id == id)
    }
}

/// The tasks that can begin now: not begun, and all that they need is done.
pub(crate) fn ready<'a>(tasks: &'a [PlanTask], stand: &Stand) -> Vec<&'a PlanTask> {
    let at = |id: &str| stand.get(id).map(|task| task.status).unwrap_or_default();
    let done = |id: &String| at(id) == PlanStatus::Completed;
    tasks
        .iter()
        .filter(|task| at(&task.id) == PlanStatus::Pending && task.depends_on.iter().all(done))
        .collect()
}
