//! An agent's workspace (a directory of its own, not a git worktree), its snapshots, and its view of other agents'
//! snapshots. A snapshot shares no file with the workspace.

mod copy;
mod import;
mod manifest_files;
mod snapshot;
mod view;

pub(crate) use copy::{Copier, fill_dir, set_mtime, split_path};
pub use snapshot::{SnapshotIssue, WorkspaceSnapshot};

use crate::sparse::CopyLimits;
use althing_disk::files::{Durability, create_dirs};
use althing_disk::{Disk, DiskError, RealDisk};
use althing_protocol::AnswerLabel;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// An agent's workspace in a run's directory.
#[derive(Clone, Debug)]
pub struct Workspace {
    path: PathBuf,
    run_dir: PathBuf,
    limits: CopyLimits,
    disk_limit: u64,
}

pub(crate) const TEMP_PREFIX: &str = ".tmp-";

fn create_private_dir(dir: &Path) -> Result<(), DiskError> {
    create_dirs(&RealDisk as &dyn Disk, dir, Durability::Unsynced)
}

impl Workspace {
    /// Opens the workspace at `path` for the run in `run_dir`; creates it with mode 0700 if it is missing.
    pub fn open(run_dir: &Path, path: &Path) -> Result<Self, DiskError> {
        let limits = CopyLimits::default();
        let workspace =
            Self { path: path.to_owned(), run_dir: run_dir.to_owned(), limits, disk_limit: u64::MAX };
        for dir in [path, &workspace.snapshots_dir(), &workspace.view_dir()] {
            create_private_dir(dir)?;
        }
        Ok(workspace)
    }

    /// Sets the limit on the data of a copy, in bytes; `None` changes nothing.
    #[must_use]
    pub fn with_max_bytes(self, bytes: Option<u64>) -> Self {
        let limits = bytes.map_or(self.limits, |bytes| self.limits.with_data(bytes));
        Self { limits, ..self }
    }

    /// Limits the data of all snapshots of an agent together to twice this many bytes.
    #[must_use]
    pub fn with_disk_limit(self, disk_limit: u64) -> Self {
        Self { disk_limit, ..self }
    }

    #[cfg(test)]
    pub(crate) fn with_limits(self, limits: CopyLimits) -> Self {
        Self { limits, ..self }
    }

    /// The path of the workspace.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of an answer's snapshot. If the workspace had not changed since an earlier answer, the path is a
    /// symlink to that answer's snapshot.
    pub fn snapshot_dir(&self, label: AnswerLabel) -> PathBuf {
        self.snapshots_dir().join(label.to_string())
    }

    fn snapshots_dir(&self) -> PathBuf {
        self.run_dir.join("snapshots")
    }

    /// The directory in which this agent sees others' work. It is named like the workspace, so that it does not
    /// reveal the agent's anonymous number.
    pub fn view_dir(&self) -> PathBuf {
        Self::view_dir_of(&self.run_dir, &self.path)
    }

    /// The directory in which the agent with this workspace sees others' work.
    pub fn view_dir_of(run_dir: &Path, workspace: &Path) -> PathBuf {
        run_dir.join("views").join(workspace.file_name().unwrap_or(OsStr::new("agent")))
    }

    /// The directory in which this agent sees another agent's work.
    pub fn view_of(&self, agent: u32) -> PathBuf {
        self.view_dir().join(format!("agent{agent}"))
    }
}
