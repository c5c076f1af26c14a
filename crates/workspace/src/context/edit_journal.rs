//! Records what an agent changes with its file tools in context paths where people work at the same time, in the
//! format of a run's pre-images, so that the same undo applies. If somebody else changes a file between two edits,
//! the new content becomes its pre-image.

use super::preimages::Preimages;
use super::snapshot::ContextSnapshot;
use super::state::{CurrentState, PathState, RecordedChange};
use crate::access::{Refusal, ResolvedPath, RootRole};
use crate::confine::{ConfinedDir, TreeNode};
use crate::manifest::ManifestEntry;
use crate::sparse::CopyBudget;
use crate::tools::ChangeObserver;
use crate::workspace::split_path;
use althing_disk::files::{Durability, create_dirs};
use althing_disk::{DiskError, RealDisk};
use althing_protocol::{ContextPath, FileChange};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub(crate) struct EditJournal {
    dir: PathBuf,
    paths: Vec<ContextPath>,
    preimages: Preimages,
    records: Mutex<Option<EditRecords>>,
}

#[derive(Debug)]
struct EditRecords {
    /// The state before the edits; contains only the edited files and their parent directories.
    before: ContextSnapshot,
    after: Vec<RecordedChange>,
}

struct FileLocation {
    root: usize,
    path: PathBuf,
}

impl EditJournal {
    pub(crate) fn of(dir: &Path, paths: &[ContextPath]) -> Self {
        let preimages = Preimages::of(dir);
        Self { dir: dir.to_owned(), paths: paths.to_vec(), preimages, records: Mutex::new(None) }
    }

    /// Loads the records of an earlier process, or starts new ones if there are none or if they were undone.
    fn open(&self) -> Result<EditRecords, DiskError> {
        if self.is_undone()? {
            let above = ConfinedDir::open(&self.dir).map_err(DiskError::io("open", &self.dir))?;
            above.remove_tree(OsStr::new("preimages")).map_err(DiskError::io("clear", &self.dir))?;
        }
        if let (Some(before), Some(after)) = (self.preimages.read("before")?, self.preimages.read("after")?) {
            return Ok(EditRecords { before, after });
        }
        create_dirs(&RealDisk, &self.preimages.dir.join("tree"), Durability::Synced)?;
        let records =
            EditRecords { before: ContextSnapshot::without_entries(&self.paths), after: Vec::new() };
        self.preimages.write("before", &records.before)?;
        self.preimages.write("after", &records.after)?;
        Ok(records)
    }

    fn is_undone(&self) -> Result<bool, DiskError> {
        Ok(self.preimages.read::<bool>("undone")?.is_some())
    }

    fn record_before(&self, records: &mut EditRecords, resolved: &ResolvedPath<'_>) -> Result<(), DiskError> {
        let Some(FileLocation { root: n, path }) = locate(&records.before, resolved) else { return Ok(()) };
        let failed = || DiskError::io("store the pre-image of", &resolved.real);
        let Some(root) = records.before.roots.get_mut(n) else { return Ok(()) };
        let dir = root.open().map_err(failed())?;
        let known = records.after.iter().position(|after| after.root == n && after.path == path);
        if let Some(left) = known.and_then(|at| records.after.get(at)) {
            if CurrentState::of(&dir, &path).and_then(|now| now.is(&left.state)).map_err(failed())? {
                return Ok(());
            }
            self.preimages.forget(n, &path).map_err(failed())?;
        }
        root.entries.retain(|entry| entry.path != path);
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            if let Some(found) = stat_below(&dir, above).map_err(failed())? {
                root.insert_entry(ManifestEntry::of(&TreeNode { path: above.to_owned(), found }, false));
            }
        }
        if let Some(found) = resolved.found {
            root.insert_entry(ManifestEntry::of(&TreeNode { path: path.clone(), found }, false));
            self.preimages.store_one(n, &path, &resolved.dir).map_err(failed())?;
        }
        self.preimages.write("before", &records.before)
    }

    fn record_after(&self, records: &mut EditRecords, resolved: &ResolvedPath<'_>) -> Result<(), DiskError> {
        let Some(FileLocation { root: n, path }) = locate(&records.before, resolved) else { return Ok(()) };
        let Some(root) = records.before.roots.get(n) else { return Ok(()) };
        let state = root.open().and_then(|dir| PathState::of(&dir, &path, &CopyBudget::default()));
        let state = state.map_err(DiskError::io("access", &resolved.real))?;
        let change = match (root.entry(&path).is_some(), &state) {
            (true, PathState::Absent) => Some(FileChange::Deleted),
            (true, _) => Some(FileChange::Modified),
            (false, PathState::Absent) => None,
            (false, _) => Some(FileChange::New),
        };
        records.after.retain(|after| after.root != n || after.path != path);
        records.after.extend(change.map(|change| RecordedChange {
            root: n,
            path,
            change,
            state,
            in_git_dir: false,
        }));
        records.after.sort_by(|a, b| (a.root, &a.path).cmp(&(b.root, &b.path)));
        self.preimages.write("after", &records.after)
    }

    fn with_records(
        &self,
        resolved: &ResolvedPath<'_>,
        record: impl FnOnce(&Self, &mut EditRecords, &ResolvedPath<'_>) -> Result<(), DiskError>,
    ) -> Result<(), Refusal> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = self.is_undone().and_then(|undone| {
            let known = records.take().filter(|_| !undone);
            let known = records.insert(known.map_or_else(|| self.open(), Ok)?);
            record(self, known, resolved)
        });
        recorded.map_err(|error| Refusal::Io {
            doing: "store the pre-image of",
            path: resolved.shown.clone(),
            why: error.to_string(),
        })
    }
}

impl ChangeObserver for EditJournal {
    fn before_change(&self, resolved: &ResolvedPath<'_>) -> Result<(), Refusal> {
        self.with_records(resolved, Self::record_before)
    }

    fn after_change(&self, resolved: &ResolvedPath<'_>) -> Result<(), Refusal> {
        self.with_records(resolved, Self::record_after)
    }
}

fn locate(before: &ContextSnapshot, resolved: &ResolvedPath<'_>) -> Option<FileLocation> {
    let RootRole::Context(number) = resolved.root.role else { return None };
    let (root, tracked) = before.roots.iter().enumerate().find(|(_, root)| root.number == number)?;
    Some(FileLocation { root, path: resolved.real.strip_prefix(tracked.dir()).ok()?.to_owned() })
}

fn stat_below(root: &ConfinedDir, path: &Path) -> io::Result<Option<crate::confine::FileStat>> {
    let (above, name) = split_path(path);
    match root.open_dir_path(above) {
        Ok(dir) => dir.stat(name),
        Err(error) if crate::confine::is_concurrent_change(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
