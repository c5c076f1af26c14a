//! The exact state of a file in a context path. An undo compares states to detect changes by somebody else.

use crate::confine::{ConfinedDir, FileKind, is_concurrent_change, is_denied};
use crate::digest::{ComparedFile, digest, is_stamp};
use crate::manifest::{path_from_text, path_to_text};
use crate::sparse::CopyBudget;
use crate::workspace::split_path;
use althing_protocol::FileChange;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PathState {
    Absent,
    File {
        /// See `digest.rs`.
        sha256: String,
        mode: u32,
    },
    Link {
        text: String,
    },
    Dir,
    /// Only the mode of the directory was changed.
    DirMode {
        mode: u32,
    },
    Special,
    /// The state could not be determined when the context paths were closed.
    Unreadable,
}

/// A change, with the state when the context paths were closed or, in an edit journal, after the last edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedChange {
    /// The index of the tracked context path.
    pub root: usize,
    #[serde(with = "as_text")]
    pub path: PathBuf,
    pub change: FileChange,
    pub state: PathState,
    /// Whether the path is in a git directory with another name than `.git`, or in a new `.git`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_git_dir: bool,
}

mod as_text {
    use super::{Path, PathBuf, path_from_text, path_to_text};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        path_to_text(path).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        String::deserialize(from).map(|text| path_from_text(&text))
    }
}

impl PathState {
    /// If the run took away the permission to read a file, the owner gets it back first.
    pub(crate) fn left_by_run(
        root: &ConfinedDir,
        path: &Path,
        has_new_mode: bool,
        budget: &CopyBudget,
    ) -> io::Result<Self> {
        if has_new_mode {
            return CurrentState::dir_mode(root, path)?.record(budget);
        }
        let denied = match Self::of(root, path, budget) {
            Err(error) if is_denied(&error) => error,
            state => return state,
        };
        let (above, name) = split_path(path);
        root.open_dir_path(above).and_then(|dir| dir.unlock_file(name)).map_err(|_| denied)?;
        Self::of(root, path, budget)
    }

    pub(crate) fn of(root: &ConfinedDir, path: &Path, budget: &CopyBudget) -> io::Result<Self> {
        CurrentState::of(root, path)?.record(budget)
    }

    /// Whether the state identifies a file without its content, because the budget did not suffice.
    pub(crate) fn has_only_stamp(&self) -> bool {
        matches!(self, Self::File { sha256, .. } if is_stamp(sha256))
    }
}

/// The current state of a path. A file is read only when the state is compared or recorded.
pub(crate) enum CurrentState {
    File(ComparedFile),
    Other(PathState),
}

impl CurrentState {
    /// No link is followed, not even in parent directories.
    pub(crate) fn of(root: &ConfinedDir, path: &Path) -> io::Result<Self> {
        let (above, name) = split_path(path);
        let dir = match root.open_dir_path(above) {
            Err(e) if is_concurrent_change(&e) => return Ok(Self::Other(PathState::Absent)),
            dir => dir?,
        };
        Ok(Self::Other(match dir.stat(name)?.map(|found| found.kind) {
            None => PathState::Absent,
            Some(FileKind::Dir) => PathState::Dir,
            Some(FileKind::Special) => PathState::Special,
            Some(FileKind::Link) => PathState::Link { text: path_to_text(Path::new(&dir.read_link(name)?)) },
            Some(FileKind::File) => return Ok(Self::File(ComparedFile::new(dir.open_file(name)?))),
        }))
    }

    /// An empty path means `root` itself. If `path` is not a directory any more, returns its current state.
    pub(crate) fn dir_mode(root: &ConfinedDir, path: &Path) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Ok(Self::Other(PathState::DirMode { mode: root.stat_self()?.mode }));
        }
        let (above, name) = split_path(path);
        match root.open_dir_path(above).and_then(|dir| dir.stat(name)) {
            Ok(Some(found)) if found.kind == FileKind::Dir => {
                Ok(Self::Other(PathState::DirMode { mode: found.mode }))
            }
            _ => Self::of(root, path),
        }
    }

    pub(crate) fn is(&self, state: &PathState) -> io::Result<bool> {
        match (self, state) {
            (Self::File(file), PathState::File { sha256, mode }) => {
                Ok(file.mode() == *mode && file.is(sha256, &CopyBudget::default())?)
            }
            (Self::File(_), _) => Ok(false),
            (Self::Other(now), state) => Ok(now == state),
        }
    }

    fn record(self, budget: &CopyBudget) -> io::Result<PathState> {
        match self {
            Self::File(file) => {
                Ok(PathState::File { sha256: digest(file.file(), budget)?, mode: file.mode() })
            }
            Self::Other(state) => Ok(state),
        }
    }
}
