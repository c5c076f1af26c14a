//! The state of the writable context paths before a run wrote to them, and the difference to the current state.
//!
//! The recorded state contains names, sizes and times, no content. `.git` directories are left out: they
//! contain git's bookkeeping, and agents may not write there. Althing's own state is left out, too.

use crate::confine::{CLOCK_TICK, ConfinedDir, FileKind, TreeNode, TreeWalk, by_bytes};
use crate::manifest::{ManifestEntry, path_from_text, path_to_text};
use althing_disk::DiskError;
use althing_protocol::{ContextPath, FileChange, FileWrite};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The writable context paths at one point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextSnapshot {
    pub(crate) roots: Vec<TrackedPath>,
    state: Option<String>,
}

/// One context path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrackedPath {
    /// The path as configured.
    shown: String,
    /// The path with links resolved.
    real: String,
    /// The index among the run's context paths.
    pub number: usize,
    /// The file name, if the context path is a single file; `real` is then the parent directory of that file.
    only: Option<String>,
    /// The entries, sorted by the bytes of their paths.
    pub entries: Vec<ManifestEntry>,
}

/// A file that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathChange {
    /// The index of the tracked path.
    pub root: usize,
    /// The path of the file, relative to the tracked path.
    pub path: PathBuf,
    pub change: FileChange,
}

impl TrackedPath {
    pub(crate) fn dir(&self) -> PathBuf {
        path_from_text(&self.real)
    }

    pub(crate) fn open(&self) -> io::Result<ConfinedDir> {
        ConfinedDir::open(&self.dir())
    }

    pub(crate) fn entry(&self, path: &Path) -> Option<&ManifestEntry> {
        let at = self.entries.binary_search_by(|entry| by_bytes(&entry.path, path)).ok()?;
        self.entries.get(at)
    }

    /// Inserts an entry in order; an existing entry is not replaced.
    pub(crate) fn insert_entry(&mut self, entry: ManifestEntry) {
        if let Err(at) = self.entries.binary_search_by(|known| by_bytes(&known.path, &entry.path)) {
            self.entries.insert(at, entry);
        }
    }

    /// A path as shown to the user.
    pub(crate) fn display_path(&self, path: &Path) -> String {
        let shown = path_from_text(&self.shown);
        let whole = if self.only.is_some() { shown } else { shown.join(path) };
        whole.to_string_lossy().into_owned()
    }

    fn empty(number: usize, shown: &Path, real: &Path) -> Self {
        let only = (!real.is_dir()).then(|| real.file_name().unwrap_or_default());
        let dir = if only.is_some() { real.parent().unwrap_or(real) } else { real };
        Self {
            shown: path_to_text(shown),
            real: path_to_text(dir),
            number,
            only: only.map(|name| path_to_text(Path::new(name))),
            entries: Vec::new(),
        }
    }

    fn scan(&self, skip: &(dyn Fn(&Path) -> bool + Sync)) -> io::Result<Vec<ManifestEntry>> {
        let (dir, base) = (self.open()?, self.dir());
        if let Some(only) = &self.only {
            let name: OsString = path_from_text(only).into();
            let found = dir.stat(&name)?;
            let node = found.map(|found| TreeNode { path: PathBuf::from(name), found });
            return Ok(node.map(|node| ManifestEntry::of(&node, false)).into_iter().collect());
        }
        let unwanted = |at: &Path, name: &OsStr, found: &crate::confine::FileStat| {
            found.kind == FileKind::Special
                || (found.kind == FileKind::Dir && (name == ".git" || skip(&base.join(at).join(name))))
        };
        let nodes = TreeWalk { skip: &unwanted, stop: &|| false }.run(&dir)?;
        Ok(nodes.iter().map(|node| ManifestEntry::of(node, false)).collect())
    }
}

impl ContextSnapshot {
    /// The writable context paths without their entries. Missing paths are left out.
    pub(crate) fn without_entries(paths: &[ContextPath]) -> Self {
        let mut roots = Vec::new();
        for (number, path) in paths.iter().enumerate().filter(|(_, path)| path.writable) {
            let shown = Path::new(&path.path);
            if let Ok(real) = std::fs::canonicalize(shown) {
                roots.push(TrackedPath::empty(number, shown, &real));
            }
        }
        Self { roots, state: None }
    }

    /// Records every file in the writable context paths. Missing paths are left out.
    pub fn take(paths: &[ContextPath], state_dir: Option<&Path>) -> Result<Self, DiskError> {
        let state = state_dir.and_then(|dir| std::fs::canonicalize(dir).ok()).map(|dir| path_to_text(&dir));
        let mut snapshot = Self { state, ..Self::without_entries(paths) };
        let entries = snapshot.scan_all()?;
        for (root, entries) in snapshot.roots.iter_mut().zip(entries) {
            root.entries = entries;
        }
        snapshot.wait_for_clock_tick();
        Ok(snapshot)
    }

    fn scan_all(&self) -> Result<Vec<Vec<ManifestEntry>>, DiskError> {
        let state = self.state.as_deref().map(path_from_text);
        let inner: Vec<PathBuf> =
            self.roots.iter().filter(|root| root.only.is_none()).map(TrackedPath::dir).collect();
        // A context path inside another one is scanned only once.
        let skip = |path: &Path| state.as_deref() == Some(path) || inner.iter().any(|root| root == path);
        let scan = |root: &TrackedPath| root.scan(&skip).map_err(DiskError::io("access", &root.dir()));
        self.roots.iter().map(scan).collect()
    }

    /// Waits for one tick of the file system's clock if something has just changed: a further change within the
    /// same tick would have the same stamp.
    fn wait_for_clock_tick(&self) {
        let newest = self.roots.iter().flat_map(|root| &root.entries).map(|entry| entry.stamp.ctime).max();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        if newest.is_some_and(|newest| newest.saturating_add(CLOCK_TICK) >= now) {
            std::thread::sleep(Duration::from_nanos(CLOCK_TICK.unsigned_abs()));
        }
    }

    /// The changes since the snapshot, sorted by context path, then by path.
    pub fn compare(&self) -> Result<Vec<FileWrite>, DiskError> {
        let display_path =
            |changed: &PathChange| self.roots.get(changed.root).map(|root| root.display_path(&changed.path));
        let write = |changed: PathChange| {
            Some(FileWrite::new(display_path(&changed)?, changed.change, &changed.path))
        };
        Ok(self.changes()?.into_iter().filter_map(write).collect())
    }

    pub(crate) fn changes(&self) -> Result<Vec<PathChange>, DiskError> {
        let mut changes = Vec::new();
        for (n, (root, now)) in self.roots.iter().zip(self.scan_all()?).enumerate() {
            diff(n, &root.entries, &now, &mut changes);
        }
        Ok(changes)
    }
}

/// Adds the differences between two sorted lists of entries to `changes`. Directories are not reported.
fn diff(root: usize, before: &[ManifestEntry], now: &[ManifestEntry], changes: &mut Vec<PathChange>) {
    let is_file = |entry: &&ManifestEntry| entry.kind != FileKind::Dir;
    let mut old = before.iter().filter(is_file).peekable();
    let mut add = |path: &Path, change| changes.push(PathChange { root, path: path.to_owned(), change });
    for entry in now.iter().filter(is_file) {
        while let Some(gone) = old.next_if(|old| by_bytes(&old.path, &entry.path).is_lt()) {
            add(&gone.path, FileChange::Deleted);
        }
        match old.next_if(|old| old.path == entry.path) {
            None => add(&entry.path, FileChange::New),
            Some(old) if old != entry => add(&entry.path, FileChange::Modified),
            Some(_) => {}
        }
    }
    for gone in old {
        add(&gone.path, FileChange::Deleted);
    }
}
