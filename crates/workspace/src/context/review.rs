//! What a run changed, with both contents, for a person to review.

use super::preimages::Preimages;
use super::snapshot::{ContextSnapshot, Tracked};
use super::state::After;
use crate::confine::{ConfinedDir, Kind};
use crate::workspace::split;
use althing_disk::DiskError;
use althing_protocol::FileWrite;
use std::io::Read;
use std::path::Path;

/// The most of one file that is shown.
const CAP: u64 = 1 << 20;

/// One changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Which, and how.
    pub write: FileWrite,
    /// What it held before the run.
    pub before: FileContent,
    /// What it holds now.
    pub now: FileContent,
}

/// What a file holds, as far as it can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// There is no such file.
    Absent,
    /// Text.
    Text(String),
    /// Where a link leads.
    Link(String),
    /// Not text, or too long.
    Opaque {
        /// How long it is.
        bytes: u64,
    },
    /// There was something, and nothing was kept of it.
    Unknown,
}

/// What the run whose files are in `run_dir` changed in context paths, sorted by path; empty if nothing, or if its context
/// paths are still open.
pub fn review(run_dir: &Path) -> Result<Vec<ChangedFile>, DiskError> {
    let preimages = Preimages::of(run_dir);
    let Some(before) = preimages.read::<ContextSnapshot>("before")? else { return Ok(Vec::new()) };
    let after = preimages.read::<Vec<After>>("after")?.unwrap_or_default();
    let one = |after: &After| before.roots.get(after.root).map(|root| reviewed(&preimages, root, after));
    Ok(after.iter().filter_map(one).collect())
}

fn reviewed(preimages: &Preimages, root: &Tracked, after: &After) -> ChangedFile {
    let was_there = root.entry(&after.path).is_some_and(|entry| entry.kind != Kind::Dir);
    let kept = preimages.find(after.root, &after.path).map(|(dir, _)| dir);
    let before = match (was_there, kept) {
        (false, _) => FileContent::Absent,
        (true, None) => FileContent::Unknown,
        (true, Some(dir)) => content(&dir, &after.path).unwrap_or(FileContent::Unknown),
    };
    let dir = root.open().and_then(|root| root.enter(split(&after.path).0)).ok();
    let now =
        dir.map_or(FileContent::Absent, |dir| content(&dir, &after.path).unwrap_or(FileContent::Absent));
    ChangedFile { write: FileWrite::new(root.tell(&after.path), after.change, &after.path), before, now }
}

fn content(dir: &ConfinedDir, path: &Path) -> Option<FileContent> {
    let name = split(path).1;
    let found = dir.look(name).ok()??;
    match found.kind {
        Kind::Dir | Kind::Special => None,
        Kind::Link => Some(FileContent::Link(dir.link_text(name).ok()?.to_string_lossy().into_owned())),
        Kind::File => {
            let mut bytes = Vec::new();
            dir.open_file(name).ok()?.0.take(CAP + 1).read_to_end(&mut bytes).ok()?;
            let whole = bytes.len() as u64 <= CAP && !bytes.contains(&0);
            let text = whole.then(|| String::from_utf8(bytes).ok()).flatten();
            Some(text.map_or(FileContent::Opaque { bytes: found.stamp.size }, FileContent::Text))
        }
    }
}
