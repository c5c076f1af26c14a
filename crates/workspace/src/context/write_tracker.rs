//! Tracks writes to context paths: opens the writable ones for one agent, records what the agent changes there, and
//! closes them again.

use super::change_list::write_change_list;
use super::preimages::{Coverage, Preimages, UndoCoverage, UndoLimits};
use super::snapshot::{ContextSnapshot, PathChange, TrackedPath};
use super::state::{PathState, RecordedChange};
use crate::access::{ReadOnlyReason, Refusal, ResolvedPath, RootRole};
use crate::exclusive::cancelled_error;
use crate::sparse::{CopyBudget, CopyLimits};
use crate::tools::ChangeObserver;
use althing_disk::DiskError;
use althing_protocol::{ContextPath, FileChange, FileWrite, GIT_DIR, MAX_NAMED_FILES, package_dir};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How many bytes of changed files are hashed before the changes are recorded for the first time.
const HASHED_FIRST: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct WriteTracker {
    run_dir: PathBuf,
    state_dir: Option<PathBuf>,
    paths: Vec<ContextPath>,
    coverage: UndoCoverage,
    limits: UndoLimits,
    preimages: Preimages,
    /// `None` unless this process has opened the paths and not yet closed them.
    open: Mutex<Option<Arc<ContextSnapshot>>>,
}

impl WriteTracker {
    pub(crate) fn new(
        run_dir: &Path,
        state_dir: Option<&Path>,
        paths: &[ContextPath],
        coverage: UndoCoverage,
        limits: UndoLimits,
    ) -> Self {
        Self {
            run_dir: run_dir.to_owned(),
            state_dir: state_dir.map(Path::to_owned),
            paths: paths.to_vec(),
            coverage,
            limits,
            preimages: Preimages::of(run_dir),
            open: Mutex::new(None),
        }
    }

    /// Records the state of the context paths, unless an earlier process has recorded it, and allows writing. Returns
    /// a notice if an undo will not cover everything.
    pub(crate) fn open(&self) -> Result<Option<String>, DiskError> {
        let take = || ContextSnapshot::take(&self.paths, self.state_dir.as_deref());
        let (before, cover) = self.preimages.begin(take, self.coverage, self.limits)?;
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(before));
        Ok(match cover {
            Coverage::Everything | Coverage::ToolWrites => None,
            Coverage::WithoutPackages { bytes, files } => Some(format!(
                "directories such as `node_modules` in the writable context paths contain {files} files with {} MiB: \
                 too much to keep a copy of; `althing undo` will not restore what commands change or delete there",
                bytes >> 20
            )),
            Coverage::TooLarge { bytes, files } => Some(format!(
                "the writable context paths contain {files} files with {} MiB: too much to keep a copy of; `althing \
                 undo` will restore what file tools change, not what commands change",
                bytes >> 20
            )),
        })
    }

    /// Returns what changed since the paths were first opened.
    pub(crate) fn close(&self) -> Result<Vec<FileWrite>, DiskError> {
        let limits = CopyLimits::default();
        self.close_within(
            &CopyBudget::new(limits.with_data(HASHED_FIRST)),
            &CopyBudget::new(limits.with_data(limits.data - HASHED_FIRST)),
        )
    }

    /// For each budget, see [`Self::record`].
    pub(crate) fn close_within(
        &self,
        first: &CopyBudget,
        rest: &CopyBudget,
    ) -> Result<Vec<FileWrite>, DiskError> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        let before = match open {
            Some(before) => before,
            // A resumed run closes the paths that an earlier process opened.
            None => match self.preimages.read("before")? {
                Some(before) => Arc::new(before),
                None => return Ok(Vec::new()),
            },
        };
        let mut changes = before.changes()?;
        changes.retain(|changed| {
            let root = before.roots.get(changed.root);
            root.is_some_and(|root| !(changed.is_placeholder && self.is_for_protected(root, &changed.path)))
        });
        let after = self.record(&before, &changes, first, rest)?;
        let named = |changed: &PathChange| {
            let path = before.roots.get(changed.root).map(|root| root.display_change(changed))?;
            Some((changed.to_write(path), changed.must_be_named()))
        };
        let writes = changes.iter().filter_map(named).collect();
        let writes = count_packages(&before, &after, writes);
        write_change_list(&writes, &self.run_dir)?;
        Ok(writes)
    }

    /// Records the changes for an undo. Files are hashed as far as `first` lasts, and the changes are recorded; then
    /// other files are hashed as far as `rest` lasts, and the changes are recorded again. So a long or interrupted
    /// hashing does not hide the changes. Files that exceed both budgets are identified by their stamps.
    fn record(
        &self,
        before: &ContextSnapshot,
        changes: &[PathChange],
        first: &CopyBudget,
        rest: &CopyBudget,
    ) -> Result<Vec<RecordedChange>, DiskError> {
        let mut after = Vec::new();
        for changed in changes {
            let state = state_of(before, changed, first)?;
            let (root, path, change) = (changed.root, changed.path.clone(), changed.change);
            after.push(RecordedChange { root, path, change, state, in_git_dir: changed.in_git_dir });
        }
        self.preimages.write("after", &after)?;
        if !after.iter().any(|after| after.state.has_only_stamp()) {
            return Ok(after);
        }
        let unhashed = |(_, after): &(&PathChange, &mut RecordedChange)| after.state.has_only_stamp();
        for (changed, after) in changes.iter().zip(&mut after).filter(unhashed) {
            after.state = state_of(before, changed, rest)?;
        }
        self.preimages.write("after", &after)?;
        Ok(after)
    }

    /// Whether a protected path, or a directory above one, would be here. A sandbox also protects a missing `.git`
    /// directly in a context path.
    fn is_for_protected(&self, root: &TrackedPath, path: &Path) -> bool {
        if path == Path::new(GIT_DIR) {
            return true;
        }
        let path = root.dir().join(path);
        let protected = self.paths.get(root.number).map(|context| context.protected.as_slice());
        protected.unwrap_or_default().iter().any(|part| root.dir().join(part).starts_with(&path))
    }

    pub(crate) fn preimages_dir(&self) -> PathBuf {
        self.preimages.dir.clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.paths.iter().any(|path| path.writable)
    }
}

/// Fails only if the operation was cancelled: one file that cannot be read must not hide the other changes.
fn state_of(
    before: &ContextSnapshot,
    changed: &PathChange,
    budget: &CopyBudget,
) -> Result<PathState, DiskError> {
    let has_new_mode = changed.is_dir && changed.change == FileChange::Modified;
    let (Some(root), None) = (before.roots.get(changed.root), &changed.error) else {
        return Ok(PathState::Unreadable);
    };
    let state = if budget.is_cancelled() {
        Err(cancelled_error())
    } else {
        root.open().and_then(|dir| PathState::left_by_run(&dir, &changed.path, has_new_mode, budget))
    };
    match state {
        Err(error) if budget.is_cancelled() => Err(DiskError::io("access", &root.dir())(error)),
        state => Ok(state.unwrap_or(PathState::Unreadable)),
    }
}

/// More than [`MAX_NAMED_FILES`] changes in a directory of installed packages become one entry: an installation
/// writes tens of thousands of files. Files of repositories, and changes that must be named (the flag in `writes`),
/// stay in the list. `after` and `writes` list the same changes in the same order.
fn count_packages(
    before: &ContextSnapshot,
    after: &[RecordedChange],
    writes: Vec<(FileWrite, bool)>,
) -> Vec<FileWrite> {
    let in_repository =
        |after: &RecordedChange| after.in_git_dir || after.path.iter().any(|name| name == GIT_DIR);
    let dir_of = |after: &RecordedChange| {
        let dir = package_dir(after.path.parent()?).filter(|_| !in_repository(after))?;
        Some((after.root, dir.to_owned()))
    };
    let mut counts: BTreeMap<(usize, PathBuf), usize> = BTreeMap::new();
    for dir in after.iter().filter_map(dir_of) {
        *counts.entry(dir).or_default() += 1;
    }
    counts.retain(|_, count| *count > MAX_NAMED_FILES);
    let (mut shown, mut counted) = (Vec::new(), BTreeSet::new());
    for (after, (write, must_be_named)) in after.iter().zip(writes) {
        let found = dir_of(after).and_then(|dir| counts.get(&dir).map(|count| (dir, *count)));
        let Some(((root, dir), count)) = found else {
            shown.push(write);
            continue;
        };
        if must_be_named {
            shown.push(write);
        }
        // The first change in the directory stands for all of them.
        if let Some(tracked) = before.roots.get(root).filter(|_| counted.insert((root, dir.clone()))) {
            let change = if tracked.entry(&dir).is_some() { FileChange::Modified } else { FileChange::New };
            let path = format!("{}/", tracked.display_path(&dir));
            shown.push(FileWrite { path, change, note: Some(format!("{count} files changed here")) });
        }
    }
    shown
}

impl ChangeObserver for WriteTracker {
    fn before_change(&self, resolved: &ResolvedPath<'_>) -> Result<(), Refusal> {
        let not_open = || Refusal::ReadOnly { path: resolved.shown.clone(), why: ReadOnlyReason::NotOpen };
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (Some(before), RootRole::Context(number)) = (open, resolved.root.role) else {
            return Err(not_open());
        };
        let found = before.roots.iter().enumerate().find(|(_, root)| root.number == number);
        let (n, root) = found.ok_or_else(not_open)?;
        let failed = |why: String| Refusal::CheckFailed { path: resolved.shown.clone(), why };
        let path = resolved.real.strip_prefix(root.dir()).map_err(|e| failed(e.to_string()))?;
        // A file that did not exist before the run needs no pre-image: an undo deletes it.
        if root.entry(path).is_none() || resolved.found.is_none() {
            return Ok(());
        }
        self.preimages.store_one(n, path, &resolved.dir).map_err(Refusal::check(&resolved.shown))
    }
}
