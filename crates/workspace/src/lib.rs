//! The files that agents work with: file tools under a policy, workspaces and what is kept of them, context paths with
//! what a run changed there and how to undo it, and plans, projects, task lists, notes and skills.
//!
//! Must never reach a file that the agent was not given.
#![expect(clippy::disallowed_methods, reason = "agents' files are read and written here")]

mod access;
mod confine;
mod context;
mod exclusive;
mod guidance;
mod manifest;
mod place;
mod plans;
mod project;
mod sparse;
mod tasks;
mod tools;
mod workspace;

#[cfg(test)]
mod tests;

pub use access::{FilePolicy, ReadOnlyWhy, Refusal};
pub use confine::{Below, ConfinedDir, read_below};
pub use context::{
    Content, ContextSnapshot, Reviewed, UndoError, UndoLimits, UndoReach, UndoReport, WRITES_FILE, footer,
    keep_list, last_changed, review, undo,
};
pub use guidance::{Document, Memory, Notes, Skill, Skills, find_skills, project_instructions};
pub use place::{LocalPlace, PlaceOptions, aside};
pub use plans::{PlanError, PlanLock, PlanStore, StoredPlan, TaskProgress};
pub use project::{
    Delivered, DescribedPath, PathKind, ProjectEntry, ProjectError, ProjectHost, ProjectLock,
    ProjectRegistry, ProjectRun, ProjectWorkspace,
};
pub use tasks::TaskHost;
pub use tools::{FileHost, ToolSet, is_reading_tool};
pub use workspace::{Kept, LeftOut, Workspace};
