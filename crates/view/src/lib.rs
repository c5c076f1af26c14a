//! One fold of a session for people, which every front end may draw from. It has no I/O and no clock.

mod board;
mod labels;
mod lines;

pub use board::{Board, Row};
pub use labels::{modes, tokens};
pub use lines::ProgressLines;
