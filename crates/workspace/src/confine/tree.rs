//! Walks a whole tree through directory handles, with several threads, and returns the metadata of every entry. Links
//! are not followed. The queue contains paths instead of open handles, because a wide tree has more directories than
//! a process may have open files.

use super::{ConfinedDir, FileKind, FileStat};
use crate::exclusive::{self, Cancellation};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeNode {
    pub path: PathBuf,
    pub found: FileStat,
}

/// In bytes. A directory with a longer relative path is listed but not entered: the kernel limits the length of a
/// path.
pub(crate) const MAX_PATH: usize = 3_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkStep {
    /// Leaves the entry out, including everything below it.
    Skip,
    /// Lists the entry, and nothing below it.
    List,
    /// Lists the entry. If it is a directory, the walk also visits each entry in it.
    Enter,
}

pub(crate) struct TreeWalk<'a> {
    pub step: &'a (dyn Fn(&Path, &OsStr, &FileStat) -> WalkStep + Sync),
    /// Polled during the walk; true ends the walk early with an error.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Whether a directory that may not be listed is made accessible to its owner, this user. If that fails, the walk
    /// does not enter the directory. Without this option, such a directory is an error.
    pub unlock: bool,
}

struct Queue {
    waiting: Vec<PathBuf>,
    busy: usize,
    failed: Option<io::Error>,
}

/// The order of all file lists: a directory comes before its content. `Path`'s own comparison by components takes
/// longer than reading the metadata.
pub(crate) fn by_bytes(a: &Path, b: &Path) -> std::cmp::Ordering {
    a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes())
}

/// With more than eight threads, the file system is the bottleneck.
pub(crate) fn worker_count() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).min(8)
}

impl TreeWalk<'_> {
    /// The entries are sorted [`by_bytes`]; those that vanish during the walk are left out.
    pub(crate) fn run(&self, root: &ConfinedDir) -> io::Result<Vec<TreeNode>> {
        let queue = Mutex::new(Queue { waiting: vec![PathBuf::new()], busy: 0, failed: None });
        let cancelled = exclusive::cancellation();
        let changed = Condvar::new();
        let parts = std::thread::scope(|scope| {
            let spawn = |_| scope.spawn(|| self.work(root, &queue, &changed, &cancelled));
            let threads: Vec<_> = (0..worker_count()).map(spawn).collect();
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        if let Some(e) = queue.into_inner().unwrap_or_else(PoisonError::into_inner).failed {
            return Err(e);
        }
        let mut all = Vec::new();
        for part in parts {
            all.extend(part.map_err(|_| io::Error::other("a thread of the directory walk panicked"))?);
        }
        all.sort_unstable_by(|a: &TreeNode, b| by_bytes(&a.path, &b.path));
        Ok(all)
    }

    fn work(
        &self,
        root: &ConfinedDir,
        queue: &Mutex<Queue>,
        changed: &Condvar,
        cancelled: &Cancellation,
    ) -> Vec<TreeNode> {
        let mut nodes = Vec::new();
        loop {
            let mut state = queue.lock().unwrap_or_else(PoisonError::into_inner);
            let next = loop {
                if state.failed.is_some() {
                    return nodes;
                }
                if let Some(next) = state.waiting.pop() {
                    break next;
                }
                if state.busy == 0 {
                    return nodes;
                }
                state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            state.busy += 1;
            drop(state);
            let mut below = Vec::new();
            let done = if (self.stop)() || cancelled.is_set() {
                Err(exclusive::cancelled_error())
            } else {
                self.list_dir(root, &next, &mut nodes, &mut below)
            };
            let mut state = queue.lock().unwrap_or_else(PoisonError::into_inner);
            state.busy -= 1;
            state.waiting.append(&mut below);
            if let Err(e) = done {
                state.failed.get_or_insert(e);
            }
            changed.notify_all();
        }
    }

    fn list_dir(
        &self,
        root: &ConfinedDir,
        dir: &Path,
        nodes: &mut Vec<TreeNode>,
        below: &mut Vec<PathBuf>,
    ) -> io::Result<()> {
        let handle = match root.open_dir_path(dir) {
            // The directory was deleted or replaced during the walk.
            Err(e) if !dir.as_os_str().is_empty() && is_concurrent_change(&e) => return Ok(()),
            handle => handle?,
        };
        let names = match handle.names() {
            Err(e) if self.unlock && is_denied(&e) && !dir.as_os_str().is_empty() => {
                let Ok(names) = handle.unlock().and_then(|()| handle.names()) else { return Ok(()) };
                names
            }
            names => names?,
        };
        for name in names {
            let Some(found) = handle.stat(&name)? else { continue };
            let step = (self.step)(dir, &name, &found);
            if step == WalkStep::Skip {
                continue;
            }
            let path = dir.join(&name);
            if found.kind == FileKind::Dir && step == WalkStep::Enter && path.as_os_str().len() <= MAX_PATH {
                below.push(path.clone());
            }
            nodes.push(TreeNode { path, found });
        }
        Ok(())
    }
}

pub(crate) fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

pub(crate) fn is_concurrent_change(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error();
    [Errno::NOENT, Errno::NOTDIR, Errno::LOOP].iter().any(|e| code == Some(e.raw_os_error()))
        || error.kind() == io::ErrorKind::NotFound
}
