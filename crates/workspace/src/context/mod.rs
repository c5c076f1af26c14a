//! The run's context paths: what was there, what a run changed, and how to put it back.

mod diary;
mod footer;
mod ledger;
mod preimages;
mod review;
mod snapshot;
mod state;
mod turn;
mod undo;

pub(crate) use diary::Diary;
pub use footer::{WRITES_FILE, footer, write_change_list};
pub(crate) use ledger::Ledger;
pub use preimages::{UndoLimits, UndoReach};
pub use review::{ChangedFile, FileContent, review};
pub use snapshot::ContextSnapshot;
pub(crate) use turn::Turn;
pub use undo::{UndoError, UndoReport, last_task_with_changes, undo};
