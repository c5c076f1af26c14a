//! One fold of a session for people, which every front end draws from. It has no I/O and no clock.

pub mod conversation;
pub mod labels;
mod lines;
mod session;

pub use lines::ProgressLines;
pub use session::{
    Body, Entry, Growing, MemberView, Moment, Question, RunView, SessionView, TaskKind, TaskView, What,
    Worker,
};
