//! What a plan is: its tasks, how it is found in an agent's answer, and what makes it valid. No I/O.
//!
//! The only parser: the engine shows a plan to the user with it and the workspace stores a plan with it, so that what is
//! approved is what is stored. What is missing or wrong is reported, never guessed.

mod check;
mod parse;

pub use check::{PlanProblem, problems};
pub use parse::{find_plan, plan_from_json, task_from_json};

use althing_protocol::PlanTask;
use serde::{Deserialize, Serialize};

/// The most tasks that a plan may have.
pub const MOST_TASKS: usize = 200;

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The tasks, in the order in which they are told.
    pub tasks: Vec<PlanTask>,
}

impl Plan {
    /// The plan, if it is valid.
    pub fn checked(self) -> Result<Self, PlanError> {
        match self.problems() {
            problems if problems.is_empty() => Ok(self),
            problems => Err(PlanError::Invalid { problems }),
        }
    }

    /// Everything that is wrong with it.
    pub fn problems(&self) -> Vec<PlanProblem> {
        problems(&self.tasks, MOST_TASKS)
    }

    /// The task of that name.
    pub fn task(&self, id: &str) -> Option<&PlanTask> {
        self.tasks.iter().find(|task| task.id == id)
    }
}

/// Why there is no usable plan in an answer or a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The answer holds no plan.
    #[error("there is no plan in the answer: a JSON object with `tasks` is missing")]
    Missing,
    /// The answer holds more than one.
    #[error("there are {count} different plans in the answer; there must be one")]
    Several {
        /// How many.
        count: usize,
    },
    /// It is not JSON, or not of the right form.
    #[error("the plan cannot be read: {why}")]
    NotReadable {
        /// Where and what.
        why: String,
    },
    /// It makes no sense.
    #[error("the plan is not valid: {}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid {
        /// Everything that is wrong with it.
        problems: Vec<PlanProblem>,
    },
}

impl PlanError {
    /// What a person can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing | Self::Several { .. } => {
                "ask for the plan again; the answer must hold one JSON block {\"tasks\": [{\"id\", \"description\", \
                 \"depends_on\", \"verification\"}]}"
                    .to_owned()
            }
            Self::NotReadable { .. } | Self::Invalid { .. } => {
                "correct the plan, or ask for it again".to_owned()
            }
        }
    }
}
