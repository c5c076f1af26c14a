//! Agents' files: file tools under a policy, workspaces and their snapshots, context paths with change tracking and
//! undo, plans, projects, task lists, notes and skills.
#![expect(clippy::disallowed_methods, reason = "agents' files are read and written here")]

mod access;
mod agent_files;
mod confine;
mod context;
mod digest;
mod exclusive;
mod guidance;
mod manifest;
mod plans;
mod project;
mod sparse;
mod tasks;
mod tools;
mod tree;
mod workspace;

#[cfg(test)]
mod tests;

pub use access::{FilePolicy, ReadOnlyReason, Refusal};
pub use agent_files::{AgentFiles, AgentFilesOptions, run_blocking};
pub use confine::{ConfinedDir, PathContents, read_confined_path};
pub use context::{
    BusyPath, ChangedFile, ContextSnapshot, FileContent, UndoCoverage, UndoError, UndoLimits, UndoReport,
    is_undone, is_unlisted, last_task_with_changes, review, undo, undo_unless_stopped, write_change_list,
};
pub use guidance::{Document, Memory, Notes, Skill, Skills, find_skills, project_instructions};
pub use plans::{PlanLock, PlanStore, PlanStoreError, StoredPlan, TaskProgress};
pub use project::{
    DeliveryReport, DescribedPath, PathKind, ProjectError, ProjectHost, ProjectLock, ProjectRegistry,
    ProjectRun, ProjectWorkspace, RegisteredProject,
};
pub use tasks::TaskHost;
pub use tools::{FileHost, ToolSet, is_read_only_tool};
pub use tree::list_tree;
pub use workspace::{SnapshotIssue, Workspace, WorkspaceSnapshot};
