//! What a path in a context path holds, exactly: by this an undo knows whether somebody else has changed it.

use crate::confine::{ConfinedDir, Kind, is_change};
use crate::manifest::{path_text, text_path};
use crate::sparse::digest;
use crate::workspace::split;
use althing_protocol::FileChange;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Absent,
    File { sha256: String, mode: u32 },
    Link { text: String },
    Dir,
    Special,
}

/// What a changed file was when the context paths were closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct After {
    /// Which of the tracked context paths.
    pub root: usize,
    #[serde(with = "as_text")]
    pub path: PathBuf,
    pub change: FileChange,
    pub state: State,
}

mod as_text {
    use super::{Path, PathBuf, path_text, text_path};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        path_text(path).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        String::deserialize(from).map(|text| text_path(&text))
    }
}

impl State {
    /// What is there now; links are not followed, also not on the way.
    pub(crate) fn of(root: &ConfinedDir, path: &Path) -> io::Result<Self> {
        let (above, name) = split(path);
        let dir = match root.enter(above) {
            Err(e) if is_change(&e) => return Ok(Self::Absent),
            dir => dir?,
        };
        Ok(match dir.look(name)?.map(|found| found.kind) {
            None => Self::Absent,
            Some(Kind::Dir) => Self::Dir,
            Some(Kind::Special) => Self::Special,
            Some(Kind::Link) => Self::Link { text: path_text(Path::new(&dir.link_text(name)?)) },
            Some(Kind::File) => {
                let (mut file, found) = dir.open_file(name)?;
                Self::File { sha256: digest(&mut file)?, mode: found.mode }
            }
        })
    }
}
