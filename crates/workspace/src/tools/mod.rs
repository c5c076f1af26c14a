//! The file tools of an agent: read, list, search, write, edit, patch and delete. Every path is resolved by `access`,
//! and a refusal is returned to the model as text.

mod apply;
mod args;
mod change;
mod file;
pub(crate) mod globs;
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
