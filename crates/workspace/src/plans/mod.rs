//! Plans on disk, in `<state>/plans/<id>/`: `plan.json` for programs, `plan.md` for people, `progress.json` for the
//! status of the plan's tasks. Invalid plans are rejected, never repaired by guessing.

mod markdown;
mod progress;
mod store;

pub(crate) use markdown::render_tasks;
pub use progress::TaskProgress;
pub(crate) use progress::ready;
pub use store::{PlanLock, PlanStore, StoredPlan};

use althing_disk::DiskError;
use std::path::PathBuf;

/// Why a plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanStoreError {
    /// The plan cannot be read or is not valid.
    #[error(transparent)]
    Plan(#[from] althing_plan::PlanError),
    /// There is no such plan on disk.
    #[error("there is no plan `{which}` in {}", dir.display())]
    NotFound {
        /// The requested plan.
        which: String,
        /// The directory of all plans.
        dir: PathBuf,
    },
    /// The plan has no such task.
    #[error("there is no task `{task}` in the plan")]
    NoSuchTask {
        /// The requested task.
        task: String,
    },
    /// Another process executes the plan.
    #[error("the plan `{id}` is being executed by another process{}", pid.map(|p| format!(" (pid {p})")).unwrap_or_default())]
    Locked {
        /// The id of the plan.
        id: String,
        /// The id of that process, if it is known.
        pid: Option<u32>,
    },
    /// A disk operation failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl PlanStoreError {
    /// What the user can do.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Plan(error) => error.hint(),
            Self::NotFound { .. } => "name a plan's id or directory, or `latest`".to_owned(),
            Self::Locked { .. } => "wait for the other Althing process, or end it".to_owned(),
            Self::NoSuchTask { .. } => return None,
            Self::Disk(error) => return error.hint(),
        })
    }
}
