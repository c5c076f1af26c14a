//! Walks a whole tree through handles, on all cores, and tells what every name in it stands for.
//!
//! Links are told, never followed. Directories wait in the queue by name, not as handles: a wide tree has more
//! directories than a process may hold open.

use super::{ConfinedDir, FileKind, FileStat};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

/// A name found in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeNode {
    /// Below the root of the walk.
    pub path: PathBuf,
    pub found: FileStat,
}

/// How to walk.
pub(crate) struct TreeWalk<'a> {
    /// Whether to leave out a name (and all below it, for a directory).
    pub skip: &'a (dyn Fn(&Path, &OsStr, &FileStat) -> bool + Sync),
    /// Asked now and then; true ends the walk early with an error.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

struct Queue {
    waiting: Vec<PathBuf>,
    busy: usize,
    failed: Option<io::Error>,
}

/// The order of all our lists: a directory before what is in it. Comparing paths part by part, as the standard library
/// does, takes longer than looking at the files.
pub(crate) fn by_bytes(a: &Path, b: &Path) -> std::cmp::Ordering {
    a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes())
}

/// How many threads work on a tree: beyond eight, the file system is what is waited for.
pub(crate) fn worker_count() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).min(8)
}

impl TreeWalk<'_> {
    /// Everything below `root`, sorted [`by_bytes`]. What vanishes meanwhile is left out.
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
            all.extend(part.map_err(|_| io::Error::other("a thread of the walk broke"))?);
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
            // Gone, or no directory any more: somebody works here while we look.
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

/// Whether an error means that the tree changed under our hands.
pub(crate) fn is_concurrent_change(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error();
    [Errno::NOENT, Errno::NOTDIR, Errno::LOOP].iter().any(|e| code == Some(e.raw_os_error()))
        || error.kind() == io::ErrorKind::NotFound
}
