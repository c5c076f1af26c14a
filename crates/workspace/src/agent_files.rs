//! The place where one agent of a run works, as far as files go: its workspace, its view of others' work, its file tools,
//! the context paths. Commands and MCP servers are joined to it elsewhere.

use crate::access::FilePolicy;
use crate::context::{PathLock, UndoLimits, UndoReach, WriteTracker};
use crate::exclusive;
use crate::tools::{ChangeObserver, FileHost, ToolSet};
use crate::workspace::Workspace;
use althing_disk::DiskError;
use althing_protocol::{AnswerLabel, ContextPath, FileWrite, Grant};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinError;

/// What a place is made of besides the run's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFilesOptions {
    /// What the agent may touch. Its workspace is made where it is missing.
    pub grant: Grant,
    /// Which file tools it has.
    pub tools: ToolSet,
    /// Whether others than the file tools (commands, MCP servers) can write to context paths.
    pub reach: UndoReach,
    /// How much is kept beforehand for an undo.
    pub limits: UndoLimits,
}

/// One agent's files in a run.
pub struct AgentFiles {
    workspace: Workspace,
    path: String,
    files: FileHost,
    tracker: Arc<WriteTracker>,
    context: Vec<ContextPath>,
    notices: Mutex<Vec<String>>,
    /// While the context paths are open: nobody else writes to them.
    path_lock: Arc<Mutex<Option<PathLock>>>,
}

impl AgentFiles {
    /// The place of one member of a run; made anew or found again.
    pub fn open(run_dir: &Path, options: &AgentFilesOptions) -> Result<Self, DiskError> {
        let policy = FilePolicy::from(&options.grant);
        let path = policy.workspace.to_string_lossy().into_owned();
        let workspace = Workspace::open(run_dir, &policy.workspace)?;
        let state_dir = policy.state_dir.as_deref();
        let tracker = WriteTracker::new(run_dir, state_dir, &policy.context, options.reach, options.limits);
        let tracker = Arc::new(tracker);
        let observer: Arc<dyn ChangeObserver> = Arc::clone(&tracker) as Arc<dyn ChangeObserver>;
        let files = FileHost::with_observer(&policy, options.tools, Some(observer))?;
        let missing = files.missing().iter();
        let notices =
            missing.map(|path| format!("the context path {path} is not there; it is left out")).collect();
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

    /// The workspace, as the agent and the result name it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The file tools.
    pub fn files(&self) -> &FileHost {
        &self.files
    }

    /// Where the agent sees what was kept with another's answers.
    pub fn view_of(&self, agent: u32) -> String {
        self.workspace.view_of(agent).to_string_lossy().into_owned()
    }

    /// What a person should be told since this was last asked.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps the workspace as it is now.
    pub async fn keep(&self, label: AnswerLabel) -> Result<(), String> {
        let workspace = self.workspace.clone();
        self.run_exclusively(move || workspace.keep(label).map(drop)).await
    }

    /// Lets the agent see what was kept with these answers, in place of what it saw before.
    pub async fn show(&self, labels: Vec<AnswerLabel>) -> Result<(), String> {
        let workspace = self.workspace.clone();
        self.run_exclusively(move || workspace.show(&labels)).await
    }

    /// Copies what is in another directory into the workspace, under this name.
    pub async fn take(&self, from: &str, name: &str) -> Result<(), String> {
        let (workspace, from, name) = (self.workspace.clone(), PathBuf::from(from), PathBuf::from(name));
        self.run_exclusively(move || workspace.take(&from, &name)).await
    }

    /// Waits until nobody else writes to the writable context paths, remembers them as they are, and opens them to the
    /// file tools. To be called before commands may write there.
    pub async fn open_context(&self) -> Result<(), String> {
        if self.tracker.is_empty() {
            return Ok(());
        }
        let writable = self.context.iter().filter(|path| path.writable);
        let writable: Vec<PathBuf> = writable.map(|path| PathBuf::from(&path.path)).collect();
        // In this order, as in `close_context`: the agent's own operations, the paths, the run's pre-images.
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
            // If this call is cancelled, the paths stay locked for as long as this thread reads them.
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

    /// Closes them and says what changed. To be called after commands can no longer write there.
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
            // Even if this call was cancelled: others wait for the paths.
            drop(held.lock().unwrap_or_else(PoisonError::into_inner).take());
            writes
        });
        flatten_error(closed.await)
    }

    /// Runs an operation on this agent's files after every earlier one, changes by its file tools included.
    async fn run_exclusively<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, DiskError> + Send + 'static,
    ) -> Result<T, String> {
        flatten_error(exclusive::run_exclusively(self.workspace.path(), work).await)
    }
}

/// Runs what waits for the disk where waiting is no harm. Only for operations that may run beside each other: one whose
/// caller went away runs on.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DiskError> + Send + 'static,
) -> Result<T, String> {
    flatten_error(tokio::task::spawn_blocking(work).await)
}

fn flatten_error<T>(done: Result<Result<T, DiskError>, JoinError>) -> Result<T, String> {
    match done {
        Ok(done) => done.map_err(|e| e.to_string()),
        Err(e) => Err(format!("the work on files broke: {e}")),
    }
}
