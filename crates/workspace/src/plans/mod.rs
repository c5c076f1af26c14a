//! Plans: what is to be done, in which order, and how one sees that it is done.
//!
//! A plan comes from an agent's answer, is checked whole, and is kept under `<state>/plans/<id>/`: `plan.json` for
//! programs, `plan.md` for people, `progress.json` for how far it is. What is missing or wrong is said, never guessed at.

mod markdown;
mod progress;
mod store;

pub(crate) use markdown::render_tasks;
pub use progress::TaskProgress;
pub(crate) use progress::ready;
pub use store::{PlanLock, PlanStore, StoredPlan};

use althing_disk::DiskError;
use std::path::PathBuf;

/// Why there is no usable plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It cannot be read, or is not valid.
    #[error(transparent)]
    Plan(#[from] althing_plan::PlanError),
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
            Self::Plan(error) => error.hint(),
            Self::NotFound { .. } => "name a plan's id or directory, or `latest`".to_owned(),
            Self::Locked { .. } => "wait for the other Althing, or end it".to_owned(),
            Self::NoSuchTask { .. } => return None,
            Self::Disk(error) => return error.hint(),
        })
    }
}
