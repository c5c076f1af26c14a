//! Digests of files on file systems where a file can change without a new time stamp, such as tmpfs.

use super::preimages::UndoLimits;
use super::snapshot::TrackedPath;
use crate::confine::{ConfinedDir, FileKind};
use crate::manifest::ManifestEntry;
use crate::sparse::digest;
use crate::workspace::split_path;
use althing_disk::has_reliable_stamps;
use althing_protocol::package_dir;
use std::collections::HashMap;

#[derive(Default)]
struct Digests {
    /// By device.
    are_stamps_reliable: HashMap<u64, bool>,
}

impl Digests {
    /// `None` if the time stamp says whether the file changed, or if the file cannot be read.
    fn of(&mut self, dir: &ConfinedDir, entry: &ManifestEntry) -> Option<String> {
        let is_reliable = |known: &HashMap<u64, bool>, device| known.get(&device).is_some_and(|known| *known);
        if entry.kind != FileKind::File || is_reliable(&self.are_stamps_reliable, entry.stamp.dev) {
            return None;
        }
        let (above, name) = split_path(&entry.path);
        let (mut file, found) = dir.open_dir_path(above).and_then(|dir| dir.open_file(name)).ok()?;
        let known = self.are_stamps_reliable.entry(found.stamp.dev);
        if *known.or_insert_with(|| has_reliable_stamps(&file)) {
            return None;
        }
        digest(&mut file).ok()
    }
}

/// Adds digests to the entries of a state before a run, as far as the limits of what is copied for an undo allow.
/// Directories of installed packages come last.
pub(super) fn add_digests(roots: &mut [TrackedPath]) {
    let (mut digests, limits) = (Digests::default(), UndoLimits::default());
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
                entry.digest = digests.of(&dir, entry);
                if entry.digest.is_some() {
                    (files, bytes) = (files + 1, bytes + size);
                }
            }
        }
    }
}

/// Adds digests to those entries of the current state that have one in the state before the run and the same stamp. An
/// entry without a digest then counts as changed.
pub(super) fn compare_contents(before: &TrackedPath, now: &mut [ManifestEntry]) {
    if before.entries.iter().all(|entry| entry.digest.is_none()) {
        return;
    }
    let Ok(dir) = before.open() else { return };
    let mut digests = Digests::default();
    for entry in now {
        let old = before.entry(&entry.path).filter(|old| old.digest.is_some() && old.stamp == entry.stamp);
        if old.is_some() {
            entry.digest = digests.of(&dir, entry);
        }
    }
}
