//! Plans: what is to be done, in which order, and how one sees that it is done.
//!
//! A plan comes from an agent's answer, is checked whole, and is kept under `<state>/plans/<id>/`: `plan.json` for
//! programs, `plan.md` for people, `progress.json` for how far it is. What is missing or wrong is said, never guessed at.

mod check;
mod parse;
mod plan;
mod show;
mod store;

pub use check::PlanProblem;
pub(crate) use check::problems;
pub use parse::plan_in;
pub(crate) use parse::task_of;
pub(crate) use plan::ready;
pub use plan::{MOST_TASKS, Plan, TaskProgress};
pub(crate) use show::list as show_list;
pub use store::{PlanLock, PlanStore, StoredPlan};

use althing_disk::DiskError;
use std::path::PathBuf;

/// Why there is no usable plan.
#[derive(Debug, thiserror::Error)]
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
    /// There is no such plan on disk.
    #[error("there is no plan `{which}` in {}", dir.display())]
    NotFound {
        /// What was asked for.
        which: String,
        /// Where plans are.
        dir: PathBuf,
    },
    /// There is no such task in it.
    #[error("there is no task `{task}` in the plan")]
    NoSuchTask {
        /// What was asked for.
        task: String,
    },
    /// Somebody else executes it.
    #[error("the plan `{id}` is being executed by another process{}", pid.map(|p| format!(" (pid {p})")).unwrap_or_default())]
    Locked {
        /// Which.
        id: String,
        /// By whom, if it said so.
        pid: Option<u32>,
    },
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl PlanError {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing | Self::Several { .. } => {
                "ask for the plan again; the answer must hold one JSON block {\"tasks\": [{\"id\", \"description\", \
                 \"depends_on\", \"verification\"}]}"
                    .to_owned()
            }
            Self::NotReadable { .. } | Self::Invalid { .. } => {
                "correct the plan, or ask for it again".to_owned()
            }
            Self::NotFound { .. } => "name a plan's id or directory, or `latest`".to_owned(),
            Self::Locked { .. } => "wait for the other Althing, or end it".to_owned(),
            Self::NoSuchTask { .. } => return None,
            Self::Disk(error) => return error.hint(),
        })
    }
}
