//! The tool host with the file tools of one agent.

use super::args::Args;
use super::job::{ChangeObserver, Job};
use super::{apply, change, list, preview, read, search, specs};
use crate::access::{FilePolicy, LastLink, Refusal, RootSet};
use crate::context::EditJournal;
use crate::exclusive;
use crate::guidance::{Document, read_prefix};
use althing_disk::DiskError;
use althing_protocol::{BoxFuture, ContextAccess, EditPreview, ToolCall, ToolHost, ToolOutcome, ToolSpec};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The refusal of a change whose preview is out of date.
const CHANGED_MEANWHILE: &str = "The files have changed since this change was shown to the user, so nothing was changed. \
    Read the files again, and then propose the change again.";

/// Which file tools an agent has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolSet {
    /// All file tools.
    All,
    /// Only the tools that change nothing, for planning.
    ReadOnly,
}

/// Whether a file tool of this name exists and changes nothing.
pub fn is_read_only_tool(name: &str) -> bool {
    specs::find(name).is_some_and(|spec| !spec.changes)
}

/// The file tools of one agent.
pub struct FileHost {
    inner: Arc<Inner>,
    set: ToolSet,
}

struct Inner {
    root_set: RootSet,
    observer: Option<Arc<dyn ChangeObserver>>,
    /// Changes by one agent run one at a time under the lock of this path, because an edit reads and then writes.
    workspace: PathBuf,
}

/// Makes the working thread stop at its next check if the call's future is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl FileHost {
    /// Opens the tools under a policy. Changes in context paths cannot be undone.
    pub fn open(policy: &FilePolicy, set: ToolSet) -> Result<Self, DiskError> {
        Self::with_observer(policy, set, None)
    }

    /// Like `open`, but changes in context paths can be undone; the previous contents are stored in `dir`.
    pub fn undoable(policy: &FilePolicy, set: ToolSet, dir: &Path) -> Result<Self, DiskError> {
        Self::with_observer(policy, set, Some(Arc::new(EditJournal::of(dir, &policy.context))))
    }

    pub(crate) fn with_observer(
        policy: &FilePolicy,
        set: ToolSet,
        observer: Option<Arc<dyn ChangeObserver>>,
    ) -> Result<Self, DiskError> {
        let root_set = RootSet::open(policy)?;
        let workspace = policy.workspace.clone();
        Ok(Self { inner: Arc::new(Inner { root_set, observer, workspace }), set })
    }

    /// Context paths that could not be opened with the host, usually because they did not exist, and are therefore
    /// not accessible.
    pub fn missing(&self) -> &[String] {
        &self.inner.root_set.missing
    }

    /// Reads the first `most` bytes of a file by the rules of `read_file`; `None` if that fails or the file is not
    /// text.
    pub fn text(&self, path: &str, most: usize) -> Option<Document> {
        let resolved = self.inner.root_set.resolve(path, LastLink::Follow).ok()?;
        let (file, _) = Job::open(&resolved).ok()?;
        let (text, whole) = read_prefix(file, most).ok()??;
        Some(Document { path: resolved.shown, text, whole })
    }

    /// Does not take the lock of the workspace.
    #[cfg(test)]
    pub(crate) fn call_blocking(
        &self,
        tool: &str,
        arguments: &str,
        access: ContextAccess,
    ) -> Result<String, Refusal> {
        let call = ToolCall { id: "1".to_owned(), name: tool.to_owned(), arguments: arguments.to_owned() };
        self.inner.run(&call, access, &AtomicBool::new(false))
    }

    fn offers(&self, tool: &str) -> bool {
        specs::find(tool).is_some_and(|spec| self.set == ToolSet::All || !spec.changes)
    }

    /// Runs a function for a call on another thread; under the lock of the workspace if the tool changes files.
    async fn execute<T: Send + 'static>(
        &self,
        call: &ToolCall,
        run: impl FnOnce(&Inner, &ToolCall, &AtomicBool) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        if !self.offers(&call.name) {
            return Err(format!("there is no tool {} here", call.name.escape_debug()));
        }
        let (inner, call) = (Arc::clone(&self.inner), call.clone());
        let cancelled = Arc::new(AtomicBool::new(false));
        let _cancel_on_drop = CancelOnDrop(Arc::clone(&cancelled));
        let (workspace, changes) = (inner.workspace.clone(), !is_read_only_tool(&call.name));
        let work = move || run(&inner, &call, &cancelled);
        let done = if changes {
            exclusive::run_exclusively(&workspace, work).await
        } else {
            tokio::task::spawn_blocking(work).await
        };
        done.unwrap_or_else(|e| Err(format!("the tool failed unexpectedly: {e}")))
    }
}

fn unknown_tool() -> Refusal {
    Refusal::Argument { argument: "(tool)".to_owned(), why: "unknown".to_owned() }
}

impl Inner {
    fn job<'a>(&'a self, access: ContextAccess, cancelled: &'a AtomicBool) -> Job<'a> {
        Job { root_set: &self.root_set, access, cancelled, observer: self.observer.as_deref() }
    }

    fn preview(
        &self,
        call: &ToolCall,
        access: ContextAccess,
        cancelled: &AtomicBool,
    ) -> Result<EditPreview, Refusal> {
        let spec = specs::find(&call.name).ok_or_else(unknown_tool)?;
        let args = Args::parse(&call.arguments, spec.arguments)?;
        preview::preview(&self.job(access, cancelled), spec.name, &args)
    }

    fn run(&self, call: &ToolCall, access: ContextAccess, cancelled: &AtomicBool) -> Result<String, Refusal> {
        let spec = specs::find(&call.name).ok_or_else(unknown_tool)?;
        let args = Args::parse(&call.arguments, spec.arguments)?;
        let job = self.job(access, cancelled);
        job.check_cancelled()?;
        match spec.name {
            "read_file" => read::read_file(&job, &args),
            "list_directory" => list::list_directory(&job, &args),
            "glob" => list::glob(&job, &args),
            "search" => search::search(&job, &args),
            "write_file" => change::write_file(&job, &args),
            "edit_file" => change::edit_file(&job, &args),
            "delete_file" => change::delete_file(&job, &args),
            _ => apply::apply_patch(&job, &args),
        }
    }
}

impl ToolHost for FileHost {
    fn tools(&self, _access: ContextAccess) -> Vec<ToolSpec> {
        specs::all().filter(|spec| self.offers(spec.name)).map(specs::FileToolSpec::to_tool_spec).collect()
    }

    fn call<'a>(&'a self, call: &'a ToolCall, access: ContextAccess) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let run = move |inner: &Inner, call: &ToolCall, cancelled: &AtomicBool| {
                inner.run(call, access, cancelled).map_err(|refusal| refusal.to_string())
            };
            outcome(self.execute(call, run).await)
        })
    }

    fn preview<'a>(
        &'a self,
        call: &'a ToolCall,
        access: ContextAccess,
    ) -> BoxFuture<'a, Result<EditPreview, ToolOutcome>> {
        Box::pin(async move {
            let run = move |inner: &Inner, call: &ToolCall, cancelled: &AtomicBool| {
                inner.preview(call, access, cancelled).map_err(|refusal| refusal.to_string())
            };
            self.execute(call, run).await.map_err(|content| ToolOutcome { content, is_error: true })
        })
    }

    fn call_previewed<'a>(
        &'a self,
        call: &'a ToolCall,
        access: ContextAccess,
        digest: &'a str,
    ) -> BoxFuture<'a, ToolOutcome> {
        let digest = digest.to_owned();
        Box::pin(async move {
            let run = move |inner: &Inner, call: &ToolCall, cancelled: &AtomicBool| {
                let now = inner.preview(call, access, cancelled).map_err(|refusal| refusal.to_string())?;
                if now.digest != digest {
                    return Err(CHANGED_MEANWHILE.to_owned());
                }
                inner.run(call, access, cancelled).map_err(|refusal| refusal.to_string())
            };
            outcome(self.execute(call, run).await)
        })
    }
}

fn outcome(result: Result<String, String>) -> ToolOutcome {
    match result {
        Ok(content) => ToolOutcome { content, is_error: false },
        Err(content) => ToolOutcome { content, is_error: true },
    }
}
