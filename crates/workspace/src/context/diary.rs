//! What an agent changes with its file tools where people work, too: each file before and after, and nothing of what
//! others change there.
//!
//! Kept in the same form as a run's pre-images, so that the same undo puts it back. A file that somebody else changed in
//! between is kept anew: an undo goes back to what they left.

use super::preimages::Preimages;
use super::snapshot::ContextSnapshot;
use super::state::{After, State};
use crate::access::{Ground, Refusal, Spot};
use crate::confine::{ConfinedDir, Leaf};
use crate::manifest::Entry;
use crate::tools::Witness;
use crate::workspace::split;
use althing_disk::files::{Durability, create_dirs};
use althing_disk::{DiskError, RealDisk};
use althing_protocol::{ContextPath, FileChange};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The changes of one agent.
#[derive(Debug)]
pub(crate) struct Diary {
    dir: PathBuf,
    paths: Vec<ContextPath>,
    preimages: Preimages,
    pages: Mutex<Option<Pages>>,
}

/// What is known of the files that were changed.
#[derive(Debug)]
struct Pages {
    /// Only what was changed, and the directories above it.
    before: ContextSnapshot,
    after: Vec<After>,
}

/// Where a file is among the writable context paths.
struct At {
    root: usize,
    path: PathBuf,
}

impl Diary {
    /// Kept in `dir`, where an undo finds it.
    pub(crate) fn of(dir: &Path, paths: &[ContextPath]) -> Self {
        let preimages = Preimages::of(dir);
        Self { dir: dir.to_owned(), paths: paths.to_vec(), preimages, pages: Mutex::new(None) }
    }

    /// Goes on with what an earlier process began; begins anew after an undo.
    fn open(&self) -> Result<Pages, DiskError> {
        if self.is_undone()? {
            let above = ConfinedDir::open(&self.dir).map_err(DiskError::io("open", &self.dir))?;
            above.remove_tree(OsStr::new("preimages")).map_err(DiskError::io("clear", &self.dir))?;
        }
        if let (Some(before), Some(after)) = (self.preimages.read("before")?, self.preimages.read("after")?) {
            return Ok(Pages { before, after });
        }
        create_dirs(&RealDisk, &self.preimages.dir.join("tree"), Durability::Synced)?;
        let pages = Pages { before: ContextSnapshot::unlooked(&self.paths), after: Vec::new() };
        self.preimages.write("before", &pages.before)?;
        self.preimages.write("after", &pages.after)?;
        Ok(pages)
    }

    fn is_undone(&self) -> Result<bool, DiskError> {
        Ok(self.preimages.read::<bool>("undone")?.is_some())
    }

    fn note_before(&self, pages: &mut Pages, spot: &Spot<'_>) -> Result<(), DiskError> {
        let Some(At { root: n, path }) = locate(&pages.before, spot) else { return Ok(()) };
        let failed = || DiskError::io("keep what an undo needs of", &spot.real);
        let Some(root) = pages.before.roots.get_mut(n) else { return Ok(()) };
        let dir = root.open().map_err(failed())?;
        let known = pages.after.iter().position(|after| after.root == n && after.path == path);
        if let Some(left) = known.and_then(|at| pages.after.get(at)) {
            if left.state == State::of(&dir, &path).map_err(failed())? {
                return Ok(());
            }
            self.preimages.forget(n, &path).map_err(failed())?;
        }
        root.entries.retain(|entry| entry.path != path);
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            if let Some(found) = look(&dir, above).map_err(failed())? {
                root.note(Entry::of(&Leaf { path: above.to_owned(), found }, false));
            }
        }
        if let Some(found) = spot.found {
            root.note(Entry::of(&Leaf { path: path.clone(), found }, false));
            self.preimages.keep_one(n, &path, &spot.dir).map_err(failed())?;
        }
        self.preimages.write("before", &pages.before)
    }

    fn note_after(&self, pages: &mut Pages, spot: &Spot<'_>) -> Result<(), DiskError> {
        let Some(At { root: n, path }) = locate(&pages.before, spot) else { return Ok(()) };
        let Some(root) = pages.before.roots.get(n) else { return Ok(()) };
        let state = root.open().and_then(|dir| State::of(&dir, &path));
        let state = state.map_err(DiskError::io("look at", &spot.real))?;
        let change = match (root.entry(&path).is_some(), &state) {
            (true, State::Absent) => Some(FileChange::Deleted),
            (true, _) => Some(FileChange::Modified),
            (false, State::Absent) => None,
            (false, _) => Some(FileChange::New),
        };
        pages.after.retain(|after| after.root != n || after.path != path);
        pages.after.extend(change.map(|change| After { root: n, path, change, state }));
        pages.after.sort_by(|a, b| (a.root, &a.path).cmp(&(b.root, &b.path)));
        self.preimages.write("after", &pages.after)
    }

    fn note(
        &self,
        spot: &Spot<'_>,
        note: impl FnOnce(&Self, &mut Pages, &Spot<'_>) -> Result<(), DiskError>,
    ) -> Result<(), Refusal> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = self.is_undone().and_then(|undone| {
            let known = pages.take().filter(|_| !undone);
            let known = pages.insert(known.map_or_else(|| self.open(), Ok)?);
            note(self, known, spot)
        });
        noted.map_err(|error| Refusal::Io {
            doing: "keep what an undo needs of",
            path: spot.shown.clone(),
            why: error.to_string(),
        })
    }
}

impl Witness for Diary {
    fn before_change(&self, spot: &Spot<'_>) -> Result<(), Refusal> {
        self.note(spot, Self::note_before)
    }

    fn after_change(&self, spot: &Spot<'_>) -> Result<(), Refusal> {
        self.note(spot, Self::note_after)
    }
}

fn locate(before: &ContextSnapshot, spot: &Spot<'_>) -> Option<At> {
    let Ground::Context(number) = spot.root.ground else { return None };
    let (root, tracked) = before.roots.iter().enumerate().find(|(_, root)| root.number == number)?;
    Some(At { root, path: spot.real.strip_prefix(tracked.dir()).ok()?.to_owned() })
}

fn look(root: &ConfinedDir, path: &Path) -> io::Result<Option<crate::confine::Found>> {
    let (above, name) = split(path);
    match root.enter(above) {
        Ok(dir) => dir.look(name),
        Err(error) if crate::confine::is_change(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
