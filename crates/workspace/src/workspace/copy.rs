//! Copies a directory tree with several threads for snapshots, views and imports of a workspace. No link is followed.

use crate::confine::{ConfinedDir, FileKind, FileStat, TreeNode, is_concurrent_change, worker_count};
use crate::exclusive;
use crate::sparse::{CopyBudget, CopyLimits, HoleDetection};
use rustix::fs::{Timespec, Timestamps};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const CHUNK: usize = 128;
const TRIES: u32 = 3;

/// Copies files. Remembers whether the file system supports reflinks, and how much data may still be copied.
#[derive(Default)]
pub(crate) struct Copier {
    no_reflink: AtomicBool,
    holes: HoleDetection,
    budget: CopyBudget,
}

pub(crate) enum CopyResult {
    Stable(FileStat),
    /// The file changed during every attempt, so the copy may mix several states.
    Changing(FileStat),
}

impl Copier {
    pub(crate) fn with_limits(limits: CopyLimits) -> Self {
        Self { budget: CopyBudget::new(limits), ..Self::default() }
    }

    /// How many bytes of data were copied.
    pub(crate) fn spent(&self) -> u64 {
        self.budget.spent()
    }

    #[cfg(test)]
    pub(crate) fn without_holes(limits: CopyLimits) -> Self {
        let no_reflink = AtomicBool::new(true);
        Self { no_reflink, holes: HoleDetection::Unsupported, budget: CopyBudget::new(limits) }
    }

    /// The copy is read-only. `None` if the file was deleted or is no longer a regular file.
    pub(crate) fn copy(
        &self,
        from: &ConfinedDir,
        name: &OsStr,
        to: &ConfinedDir,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Option<CopyResult>> {
        let mut tried = 0;
        loop {
            tried += 1;
            let (mut source, before) = match from.open_listed(name) {
                Err(e) if is_concurrent_change(&e) || e.kind() == io::ErrorKind::InvalidInput => {
                    return Ok(None);
                }
                opened => opened?,
            };
            let mode = 0o400 | (before.mode & 0o100);
            let mut copy = to.create(name, mode)?;
            if let Err(error) = self.copy_content(&mut source, &mut copy, before.stamp.size, buffer) {
                // A partial file is useless, and the disk may be full.
                let _ = to.remove_file(name);
                return Err(error);
            }
            set_mtime(&copy, before.stamp.mtime)?;
            let after = FileStat::from_stat(&rustix::fs::fstat(&source)?);
            if after.stamp == before.stamp {
                return Ok(Some(CopyResult::Stable(before)));
            }
            if tried == TRIES {
                return Ok(Some(CopyResult::Changing(after)));
            }
            to.remove_file(name)?;
        }
    }

    fn copy_content(
        &self,
        from: &mut File,
        to: &mut File,
        size: u64,
        buffer: &mut Vec<u8>,
    ) -> io::Result<()> {
        if size > 0 && self.reflink(from, to) {
            return Ok(());
        }
        self.holes.copy(from, to, size, buffer, &self.budget)
    }

    #[cfg(target_os = "linux")]
    fn reflink(&self, from: &File, to: &File) -> bool {
        if self.no_reflink.load(Ordering::Relaxed) {
            return false;
        }
        let shared = rustix::fs::ioctl_ficlone(to, from).is_ok();
        if !shared {
            self.no_reflink.store(true, Ordering::Relaxed);
        }
        shared
    }

    #[cfg(not(target_os = "linux"))]
    fn reflink(&self, _from: &File, _to: &File) -> bool {
        self.no_reflink.load(Ordering::Relaxed) && false
    }
}

pub(crate) fn set_mtime(file: &File, mtime: i64) -> io::Result<()> {
    let time = Timespec {
        tv_sec: mtime.div_euclid(1_000_000_000),
        #[allow(clippy::useless_conversion, reason = "its type differs between systems")]
        tv_nsec: mtime.rem_euclid(1_000_000_000).into(),
    };
    Ok(rustix::fs::futimens(file, &Timestamps { last_access: time, last_modification: time })?)
}

/// Copies one file or link between two directories; called on several threads.
pub(crate) type CopyNode<'w> =
    &'w (dyn Fn(&TreeNode, &OsStr, &ConfinedDir, &ConfinedDir, &mut Vec<u8>) -> io::Result<()> + Sync);

/// Creates the directories among `nodes` below `to`, then copies all other nodes. `nodes` must be sorted by path.
pub(crate) fn fill_dir(
    from: &ConfinedDir,
    to: &ConfinedDir,
    nodes: &[TreeNode],
    copy_node: CopyNode<'_>,
) -> io::Result<()> {
    let cancellation = exclusive::cancellation();
    for node in nodes.iter().filter(|node| node.found.kind == FileKind::Dir) {
        if cancellation.is_set() {
            return Err(exclusive::cancelled_error());
        }
        let (above, name) = split_path(&node.path);
        to.open_dir_path(above)?.make_dir(name, 0o700)?;
    }
    let files: Vec<&TreeNode> = nodes.iter().filter(|node| node.found.kind != FileKind::Dir).collect();
    let chunks: Vec<&[&TreeNode]> = files.chunks(CHUNK).collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let work = || {
        let mut buffer = Vec::new();
        while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let copied = if cancellation.is_set() {
                Err(exclusive::cancelled_error())
            } else {
                copy_chunk(from, to, chunk, copy_node, &mut buffer)
            };
            if let Err(e) = copied {
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                next.store(chunks.len(), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..worker_count().min(chunks.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

fn copy_chunk(
    from: &ConfinedDir,
    to: &ConfinedDir,
    chunk: &[&TreeNode],
    copy_node: CopyNode<'_>,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    let mut here: Option<(&Path, ConfinedDir, ConfinedDir)> = None;
    for node in chunk {
        let (above, name) = split_path(&node.path);
        if here.as_ref().is_none_or(|(at, _, _)| *at != above) {
            let source = match from.open_dir_path(above) {
                Err(e) if is_concurrent_change(&e) => continue,
                source => source?,
            };
            here = Some((above, source, to.open_dir_path(above)?));
        }
        if let Some((_, source, target)) = &here {
            copy_node(node, name, source, target, buffer)?;
        }
    }
    Ok(())
}

pub(crate) fn split_path(path: &Path) -> (&Path, &OsStr) {
    (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default())
}

pub(crate) fn make_dirs_read_only(root: &ConfinedDir, nodes: &[TreeNode]) -> io::Result<()> {
    for node in nodes.iter().rev().filter(|node| node.found.kind == FileKind::Dir) {
        root.open_dir_path(&node.path)?.set_mode(0o500)?;
    }
    Ok(())
}
