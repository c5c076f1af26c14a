//! Keeps sessions on disk so that they survive a power cut.
//!
//! A session is a directory with a lock, a log (`events.jsonl`, the truth) and a checkpoint (`session.json`, a
//! convenience). This crate must never acknowledge a fact that a power cut could take back, never write behind a
//! damaged line, and never decide what a session does next: it stores facts, it does not judge them.
//!
//! It reaches files through the `Disk` port alone, so that every step can be tested against a crash.
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests look at the files and start processes"))]

mod checkpoint;
mod checkpointing;
mod encodings;
mod error;
mod event_json;
mod line;
mod log;
mod mask;
mod mask_stream;
mod names;
mod reader;
mod saver;
mod scan;
mod sessions;
mod state_dir_mapping;
mod store;
mod summary;
mod writer;

#[cfg(test)]
mod tests;

pub use althing_disk::names::{new_session_id, session_dir, task_dir};
pub use checkpoint::{CheckpointFold, rebuild_checkpoint};
pub use error::SessionError;
pub use mask::Masker;
pub use mask_stream::MaskedStream;
pub use scan::{Damage, DamageKind};
pub use sessions::{OpenedSession, ReadSession, SessionManager, open_existing_state, open_state};
pub use summary::Pruned;
pub use writer::SessionWriter;
