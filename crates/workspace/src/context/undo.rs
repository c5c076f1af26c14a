//! Undoes what a run changed in context paths. All files are checked first: if one is neither as the run left it nor
//! as it was before, somebody else changed it, and nothing is undone. Each file is replaced atomically, so an
//! interrupted undo is completed by running it again.

use super::path_lock::{BusyPath, PathLock};
use super::preimages::Preimages;
use super::snapshot::{ContextSnapshot, TrackedPath};
use super::state::{PathState, RecordedChange};
use super::undo_step::{UndoStep, Unfinished, remove_created, restore, untouched_names, was_dir};
use crate::confine::{ConfinedDir, FileKind, is_concurrent_change};
use crate::digest::digest;
use crate::manifest::path_to_text;
use crate::sparse::CopyBudget;
use crate::workspace::split_path;
use althing_disk::DiskError;
use althing_disk::names::TASKS;
use althing_protocol::{FileChange, GIT_DIR, TaskId};
use rustix::fs::{Access, AtFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The result of an undo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// Files that have their earlier content again.
    pub restored: Vec<String>,
    /// Files that the run had created and the undo deleted.
    pub removed: Vec<String>,
    /// Changed files without a pre-image, which stay changed; files and context paths that could not be read at the
    /// end of the run; and `.git` directories that the run deleted or replaced.
    pub not_covered: Vec<String>,
    /// Files that this undo would have restored or deleted, had it not been stopped or failed.
    pub left: Vec<String>,
    /// Files that were already as before the run, because of an interrupted undo.
    pub earlier: Vec<String>,
    /// Whether this undo completed an interrupted one.
    pub resumed: bool,
}

/// Why an undo failed. The failed undo changed nothing, except with [`UndoError::Unfinished`].
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The run changed nothing.
    #[error("{} changed no files in context paths", author(run_dir))]
    Nothing {
        /// The run's directory.
        run_dir: PathBuf,
    },
    /// The run has not closed its context paths, so nobody knows yet what it changed.
    #[error("what {} changed is not listed yet: let it end, or resume it", author(run_dir))]
    NotClosed {
        /// The run's directory.
        run_dir: PathBuf,
    },
    /// The run was undone before.
    #[error("what {} changed was already undone", author(run_dir))]
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
    /// Another session, another run of this session, or another undo may write to a path that the run could write to.
    #[error(transparent)]
    Busy(#[from] BusyPath),
    /// A disk operation failed before anything was changed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The undo was stopped before it changed anything.
    #[error("the undo was stopped before it changed anything")]
    Stopped,
    /// The undo was stopped, or a disk operation failed. What was restored stays restored; another undo continues.
    #[error("{}", why.as_ref().map_or_else(|| "the undo was stopped".to_owned(), ToString::to_string))]
    Unfinished {
        /// What has been restored and what has not.
        report: Box<UndoReport>,
        /// `None` if the undo was stopped.
        why: Option<DiskError>,
    },
}

/// Who made the changes that are stored in this directory of a task.
fn author(run_dir: &Path) -> String {
    let task = run_dir.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    if task == TaskId::chat().as_str() { "the conversation".to_owned() } else { format!("the run {task}") }
}

/// Whether the changes of the run in `run_dir` were undone.
pub fn is_undone(run_dir: &Path) -> bool {
    Preimages::of(run_dir).read::<bool>("undone").is_ok_and(|undone| undone.is_some())
}

/// Undoes the changes of the run in `run_dir`. Must not be called while the run is active, and is refused while another
/// session, run or undo may write to the run's context paths.
pub fn undo(run_dir: &Path) -> Result<UndoReport, UndoError> {
    undo_unless_stopped(run_dir, &|| false)
}

/// Like [`undo`], but stops before the next file once `is_stopped` returns true.
pub fn undo_unless_stopped(run_dir: &Path, is_stopped: &dyn Fn() -> bool) -> Result<UndoReport, UndoError> {
    let preimages = Preimages::of(run_dir);
    let Some(before) = preimages.read::<ContextSnapshot>("before")? else {
        return Err(UndoError::Nothing { run_dir: run_dir.to_owned() });
    };
    // An active run holds the lock itself.
    listed(run_dir, &preimages)?;
    // Held until the undo ends: a run that writes at the same time would list the undo's changes as its own, and its own
    // undo would make them again. Two undos of one run would disturb each other.
    let roots: Vec<PathBuf> = before.roots.iter().map(TrackedPath::path_to_lock).collect();
    let _lock = PathLock::acquire_for_undo(&roots)?;
    let after = listed(run_dir, &preimages)?;
    let mut report =
        UndoReport { resumed: preimages.read::<bool>("undo")?.is_some(), ..UndoReport::default() };
    let (steps, gone) = plan(&preimages, &before, &after, &mut report, is_stopped)?;
    let mut undone_by = preimages.read::<Vec<u32>>("undo_by")?.unwrap_or_default();
    remove_temporary(&before, &after, &undone_by);
    undone_by.push(std::process::id());
    preimages.write("undo_by", &undone_by)?;
    preimages.write("undo", &true)?;
    let mut done = BTreeSet::new();
    let finished = carry_out(&preimages, (&steps, &gone), &mut done, is_stopped);
    if finished.is_ok() && report.resumed {
        restore_modes(&before, &after);
    }
    for (n, step) in steps.iter().enumerate() {
        match (done.contains(&n), step.after.change) {
            (false, _) => report.left.push(step.path()),
            (true, FileChange::New) => report.removed.push(step.path()),
            (true, FileChange::Modified | FileChange::Deleted) => report.restored.push(step.path()),
        }
    }
    let unfinished = |report, why| UndoError::Unfinished { report: Box::new(report), why };
    match finished {
        Ok(()) => {}
        Err(Unfinished::Stopped) => return Err(unfinished(report, None)),
        Err(Unfinished::Disk(error)) => return Err(unfinished(report, Some(error))),
    }
    if let Err(error) = preimages.write("undone", &true) {
        return Err(unfinished(report, Some(error)));
    }
    Ok(report)
}

/// What the run changed, unless it was undone.
fn listed(run_dir: &Path, preimages: &Preimages) -> Result<Vec<RecordedChange>, UndoError> {
    let run_dir = run_dir.to_owned();
    if preimages.read::<bool>("undone")?.is_some() {
        return Err(UndoError::Done { run_dir });
    }
    match preimages.read::<Vec<RecordedChange>>("after")? {
        None => Err(UndoError::NotClosed { run_dir }),
        Some(after) if after.is_empty() => Err(UndoError::Nothing { run_dir }),
        Some(after) => Ok(after),
    }
}

fn carry_out(
    preimages: &Preimages,
    (steps, gone): (&[UndoStep<'_>], &[UndoStep<'_>]),
    done: &mut BTreeSet<usize>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), Unfinished> {
    let made_writable = make_writable(steps);
    let finished = change_files(preimages, (steps, gone), done, is_stopped);
    for (dir, mode) in made_writable {
        // Best effort: the directory may be one that the run had created and `change_files` has removed.
        let _ = dir.unlock_to(mode);
    }
    finished?;
    // Modes are restored last, because a mode may forbid the steps in its directory.
    for (n, step) in steps.iter().enumerate().filter(|(_, step)| step.is_mode()).rev() {
        if is_stopped() {
            return Err(Unfinished::Stopped);
        }
        restore(preimages, step, &mut BTreeMap::new())?;
        done.insert(n);
    }
    Ok(sync_dirs(steps)?)
}

fn change_files(
    preimages: &Preimages,
    (steps, gone): (&[UndoStep<'_>], &[UndoStep<'_>]),
    done: &mut BTreeSet<usize>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), Unfinished> {
    remove_created((steps, gone), done, is_stopped)?;
    let mut restored = untouched_names(gone);
    let changed = steps.iter().enumerate().filter(|(_, step)| step.after.change != FileChange::New);
    for (n, step) in changed.filter(|(_, step)| !step.is_mode()) {
        if is_stopped() {
            return Err(Unfinished::Stopped);
        }
        restore(preimages, step, &mut restored)?;
        done.insert(n);
    }
    Ok(())
}

/// An interrupted undo may have made directories writable for their owner. Modes that the run changed have steps of
/// their own.
fn restore_modes(before: &ContextSnapshot, after: &[RecordedChange]) {
    let mut seen = BTreeSet::new();
    let own_step =
        |root: usize, path: &Path| after.iter().any(|after| after.root == root && after.path == path);
    for after in after {
        let Some(root) = before.roots.get(after.root) else { continue };
        for path in after.path.ancestors().skip(1) {
            if !seen.insert((after.root, path)) {
                break;
            }
            let Some(entry) = root.entry(path).filter(|_| !own_step(after.root, path)) else { continue };
            let Ok(dir) = root.open().and_then(|root| root.open_dir_path(path)) else { continue };
            let is_unlocked = |mode: u32| mode != entry.mode && mode == entry.mode | 0o700;
            if entry.kind == FileKind::Dir && dir.stat_self().is_ok_and(|now| is_unlocked(now.mode)) {
                let _ = dir.set_mode(entry.mode);
            }
        }
    }
}

/// `pids` are the processes of earlier undos of this run.
fn remove_temporary(before: &ContextSnapshot, after: &[RecordedChange], pids: &[u32]) {
    if pids.is_empty() {
        return;
    }
    let mut dirs = BTreeSet::new();
    for after in after.iter().filter(|after| dirs.insert((after.root, split_path(&after.path).0))) {
        let dir = before.roots.get(after.root).and_then(|root| root.open().ok());
        let Some(dir) = dir.and_then(|root| root.open_dir_path(split_path(&after.path).0).ok()) else {
            continue;
        };
        for name in dir.temporary_files(pids).unwrap_or_default() {
            // Best effort: what is left does no harm.
            let _ = dir.remove_file(&name);
        }
    }
}

/// Returns the directories that it made writable, with their earlier modes.
fn make_writable(steps: &[UndoStep<'_>]) -> Vec<(ConfinedDir, u32)> {
    let (mut seen, mut made) = (BTreeSet::new(), Vec::new());
    for step in steps.iter().filter(|step| !step.is_mode()) {
        for path in step.after.path.ancestors().skip(1) {
            if !seen.insert((step.after.root, path)) {
                break;
            }
            let Ok(dir) = step.root.open().and_then(|root| root.open_dir_path(path)) else { continue };
            if rustix::fs::accessat(&dir, ".", Access::WRITE_OK, AtFlags::empty()).is_ok() {
                continue;
            }
            // If this fails, the step fails and says why.
            let Ok(found) = dir.stat_self() else { continue };
            if dir.unlock().is_ok() {
                made.push((dir, found.mode));
            }
        }
    }
    made
}

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

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Undone,
    Unlisted,
    Listed,
}

/// Whether the run in `run_dir` may have changed files that are not listed yet, because it has not closed its context
/// paths.
pub fn is_unlisted(run_dir: &Path) -> bool {
    let preimages = Preimages::of(run_dir);
    preimages.has("before") && !preimages.has("after")
}

/// The task of a session that changed files last. If there is none, or all were undone, a task whose changes are not
/// listed yet is returned before one that was undone.
pub fn last_task_with_changes(session_dir: &Path) -> Option<TaskId> {
    let tasks = std::fs::read_dir(session_dir.join(TASKS)).ok()?;
    let changed = tasks.filter_map(Result::ok).filter_map(|task| {
        let (preimages, name) = (Preimages::of(&task.path()), task.file_name().into_string().ok()?);
        let changed_at = |record: &str| std::fs::metadata(preimages.dir.join(record))?.modified();
        if is_unlisted(&task.path()) {
            return Some((Rank::Unlisted, changed_at("before").ok()?, name));
        }
        let after = preimages.read::<Vec<RecordedChange>>("after").ok()??;
        let undone = preimages.read::<bool>("undone").ok()?.is_some();
        let rank = if undone { Rank::Undone } else { Rank::Listed };
        (!after.is_empty()).then_some((rank, changed_at("after").ok()?, name))
    });
    changed.max().map(|(.., name)| TaskId::from(name.as_str()))
}

/// The steps that the undo still has to do, and those that are already done. Fails if a file is neither as the run
/// left it nor as it was before the run.
fn plan<'a>(
    preimages: &Preimages,
    before: &'a ContextSnapshot,
    after: &'a [RecordedChange],
    report: &mut UndoReport,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(Vec<UndoStep<'a>>, Vec<UndoStep<'a>>), UndoError> {
    let (mut steps, mut gone, mut foreign) = (Vec::new(), Vec::new(), Vec::new());
    for after in after {
        if is_stopped() {
            return Err(UndoError::Stopped);
        }
        let Some(root) = before.roots.get(after.root) else { continue };
        let wanted = match after.change {
            _ if after.state == PathState::Unreadable => None,
            FileChange::New => Some(PathState::Absent),
            // The content of a repository has no pre-image.
            FileChange::Modified | FileChange::Deleted
                if was_dir(root, &after.path) && is_git_dir(&after.path) =>
            {
                None
            }
            FileChange::Modified if after.path.as_os_str().is_empty() => {
                root.own_mode().map(|mode| PathState::DirMode { mode })
            }
            FileChange::Modified if matches!(after.state, PathState::DirMode { .. }) => {
                root.entry(&after.path).map(|entry| PathState::DirMode { mode: entry.mode })
            }
            FileChange::Modified | FileChange::Deleted if was_dir(root, &after.path) => Some(PathState::Dir),
            FileChange::Modified | FileChange::Deleted => pre_image(preimages, root, after)?,
        };
        let Some(wanted) = wanted else {
            report.not_covered.push(root.display_path(&after.path));
            continue;
        };
        let step = UndoStep { root, after, wanted };
        let now = step.now()?;
        if step.is_done(&now)? {
            if report.resumed {
                report.earlier.push(step.path());
            }
            gone.push(step);
            continue;
        }
        if !step.is_left_by_run(&now)? {
            foreign.push(step.path());
        }
        steps.push(step);
    }
    if foreign.is_empty() { Ok((steps, gone)) } else { Err(UndoError::Changed { paths: foreign }) }
}

fn pre_image(
    preimages: &Preimages,
    root: &TrackedPath,
    after: &RecordedChange,
) -> Result<Option<PathState>, DiskError> {
    let Some((dir, kind)) = preimages.find(after.root, &after.path) else { return Ok(None) };
    let name = split_path(&after.path).1;
    let mode = root.entry(&after.path).map_or(0o644, |entry| entry.mode);
    let state = match kind {
        FileKind::File => dir.open_file(name).and_then(|(file, _)| digest(&file, &CopyBudget::default())),
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

fn is_git_dir(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == GIT_DIR)
}
