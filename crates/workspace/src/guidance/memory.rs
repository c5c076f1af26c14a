//! An agent's notes: `memory/short_term` and `memory/long_term` in its workspace, carried over from run to run in a
//! store outside of the runs. Only plain files of limited size are copied, so that no copy can lead out of the
//! workspace or the store; and no files with protected names (files that run code automatically), because the store may
//! be in a project.

use super::{Document, front_matter, names_in, read_prefix};
use crate::confine::{ConfinedDir, FileKind, is_concurrent_change};
use crate::project::why_protected;
use althing_disk::files::{Durability, create_dirs};
use althing_disk::{Disk, DiskError, RealDisk};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const MEMORY: &str = "memory";
const SHORT: &str = "short_term";
const LONG: &str = "long_term";
/// The maximum number of notes of each kind.
const MAX_FILES: usize = 64;
/// The maximum size of a note, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// How many bytes of short-term notes the agent is given in total.
const MAX_SHORT_TERM: usize = 16 * 1024;
/// The maximum length of a summary, in characters.
const MAX_SUMMARY: usize = 200;

/// Held during `save`, because concurrent calls could delete each other's copies.
static SAVING: Mutex<()> = Mutex::new(());

/// Fails if a link is in the place of a directory of the store (`memory`, the agent's directory, or the directory of
/// one kind of notes), because the link may lead to any directory of the user.
fn refuse_links(path: &Path) -> Result<(), DiskError> {
    let link = path.ancestors().take(3).find(|dir| dir.is_symlink());
    link.map_or(Ok(()), |link| Err(DiskError::Link { path: link.to_owned() }))
}

/// The notes of one agent, in its workspace and in the store.
#[derive(Clone, Debug)]
pub struct Memory {
    workspace: PathBuf,
    store: PathBuf,
}

/// The content of an agent's notes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The short-term notes, cut to 16 KiB in total.
    pub short_term: Vec<Document>,
    /// The path and summary of each long-term note; the agent reads the note itself when necessary.
    pub long_term: Vec<(String, String)>,
}

impl Memory {
    /// Opens the notes in a workspace; copies them from the store if the workspace has no `memory/` yet.
    pub fn open(workspace: &Path, store: &Path) -> Result<Self, DiskError> {
        let memory = Self { workspace: workspace.to_owned(), store: store.to_owned() };
        let failed = |e| DiskError::io("prepare", &memory.dir())(e);
        let root = ConfinedDir::open(workspace).map_err(failed)?;
        let is_new = root.stat(OsStr::new(MEMORY)).map_err(failed)?.is_none();
        let notes = root.make_dir(OsStr::new(MEMORY), 0o777).map_err(failed)?;
        for kind in [SHORT, LONG] {
            let to = notes.make_dir(OsStr::new(kind), 0o777).map_err(failed)?;
            if !is_new {
                continue;
            }
            let stored = memory.store.join(kind);
            refuse_links(&stored)?;
            match ConfinedDir::open(&stored) {
                Ok(from) => copy(&from, &to).map_err(failed)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // An error, not an empty list: otherwise the next save would delete the notes in the store.
                Err(error) => return Err(DiskError::io("read the notes in", &stored)(error)),
            };
        }
        Ok(memory)
    }

    /// The directory of the notes in the workspace.
    pub fn dir(&self) -> PathBuf {
        self.workspace.join(MEMORY)
    }

    /// Copies the notes back to the store and deletes every stored note that was not copied: the agent deleted it, or
    /// it exceeds a limit.
    pub fn save(&self) -> Result<(), DiskError> {
        let failed = |e| DiskError::io("save the notes in", &self.store)(e);
        let _one = SAVING.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in [SHORT, LONG] {
            let below = Path::new(MEMORY).join(kind);
            let from = ConfinedDir::open(&self.workspace).and_then(|root| root.open_dir_path(&below));
            let path = self.store.join(kind);
            refuse_links(&path)?;
            create_dirs(&RealDisk as &dyn Disk, &path, Durability::Unsynced)?;
            let to = ConfinedDir::open(&path).map_err(failed)?;
            let stored = match from {
                Ok(from) => copy(&from, &to).map_err(failed)?,
                // The agent has deleted the directory of its notes.
                Err(error) if is_concurrent_change(&error) => Vec::new(),
                Err(error) => return Err(failed(error)),
            };
            for name in names_in(&to).map_err(failed)? {
                let found = to.stat(OsStr::new(&name)).map_err(failed)?;
                // Anything but a file with an ordinary name in the store is not Althing's.
                let is_note = found.is_some_and(|found| found.kind == FileKind::File)
                    && why_protected(Path::new(&name)).is_none();
                if is_note && !stored.contains(&name) {
                    to.remove_file(OsStr::new(&name)).map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the current notes.
    pub fn notes(&self) -> Result<Notes, DiskError> {
        let mut notes = Notes::default();
        let mut left = MAX_SHORT_TERM;
        for (name, text, whole) in self.read(SHORT, MAX_SHORT_TERM)? {
            let room = text.len().min(left);
            let cut = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            left -= cut;
            let whole = whole && cut == text.len();
            let text = text.get(..cut).unwrap_or_default().to_owned();
            notes.short_term.push(Document { path: self.path(SHORT, &name), text, whole });
        }
        for (name, text, _) in self.read(LONG, 4096)? {
            notes.long_term.push((self.path(LONG, &name), summary_of(&text)));
        }
        Ok(notes)
    }

    fn path(&self, kind: &str, name: &str) -> String {
        self.dir().join(kind).join(name).display().to_string()
    }

    fn read(&self, kind: &str, most: usize) -> Result<Vec<(String, String, bool)>, DiskError> {
        let below = Path::new(MEMORY).join(kind);
        let failed = |error| DiskError::io("read the notes in", &self.workspace.join(&below))(error);
        let dir = match ConfinedDir::open(&self.workspace).and_then(|root| root.open_dir_path(&below)) {
            Ok(dir) => dir,
            // The agent has deleted the directory of its notes.
            Err(error) if is_concurrent_change(&error) => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut found = Vec::new();
        for name in names_in(&dir).map_err(failed)?.into_iter().take(MAX_FILES) {
            let own = OsStr::new(&name);
            if dir.stat(own).map_err(failed)?.is_none_or(|found| found.kind != FileKind::File) {
                continue;
            }
            match dir.open_file(own).and_then(|(file, _)| read_prefix(file, most)) {
                Ok(read) => found.extend(read.map(|(text, whole)| (name, text, whole))),
                Err(error) if is_concurrent_change(&error) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(found)
    }
}

fn summary_of(text: &str) -> String {
    let (fields, rest) = front_matter::parse(text).unwrap_or_default();
    let first = || rest.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty());
    let summary_of = fields.get("description").map(String::as_str).or_else(first).unwrap_or_default();
    summary_of.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_SUMMARY).collect()
}

/// Copies at most `MAX_FILES` regular files that are small enough and have no protected name; returns their names.
fn copy(from: &ConfinedDir, to: &ConfinedDir) -> io::Result<Vec<String>> {
    let mut copied = Vec::new();
    for name in names_in(from)? {
        let own = OsStr::new(&name);
        let found = from.stat(own)?.filter(|found| found.kind == FileKind::File);
        let is_too_large = found.is_none_or(|found| found.stamp.size > MAX_BYTES as u64);
        if is_too_large || copied.len() >= MAX_FILES || why_protected(Path::new(&name)).is_some() {
            continue;
        }
        let (file, _) = from.open_file(own)?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES as u64).read_to_end(&mut bytes)?;
        to.replace(own, &bytes, None)?;
        copied.push(name);
    }
    Ok(copied)
}
