//! The list of projects that this user has opened.

use super::{ProjectError, ProjectWorkspace};
use althing_disk::files::{Durability, create_dirs, replace};
use althing_disk::{Disk, DiskError, Lock, RealDisk};
use althing_protocol::Timestamp;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

const FILE: &str = "projects.json";
const LOCK: &str = ".projects.lock";
const MAX_ENTRIES: usize = 500;

/// The list of projects that this user has opened, in the user's state directory.
#[derive(Clone, Debug)]
pub struct ProjectRegistry {
    dir: PathBuf,
}

/// A project that was opened before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredProject {
    /// The project's name.
    pub name: String,
    /// The project's directory.
    pub path: PathBuf,
    /// When the project was last opened.
    pub last_used: Timestamp,
}

impl RegisteredProject {
    /// Whether the project's directory still exists.
    pub fn exists(&self) -> bool {
        self.path.is_dir()
    }
}

impl ProjectRegistry {
    /// The list in a directory, which need not exist yet.
    pub fn of(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The projects, most recently used first.
    pub fn list(&self) -> Result<Vec<RegisteredProject>, ProjectError> {
        let path = self.dir.join(FILE);
        let bytes = match RealDisk.read(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            bytes => bytes.map_err(DiskError::io("read", &path))?,
        };
        let broken = |e: serde_json::Error| ProjectError::Broken { path, why: e.to_string() };
        let mut entries: Vec<RegisteredProject> = serde_json::from_slice(&bytes).map_err(broken)?;
        entries.sort_by(|a, b| b.last_used.cmp(&a.last_used).then_with(|| a.path.cmp(&b.path)));
        Ok(entries)
    }

    /// Records that a project was opened.
    pub fn note(&self, project: &ProjectWorkspace, now: Timestamp) -> Result<(), ProjectError> {
        let entry =
            RegisteredProject { name: project.name(), path: project.dir().to_owned(), last_used: now };
        self.change(|entries| {
            entries.retain(|known| known.path != entry.path);
            entries.insert(0, entry);
            entries.truncate(MAX_ENTRIES);
        })
    }

    /// Removes a project from the list; its files stay.
    pub fn forget(&self, path: &Path) -> Result<(), ProjectError> {
        self.change(|entries| entries.retain(|known| known.path != path))
    }

    /// Finds a project by its name or path; of several with the same name, the most recently used one.
    pub fn find(&self, which: &str) -> Result<Option<RegisteredProject>, ProjectError> {
        let named = |entry: &RegisteredProject| entry.name == which || entry.path == Path::new(which);
        Ok(self.list()?.into_iter().find(named))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<RegisteredProject>)) -> Result<(), ProjectError> {
        create_dirs(&RealDisk, &self.dir, Durability::Synced)?;
        let path = self.dir.join(LOCK);
        // Without the lock, the entry of another process could be lost.
        let lock = RealDisk.lock(&path).map_err(DiskError::io("lock", &path))?;
        let _lock = match lock {
            Lock::Taken(lock) => lock,
            Lock::Held { pid } => return Err(ProjectError::ListLocked { dir: self.dir.clone(), pid }),
        };
        let mut entries = self.list()?;
        change(&mut entries);
        // A path that is not UTF-8 cannot be serialized; then the stored list is not changed.
        let json = serde_json::to_string_pretty(&entries).map_err(io::Error::from);
        let json = json.map_err(DiskError::io("write", &self.dir.join(FILE)))?;
        Ok(replace(&RealDisk, &self.dir, FILE, format!("{json}\n").as_bytes(), Durability::Synced)?)
    }
}
