//! Locks context paths so that only one session writes to them at a time; otherwise, two sessions would report and
//! undo each other's changes as their own. The lock is a `flock` on the path itself (exclusive) and on its ancestors
//! (shared), so nothing is left behind and a killed process holds no lock.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long to wait for a path that another process holds.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// How long to wait for a path that another run of this process holds.
const MAX_WAIT_SAME_PROCESS: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long an undo waits: longer than a writer that waits for another path holds a lock in between, and longer than a
/// program that is being started inherits the lock of a run that has just ended.
const MAX_WAIT_OF_UNDO: Duration = Duration::from_secs(1);

static HELD_PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

#[derive(Debug, thiserror::Error)]
#[error("another session is writing to {}; this session may not write there", path.display())]
pub(crate) struct WrittenElsewhere {
    path: PathBuf,
}

/// Why an undo is refused.
#[derive(Debug, thiserror::Error)]
#[error("nothing was undone, because another session is writing to {}; wait until it ends", path.display())]
pub struct BusyPath {
    /// The path that the other session, or another run of this session, may write to.
    pub path: PathBuf,
}

#[derive(Debug)]
pub(crate) struct PathLock {
    locks: Vec<File>,
    paths: Vec<PathBuf>,
}

impl PathLock {
    /// Waits while another process or another run of this process holds one of the paths; fails if that takes too
    /// long.
    pub(crate) async fn acquire(paths: &[PathBuf]) -> Result<Self, WrittenElsewhere> {
        let paths = resolved(paths);
        let mut waited = Duration::ZERO;
        loop {
            let blocked = match Self::try_acquire(&paths) {
                Ok(lock) => return Ok(lock),
                Err(blocked) => blocked,
            };
            if waited >= if is_held_by_this_process(&blocked) { MAX_WAIT_SAME_PROCESS } else { MAX_WAIT } {
                return Err(WrittenElsewhere { path: blocked });
            }
            waited += POLL_INTERVAL;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Like [`Self::acquire`], for an undo, which runs on a thread of its own and does not wait for a run to end.
    pub(super) fn acquire_for_undo(paths: &[PathBuf]) -> Result<Self, BusyPath> {
        let paths = resolved(paths);
        let mut waited = Duration::ZERO;
        loop {
            let path = match Self::try_acquire(&paths) {
                Ok(lock) => return Ok(lock),
                Err(blocked) => blocked,
            };
            if waited >= MAX_WAIT_OF_UNDO {
                return Err(BusyPath { path });
            }
            waited += POLL_INTERVAL;
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Takes all locks or none; the error is the path that is held elsewhere.
    fn try_acquire(paths: &[PathBuf]) -> Result<Self, PathBuf> {
        let mut lock = Self { locks: Vec::new(), paths: Vec::new() };
        for path in paths {
            lock.lock(path, File::try_lock).map_err(|()| path.clone())?;
            // An ancestor that is itself one of `paths` is locked exclusively.
            for above in path.ancestors().skip(1).filter(|above| !paths.iter().any(|own| own == above)) {
                lock.lock(above, File::try_lock_shared).map_err(|()| path.clone())?;
            }
        }
        let mut held_paths = HELD_PATHS.lock().unwrap_or_else(PoisonError::into_inner);
        lock.paths = paths.to_vec();
        held_paths.extend(paths.iter().cloned());
        Ok(lock)
    }

    /// Fails only if somebody else holds the lock. A path that cannot be opened or locked (some file systems do not
    /// support locks) does not prevent writing.
    fn lock(&mut self, path: &Path, how: fn(&File) -> Result<(), TryLockError>) -> Result<(), ()> {
        let Ok(file) = open(path) else { return Ok(()) };
        match how(&file) {
            Ok(()) => self.locks.push(file),
            Err(TryLockError::WouldBlock) => return Err(()),
            Err(TryLockError::Error(_)) => {}
        }
        Ok(())
    }
}

impl Drop for PathLock {
    fn drop(&mut self) {
        let mut held_paths = HELD_PATHS.lock().unwrap_or_else(PoisonError::into_inner);
        for path in &self.paths {
            if let Some(at) = held_paths.iter().position(|one| one == path) {
                held_paths.swap_remove(at);
            }
        }
    }
}

/// A missing path needs no lock.
fn resolved(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
    paths.sort();
    paths.dedup();
    paths
}

fn open(path: &Path) -> io::Result<File> {
    althing_disk::open_file_or_dir(path)
}

fn is_held_by_this_process(path: &Path) -> bool {
    let held_paths = HELD_PATHS.lock().unwrap_or_else(PoisonError::into_inner);
    held_paths.iter().any(|held| held.starts_with(path) || path.starts_with(held))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lock_excludes_other_writers_of_the_path_its_ancestors_and_descendants() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("project/src")).unwrap();
        std::fs::create_dir_all(at("other")).unwrap();
        let held =
            PathLock::acquire(&[at("project"), at("project/src"), at("project/../project")]).await.unwrap();
        for blocked in ["project", "project/src", ""] {
            let path = at(blocked).canonicalize().unwrap();
            assert_eq!(PathLock::try_acquire(std::slice::from_ref(&path)).unwrap_err(), path, "{blocked}");
            assert!(is_held_by_this_process(&path), "{blocked}");
        }
        drop(PathLock::acquire(&[at("other"), at("missing")]).await.unwrap());
        let (path, waiting) = (at("project/src"), std::sync::Arc::new(tokio::sync::Notify::new()));
        let begun = std::sync::Arc::clone(&waiting);
        let next = tokio::spawn(async move {
            begun.notify_one();
            PathLock::acquire(&[path]).await
        });
        waiting.notified().await;
        assert!(!next.is_finished());
        drop(held);
        let next = next.await.unwrap().unwrap();
        assert!(PathLock::try_acquire(&[at("project").canonicalize().unwrap()]).is_err());
        drop(next);
        assert!(!is_held_by_this_process(&at("project").canonicalize().unwrap()));
    }
}
