//! `filepaths.json`: the files and directories that matter to a project, and what each is for. Not a listing: who wants
//! to know what is in a directory looks.

use super::{ProjectError, ProjectWorkspace};
use althing_disk::DiskError;
use serde::{Deserialize, Serialize};
use std::path::Path;

pub(super) const FILE: &str = "filepaths.json";
/// The most paths, and the longest description.
const MAX_PATHS: usize = 200;
const MAX_DESCRIPTION: usize = 1000;

/// A path and what it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribedPath {
    /// Absolute, or relative to the project.
    pub path: String,
    /// What is there.
    pub kind: PathKind,
    /// What it is for.
    pub description: String,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

impl ProjectWorkspace {
    /// The described paths.
    pub fn paths(&self) -> Result<Vec<DescribedPath>, ProjectError> {
        Ok(self.read_json(FILE)?.unwrap_or_default())
    }

    /// Says what a path is for, in place of what was said before.
    pub fn describe(&self, path: &str, description: &str) -> Result<DescribedPath, ProjectError> {
        let refused = |why: String| Err(ProjectError::Refused(why));
        let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
        if description.is_empty() || description.len() > MAX_DESCRIPTION {
            return refused(format!("a description has 1 to {MAX_DESCRIPTION} bytes"));
        }
        let path = path.trim();
        let at = self.dir().join(path);
        let kind = match std::fs::metadata(&at) {
            Ok(found) if found.is_dir() => PathKind::Directory,
            Ok(_) => PathKind::File,
            Err(error) => return refused(format!("{} cannot be described: {error}", at.display())),
        };
        // One name for one place: below the project by the shorter way.
        let shown = Path::new(path).strip_prefix(self.dir()).unwrap_or(Path::new(path));
        let shown = if shown.as_os_str().is_empty() { ".".to_owned() } else { shown.display().to_string() };
        let mut paths = self.paths()?;
        let is_full = paths.len() >= MAX_PATHS;
        let described = DescribedPath { path: shown, kind, description };
        match paths.iter_mut().find(|known| known.path == described.path) {
            Some(known) => *known = described.clone(),
            None if is_full => {
                return refused(format!(
                    "there are {MAX_PATHS} described paths already: describe directories, not each file"
                ));
            }
            None => paths.push(described.clone()),
        }
        self.write_paths(&paths)?;
        Ok(described)
    }

    /// Takes a path from the described ones; whether it was there.
    pub fn forget(&self, path: &str) -> Result<bool, ProjectError> {
        let mut paths = self.paths()?;
        let before = paths.len();
        paths.retain(|known| known.path != path.trim());
        let gone = paths.len() < before;
        if gone {
            self.write_paths(&paths)?;
        }
        Ok(gone)
    }

    fn write_paths(&self, paths: &[DescribedPath]) -> Result<(), ProjectError> {
        let json = serde_json::to_string_pretty(paths).map_err(std::io::Error::from);
        let json = json.map_err(DiskError::io("write", &self.dir().join(FILE)))?;
        self.write_durably(FILE, format!("{json}\n").as_bytes())
    }
}
