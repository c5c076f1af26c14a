//! Puts back what a run changed in context paths.
//!
//! Everything is checked before anything is changed: a file that is neither as the run left it nor as it was before the
//! run belongs to somebody else, and then nothing is undone. Each file is put back whole, so that an interrupted undo is
//! finished by undoing again.

use super::preimages::Preimages;
use super::snapshot::{ContextSnapshot, Tracked};
use super::state::{After, State};
use crate::confine::{ConfinedDir, Kind, is_change};
use crate::manifest::{path_text, text_path};
use crate::sparse::{Budget, Holes, digest};
use crate::workspace::{keep_time, split};
use althing_disk::DiskError;
use althing_disk::names::TASKS;
use althing_protocol::{FileChange, TaskId};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// What an undo did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// Files that hold again what they held.
    pub restored: Vec<String>,
    /// Files that the run had made, and that are gone.
    pub removed: Vec<String>,
    /// Files of which nothing was kept, because a command changed them in a context path too large to keep.
    pub not_covered: Vec<String>,
    /// Whether this finished an undo that was interrupted.
    pub resumed: bool,
}

/// Why nothing was undone.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The run has changed nothing.
    #[error("the run in {} changed no context path", run_dir.display())]
    Nothing {
        /// The run's directory.
        run_dir: PathBuf,
    },
    /// The run is not over.
    #[error("the run in {} still has its context paths open: let it end, or resume it, first", run_dir.display())]
    NotClosed {
        /// The run's directory.
        run_dir: PathBuf,
    },
    /// It was undone before.
    #[error("the run in {} is undone already", run_dir.display())]
    Done {
        /// The run's directory.
        run_dir: PathBuf,
    },
    /// Somebody else has changed files since.
    #[error("nothing was undone, since these files were changed after the run: {}", paths.join(", "))]
    Changed {
        /// Which.
        paths: Vec<String>,
    },
    /// The disk refused. What was put back so far stays; undoing again goes on.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

struct Step<'a> {
    root: &'a Tracked,
    after: &'a After,
    wanted: State,
}

impl Step<'_> {
    fn path(&self) -> String {
        self.root.tell(&self.after.path)
    }

    fn io(&self, doing: &'static str) -> impl FnOnce(io::Error) -> DiskError {
        let path = PathBuf::from(self.path());
        move |source| DiskError::Io { doing, path, source }
    }

    /// Whether nothing is to be done, perhaps because an interrupted undo did it.
    fn is_done(&self, now: &State) -> bool {
        // Where the run put a file in place of a directory, the directory comes back with what is in it.
        let was_dir = || self.root.entry(&self.after.path).is_some_and(|entry| entry.kind == Kind::Dir);
        *now == self.wanted || (self.after.change == FileChange::New && *now == State::Dir && was_dir())
    }

    /// Whether what is there is the run's, and nobody loses anything if it goes.
    fn is_left_by_run(&self, now: &State) -> bool {
        // A directory in place of a file is gone once an interrupted undo has emptied it.
        *now == self.after.state || (self.after.state == State::Dir && *now == State::Absent)
    }

    fn now(&self) -> Result<State, DiskError> {
        self.root.open().and_then(|dir| State::of(&dir, &self.after.path)).map_err(self.io("look at"))
    }
}

/// Puts back what the run whose files are in `run_dir` changed. To be called when nobody works on the run.
pub fn undo(run_dir: &Path) -> Result<UndoReport, UndoError> {
    let preimages = Preimages::of(run_dir);
    let here = || run_dir.to_owned();
    let Some(before) = preimages.read::<ContextSnapshot>("before")? else {
        return Err(UndoError::Nothing { run_dir: here() });
    };
    if preimages.read::<bool>("undone")?.is_some() {
        return Err(UndoError::Done { run_dir: here() });
    }
    let Some(after) = preimages.read::<Vec<After>>("after")? else {
        return Err(UndoError::NotClosed { run_dir: here() });
    };
    if after.is_empty() {
        return Err(UndoError::Nothing { run_dir: here() });
    }
    let mut report =
        UndoReport { resumed: preimages.read::<bool>("undo")?.is_some(), ..UndoReport::default() };
    let steps = plan(&preimages, &before, &after, &mut report)?;
    preimages.write("undo", &true)?;
    take_away(&steps, &mut report)?;
    for step in steps.iter().filter(|step| step.after.change != FileChange::New) {
        put_back(&preimages, step)?;
        report.restored.push(step.path());
    }
    settle(&steps)?;
    preimages.write("undone", &true)?;
    Ok(report)
}

/// Makes what was put back durable: only then it is done.
fn settle(steps: &[Step<'_>]) -> Result<(), DiskError> {
    let mut dirs = BTreeSet::new();
    for step in steps.iter().filter(|step| dirs.insert((step.after.root, split(&step.after.path).0))) {
        let dir = step.root.open().and_then(|root| root.enter(split(&step.after.path).0));
        match dir {
            Ok(dir) => {
                dir.readable().and_then(|dir| Ok(rustix::fs::fsync(dir)?)).map_err(step.io("make durable"))?
            }
            // It was the run's, and went with its last file.
            Err(error) if is_change(&error) => {}
            Err(error) => return Err(step.io("reach")(error)),
        }
    }
    Ok(())
}

/// The task of a session that changed files last, of those that are not undone where there are any; None where none did.
pub fn last_task_with_changes(session_dir: &Path) -> Option<TaskId> {
    let tasks = std::fs::read_dir(session_dir.join(TASKS)).ok()?;
    let changed = tasks.filter_map(Result::ok).filter_map(|task| {
        let preimages = Preimages::of(&task.path());
        let after = preimages.read::<Vec<After>>("after").ok()??;
        let at = std::fs::metadata(preimages.dir.join("after")).and_then(|data| data.modified()).ok()?;
        let undone = preimages.read::<bool>("undone").ok()?.is_some();
        let name = task.file_name().into_string().ok()?;
        (!after.is_empty()).then_some((!undone, at, name))
    });
    changed.max().map(|(.., name)| TaskId::from(name.as_str()))
}

/// What is to be done; refused if a file is not what the run left.
fn plan<'a>(
    preimages: &Preimages,
    before: &'a ContextSnapshot,
    after: &'a [After],
    report: &mut UndoReport,
) -> Result<Vec<Step<'a>>, UndoError> {
    let (mut steps, mut foreign) = (Vec::new(), Vec::new());
    for after in after {
        let Some(root) = before.roots.get(after.root) else { continue };
        let wanted = match after.change {
            FileChange::New => Some(State::Absent),
            FileChange::Modified | FileChange::Deleted => pre_image(preimages, root, after)?,
        };
        let Some(wanted) = wanted else {
            report.not_covered.push(root.tell(&after.path));
            continue;
        };
        let step = Step { root, after, wanted };
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

/// The state that the kept file stands for.
fn pre_image(preimages: &Preimages, root: &Tracked, after: &After) -> Result<Option<State>, DiskError> {
    let Some((dir, kind)) = preimages.find(after.root, &after.path) else { return Ok(None) };
    let name = split(&after.path).1;
    let mode = root.entry(&after.path).map_or(0o644, |entry| entry.mode);
    let state = match kind {
        Kind::File => dir.open_file(name).and_then(|(mut file, _)| digest(&mut file)),
        Kind::Link => dir.link_text(name).map(|text| path_text(Path::new(&text))),
        Kind::Dir | Kind::Special => return Ok(None),
    };
    let text = state.map_err(DiskError::io("read the pre-image of", &after.path))?;
    Ok(Some(if kind == Kind::File { State::File { sha256: text, mode } } else { State::Link { text } }))
}

/// Removes the files that the run made, then the directories that it made for them and that are empty now.
fn take_away(steps: &[Step<'_>], report: &mut UndoReport) -> Result<(), DiskError> {
    for step in steps.iter().filter(|step| step.after.change == FileChange::New).rev() {
        let (above, name) = split(&step.after.path);
        let dir = step.root.open().and_then(|root| root.enter(above)).map_err(step.io("reach"))?;
        dir.remove_file(name).map_err(step.io("remove"))?;
        report.removed.push(step.path());
    }
    let mut made = BTreeSet::new();
    for step in steps {
        let above = step.after.path.ancestors().skip(usize::from(step.after.state != State::Dir));
        for dir in above.filter(|dir| !dir.as_os_str().is_empty()) {
            if step.root.entry(dir).is_none_or(|entry| entry.kind != Kind::Dir) {
                made.insert((step.after.root, dir.to_owned()));
            }
        }
    }
    for (n, path) in made.iter().rev() {
        let Some(step) = steps.iter().find(|step| step.after.root == *n) else { continue };
        let (above, name) = split(path);
        // Somebody has put something in it: then it stays.
        let _ = step.root.open().and_then(|root| root.enter(above)).and_then(|dir| dir.remove_dir(name));
    }
    Ok(())
}

fn put_back(preimages: &Preimages, step: &Step<'_>) -> Result<(), DiskError> {
    let (above, name) = split(&step.after.path);
    let dir = make_above(step.root, above).map_err(step.io("reach"))?;
    let gone = || io::Error::new(io::ErrorKind::NotFound, "its pre-image is gone");
    let (kept, _) =
        preimages.find(step.after.root, &step.after.path).ok_or_else(gone).map_err(step.io("restore"))?;
    let staged = match &step.wanted {
        State::File { mode, .. } => dir.stage_with(Some(*mode), |file| {
            let (mut source, found) = kept.open_file(name)?;
            let size = found.stamp.size;
            Holes::default().copy(&mut source, file, size, &mut Vec::new(), &Budget::default())?;
            keep_time(file, found.stamp.mtime)?;
            file.sync_data()
        }),
        State::Link { text } => dir.stage(&[], None).and_then(|temporary| {
            dir.remove_file(&temporary)?;
            dir.make_link(text_path(text).as_os_str(), &temporary)?;
            Ok(temporary)
        }),
        State::Absent | State::Dir | State::Special => return Ok(()),
    };
    staged.and_then(|temporary| dir.rename(&temporary, name)).map_err(step.io("restore"))
}

/// The directory of a file, made again where the run had removed it.
fn make_above(root: &Tracked, above: &Path) -> io::Result<ConfinedDir> {
    let (mut dir, mut at) = (root.open()?, PathBuf::new());
    for part in above.components() {
        at.push(part);
        let mode = root.entry(&at).map_or(0o755, |entry| entry.mode);
        dir = dir.make_dir(part.as_os_str(), mode)?;
    }
    Ok(dir)
}
