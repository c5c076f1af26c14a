//! Text helpers for all crates: sanitizing for a terminal, truncating, nearest names, hashing, token estimates. They
//! know nothing about the domain and do no I/O.

mod comparable;
mod hash;
mod hex;
mod markers;
mod names;
mod nearest;
mod numbers;
mod rows;
pub mod sanitize;
mod shell;
mod tokens;
mod truncate;

pub use comparable::comparable;
pub use hash::{fnv1a, pseudo_random, unused_token};
pub use hex::hex;
pub use markers::{FoundMarker, Markers, closed_marker, next_marker, text_with_markers};
pub use names::quoted_name;
pub use nearest::{did_you_mean, edit_distance, misspelled, nearest};
pub use numbers::{count, short_number};
pub use rows::{ROW_MARK, marked_rows};
pub use shell::shell_word;
pub use tokens::estimate_tokens;
pub use truncate::{head_and_tail, truncate_bytes, truncate_chars};
