//! The file tools of an agent: [`FileHost`] implements `read_file`, `list_directory`, `glob`, `search`,
//! `write_file`, `edit_file`, `apply_patch` and `delete_file`.
//!
//! Every path is resolved by `access`; nothing here opens a file by its path. A refusal is returned to the
//! model as text.

mod apply;
mod args;
mod change;
mod file;
mod hunks;
mod job;
mod list;
mod patch;
mod preview;
mod read;
mod search;
mod specs;
mod text;
mod walk;

pub(crate) use args::Args;
pub use file::{FileHost, ToolSet, is_read_only_tool};
pub(crate) use job::ChangeObserver;
