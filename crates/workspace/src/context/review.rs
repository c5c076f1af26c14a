//! What a run changed, with the content before and after, for a person to review.

use super::preimages::Preimages;
use super::snapshot::{ContextSnapshot, TrackedPath};
use super::state::RecordedChange;
use crate::confine::{ConfinedDir, FileKind};
use crate::workspace::split_path;
use althing_disk::DiskError;
use althing_protocol::FileWrite;
use std::io::Read;
use std::path::Path;

/// The maximum size of a file that is shown, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A file that a run changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// The path and the kind of change.
    pub write: FileWrite,
    /// The content before the run.
    pub before: FileContent,
    /// The current content.
    pub now: FileContent,
}

/// The content of a file, as far as it can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// There is no file, or the current file cannot be read.
    Absent,
    /// The text of the file.
    Text(String),
    /// The target of a symbolic link.
    Link(String),
    /// Not text, or too large.
    Opaque {
        /// The size of the file.
        bytes: u64,
    },
    /// The file existed, but it has no readable pre-image.
    Unknown,
}

/// What the run in `run_dir` changed in context paths, sorted by context path, then by path. Empty if the run has not
/// closed its context paths yet.
pub fn review(run_dir: &Path) -> Result<Vec<ChangedFile>, DiskError> {
    let preimages = Preimages::of(run_dir);
    let Some(before) = preimages.read::<ContextSnapshot>("before")? else { return Ok(Vec::new()) };
    let after = preimages.read::<Vec<RecordedChange>>("after")?.unwrap_or_default();
    let one = |after: &RecordedChange| {
        before.roots.get(after.root).map(|root| changed_file(&preimages, root, after))
    };
    Ok(after.iter().filter_map(one).collect())
}

fn changed_file(preimages: &Preimages, root: &TrackedPath, after: &RecordedChange) -> ChangedFile {
    let was_there = root.entry(&after.path).is_some_and(|entry| entry.kind != FileKind::Dir);
    let stored = preimages.find(after.root, &after.path).map(|(dir, _)| dir);
    let before = match (was_there, stored) {
        (false, _) => FileContent::Absent,
        (true, None) => FileContent::Unknown,
        (true, Some(dir)) => content(&dir, &after.path).unwrap_or(FileContent::Unknown),
    };
    let dir = root.open().and_then(|root| root.open_dir_path(split_path(&after.path).0)).ok();
    let now =
        dir.map_or(FileContent::Absent, |dir| content(&dir, &after.path).unwrap_or(FileContent::Absent));
    let write = FileWrite::new(root.display_path(&after.path), after.change, &after.path);
    ChangedFile { write: if after.in_git_dir { write.in_git_dir() } else { write }, before, now }
}

fn content(dir: &ConfinedDir, path: &Path) -> Option<FileContent> {
    let name = split_path(path).1;
    let found = dir.stat(name).ok()??;
    match found.kind {
        FileKind::Dir | FileKind::Special => None,
        FileKind::Link => Some(FileContent::Link(dir.read_link(name).ok()?.to_string_lossy().into_owned())),
        FileKind::File => {
            let mut bytes = Vec::new();
            dir.open_file(name).ok()?.0.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
            let whole = bytes.len() as u64 <= MAX_BYTES && !bytes.contains(&0);
            let text = whole.then(|| String::from_utf8(bytes).ok()).flatten();
            Some(text.map_or(FileContent::Opaque { bytes: found.stamp.size }, FileContent::Text))
        }
    }
}
