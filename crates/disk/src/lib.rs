//! Disk access for sessions and agents' files: a port with a real and a simulated implementation, helpers for
//! whole files and directories, and the names used in a state directory.
//!
//! Only `journal` and `workspace` access the disk through this crate (`app` uses just the error type). The crate does
//! not know what the files contain.
#![expect(clippy::disallowed_methods, reason = "the real disk calls the file system")]

mod disk;
mod error;
pub mod files;
pub mod names;
mod read;
mod real;
mod remove;

#[cfg(feature = "sim")]
pub mod sim;

pub use disk::{Disk, DiskFile, DiskLock, EntryKind, Lock, OpenMode};
pub use error::{DiskError, DiskErrorKind};
pub use read::read_regular;
pub use real::RealDisk;
pub use remove::remove_tree_at;
