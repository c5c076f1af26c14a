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
pub struct Reviewed {
    /// Which, and how.
    pub write: FileWrite,
    /// What it held before the run.
    pub before: Content,
    /// What it holds now.
    pub now: Content,
}

/// What a file holds, as far as it can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
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
pub fn review(run_dir: &Path) -> Result<Vec<Reviewed>, DiskError> {
    let preimages = Preimages::of(run_dir);
    let Some(before) = preimages.read::<ContextSnapshot>("before")? else { return Ok(Vec::new()) };
    let after = preimages.read::<Vec<After>>("after")?.unwrap_or_default();
    let one = |after: &After| before.roots.get(after.root).map(|root| reviewed(&preimages, root, after));
    Ok(after.iter().filter_map(one).collect())
}

fn reviewed(preimages: &Preimages, root: &Tracked, after: &After) -> Reviewed {
    let was_there = root.entry(&after.path).is_some_and(|entry| entry.kind != Kind::Dir);
    let kept = preimages.find(after.root, &after.path).map(|(dir, _)| dir);
    let before = match (was_there, kept) {
        (false, _) => Content::Absent,
        (true, None) => Content::Unknown,
        (true, Some(dir)) => content(&dir, &after.path).unwrap_or(Content::Unknown),
    };
    let dir = root.open().and_then(|root| root.enter(split(&after.path).0)).ok();
    let now = dir.map_or(Content::Absent, |dir| content(&dir, &after.path).unwrap_or(Content::Absent));
    Reviewed { write: FileWrite::new(root.tell(&after.path), after.change, &after.path), before, now }
}

fn content(dir: &ConfinedDir, path: &Path) -> Option<Content> {
    let name = split(path).1;
    let found = dir.look(name).ok()??;
    match found.kind {
        Kind::Dir | Kind::Special => None,
        Kind::Link => Some(Content::Link(dir.link_text(name).ok()?.to_string_lossy().into_owned())),
        Kind::File => {
            let mut bytes = Vec::new();
            dir.open_file(name).ok()?.0.take(CAP + 1).read_to_end(&mut bytes).ok()?;
            let whole = bytes.len() as u64 <= CAP && !bytes.contains(&0);
            let text = whole.then(|| String::from_utf8(bytes).ok()).flatten();
            Some(text.map_or(Content::Opaque { bytes: found.stamp.size }, Content::Text))
        }
    }
}
