//! Undoes what a run changed in context paths.
//!
//! All files are checked before any is changed: if a file is neither as the run left it nor as it was before
//! the run, somebody else changed it, and nothing is undone. Each file is replaced atomically, so an
//! interrupted undo is completed by running it again.

use super::preimages::Preimages;
use super::snapshot::{ContextSnapshot, TrackedPath};
use super::state::{PathState, RecordedChange};
use crate::confine::{ConfinedDir, FileKind, is_concurrent_change};
use crate::manifest::{path_from_text, path_to_text};
use crate::sparse::{CopyBudget, HoleDetection, digest};
use crate::workspace::{set_mtime, split_path};
use althing_disk::DiskError;
use althing_disk::names::TASKS;
use althing_protocol::{FileChange, TaskId};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// The result of an undo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// Files that have their earlier content again.
    pub restored: Vec<String>,
    /// Files that the run had created and the undo deleted.
    pub removed: Vec<String>,
    /// Changed files without a pre-image, which stay changed: for example, a command changed them in a context
    /// path that was too large to copy.
    pub not_covered: Vec<String>,
    /// Whether this undo completed an interrupted one.
    pub resumed: bool,
}

/// Why an undo failed. Nothing has been undone, except possibly in part after a disk error.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The run changed nothing.
    #[error("the run in {} changed nothing in context paths", run_dir.display())]
    Nothing {
        /// The run's directory.
        run_dir: PathBuf,
    },
    /// The run has not closed its context paths.
    #[error("the run in {} has not finished with its context paths: let it end, or resume it", run_dir.display())]
    NotClosed {
        /// The run's directory.
        run_dir: PathBuf,
    },
    /// The run was undone before.
    #[error("the run in {} was already undone", run_dir.display())]
    Done {
        /// The run's directory.
        run_dir: PathBuf,
    },
    /// Somebody else has changed files since the run.
    #[error("nothing was undone, because these files were changed after the run: {}", paths.join(", "))]
    Changed {
        /// The changed files.
        paths: Vec<String>,
    },
    /// A disk operation failed. Files that were already restored stay restored; another undo continues.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

struct UndoStep<'a> {
    root: &'a TrackedPath,
    after: &'a RecordedChange,
    wanted: PathState,
}

impl UndoStep<'_> {
    fn path(&self) -> String {
        self.root.display_path(&self.after.path)
    }

    fn io(&self, doing: &'static str) -> impl FnOnce(io::Error) -> DiskError {
        let path = PathBuf::from(self.path());
        move |source| DiskError::Io { doing, path, source }
    }

    /// Whether the path already is as it was before the run, possibly because of an interrupted undo.
    fn is_done(&self, now: &PathState) -> bool {
        // If the run replaced a directory with a file, the directory is restored together with its content.
        let was_dir = || self.root.entry(&self.after.path).is_some_and(|entry| entry.kind == FileKind::Dir);
        *now == self.wanted || (self.after.change == FileChange::New && *now == PathState::Dir && was_dir())
    }

    /// Whether the path still is as the run left it, so that nobody else's work is lost.
    fn is_left_by_run(&self, now: &PathState) -> bool {
        // If the run replaced a file with a directory, an interrupted undo may already have removed the
        // directory.
        *now == self.after.state || (self.after.state == PathState::Dir && *now == PathState::Absent)
    }

    fn now(&self) -> Result<PathState, DiskError> {
        self.root.open().and_then(|dir| PathState::of(&dir, &self.after.path)).map_err(self.io("access"))
    }
}

/// Undoes the changes of the run in `run_dir`. Must not be called while the run is active.
pub fn undo(run_dir: &Path) -> Result<UndoReport, UndoError> {
    let preimages = Preimages::of(run_dir);
    let here = || run_dir.to_owned();
    let Some(before) = preimages.read::<ContextSnapshot>("before")? else {
        return Err(UndoError::Nothing { run_dir: here() });
    };
    if preimages.read::<bool>("undone")?.is_some() {
        return Err(UndoError::Done { run_dir: here() });
    }
    let Some(after) = preimages.read::<Vec<RecordedChange>>("after")? else {
        return Err(UndoError::NotClosed { run_dir: here() });
    };
    if after.is_empty() {
        return Err(UndoError::Nothing { run_dir: here() });
    }
    let mut report =
        UndoReport { resumed: preimages.read::<bool>("undo")?.is_some(), ..UndoReport::default() };
    let steps = plan(&preimages, &before, &after, &mut report)?;
    preimages.write("undo", &true)?;
    remove_created(&steps, &mut report)?;
    for step in steps.iter().filter(|step| step.after.change != FileChange::New) {
        restore(&preimages, step)?;
        report.restored.push(step.path());
    }
    sync_dirs(&steps)?;
    preimages.write("undone", &true)?;
    Ok(report)
}

/// Syncs the directories of the restored and deleted files; only then is the undo complete.
fn sync_dirs(steps: &[UndoStep<'_>]) -> Result<(), DiskError> {
    let mut dirs = BTreeSet::new();
    for step in steps.iter().filter(|step| dirs.insert((step.after.root, split_path(&step.after.path).0))) {
        let dir = step.root.open().and_then(|root| root.open_dir_path(split_path(&step.after.path).0));
        match dir {
            Ok(dir) => {
                dir.reopen_readable().and_then(|dir| Ok(rustix::fs::fsync(dir)?)).map_err(step.io("sync"))?
            }
            // The run had created this directory, and the undo has removed it.
            Err(error) if is_concurrent_change(&error) => {}
            Err(error) => return Err(step.io("access")(error)),
        }
    }
    Ok(())
}

/// The task of a session that changed files last. A task that was already undone is returned only if all tasks
/// with changes were undone. `None` if no task changed files.
pub fn last_task_with_changes(session_dir: &Path) -> Option<TaskId> {
    let tasks = std::fs::read_dir(session_dir.join(TASKS)).ok()?;
    let changed = tasks.filter_map(Result::ok).filter_map(|task| {
        let preimages = Preimages::of(&task.path());
        let after = preimages.read::<Vec<RecordedChange>>("after").ok()??;
        let at = std::fs::metadata(preimages.dir.join("after")).and_then(|data| data.modified()).ok()?;
        let undone = preimages.read::<bool>("undone").ok()?.is_some();
        let name = task.file_name().into_string().ok()?;
        (!after.is_empty()).then_some((!undone, at, name))
    });
    changed.max().map(|(.., name)| TaskId::from(name.as_str()))
}

/// The steps that the undo still has to do; an error if a file is neither as the run left it nor as it was
/// before the run.
fn plan<'a>(
    preimages: &Preimages,
    before: &'a ContextSnapshot,
    after: &'a [RecordedChange],
    report: &mut UndoReport,
) -> Result<Vec<UndoStep<'a>>, UndoError> {
    let (mut steps, mut foreign) = (Vec::new(), Vec::new());
    for after in after {
        let Some(root) = before.roots.get(after.root) else { continue };
        let wanted = match after.change {
            FileChange::New => Some(PathState::Absent),
            FileChange::Modified | FileChange::Deleted => pre_image(preimages, root, after)?,
        };
        let Some(wanted) = wanted else {
            report.not_covered.push(root.display_path(&after.path));
            continue;
        };
        let step = UndoStep { root, after, wanted };
        let now = step.now()?;
        if step.is_done(&now) {
            continue;
        }
        if !step.is_left_by_run(&now) {
            foreign.push(step.path());
        }
        steps.push(step);
    }
    if foreign.is_empty() { Ok(steps) } else { Err(UndoError::Changed { paths: foreign }) }
}

/// The state that the pre-image of a changed file represents; `None` if the file has no pre-image.
fn pre_image(
    preimages: &Preimages,
    root: &TrackedPath,
    after: &RecordedChange,
) -> Result<Option<PathState>, DiskError> {
    let Some((dir, kind)) = preimages.find(after.root, &after.path) else { return Ok(None) };
    let name = split_path(&after.path).1;
    let mode = root.entry(&after.path).map_or(0o644, |entry| entry.mode);
    let state = match kind {
        FileKind::File => dir.open_file(name).and_then(|(mut file, _)| digest(&mut file)),
        FileKind::Link => dir.read_link(name).map(|text| path_to_text(Path::new(&text))),
        FileKind::Dir | FileKind::Special => return Ok(None),
    };
    let text = state.map_err(DiskError::io("read the pre-image of", &after.path))?;
    Ok(Some(if kind == FileKind::File {
        PathState::File { sha256: text, mode }
    } else {
        PathState::Link { text }
    }))
}

/// Deletes the files that the run created, then the directories that it created for them, if they are empty.
fn remove_created(steps: &[UndoStep<'_>], report: &mut UndoReport) -> Result<(), DiskError> {
    for step in steps.iter().filter(|step| step.after.change == FileChange::New).rev() {
        let (above, name) = split_path(&step.after.path);
        let dir = step.root.open().and_then(|root| root.open_dir_path(above)).map_err(step.io("access"))?;
        dir.remove_file(name).map_err(step.io("remove"))?;
        report.removed.push(step.path());
    }
    let mut made = BTreeSet::new();
    for step in steps {
        let above = step.after.path.ancestors().skip(usize::from(step.after.state != PathState::Dir));
        for dir in above.filter(|dir| !dir.as_os_str().is_empty()) {
            if step.root.entry(dir).is_none_or(|entry| entry.kind != FileKind::Dir) {
                made.insert((step.after.root, dir.to_owned()));
            }
        }
    }
    for (n, path) in made.iter().rev() {
        let Some(step) = steps.iter().find(|step| step.after.root == *n) else { continue };
        let (above, name) = split_path(path);
        // A directory with other files in it stays.
        let _ =
            step.root.open().and_then(|root| root.open_dir_path(above)).and_then(|dir| dir.remove_dir(name));
    }
    Ok(())
}

fn restore(preimages: &Preimages, step: &UndoStep<'_>) -> Result<(), DiskError> {
    let (above, name) = split_path(&step.after.path);
    let dir = recreate_parent(step.root, above).map_err(step.io("access"))?;
    let gone = || io::Error::new(io::ErrorKind::NotFound, "its pre-image is missing");
    let (stored, _) =
        preimages.find(step.after.root, &step.after.path).ok_or_else(gone).map_err(step.io("restore"))?;
    let staged = match &step.wanted {
        PathState::File { mode, .. } => dir.stage_with(Some(*mode), |file| {
            let (mut source, found) = stored.open_file(name)?;
            let size = found.stamp.size;
            HoleDetection::default().copy(
                &mut source,
                file,
                size,
                &mut Vec::new(),
                &CopyBudget::default(),
            )?;
            set_mtime(file, found.stamp.mtime)?;
            file.sync_data()
        }),
        PathState::Link { text } => dir.stage(&[], None).and_then(|temporary| {
            dir.remove_file(&temporary)?;
            dir.symlink(path_from_text(text).as_os_str(), &temporary)?;
            Ok(temporary)
        }),
        PathState::Absent | PathState::Dir | PathState::Special => return Ok(()),
    };
    staged.and_then(|temporary| dir.rename(&temporary, name)).map_err(step.io("restore"))
}

/// The parent directory of a file, created again if the run had removed it.
fn recreate_parent(root: &TrackedPath, above: &Path) -> io::Result<ConfinedDir> {
    let (mut dir, mut at) = (root.open()?, PathBuf::new());
    for part in above.components() {
        at.push(part);
        let mode = root.entry(&at).map_or(0o755, |entry| entry.mode);
        dir = dir.make_dir(part.as_os_str(), mode)?;
    }
    Ok(dir)
}
