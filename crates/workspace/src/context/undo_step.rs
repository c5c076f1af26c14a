//! The steps of an undo: what each file should be again, and the file operations that make it so. No link in the
//! place of a file or directory is followed.

use super::attributes::copy_attributes;
use super::preimages::Preimages;
use super::snapshot::TrackedPath;
use super::state::{CurrentState, PathState, RecordedChange};
use crate::confine::{ConfinedDir, FileKind, FileStat, MAX_PATH};
use crate::manifest::path_from_text;
use crate::sparse::{CopyBudget, HoleDetection};
use crate::workspace::{set_mtime, split_path};
use althing_disk::DiskError;
use althing_protocol::FileChange;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

pub(super) enum Unfinished {
    Stopped,
    Disk(DiskError),
}

impl From<DiskError> for Unfinished {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

pub(super) struct UndoStep<'a> {
    pub(super) root: &'a TrackedPath,
    pub(super) after: &'a RecordedChange,
    pub(super) wanted: PathState,
}

impl UndoStep<'_> {
    pub(super) fn path(&self) -> String {
        self.root.display_path(&self.after.path)
    }

    pub(super) fn io(&self, doing: &'static str) -> impl FnOnce(io::Error) -> DiskError {
        let path = PathBuf::from(self.path());
        move |source| DiskError::Io { doing, path, source }
    }

    /// Whether the step is already done, possibly by an interrupted undo.
    pub(super) fn is_done(&self, now: &CurrentState) -> Result<bool, DiskError> {
        // If the run replaced a directory with a file, the file's step is done once the directory is there again.
        if self.after.change == FileChange::New
            && matches!(now, CurrentState::Other(PathState::Dir))
            && was_dir(self.root, &self.after.path)
        {
            return Ok(true);
        }
        now.is(&self.wanted).map_err(self.io("read"))
    }

    /// If this is false, an undo would destroy somebody else's work.
    pub(super) fn is_left_by_run(&self, now: &CurrentState) -> Result<bool, DiskError> {
        let is_partly_undone = match (&self.after.state, now) {
            // If the run replaced a file with a directory, an interrupted undo may already have removed the directory.
            (PathState::Dir, CurrentState::Other(PathState::Absent)) => true,
            (PathState::DirMode { mode: left }, CurrentState::Other(PathState::DirMode { mode: now })) => {
                *now == left | 0o700
            }
            _ => false,
        };
        Ok(is_partly_undone || now.is(&self.after.state).map_err(self.io("read"))?)
    }

    pub(super) fn is_mode(&self) -> bool {
        matches!(self.wanted, PathState::DirMode { .. })
    }

    pub(super) fn now(&self) -> Result<CurrentState, DiskError> {
        let state = if self.is_mode() { CurrentState::dir_mode } else { CurrentState::of };
        self.root.open().and_then(|dir| state(&dir, &self.after.path)).map_err(self.io("access"))
    }
}

/// Deletes the files that the run created, then the directories that it created, if they are empty. A created
/// directory that is nested too deeply for a scan is deleted with everything in it.
pub(super) fn remove_created(
    (steps, gone): (&[UndoStep<'_>], &[UndoStep<'_>]),
    done: &mut BTreeSet<usize>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), Unfinished> {
    let created = steps.iter().enumerate().filter(|(_, step)| step.after.change == FileChange::New);
    for (n, step) in created.clone().rev() {
        if is_stopped() {
            return Err(Unfinished::Stopped);
        }
        let (above, name) = split_path(&step.after.path);
        let is_dir = step.after.state == PathState::Dir;
        let is_deep = step.after.path.as_os_str().len() > MAX_PATH;
        if is_dir && !is_deep {
            // An empty directory is removed below, together with the created directories above it.
            continue;
        }
        let dir = step.root.open().and_then(|root| root.open_dir_path(above)).map_err(step.io("access"))?;
        let removed = if is_dir { dir.remove_tree(name) } else { dir.remove_file(name) };
        removed.map_err(step.io("remove"))?;
        done.insert(n);
    }
    let mut made = BTreeSet::new();
    // The directories of `gone` are looked at, too: an interrupted undo may have deleted those files, but not yet their
    // directories.
    for step in steps.iter().chain(gone) {
        let above = step.after.path.ancestors().skip(usize::from(step.after.state != PathState::Dir));
        for dir in above.filter(|dir| !dir.as_os_str().is_empty()) {
            // If this directory existed before the run, so did those above it. If it is already in `made`, they have
            // been looked at.
            if was_dir(step.root, dir) || !made.insert((step.after.root, dir.to_owned())) {
                break;
            }
        }
    }
    let mut kept = BTreeSet::new();
    for (n, path) in made.iter().rev() {
        let Some(step) = steps.iter().chain(gone).find(|step| step.after.root == *n) else { continue };
        let (above, name) = split_path(path);
        let dir = step.root.open().and_then(|root| root.open_dir_path(above));
        if dir.is_ok_and(|dir| dir.remove_dir(name).is_err_and(|error| error.kind() != ErrorKind::NotFound)) {
            kept.insert((*n, path.as_path()));
        }
    }
    let is_kept = |step: &UndoStep<'_>| kept.contains(&(step.after.root, step.after.path.as_path()));
    done.extend(created.filter(|(_, step)| !is_kept(step)).map(|(n, _)| n));
    Ok(())
}

/// Files that may have had several names, by the device and inode that they had before the run: those that were
/// restored, and those that the run left alone under another name.
pub(super) type RestoredFiles<'a> = BTreeMap<(u64, u64), (ConfinedDir, &'a OsStr)>;

/// The names in `gone` (steps that are already done) that still belong to the same file as before the run.
pub(super) fn untouched_names<'a>(gone: &'a [UndoStep<'_>]) -> RestoredFiles<'a> {
    let untouched = |step: &'a UndoStep<'_>| {
        let PathState::File { .. } = step.wanted else { return None };
        let before = step.root.entry(&step.after.path)?.stamp;
        let (above, name) = split_path(&step.after.path);
        let dir = step.root.open().and_then(|root| root.open_dir_path(above)).ok()?;
        let now = dir.stat(name).ok()??.stamp;
        let file = (before.dev, before.ino);
        ((now.dev, now.ino) == file).then_some((file, (dir, name)))
    };
    gone.iter().filter_map(untouched).collect()
}

pub(super) fn restore<'a>(
    preimages: &Preimages,
    step: &'a UndoStep<'_>,
    restored: &mut RestoredFiles<'a>,
) -> Result<(), DiskError> {
    if step.wanted == PathState::Dir {
        return recreate_dir(step.root, &step.after.path).map(drop).map_err(step.io("restore"));
    }
    if let PathState::DirMode { mode } = step.wanted {
        let dir = step.root.open().and_then(|root| root.open_dir_path(&step.after.path));
        return dir.and_then(|dir| dir.set_mode(mode)).map_err(step.io("restore"));
    }
    let (above, name) = split_path(&step.after.path);
    let dir = recreate_dir(step.root, above).map_err(step.io("access"))?;
    let before = step.root.entry(&step.after.path).map(|entry| (entry.stamp.dev, entry.stamp.ino));
    if let Some((other, first)) = before.and_then(|file| restored.get(&file)) {
        // The file had several names. It gets them all back, instead of becoming several files.
        return link(other, first, &dir, name).map_err(step.io("restore"));
    }
    let gone = || io::Error::new(ErrorKind::NotFound, "its pre-image is missing");
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
            // A file that the run put in the place of the user's has only attributes that the run gave it.
            let old = dir.open_file(name).ok();
            let is_same = |now: &FileStat| before == Some((now.stamp.dev, now.stamp.ino));
            if let Some((old, _)) = old.filter(|(_, now)| is_same(now)) {
                copy_attributes(&old, file)?;
            }
            set_mtime(file, found.stamp.mtime)?;
            file.sync_data()
        }),
        PathState::Link { text } => dir.stage(&[], None).and_then(|temporary| {
            dir.remove_file(&temporary)?;
            dir.symlink(path_from_text(text).as_os_str(), &temporary)?;
            Ok(temporary)
        }),
        PathState::Absent
        | PathState::Dir
        | PathState::DirMode { .. }
        | PathState::Special
        | PathState::Unreadable => return Ok(()),
    };
    staged.and_then(|temporary| dir.rename(&temporary, name)).map_err(step.io("restore"))?;
    restored.extend(
        before.filter(|_| matches!(step.wanted, PathState::File { .. })).map(|file| (file, (dir, name))),
    );
    Ok(())
}

fn link(from: &ConfinedDir, file: &OsStr, dir: &ConfinedDir, name: &OsStr) -> io::Result<()> {
    let temporary = dir.stage(&[], None)?;
    dir.remove_file(&temporary)?;
    from.hard_link(file, dir, &temporary)?;
    dir.rename(&temporary, name)?;
    // A rename onto another name of the same file does nothing.
    let _ = dir.remove_file(&temporary);
    Ok(())
}

pub(super) fn was_dir(root: &TrackedPath, path: &Path) -> bool {
    root.entry(path).is_some_and(|entry| entry.kind == FileKind::Dir)
}

fn recreate_dir(root: &TrackedPath, path: &Path) -> io::Result<ConfinedDir> {
    let (mut dir, mut at) = (root.open()?, PathBuf::new());
    // Usually the directory exists, or only its last component is missing.
    let (above, name) = split_path(path);
    match (dir.open_dir_path(path), dir.open_dir_path(above)) {
        (Ok(found), _) => return Ok(found),
        (Err(_), Ok(above)) if path != Path::new("") => {
            return above.make_dir(name, root.entry(path).map_or(0o755, |entry| entry.mode));
        }
        (Err(_), _) => {}
    }
    for part in path.components() {
        at.push(part);
        let mode = root.entry(&at).map_or(0o755, |entry| entry.mode);
        dir = dir.make_dir(part.as_os_str(), mode)?;
    }
    Ok(dir)
}
