//! Tracks writes to context paths: opens the writable ones for one agent, records what the agent changes there,
//! and closes them again.

use super::change_list::write_change_list;
use super::preimages::{Coverage, Preimages, UndoCoverage, UndoLimits};
use super::snapshot::ContextSnapshot;
use super::state::{PathState, RecordedChange};
use crate::access::{ReadOnlyReason, Refusal, ResolvedPath, RootRole};
use crate::tools::ChangeObserver;
use althing_disk::DiskError;
use althing_protocol::{ContextPath, FileWrite};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The context paths of a run, for one of its agents.
#[derive(Debug)]
pub(crate) struct WriteTracker {
    run_dir: PathBuf,
    state_dir: Option<PathBuf>,
    paths: Vec<ContextPath>,
    coverage: UndoCoverage,
    limits: UndoLimits,
    preimages: Preimages,
    /// The state before the run; `None` unless this process has opened the paths and not yet closed them.
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

    /// Records the state of the context paths, unless an earlier process has recorded it, and allows writing.
    /// Returns a notice if an undo will not cover everything.
    pub(crate) fn open(&self) -> Result<Option<String>, DiskError> {
        let take = || ContextSnapshot::take(&self.paths, self.state_dir.as_deref());
        let (before, cover) = self.preimages.begin(take, self.coverage, self.limits)?;
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(before));
        Ok(match cover {
            Coverage::Everything | Coverage::ToolWrites => None,
            Coverage::TooLarge { bytes, files } => Some(format!(
                "the writable context paths contain {files} files with {} MiB: too much to keep a copy of; `althing \
                 undo` will restore what file tools change, not what commands change",
                bytes >> 20
            )),
        })
    }

    /// Ends write access and returns what changed since the paths were first opened.
    pub(crate) fn close(&self) -> Result<Vec<FileWrite>, DiskError> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        let before = match open {
            Some(before) => before,
            // A resumed run closes the paths that an earlier process opened.
            None => match self.preimages.read("before")? {
                Some(before) => Arc::new(before),
                None => return Ok(Vec::new()),
            },
        };
        let (mut after, mut writes) = (Vec::new(), Vec::new());
        for changed in before.changes()? {
            let Some(root) = before.roots.get(changed.root) else { continue };
            let path = root.display_path(&changed.path);
            let dir = root.open().map_err(DiskError::io("open the directory", &root.dir()))?;
            let state =
                PathState::of(&dir, &changed.path).map_err(DiskError::io("access", Path::new(&path)))?;
            writes.push(FileWrite::new(path, changed.change, &changed.path));
            after.push(RecordedChange {
                root: changed.root,
                path: changed.path,
                change: changed.change,
                state,
            });
        }
        self.preimages.write("after", &after)?;
        write_change_list(&writes, &self.run_dir)?;
        Ok(writes)
    }

    /// The directory of the run's pre-images.
    pub(crate) fn preimages_dir(&self) -> PathBuf {
        self.preimages.dir.clone()
    }

    /// Whether there are no writable context paths.
    pub(crate) fn is_empty(&self) -> bool {
        !self.paths.iter().any(|path| path.writable)
    }
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
