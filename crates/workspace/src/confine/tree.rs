//! Walks a whole tree through directory handles, with several threads, and returns the metadata of every entry.
//!
//! Links are listed but not followed. The queue contains paths instead of open handles, because a wide tree has
//! more directories than a process may have open files.

use super::{ConfinedDir, FileKind, FileStat};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

/// An entry of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeNode {
    /// The path relative to the root of the walk.
    pub path: PathBuf,
    pub found: FileStat,
}

/// The options of a walk.
pub(crate) struct TreeWalk<'a> {
    /// Whether to skip an entry, including everything below it if it is a directory.
    pub skip: &'a (dyn Fn(&Path, &OsStr, &FileStat) -> bool + Sync),
    /// A check that is polled during the walk; true ends the walk early with an error.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

struct Queue {
    waiting: Vec<PathBuf>,
    busy: usize,
    failed: Option<io::Error>,
}

/// The order of all file lists: a directory comes before its content. `Path`'s own comparison by components
/// takes longer than reading the metadata.
pub(crate) fn by_bytes(a: &Path, b: &Path) -> std::cmp::Ordering {
    a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes())
}

/// The number of threads per walk: with more than eight, the file system is the bottleneck.
pub(crate) fn worker_count() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).min(8)
}

impl TreeWalk<'_> {
    /// Everything below `root`, sorted [`by_bytes`]. Entries that vanish during the walk are left out.
    pub(crate) fn run(&self, root: &ConfinedDir) -> io::Result<Vec<TreeNode>> {
        let queue = Mutex::new(Queue { waiting: vec![PathBuf::new()], busy: 0, failed: None });
        let changed = Condvar::new();
        let parts = std::thread::scope(|scope| {
            let spawn = |_| scope.spawn(|| self.work(root, &queue, &changed));
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

    fn work(&self, root: &ConfinedDir, queue: &Mutex<Queue>, changed: &Condvar) -> Vec<TreeNode> {
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
            let done = if (self.stop)() {
                Err(interrupted())
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
        for name in handle.names()? {
            let Some(found) = handle.stat(&name)? else { continue };
            if (self.skip)(dir, &name, &found) {
                continue;
            }
            let path = dir.join(&name);
            if found.kind == FileKind::Dir {
                below.push(path.clone());
            }
            nodes.push(TreeNode { path, found });
        }
        Ok(())
    }
}

fn interrupted() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "stopped")
}

/// Whether an error means that a file or directory has been deleted or replaced.
pub(crate) fn is_concurrent_change(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error();
    [Errno::NOENT, Errno::NOTDIR, Errno::LOOP].iter().any(|e| code == Some(e.raw_os_error()))
        || error.kind() == io::ErrorKind::NotFound
}
