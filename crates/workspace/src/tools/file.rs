//! The tool host with the file tools of one agent.

use super::args::Args;
use super::job::{ChangeObserver, Job};
use super::{apply, change, list, read, search, specs};
use crate::access::{FilePolicy, LastLink, Refusal, RootSet};
use crate::context::EditJournal;
use crate::exclusive;
use crate::guidance::{Document, read_prefix};
use althing_disk::DiskError;
use althing_protocol::{BoxFuture, ContextAccess, ToolCall, ToolHost, ToolOutcome, ToolSpec};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
}

impl Inner {
    fn run(&self, call: &ToolCall, access: ContextAccess, cancelled: &AtomicBool) -> Result<String, Refusal> {
        let Some(spec) = specs::find(&call.name) else {
            return Err(Refusal::Argument { argument: "(tool)".to_owned(), why: "unknown".to_owned() });
        };
        let args = Args::parse(&call.arguments, spec.arguments)?;
        let job = Job { root_set: &self.root_set, access, cancelled, observer: self.observer.as_deref() };
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
            if !self.offers(&call.name) {
                let content = format!("there is no tool {} here", call.name.escape_debug());
                return ToolOutcome { content, is_error: true };
            }
            let (inner, call) = (Arc::clone(&self.inner), call.clone());
            let cancelled = Arc::new(AtomicBool::new(false));
            let _cancel_on_drop = CancelOnDrop(Arc::clone(&cancelled));
            let (workspace, changes) = (inner.workspace.clone(), !is_read_only_tool(&call.name));
            let work = move || inner.run(&call, access, &cancelled);
            let done = if changes {
                exclusive::run_exclusively(&workspace, work).await
            } else {
                tokio::task::spawn_blocking(work).await
            };
            match done {
                Ok(Ok(content)) => ToolOutcome { content, is_error: false },
                Ok(Err(refusal)) => ToolOutcome { content: refusal.to_string(), is_error: true },
                Err(e) => {
                    ToolOutcome { content: format!("the tool failed unexpectedly: {e}"), is_error: true }
                }
            }
        })
    }
}
