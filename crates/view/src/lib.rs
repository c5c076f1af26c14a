//! The state of a session as people see it, folded from its events by the same code for all front ends. No I/O, no
//! clock.
#![allow(missing_docs, reason = "internal crate: names that explain themselves need no comment")]

mod changed_files;
pub mod conversation;
mod estimate;
pub mod labels;
mod lines;
mod mentions;
pub mod money;
pub mod report;
mod session;
pub mod session_list;
pub mod shown;

pub use changed_files::ChangedFiles;
pub use estimate::{cost_estimate, missing_sign_ins};
pub use lines::ProgressLines;
pub use session::{
    ConversationEntry, EntryBody, MemberView, Question, QueuedMessage, RunView, SessionView, StreamingText,
    TaskKind, TaskView, TimelineEntry, TimelineEvent, Worker,
};
