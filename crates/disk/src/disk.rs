//! The few file operations that `journal` and `workspace` need, as a port: the real disk fills it, and so does the simulated one that
//! crashes and fails on purpose.
//!
//! Sessions may call the file system in no other way: what does not pass here cannot be tested against a crash. (Agents'
//! files go through `confine` of `workspace` instead: there the danger is a path, not a power cut.)

use std::io;
use std::path::Path;

/// What a path is. Links are not followed, so that nobody is led out of the state directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Dir,
    /// A file of so many bytes.
    File {
        /// How long it is.
        len: u64,
    },
    /// A link, a socket or another thing that Althing does not make.
    Other,
}

/// How a file is opened for writing at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// It must not be there yet.
    New,
    /// It must be there.
    Existing,
    /// Made if it is not there, emptied if it is.
    Truncate,
}

/// The outcome of asking for a lock.
pub enum Lock {
    /// It is ours until the guard goes away.
    Taken(Box<dyn DiskLock>),
    /// Another process has it.
    Held {
        /// Which one, if it said so.
        pid: Option<u32>,
    },
}

/// A lock that is held as long as this value lives, and no longer than its process.
pub trait DiskLock: Send {}

/// A file that is open for writing at its end.
pub trait DiskFile: Send {
    /// Writes at the end; may write less than it was given.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes the file's content and length durable.
    fn sync_data(&mut self) -> io::Result<()>;
    /// Cuts the file.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
    /// How long the file is; None once it has been deleted under our hands.
    fn size(&self) -> io::Result<Option<u64>>;
}

/// A disk. Files are made for their owner only (0600), directories too (0700).
pub trait Disk: Send + Sync {
    /// What is at a path; None for nothing.
    fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>>;
    /// The names in a directory, in no order.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// A whole file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// A part of a file; shorter where the file ends.
    fn read_range(&self, path: &Path, from: u64, len: u64) -> io::Result<Vec<u8>>;
    /// Opens a file for writing at its end.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>>;
    /// Makes one directory.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Gives a file or directory another name in the same directory; a file of that name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Deletes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Deletes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Asks for the lock that a file stands for, without waiting for whoever works under it.
    fn lock(&self, path: &Path) -> io::Result<Lock>;
    /// Whether somebody holds that lock.
    fn is_locked(&self, path: &Path) -> io::Result<bool>;

    /// Whether everything must happen in the caller's thread, so that operations come in one order. A simulated disk
    /// wants that: its crash points are counted in operations.
    fn single_threaded(&self) -> bool {
        false
    }
}
