//! Disk access for sessions and agents' files: a port with a real and a simulated implementation, helpers for whole
//! files and directories, and the names used in a state directory.
#![expect(clippy::disallowed_methods, reason = "the real disk calls the file system")]

mod at;
mod dir_disk;
mod disk;
mod error;
pub mod files;
pub mod names;
mod owner;
mod read;
mod real;
mod real_path;
mod remove;
mod stamps;

#[cfg(feature = "sim")]
pub mod sim;

pub use dir_disk::DirDisk;
pub use disk::{Disk, DiskFile, DiskLock, EntryKind, Lock, OpenMode};
pub use error::{DiskError, DiskErrorKind};
pub use owner::{OpenToOthers, Owners, read_own, refuse_foreign};
pub use read::{append_own, open_file_or_dir, read_end, read_regular, read_start};
pub use real::RealDisk;
pub use real_path::{ReplacedPath, create_real_dir, real_path, refuse_replaced, with_real_base};
pub use remove::{make_dir_at, remove_tree_at};
pub use stamps::has_reliable_stamps;
