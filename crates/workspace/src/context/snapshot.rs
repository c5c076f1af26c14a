//! Records the state of the writable context paths before a run (names, sizes and times; a digest of the content only
//! where a file can change without a new time stamp, see `contents.rs`), and compares it
//! with the current state. The content of `.git` directories that existed before, and Althing's own state, are left
//! out. A context path that cannot be read counts as one change and hides no changes in others.

use super::contents::{add_digests, compare_contents};
use crate::confine::{CLOCK_TICK, ConfinedDir, FileKind, TreeNode, TreeWalk, WalkStep, by_bytes, is_denied};
use crate::manifest::{ManifestEntry, path_from_text, path_to_text};
use althing_disk::DiskError;
use althing_protocol::{
    ContextPath, FileChange, FileWrite, GIT_DIR, PLACEHOLDER_FILE_MODE, PLACEHOLDER_MODE, is_git_dir,
    runs_code,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scan {
    Before,
    /// The state is compared with the state before the run.
    After,
    /// Like [`Self::After`], for a run that an older version of Althing began.
    Old,
}

/// The writable context paths at one point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextSnapshot {
    pub(crate) roots: Vec<TrackedPath>,
    state: Option<String>,
    /// In a record of an older version, `.git` directories and special files are missing, so they must not count as
    /// new.
    #[serde(default)]
    complete: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrackedPath {
    shown: String,
    real: String,
    /// The index among the run's context paths.
    pub number: usize,
    /// Set if the context path is a single file; `real` is then the parent directory of that file.
    only: Option<String>,
    /// The mode of the directory `real`; `None` in a record of an older version.
    #[serde(default)]
    mode: Option<u32>,
    /// Sorted by the bytes of their paths.
    pub entries: Vec<ManifestEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathChange {
    /// The index of the tracked path.
    pub root: usize,
    pub path: PathBuf,
    pub change: FileChange,
    pub is_dir: bool,
    /// Whether the path is in a git directory with another name than `.git`, or in a new `.git`.
    pub in_git_dir: bool,
    /// Whether what is new or deleted looks like the placeholder of a sandbox for a missing protected path.
    pub is_placeholder: bool,
    /// Whether the file has a set-user-id or set-group-id bit and is new or had another mode before.
    pub sets_id: bool,
    /// Why the whole context path could not be compared; `path` is then empty.
    pub error: Option<String>,
}

impl PathChange {
    fn unknown(root: usize, error: &io::Error) -> Self {
        Self {
            root,
            path: PathBuf::new(),
            change: FileChange::Modified,
            is_dir: false,
            in_git_dir: false,
            is_placeholder: false,
            sets_id: false,
            error: Some(error.to_string()),
        }
    }

    /// Named even if it is one of very many changes in a directory of installed packages: installing packages seldom
    /// makes such a change.
    pub(crate) fn must_be_named(&self) -> bool {
        let is_protected = || runs_code(&self.path).is_some_and(|row| row.protected);
        self.sets_id || self.error.is_some() || (self.change != FileChange::Deleted && is_protected())
    }

    pub(crate) fn to_write(&self, shown: String) -> FileWrite {
        let write = FileWrite::new(shown, self.change, &self.path);
        if let Some(error) = &self.error {
            let note = format!("what changed here could not be determined: {error}");
            return FileWrite { note: Some(note), ..write };
        }
        let write = if self.in_git_dir { write.in_git_dir() } else { write };
        if !self.sets_id {
            return write;
        }
        let note = "set-user-id or set-group-id: runs with the rights of its owner or group";
        let note = write.note.as_ref().map_or_else(|| note.to_owned(), |other| format!("{other}; {note}"));
        FileWrite { note: Some(note), ..write }
    }
}

impl TrackedPath {
    pub(crate) fn dir(&self) -> PathBuf {
        path_from_text(&self.real)
    }

    /// What an undo locks: the context path, or the directory of a single file that was deleted.
    pub(crate) fn path_to_lock(&self) -> PathBuf {
        let file = self.only.as_ref().map(|only| self.dir().join(path_from_text(only)));
        file.filter(|file| file.exists()).unwrap_or_else(|| self.dir())
    }

    /// The path was resolved before the first write; a link in its place is not followed.
    pub(crate) fn open(&self) -> io::Result<ConfinedDir> {
        ConfinedDir::open_real(&self.dir())
    }

    pub(crate) fn entry(&self, path: &Path) -> Option<&ManifestEntry> {
        let at = self.entries.binary_search_by(|entry| by_bytes(&entry.path, path)).ok()?;
        self.entries.get(at)
    }

    pub(crate) fn insert_entry(&mut self, entry: ManifestEntry) {
        if let Err(at) = self.entries.binary_search_by(|known| by_bytes(&known.path, &entry.path)) {
            self.entries.insert(at, entry);
        }
    }

    pub(crate) fn display_path(&self, path: &Path) -> String {
        let shown = path_from_text(&self.shown);
        // An empty path means the context path itself.
        let is_whole = self.only.is_some() || path.as_os_str().is_empty();
        let whole = if is_whole { shown } else { shown.join(path) };
        whole.to_string_lossy().into_owned()
    }

    pub(crate) fn display_change(&self, change: &PathChange) -> String {
        let path = self.display_path(&change.path);
        let is_dir = change.is_dir || (change.error.is_some() && self.only.is_none());
        if is_dir { format!("{path}/") } else { path }
    }

    /// The mode before the run; `None` for a single file and in a record of an older version.
    pub(crate) fn own_mode(&self) -> Option<u32> {
        self.mode.filter(|_| self.only.is_none())
    }

    fn mode_change(&self, root: usize, now: Option<u32>) -> Option<PathChange> {
        let is_changed = self.own_mode().zip(now).is_some_and(|(before, now)| before != now);
        is_changed.then(|| PathChange {
            root,
            path: PathBuf::new(),
            change: FileChange::Modified,
            is_dir: true,
            in_git_dir: false,
            is_placeholder: false,
            sets_id: false,
            error: None,
        })
    }

    fn empty(number: usize, shown: &Path, real: &Path) -> Self {
        let only = (!real.is_dir()).then(|| real.file_name().unwrap_or_default());
        let dir = if only.is_some() { real.parent().unwrap_or(real) } else { real };
        Self {
            shown: path_to_text(shown),
            real: path_to_text(dir),
            number,
            only: only.map(|name| path_to_text(Path::new(name))),
            mode: ConfinedDir::open_real(dir).and_then(|dir| dir.stat_self()).ok().map(|found| found.mode),
            entries: Vec::new(),
        }
    }

    /// For [`Scan::After`] and [`Scan::Old`], `self` contains the state before the run.
    fn scan(&self, scan: Scan, skip: &(dyn Fn(&Path) -> bool + Sync)) -> io::Result<Vec<ManifestEntry>> {
        let (dir, base) = (self.open()?, self.dir());
        if let Some(only) = &self.only {
            let name: OsString = path_from_text(only).into();
            let found = dir.stat(&name)?;
            let node = found.map(|found| TreeNode { path: PathBuf::from(name), found });
            return Ok(node.map(|node| ManifestEntry::of(&node, false)).into_iter().collect());
        }
        if scan != Scan::Before && dir.reopen_readable().is_err_and(|error| is_denied(&error)) {
            self.mode.map_or_else(|| dir.unlock(), |mode| dir.unlock_to(mode))?;
        }
        let existed = |path: &Path| self.entry(path).is_some_and(|entry| entry.kind == FileKind::Dir);
        let step = |at: &Path, name: &OsStr, found: &crate::confine::FileStat| match found.kind {
            FileKind::Special if scan == Scan::Old => WalkStep::Skip,
            FileKind::Dir if skip(&base.join(at).join(name)) => WalkStep::Skip,
            FileKind::Dir if name == GIT_DIR => match scan {
                Scan::Old => WalkStep::Skip,
                Scan::Before => WalkStep::List,
                Scan::After if existed(&at.join(name)) => WalkStep::List,
                Scan::After => WalkStep::Enter,
            },
            FileKind::File | FileKind::Dir | FileKind::Link | FileKind::Special => WalkStep::Enter,
        };
        let nodes = TreeWalk { step: &step, stop: &|| false, unlock: scan != Scan::Before }.run(&dir)?;
        Ok(nodes.iter().map(|node| ManifestEntry::of(node, false)).collect())
    }
}

impl ContextSnapshot {
    /// Lists the writable context paths, but no files in them. Leaves out missing paths, and paths that now lead
    /// through a symlink, because nothing can be written there.
    pub(crate) fn without_entries(paths: &[ContextPath]) -> Self {
        let mut roots = Vec::new();
        for (number, path) in paths.iter().enumerate().filter(|(_, path)| path.writable) {
            let shown = Path::new(&path.path);
            if let Ok(real) = std::fs::canonicalize(shown)
                && real == shown
            {
                roots.push(TrackedPath::empty(number, shown, &real));
            }
        }
        Self { roots, state: None, complete: true }
    }

    /// Records every file in the writable context paths. Missing paths are left out.
    pub fn take(paths: &[ContextPath], state_dir: Option<&Path>) -> Result<Self, DiskError> {
        let state = state_dir.and_then(|dir| std::fs::canonicalize(dir).ok()).map(|dir| path_to_text(&dir));
        let mut snapshot = Self { state, ..Self::without_entries(paths) };
        let scanned = snapshot.scan_all(Scan::Before);
        for (root, entries) in snapshot.roots.iter_mut().zip(scanned) {
            root.entries = entries.map_err(DiskError::io("access", &root.dir()))?;
        }
        if let Err(error) = add_digests(&mut snapshot.roots) {
            let dir = snapshot.roots.first().map(TrackedPath::dir).unwrap_or_default();
            return Err(DiskError::io("access", &dir)(error));
        }
        snapshot.wait_for_clock_tick();
        Ok(snapshot)
    }

    fn scan_all(&self, scan: Scan) -> Vec<io::Result<Vec<ManifestEntry>>> {
        let state = self.state.as_deref().map(path_from_text);
        let inner: Vec<PathBuf> =
            self.roots.iter().filter(|root| root.only.is_none()).map(TrackedPath::dir).collect();
        // A context path inside another one is scanned only once.
        let skip = |path: &Path| state.as_deref() == Some(path) || inner.iter().any(|root| root == path);
        // A context path that contains another one comes first: its scan can make the other one accessible.
        let mut order: Vec<(usize, &TrackedPath)> = self.roots.iter().enumerate().collect();
        order.sort_by_key(|(_, root)| root.dir());
        let mut scanned: Vec<_> = order.into_iter().map(|(n, root)| (n, root.scan(scan, &skip))).collect();
        scanned.sort_by_key(|(n, _)| *n);
        scanned.into_iter().map(|(_, entries)| entries).collect()
    }

    /// A change within the same tick of the file system's clock as an earlier one would have the same stamp.
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
            |changed: &PathChange| self.roots.get(changed.root).map(|root| root.display_change(changed));
        let write = |changed: PathChange| Some(changed.to_write(display_path(&changed)?));
        Ok(self.changes()?.into_iter().filter_map(write).collect())
    }

    /// Fails only if the operation was cancelled.
    pub(crate) fn changes(&self) -> Result<Vec<PathChange>, DiskError> {
        let mut changes = Vec::new();
        // The modes are read before the scan, which makes directories readable again for their owner.
        let mode = |root: &TrackedPath| root.open().and_then(|dir| dir.stat_self()).ok().map(|now| now.mode);
        let modes: Vec<Option<u32>> = self.roots.iter().map(mode).collect();
        let scan = if self.complete { Scan::After } else { Scan::Old };
        for (n, ((root, now), mode_now)) in self.roots.iter().zip(self.scan_all(scan)).zip(modes).enumerate()
        {
            let mut now = match now {
                Ok(now) => now,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    return Err(DiskError::io("access", &root.dir())(error));
                }
                Err(error) => {
                    changes.push(PathChange::unknown(n, &error));
                    continue;
                }
            };
            // If the directory could not be opened before the scan, a context path that contains it was not
            // accessible.
            changes.extend(root.mode_change(n, mode_now.or_else(|| mode(root))));
            compare_contents(root, &mut now).map_err(DiskError::io("access", &root.dir()))?;
            let start = changes.len();
            diff(n, &root.entries, &now, &mut changes);
            let git_dirs = git_dirs(&now);
            for change in changes.get_mut(start..).unwrap_or_default() {
                change.in_git_dir = change.path.ancestors().skip(1).any(|dir| git_dirs.contains(dir));
            }
        }
        Ok(changes)
    }
}

fn git_dirs(entries: &[ManifestEntry]) -> BTreeSet<&Path> {
    let has = |path: PathBuf| entries.binary_search_by(|entry| by_bytes(&entry.path, &path)).is_ok();
    let heads = entries.iter().filter(|entry| entry.path.file_name().is_some_and(|name| name == "HEAD"));
    let dirs = heads.filter_map(|head| head.path.parent());
    dirs.filter(|dir| is_git_dir(|name| has(dir.join(name)))).collect()
}

/// Of directories, only these are reported: new and deleted ones without anything in them, those whose mode changed
/// (except `.git`), and a `.git` that was deleted or replaced. A new, empty `.git` that looks like a sandbox's
/// placeholder is marked, because a sandbox puts one where a command may not create a repository.
fn diff(root: usize, before: &[ManifestEntry], now: &[ManifestEntry], changes: &mut Vec<PathChange>) {
    let mut old = before.iter().enumerate().peekable();
    let change = |entry: &ManifestEntry, change| {
        let is_dir = entry.kind == FileKind::Dir;
        let (path, is_placeholder, sets_id) = (entry.path.clone(), false, false);
        PathChange { root, path, change, is_dir, in_git_dir: false, is_placeholder, sets_id, error: None }
    };
    let sets_id = |entry: &ManifestEntry| entry.kind == FileKind::File && entry.mode & 0o6000 != 0;
    let written = |entry: &ManifestEntry, old: Option<&ManifestEntry>, kind: FileChange| {
        let was_so = old.is_some_and(|old| sets_id(old) && old.mode == entry.mode);
        PathChange { sets_id: sets_id(entry) && !was_so, ..change(entry, kind) }
    };
    // A sandbox puts a placeholder only where nothing is, and removes only what looks like one.
    let new = |entry: &ManifestEntry| PathChange {
        is_placeholder: is_placeholder(entry),
        ..written(entry, None, FileChange::New)
    };
    let deleted = |gone: &ManifestEntry| PathChange {
        is_placeholder: is_placeholder(gone),
        ..change(gone, FileChange::Deleted)
    };
    let named_git = |entry: &ManifestEntry| {
        entry.kind == FileKind::Dir && entry.path.file_name().is_some_and(|name| name == GIT_DIR)
    };
    let is_deleted = |at: usize| before.get(at).is_some_and(|gone| named_git(gone) || is_leaf(before, at));
    for (at, entry) in now.iter().enumerate() {
        while let Some((at, gone)) = old.next_if(|(_, old)| by_bytes(&old.path, &entry.path).is_lt()) {
            if is_deleted(at) {
                changes.push(deleted(gone));
            }
        }
        match old.next_if(|(_, old)| old.path == entry.path).map(|(_, old)| old) {
            None if is_leaf(now, at) => changes.push(new(entry)),
            None => {}
            Some(old) if old.kind == FileKind::Dir && entry.kind == FileKind::Dir => {
                let is_changed =
                    if named_git(old) { old.stamp.ino != entry.stamp.ino } else { old.mode != entry.mode };
                changes.extend(is_changed.then(|| change(entry, FileChange::Modified)));
            }
            // A directory took the place of a file, or a file that of a directory.
            Some(old) if old.kind == FileKind::Dir => changes.push(written(entry, None, FileChange::New)),
            Some(old) if entry.kind == FileKind::Dir => changes.push(change(old, FileChange::Deleted)),
            Some(old) if old != entry => changes.push(written(entry, Some(old), FileChange::Modified)),
            Some(_) => {}
        }
    }
    for (at, gone) in old {
        if is_deleted(at) {
            changes.push(deleted(gone));
        }
    }
}

/// A sandbox puts a placeholder where a protected path is missing.
fn is_placeholder(entry: &ManifestEntry) -> bool {
    match entry.kind {
        FileKind::Dir => entry.mode == PLACEHOLDER_MODE,
        FileKind::File => entry.mode == PLACEHOLDER_FILE_MODE && entry.stamp.size == 0,
        FileKind::Link | FileKind::Special => false,
    }
}

fn is_leaf(entries: &[ManifestEntry], at: usize) -> bool {
    let Some(entry) = entries.get(at) else { return false };
    let has_entries = || {
        entries
            .get(at + 1..)
            .unwrap_or_default()
            .iter()
            .take_while(|next| {
                next.path.as_os_str().as_bytes().starts_with(entry.path.as_os_str().as_bytes())
            })
            .any(|next| next.path.starts_with(&entry.path))
    };
    entry.kind != FileKind::Dir || !has_entries()
}
