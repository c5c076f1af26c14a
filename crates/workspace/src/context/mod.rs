//! The run's context paths: their state before a run, what the run changed, and how to undo the changes.

mod attributes;
mod change_list;
mod contents;
mod edit_journal;
mod path_lock;
mod preimages;
mod review;
mod snapshot;
mod state;
mod undo;
mod undo_step;
mod write_tracker;

pub use change_list::write_change_list;
pub(crate) use edit_journal::EditJournal;
pub use path_lock::BusyPath;
pub(crate) use path_lock::PathLock;
#[cfg(test)]
pub(crate) use preimages::Preimages;
pub use preimages::{UndoCoverage, UndoLimits};
pub use review::{ChangedFile, FileContent, review};
pub use snapshot::ContextSnapshot;
#[cfg(test)]
pub(crate) use state::RecordedChange;
pub use undo::{
    UndoError, UndoReport, is_undone, is_unlisted, last_task_with_changes, undo, undo_unless_stopped,
};
pub(crate) use write_tracker::WriteTracker;
