//! The disk port: the file operations that `journal` and `workspace` need for session files. `RealDisk` implements it
//! with system calls; `SimDisk` simulates crashes and failures for tests.

use std::io;
use std::path::Path;
use std::time::SystemTime;

/// What is at a path. A path whose last component is a symbolic link is a `Link`, whatever the link points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Dir,
    /// A regular file.
    File {
        /// The file's length in bytes.
        len: u64,
    },
    /// A symbolic link.
    Link,
    /// Something else, with what it is: a named pipe, a socket or a device.
    Special(&'static str),
}

/// How a file is opened for appending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must not exist yet.
    New,
    /// The file must exist.
    Existing,
    /// The file is created if it is missing and truncated if it exists.
    Truncate,
}

/// The result of [`Disk::lock`].
pub enum Lock {
    /// The lock is held until this guard is dropped.
    Taken(Box<dyn DiskLock>),
    /// The lock is held elsewhere, usually by another process.
    Held {
        /// The process id of the holder, if the lock file contains one.
        pid: Option<u32>,
    },
}

/// A held lock. It is released when this value is dropped, or when the process ends.
pub trait DiskLock: Send {}

/// A file that is open for appending.
pub trait DiskFile: Send {
    /// Appends bytes and returns how many were appended, which may be fewer than `bytes` contains.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes the file's content and length durable.
    fn sync_data(&mut self) -> io::Result<()>;
    /// Truncates the file to `len` bytes.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
    /// The length of the file; `None` if the file was deleted while it was open.
    fn size(&self) -> io::Result<Option<u64>>;
}

/// A disk. Files are created with mode 0600 and directories with mode 0700.
pub trait Disk: Send + Sync {
    /// What is at a path; `None` if nothing is there.
    fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>>;
    /// The user who owns what is at a path, if that is another user and the files of others are not to be used. A disk
    /// without users has no such owner.
    fn foreign_owner(&self, _path: &Path) -> io::Result<Option<u32>> {
        Ok(None)
    }
    /// The names in a directory, in no particular order. Names that are not UTF-8 are left out.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// The names of the directories in a directory, like [`Disk::list`]; symbolic links are left out.
    fn list_dirs(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = self.list(path)?;
        names.retain(|name| matches!(self.kind(&path.join(name)), Ok(Some(EntryKind::Dir))));
        Ok(names)
    }
    /// When a file was last written; fails with `Unsupported` on a disk that does not record times.
    fn modified(&self, _path: &Path) -> io::Result<SystemTime> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Reads a whole file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Reads up to `len` bytes from offset `from`; fewer if the file ends earlier.
    fn read_range(&self, path: &Path, from: u64, len: u64) -> io::Result<Vec<u8>>;
    /// Opens a file for appending.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>>;
    /// Creates one directory; its parent must exist.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Renames a file or directory within its directory; an existing file of the new name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Deletes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Deletes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Deletes a directory with everything below it. Symbolic links are deleted, not followed; a missing entry is not
    /// an error.
    fn remove_tree(&self, path: &Path) -> io::Result<()> {
        let gone = |done: io::Result<()>| match done {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        };
        let names = match self.list(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            names => names?,
        };
        for name in names {
            let path = path.join(name);
            match self.kind(&path)? {
                Some(EntryKind::Dir) => self.remove_tree(&path)?,
                Some(EntryKind::File { .. } | EntryKind::Link | EntryKind::Special(_)) => {
                    gone(self.remove_file(&path))?
                }
                None => {}
            }
        }
        gone(self.remove_dir(path))
    }
    /// Makes the names in a directory durable (fsync of the directory).
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Tries to take the lock of a lock file. The real disk retries a busy lock for about 0.1 s before it returns
    /// [`Lock::Held`].
    fn lock(&self, path: &Path) -> io::Result<Lock>;
    /// Whether any process holds the lock of this lock file.
    fn is_locked(&self, path: &Path) -> io::Result<bool>;

    /// Whether all operations must run on the caller's thread. The simulated disk requires this, because it counts
    /// operations to find its crash points.
    fn single_threaded(&self) -> bool {
        false
    }
}
