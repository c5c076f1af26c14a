//! Text helpers that every crate may use. They know nothing of the domain and do no I/O.
//!
//! One place for each fact: which characters a terminal acts on, how near two names are, how a text is shortened, how
//! many tokens it is.

mod hex;
mod nearest;
mod numbers;
pub mod sanitize;
mod tokens;
mod truncate;

pub use hex::hex;
pub use nearest::{did_you_mean, edit_distance, misspelled, nearest};
pub use numbers::{count, short_number};
pub use tokens::estimate_tokens;
pub use truncate::{head_and_tail, truncate_bytes, truncate_chars};
