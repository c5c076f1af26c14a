//! What a plan is: its tasks, how it is found in an agent's answer, and what makes it valid. The only parser of plans,
//! so that what the user approves is what is stored. No I/O.

mod check;
mod parse;

pub use check::{PlanProblem, problems};
pub use parse::{find_plan, plan_from_json, task_from_json};

use althing_protocol::PlanTask;
use serde::{Deserialize, Serialize};

/// The maximum number of tasks in a plan.
pub const MOST_TASKS: usize = 200;

/// A plan: the tasks to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The tasks, in the order of the plan.
    pub tasks: Vec<PlanTask>,
}

impl Plan {
    /// Returns the plan if it is valid, otherwise all of its problems.
    pub fn checked(self) -> Result<Self, PlanError> {
        match self.problems() {
            problems if problems.is_empty() => Ok(self),
            problems => Err(PlanError::Invalid { problems }),
        }
    }

    /// All problems of the plan.
    pub fn problems(&self) -> Vec<PlanProblem> {
        problems(&self.tasks, MOST_TASKS)
    }

    /// The task with this id, if the plan has one.
    pub fn task(&self, id: &str) -> Option<&PlanTask> {
        self.tasks.iter().find(|task| task.id == id)
    }
}

/// Why an answer or a file contains no usable plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The answer contains no plan.
    #[error("there is no plan in the answer: a JSON object with `tasks` is missing")]
    Missing,
    /// The answer contains more than one plan.
    #[error("there are {count} different plans in the answer; there must be one")]
    Several {
        /// The number of different plans.
        count: usize,
    },
    /// The plan is not JSON, or the JSON has the wrong structure.
    #[error("the plan cannot be read: {why}")]
    NotReadable {
        /// What is wrong, and in which task.
        why: String,
    },
    /// The plan was read but is not valid.
    #[error("the plan is not valid: {}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid {
        /// All problems of the plan.
        problems: Vec<PlanProblem>,
    },
}

impl PlanError {
    /// What the user can do about the problem.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing | Self::Several { .. } => {
                "ask for the plan again; the answer must contain one JSON block {\"tasks\": [{\"id\", \"description\", \
                 \"depends_on\", \"verification\"}]}"
                    .to_owned()
            }
            Self::NotReadable { .. } | Self::Invalid { .. } => {
                "correct the plan, or ask for it again".to_owned()
            }
        }
    }
}
