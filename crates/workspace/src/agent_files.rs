//! The files of one agent in a run: its workspace, its view of others' snapshots, its file tools and the context
//! paths.

use crate::access::FilePolicy;
use crate::context::{PathLock, UndoCoverage, UndoLimits, WriteTracker};
use crate::exclusive;
use crate::tools::{ChangeObserver, FileHost, ToolSet};
use crate::workspace::Workspace;
use althing_disk::DiskError;
use althing_protocol::{AnswerLabel, ContextPath, FileWrite, Grant};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinError;

/// How an agent's files are opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFilesOptions {
    /// What the agent may access; a missing workspace is created.
    pub grant: Grant,
    /// The agent's file tools.
    pub tools: ToolSet,
    /// Whether only the file tools can write to context paths, or also commands, MCP servers and CLI agents.
    pub coverage: UndoCoverage,
    /// The limits of what is copied in advance for an undo.
    pub limits: UndoLimits,
    /// The maximum size of a snapshot in bytes; `None` means the default.
    pub max_snapshot_bytes: Option<u64>,
    /// The disk limit of the agent, in bytes.
    pub disk_limit: u64,
}

/// The files of one agent in a run.
pub struct AgentFiles {
    workspace: Workspace,
    path: String,
    files: FileHost,
    tracker: Arc<WriteTracker>,
    context: Vec<ContextPath>,
    notices: Mutex<Vec<String>>,
    /// Held while the context paths are open, so that no other session writes to them.
    path_lock: Arc<Mutex<Option<PathLock>>>,
}

impl AgentFiles {
    /// Opens the files of a member of a run, which an earlier process may have created.
    pub fn open(run_dir: &Path, options: &AgentFilesOptions) -> Result<Self, DiskError> {
        let policy = FilePolicy::from(&options.grant);
        let path = policy.workspace.to_string_lossy().into_owned();
        let workspace = Workspace::open(run_dir, &policy.workspace)?
            .with_max_bytes(options.max_snapshot_bytes)
            .with_disk_limit(options.disk_limit);
        let state_dir = policy.state_dir.as_deref();
        let tracker =
            WriteTracker::new(run_dir, state_dir, &policy.context, options.coverage, options.limits);
        let tracker = Arc::new(tracker);
        let observer: Arc<dyn ChangeObserver> = Arc::clone(&tracker) as Arc<dyn ChangeObserver>;
        let files = FileHost::with_observer(&policy, options.tools, Some(observer))?;
        let missing = files.missing().iter();
        let notices =
            missing.map(|path| format!("the context path {path} does not exist; it is not used")).collect();
        Ok(Self {
            workspace,
            path,
            files,
            tracker,
            context: policy.context,
            notices: Mutex::new(notices),
            path_lock: Arc::default(),
        })
    }

    /// The workspace, as shown to the agent and in the result of the run.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The agent's file tools.
    pub fn files(&self) -> &FileHost {
        &self.files
    }

    /// Where the agent sees another agent's snapshots.
    pub fn view_of(&self, agent: u32) -> String {
        self.workspace.view_of(agent).to_string_lossy().into_owned()
    }

    /// Notices for the user since the previous call.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stores a snapshot of the workspace under this label.
    pub async fn take_snapshot(&self, label: AnswerLabel) -> Result<(), String> {
        let workspace = self.workspace.clone();
        self.run_exclusively(move || workspace.take_snapshot(label).map(drop)).await
    }

    /// Replaces the agent's view of other agents' work with the snapshots of these answers.
    pub async fn show_snapshots(&self, labels: Vec<AnswerLabel>) -> Result<(), String> {
        let workspace = self.workspace.clone();
        self.run_exclusively(move || workspace.show_snapshots(&labels)).await
    }

    /// Copies another directory into the workspace under this name.
    pub async fn import_dir(&self, from: &str, name: &str) -> Result<(), String> {
        let (workspace, from, name) = (self.workspace.clone(), PathBuf::from(from), PathBuf::from(name));
        self.run_exclusively(move || workspace.import_dir(&from, &name)).await
    }

    /// Waits until no other session writes to the writable context paths (an error if that takes too long), records
    /// their state, and opens them to the file tools. Must be called before commands may write there.
    pub async fn open_context(&self) -> Result<(), String> {
        if self.tracker.is_empty() {
            return Ok(());
        }
        let writable = self.context.iter().filter(|path| path.writable);
        let writable: Vec<PathBuf> = writable.map(|path| PathBuf::from(&path.path)).collect();
        // The locking order, as in `close_context`: the agent's own operations, the paths, the run's pre-images.
        let own = exclusive::claim(self.workspace.path()).await;
        let held = Arc::clone(&self.path_lock);
        let is_held = held.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let path_lock = if is_held {
            None
        } else {
            Some(PathLock::acquire(&writable).await.map_err(|error| error.to_string())?)
        };
        let preimages = exclusive::claim(&self.tracker.preimages_dir()).await;
        let tracker = Arc::clone(&self.tracker);
        let opened = own.run(move || {
            // Even if this call is cancelled, the thread holds the locks until it has read the paths.
            let _preimages = preimages;
            let opened = tracker.open();
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            match &opened {
                Ok(_) => *held = held.take().or(path_lock),
                Err(_) => drop(held.take()),
            }
            opened
        });
        let notice = flatten_error(opened.await)?;
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).extend(notice);
        Ok(())
    }

    /// Closes the context paths and returns the files that changed. Must be called only when commands can no longer
    /// write there.
    pub async fn close_context(&self) -> Result<Vec<FileWrite>, String> {
        if self.tracker.is_empty() {
            return Ok(Vec::new());
        }
        let own = exclusive::claim(self.workspace.path()).await;
        let preimages = exclusive::claim(&self.tracker.preimages_dir()).await;
        let (tracker, held) = (Arc::clone(&self.tracker), Arc::clone(&self.path_lock));
        let closed = own.run(move || {
            let _preimages = preimages;
            let writes = tracker.close();
            // Even if this call was cancelled: other sessions wait for the paths.
            drop(held.lock().unwrap_or_else(PoisonError::into_inner).take());
            writes
        });
        flatten_error(closed.await)
    }

    /// Starts when all earlier operations have ended, including changes by the agent's file tools.
    async fn run_exclusively<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, DiskError> + Send + 'static,
    ) -> Result<T, String> {
        flatten_error(exclusive::run_exclusively(self.workspace.path(), work).await)
    }
}

/// Runs a file operation on a blocking thread. Only for operations that may run concurrently, because an operation
/// continues after its caller was cancelled.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DiskError> + Send + 'static,
) -> Result<T, String> {
    flatten_error(tokio::task::spawn_blocking(work).await)
}

fn flatten_error<T>(done: Result<Result<T, DiskError>, JoinError>) -> Result<T, String> {
    match done {
        Ok(done) => done.map_err(|e| e.to_string()),
        Err(e) => Err(format!("the file operation failed unexpectedly: {e}")),
    }
}
