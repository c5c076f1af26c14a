//! Limits what a program leaves in the directories that are kept after its end: the program may be ended because it
//! filled such a directory.

use super::{fd_path, open_dir};
use althing_disk::remove_tree_at;
use rustix::fs::{AtFlags, FileType, statat};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Deeper directories are left out, because each level keeps a directory open.
const MAX_DEPTH: usize = 64;
/// The unit of `st_blocks`, in bytes.
const BLOCK: u64 = 512;

#[derive(Debug)]
pub(super) struct KeptLimit {
    roots: Vec<PathBuf>,
    /// Files that changed earlier were written by another program; in seconds and nanoseconds.
    since: (i64, i64),
    /// The disk limit of the program, in bytes.
    limit: u64,
}

struct KeptFile {
    root: usize,
    path: PathBuf,
    size: u64,
}

impl KeptLimit {
    pub(super) fn new(roots: Vec<PathBuf>, limit: u64) -> Self {
        // File systems use this clock for the times of files.
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Self { roots, since: (now.tv_sec, now.tv_nsec), limit }
    }

    /// Removes the largest of the files that changed, until the others are within the limit.
    pub(super) fn enforce(&self) {
        let opened: Vec<Option<OwnedFd>> = self.roots.iter().map(|root| open_dir(root).ok()).collect();
        let mut files = Vec::new();
        for (root, dir) in opened.iter().enumerate() {
            if let Some(dir) = dir {
                self.list(root, dir, Path::new(""), MAX_DEPTH, &mut files);
            }
        }
        let mut total = files.iter().map(|file| file.size).fold(0, u64::saturating_add);
        files.sort_unstable_by_key(|file| std::cmp::Reverse(file.size));
        for file in &files {
            if total <= self.limit {
                break;
            }
            let Some(Some(root)) = opened.get(file.root) else { continue };
            match remove_below(root, &file.path) {
                Ok(()) => total = total.saturating_sub(file.size),
                Err(error) => tracing::warn!(file = %file.path.display(), %error, "a large file remains"),
            }
        }
    }

    fn list(&self, root: usize, dir: &OwnedFd, below: &Path, depth: usize, files: &mut Vec<KeptFile>) {
        for entry in std::fs::read_dir(fd_path(dir)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Ok(found) = statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let path = below.join(&name);
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory if depth > 0 => {
                    if let Ok(inner) = open_dir(&fd_path(dir).join(&name)) {
                        self.list(root, &inner, &path, depth - 1, files);
                    }
                }
                FileType::RegularFile
                    if (found.st_ctime, found.st_ctime_nsec.cast_signed()) >= self.since =>
                {
                    let size = found.st_blocks.cast_unsigned().saturating_mul(BLOCK);
                    files.push(KeptFile { root, path, size });
                }
                _ => {}
            }
        }
    }
}

/// Follows no symlink below `root`, because another program may be replacing directories.
fn remove_below(root: &OwnedFd, path: &Path) -> io::Result<()> {
    let mut dir = root.try_clone()?;
    for name in path.parent().into_iter().flat_map(Path::components) {
        dir = open_dir(&fd_path(&dir).join(name))?;
    }
    remove_tree_at(dir.as_fd(), path.file_name().ok_or(io::ErrorKind::InvalidInput)?)
}
