//! `filepaths.json`: the important files and directories of a project, each with a description.

use super::{ProjectError, ProjectWorkspace};
use althing_disk::DiskError;
use serde::{Deserialize, Serialize};
use std::path::Path;

pub(super) const FILE: &str = "filepaths.json";
const MAX_PATHS: usize = 200;
/// The maximum length of a description, in bytes.
const MAX_DESCRIPTION: usize = 1000;

/// A path with a description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribedPath {
    /// The path, absolute or relative to the project.
    pub path: String,
    /// The type of the path.
    pub kind: PathKind,
    /// What the file or directory is for.
    pub description: String,
}

/// The type of a described path.
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

    /// Describes a path, or replaces its description.
    pub fn describe(&self, path: &str, description: &str) -> Result<DescribedPath, ProjectError> {
        let refused = |why: String| Err(ProjectError::Refused(why));
        let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
        if description.is_empty() || description.len() > MAX_DESCRIPTION {
            return refused(format!("a description must have 1 to {MAX_DESCRIPTION} bytes"));
        }
        let path = path.trim();
        let at = self.dir().join(path);
        let kind = match std::fs::metadata(&at) {
            Ok(found) if found.is_dir() => PathKind::Directory,
            Ok(_) => PathKind::File,
            Err(error) => return refused(format!("{} cannot be described: {error}", at.display())),
        };
        let shown = Path::new(path).strip_prefix(self.dir()).unwrap_or(Path::new(path));
        let shown = if shown.as_os_str().is_empty() { ".".to_owned() } else { shown.display().to_string() };
        let mut paths = self.paths()?;
        let is_full = paths.len() >= MAX_PATHS;
        let described = DescribedPath { path: shown, kind, description };
        match paths.iter_mut().find(|known| known.path == described.path) {
            Some(known) => *known = described.clone(),
            None if is_full => {
                return refused(format!(
                    "there already are {MAX_PATHS} described paths: describe directories instead of single files"
                ));
            }
            None => paths.push(described.clone()),
        }
        self.write_paths(&paths)?;
        Ok(described)
    }

    /// Removes the description of a path; returns whether there was one.
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
