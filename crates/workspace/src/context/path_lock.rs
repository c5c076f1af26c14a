//! One at a time writes to a context path: two sessions that did so at once would each take the other's changes for
//! their own, in what they tell and in what they undo.
//!
//! The lock is the system's, on the directory or file itself: nothing is left behind, and a killed process holds none. A
//! path is held alone and everything above it is shared, so that `project` and `project/src` meet as well.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long another process may hold a path before we do without.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The same for another run of our own session, which is known to come to an end.
const MAX_WAIT_SAME_PROCESS: Duration = Duration::from_secs(600);
/// How long until it is tried again.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What this process holds.
static HELD_PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Another session writes to a context path.
#[derive(Debug, thiserror::Error)]
#[error("another session is writing to {}; it was not opened to this one", path.display())]
pub(crate) struct WrittenElsewhere {
    path: PathBuf,
}

/// The right to write to some paths, until it is dropped.
#[derive(Debug)]
pub(crate) struct PathLock {
    /// Held for what they lock.
    locks: Vec<File>,
    paths: Vec<PathBuf>,
}

impl PathLock {
    /// Waits for its turn on all of these paths at once.
    pub(crate) async fn acquire(paths: &[PathBuf]) -> Result<Self, WrittenElsewhere> {
        // Under their real names, each once; what is not there is written to by nobody.
        let mut paths: Vec<PathBuf> = paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
        paths.sort();
        paths.dedup();
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

    /// All of them or none; the error is the path at which another one was met.
    fn try_acquire(paths: &[PathBuf]) -> Result<Self, PathBuf> {
        let mut lock = Self { locks: Vec::new(), paths: Vec::new() };
        for path in paths {
            lock.lock(path, File::try_lock).map_err(|()| path.clone())?;
            // The paths of one run may lie within each other.
            for above in path.ancestors().skip(1).filter(|above| !paths.iter().any(|own| own == above)) {
                lock.lock(above, File::try_lock_shared).map_err(|()| path.clone())?;
            }
        }
        let mut held_paths = HELD_PATHS.lock().unwrap_or_else(PoisonError::into_inner);
        lock.paths = paths.to_vec();
        held_paths.extend(paths.iter().cloned());
        Ok(lock)
    }

    /// What cannot be opened or locked at all (some file systems know no locks) stands in nobody's way.
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

fn open(path: &Path) -> io::Result<File> {
    // Nothing but directories and files: to open a pipe would wait for its other end.
    let kind = std::fs::metadata(path)?;
    if kind.is_dir() || kind.is_file() { File::open(path) } else { Err(io::ErrorKind::Unsupported.into()) }
}

fn is_held_by_this_process(path: &Path) -> bool {
    let held_paths = HELD_PATHS.lock().unwrap_or_else(PoisonError::into_inner);
    held_paths.iter().any(|held| held.starts_with(path) || path.starts_with(held))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_writes_to_a_path_has_it_alone_with_all_that_is_below_and_above() {
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
        // Another run of ours is waited for.
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
