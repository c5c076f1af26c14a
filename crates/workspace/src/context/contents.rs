//! Digests of files on file systems where a file can change without a new time stamp, such as tmpfs.

use super::preimages::UndoLimits;
use super::snapshot::TrackedPath;
use crate::confine::{ConfinedDir, FileKind, FileStat};
use crate::digest::{ComparedFile, digest};
use crate::manifest::ManifestEntry;
use crate::sparse::CopyBudget;
use crate::workspace::split_path;
use althing_disk::has_reliable_stamps;
use althing_protocol::package_dir;
use std::collections::HashMap;
use std::fs::File;
use std::io;

#[derive(Default)]
struct UnreliableFiles {
    /// By device.
    are_stamps_reliable: HashMap<u64, bool>,
}

impl UnreliableFiles {
    /// `None` if the time stamp says whether the file changed, or if the file cannot be read.
    fn open(&mut self, dir: &ConfinedDir, entry: &ManifestEntry) -> Option<(File, FileStat)> {
        let is_reliable = |known: &HashMap<u64, bool>, device| known.get(&device).is_some_and(|known| *known);
        if entry.kind != FileKind::File || is_reliable(&self.are_stamps_reliable, entry.stamp.dev) {
            return None;
        }
        let (above, name) = split_path(&entry.path);
        let (file, found) = dir.open_dir_path(above).and_then(|dir| dir.open_file(name)).ok()?;
        let known = self.are_stamps_reliable.entry(found.stamp.dev);
        if *known.or_insert_with(|| has_reliable_stamps(&file)) {
            return None;
        }
        Some((file, found))
    }
}

/// Adds digests to the entries of a state before a run, as far as the limits of what is copied for an undo allow.
/// Directories of installed packages come last. Fails only if the operation was cancelled.
pub(super) fn add_digests(roots: &mut [TrackedPath]) -> io::Result<()> {
    let (mut unreliable, limits) = (UnreliableFiles::default(), UndoLimits::default());
    let budget = CopyBudget::default();
    let (mut files, mut bytes) = (0_u64, 0_u64);
    for of_packages in [false, true] {
        for root in &mut *roots {
            let Ok(dir) = root.open() else { continue };
            let is_next = |entry: &&mut ManifestEntry| package_dir(&entry.path).is_some() == of_packages;
            for entry in root.entries.iter_mut().filter(is_next) {
                let size = entry.stamp.size;
                if files >= limits.files || bytes.saturating_add(size) > limits.bytes {
                    continue;
                }
                let Some((file, _)) = unreliable.open(&dir, entry) else { continue };
                entry.digest = match digest(&file, &budget) {
                    Err(error) if budget.is_cancelled() => return Err(error),
                    digest => digest.ok(),
                };
                if entry.digest.is_some() {
                    (files, bytes) = (files + 1, bytes + size);
                }
            }
        }
    }
    Ok(())
}

/// Gives the digest in the state before the run to those entries of the current state that have the same stamp and
/// content. An entry without this digest then counts as changed. Fails only if the operation was cancelled.
pub(super) fn compare_contents(before: &TrackedPath, now: &mut [ManifestEntry]) -> io::Result<()> {
    if before.entries.iter().all(|entry| entry.digest.is_none()) {
        return Ok(());
    }
    let Ok(dir) = before.open() else { return Ok(()) };
    let (mut unreliable, budget) = (UnreliableFiles::default(), CopyBudget::default());
    for entry in now {
        let old = before.entry(&entry.path).filter(|old| old.stamp == entry.stamp);
        let Some(digest) = old.and_then(|old| old.digest.as_ref()) else { continue };
        let Some(file) = unreliable.open(&dir, entry) else { continue };
        match ComparedFile::new(file).is(digest, &budget) {
            Err(error) if budget.is_cancelled() => return Err(error),
            Ok(true) => entry.digest = Some(digest.clone()),
            Ok(false) | Err(_) => {}
        }
    }
    Ok(())
}
