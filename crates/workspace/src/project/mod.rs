//! A project, which outlives conversations: `CONTEXT.md`, the described paths in `filepaths.json`, the records of its
//! runs in `runs/`, and their results in `deliverables/`. The user may edit these files at any time, so each is
//! replaced atomically.

mod deliver;
mod host;
mod paths;
mod registry;
mod runs;

pub use deliver::DeliveryReport;
pub(crate) use deliver::why_protected;
pub use host::ProjectHost;
pub use paths::{DescribedPath, PathKind};
pub use registry::{ProjectRegistry, RegisteredProject};
pub use runs::ProjectRun;

use crate::confine::ConfinedDir;
use crate::guidance::{Document, read_prefix};
use althing_disk::files::{Durability, create_dirs};
use althing_disk::{Disk, DiskError, DiskErrorKind, DiskLock, Lock, RealDisk};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CONTEXT: &str = "CONTEXT.md";
const RUNS: &str = "runs";
const DELIVERABLES: &str = "deliverables";
const LOCK: &str = ".althing-lock";
const NEW_CONTEXT: &str = "# Project context\n\nWhat this project is about, what was decided, what comes next. The \
    chat agent reads and updates this file; so can you.\n";
/// The maximum size of `CONTEXT.md`, in bytes; of a longer file only this much is read.
const MAX_CONTEXT: usize = 64 * 1024;
/// How many bytes of a JSON file are read.
const MAX_JSON: usize = 4 << 20;

/// Why a project cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// Another session uses the project.
    #[error("the project {} is in use by another session{}", dir.display(), pid.map(|p| format!(" (pid {p})")).unwrap_or_default())]
    Locked {
        /// The directory of the project.
        dir: PathBuf,
        /// The process id of the lock's holder, if it is known.
        pid: Option<u32>,
    },
    /// Another process holds the lock of the list of projects.
    #[error("the list of projects in {} is being changed by another process{}", dir.display(), pid.map(|p| format!(" (pid {p})")).unwrap_or_default())]
    ListLocked {
        /// The directory of the list.
        dir: PathBuf,
        /// The process id of the lock's holder, if it is known.
        pid: Option<u32>,
    },
    /// A file of the project is not UTF-8 text or not valid JSON, for example after an edit.
    #[error("{} cannot be read: {why}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        why: String,
    },
    /// The change is rejected for this reason.
    #[error("{0}")]
    Refused(String),
    /// A disk operation failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl ProjectError {
    /// What the user can do about the problem.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Locked { .. } => {
                Some("wait for that session or end it, or work in another project with --project".to_owned())
            }
            Self::ListLocked { .. } => Some("try again; if it persists, end that process".to_owned()),
            Self::Broken { path, .. } => Some(format!("correct {}, or move it away", path.display())),
            Self::Refused(_) => None,
            // The hints of `DiskError` would name the state directory, which is not the problem here.
            Self::Disk(DiskError::NotADirectory { .. }) => Some("name a directory with --project".to_owned()),
            Self::Disk(error) if matches!(error.kind(), DiskErrorKind::ReadOnly | DiskErrorKind::Denied) => {
                Some("make it writable for you, or name another directory with --project".to_owned())
            }
            Self::Disk(error) => error.hint(),
        }
    }
}

/// A project's directory. Clones share the open directory.
#[derive(Clone, Debug)]
pub struct ProjectWorkspace {
    dir: PathBuf,
    root: Arc<ConfinedDir>,
}

/// The lock of a project, held by the session that uses it.
pub struct ProjectLock {
    _lock: Box<dyn DiskLock>,
}

impl ProjectWorkspace {
    /// Opens the project in a directory; creates the directory and the files that are missing.
    pub fn open(dir: &Path) -> Result<Self, ProjectError> {
        create_dirs(&RealDisk, dir, Durability::Synced)?;
        let dir = dir.canonicalize().map_err(DiskError::io("access", dir))?;
        let failed = |e| DiskError::io("open the project", &dir)(e);
        let root = ConfinedDir::open(&dir).map_err(failed)?;
        for name in [RUNS, DELIVERABLES] {
            root.make_dir(OsStr::new(name), 0o777).map_err(failed)?;
        }
        for (name, text) in [(CONTEXT, NEW_CONTEXT), (paths::FILE, "[]\n")] {
            if root.stat(OsStr::new(name)).map_err(failed)?.is_none() {
                write_durably(&root, name, text.as_bytes()).map_err(failed)?;
            }
        }
        Ok(Self { dir, root: Arc::new(root) })
    }

    /// Takes the project's lock, so that two sessions cannot overwrite each other's work; fails if it is held.
    pub fn lock(&self) -> Result<ProjectLock, ProjectError> {
        let path = self.dir.join(LOCK);
        match RealDisk.lock(&path).map_err(DiskError::io("lock", &path))? {
            Lock::Taken(lock) => Ok(ProjectLock { _lock: lock }),
            Lock::Held { pid } => Err(ProjectError::Locked { dir: self.dir.clone(), pid }),
        }
    }

    /// The name of the project: the name of its directory.
    pub fn name(&self) -> String {
        self.dir.file_name().map_or_else(|| "/".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// The project's directory, with links resolved.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory with the results of runs.
    pub fn deliverables_dir(&self) -> PathBuf {
        self.dir.join(DELIVERABLES)
    }

    /// The directory in which agents' notes are stored between sessions.
    pub fn notes_dir(&self) -> PathBuf {
        self.dir.join("memory")
    }

    /// Reads `CONTEXT.md`, up to 64 KiB; the text is empty if the file does not exist.
    pub fn context(&self) -> Result<Document, ProjectError> {
        let path = self.dir.join(CONTEXT);
        let (text, whole) = self.read(CONTEXT, MAX_CONTEXT)?.unwrap_or_default();
        Ok(Document { path: path.display().to_string(), text, whole })
    }

    /// Replaces `CONTEXT.md`.
    pub fn set_context(&self, text: &str) -> Result<(), ProjectError> {
        if text.trim().is_empty() {
            return Err(ProjectError::Refused("the context would be empty; nothing was changed".to_owned()));
        }
        if text.len() > MAX_CONTEXT {
            let why = format!(
                "the context has {} bytes; the limit is {MAX_CONTEXT}: put details into files and describe their \
                 paths",
                text.len()
            );
            return Err(ProjectError::Refused(why));
        }
        let ended = if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
        self.write_durably(CONTEXT, ended.as_bytes())
    }

    /// The second value says whether the text is the whole file; `None` if the file does not exist.
    fn read(&self, name: &str, most: usize) -> Result<Option<(String, bool)>, ProjectError> {
        let path = self.dir.join(name);
        let text = match self.root.open_file(OsStr::new(name)) {
            Ok((file, _)) => read_prefix(file, most),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => Err(e),
        };
        let text = text.map_err(DiskError::io("read", &path))?;
        let not_text = || ProjectError::Broken { path, why: "it is not UTF-8 text".to_owned() };
        text.map(Some).ok_or_else(not_text)
    }

    fn read_json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ProjectError> {
        let Some((text, _)) = self.read(name, MAX_JSON)? else { return Ok(None) };
        let broken =
            |e: serde_json::Error| ProjectError::Broken { path: self.dir.join(name), why: e.to_string() };
        serde_json::from_str(&text).map(Some).map_err(broken)
    }

    fn write_durably(&self, name: &str, bytes: &[u8]) -> Result<(), ProjectError> {
        Ok(write_durably(&self.root, name, bytes).map_err(DiskError::io("write", &self.dir.join(name)))?)
    }
}

/// Replaces a file atomically and syncs it to disk.
fn write_durably(dir: &ConfinedDir, name: &str, bytes: &[u8]) -> io::Result<()> {
    let staged = dir.stage_with(None, |file| {
        file.write_all(bytes)?;
        file.sync_data()
    })?;
    let placed = dir.rename(&staged, OsStr::new(name));
    if placed.is_err() {
        let _ = dir.remove_file(&staged);
    }
    placed?;
    File::from(dir.reopen_readable()?).sync_all()
}
