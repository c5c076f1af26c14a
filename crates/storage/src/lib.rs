//! Keeps sessions on disk, durably; the only crate that touches files.
//!
//! A session is a directory with a lock, a log (`events.jsonl`, the truth) and a checkpoint (`session.json`, a
//! convenience). This crate must never acknowledge a fact that a power cut could take back, never write behind a
//! damaged line, and never decide what a session does next: it stores facts, it does not judge them.
//!
//! Beside the sessions it holds agents' hands: file tools under a policy, workspaces and what is kept of them, context
//! paths with what a run changed there and how to undo it. None of it may reach a file that the agent was not given.
#![expect(clippy::disallowed_methods, reason = "storage owns the file system")]

mod access;
mod checkpoint;
mod confine;
mod context;
mod disk;
mod encodings;
mod error;
mod exclusive;
mod files;
mod guidance;
mod keeper;
mod line;
mod log;
mod manifest;
mod mask;
mod mask_stream;
mod names;
mod place;
mod plans;
mod project;
mod reader;
mod real;
mod saver;
mod scan;
mod sessions;
mod sparse;
mod summary;
mod tasks;
mod tools;
mod workspace;
mod writer;

#[cfg(any(test, feature = "sim"))]
pub mod sim;

#[cfg(test)]
mod tests;

pub use access::{EXCLUDED_NAMES, FilePolicy, ReadOnlyWhy, Refusal};
pub use checkpoint::{CheckpointFold, rebuild_checkpoint};
pub use confine::{Below, ConfinedDir, read_below};
pub use context::{
    Content, ContextSnapshot, Reviewed, UndoError, UndoLimits, UndoReach, UndoReport, WRITES_FILE, footer,
    keep_list, last_changed, review, undo,
};
pub use disk::{Disk, DiskFile, DiskLock, Kind, Lock, OpenMode};
pub use error::StorageError;
pub use guidance::{Document, Memory, Notes, Skill, Skills, find_skills, project_instructions};
pub use keeper::Keeper;
pub use mask::Masker;
pub use mask_stream::MaskedStream;
pub use names::{new_session_id, session_dir, task_dir};
pub use place::{LocalPlace, PlaceOptions, aside};
pub use plans::{
    MOST_TASKS, Plan, PlanError, PlanLock, PlanProblem, PlanStore, StoredPlan, TaskProgress, plan_in,
};
pub use project::{
    Delivered, DescribedPath, PathKind, ProjectEntry, ProjectError, ProjectHost, ProjectLock,
    ProjectRegistry, ProjectRun, ProjectWorkspace,
};
pub use real::RealDisk;
pub use scan::{Damage, DamageKind};
pub use sessions::{Opened, ReadSession, SessionManager, open_existing_state, open_state};
pub use summary::{Pruned, SessionSummary};
pub use tasks::TaskHost;
pub use tools::{FileHost, ToolSet, is_reading_tool};
pub use workspace::{Kept, LeftOut, Workspace};
pub use writer::SessionWriter;
