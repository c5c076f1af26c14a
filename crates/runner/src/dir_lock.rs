//! Locks on directories that a process uses (`flock` on the directory itself). If the process is killed, its locks are
//! free, so that the next process can tell a directory that was left behind from one in use.

use rustix::fs::{FlockOperation, Mode, OFlags, fstat, lstat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a process waits for the lock on a directory while another process removes its content; then it goes on
/// without the lock.
const CLEANING_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// The lock is free when this is dropped.
#[derive(Debug)]
pub(crate) struct DirLock {
    _opened: OwnedFd,
}

impl DirLock {
    /// Locks a directory that this process uses, made by `make`, which must not fail if the directory exists. `None`
    /// if it cannot be locked: the file system may have no locks, and a program that was started with the directory could
    /// hold a lock on it for ever.
    pub(crate) fn in_use(
        path: &Path,
        make: &mut dyn FnMut() -> std::io::Result<()>,
    ) -> std::io::Result<Option<Self>> {
        let start = Instant::now();
        loop {
            make()?;
            match Self::lock(path, FlockOperation::NonBlockingLockShared) {
                Ok(lock) => return Ok(Some(lock)),
                Err(Errno::WOULDBLOCK | Errno::NOENT) if start.elapsed() < CLEANING_TIMEOUT => {}
                Err(_) => return Ok(None),
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Locks a directory that no process uses, to remove what is in it.
    pub(crate) fn left_behind(path: &Path) -> Option<Self> {
        Self::lock(path, FlockOperation::NonBlockingLockExclusive).ok()
    }

    fn lock(path: &Path, how: FlockOperation) -> Result<Self, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let opened = rustix::fs::open(path, flags, Mode::empty())?;
        rustix::fs::flock(&opened, how)?;
        // Another process may have removed the directory before it was locked here.
        let (locked, found) = (fstat(&opened)?, lstat(path)?);
        let is_same = (locked.st_dev, locked.st_ino) == (found.st_dev, found.st_ino);
        is_same.then_some(Self { _opened: opened }).ok_or(Errno::NOENT)
    }
}
