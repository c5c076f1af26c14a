//! Stores sessions on disk so that they survive a power cut: a directory with a lock, a log (`events.jsonl`, the source
//! of truth) and a checkpoint (`session.json`). Never acknowledges a fact that a power cut could lose. All file access
//! goes through the `Disk` port, so that every step can be tested against a crash.
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests look at the files and start processes"))]

mod checkpoint;
mod checkpointing;
mod encodings;
mod error;
mod event_json;
mod free_text;
mod line;
mod log;
mod mask;
mod mask_stream;
mod names;
mod reader;
mod saver;
mod scan;
mod search;
mod sessions;
mod state_dir_mapping;
mod store;
mod structure;
mod summary;
mod title;
mod visible;
mod writer;

#[cfg(test)]
mod tests;

pub use althing_disk::Owners;
pub use althing_disk::names::{new_session_id, session_dir, task_dir};
pub use checkpoint::{CheckpointFold, rebuild_checkpoint};
pub use error::SessionError;
pub use mask::{MASK, Masker};
pub use mask_stream::MaskingStream;
pub use scan::{Damage, DamageKind};
pub use sessions::{
    LOCK as SESSION_LOCK, OpenedSession, ReadSession, SessionManager, open_existing_state, open_state,
};
pub use structure::masked_place;
pub use summary::{MAX_LISTED_LOG, Pruned};
pub use writer::SessionWriter;
