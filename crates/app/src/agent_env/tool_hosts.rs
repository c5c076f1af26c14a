//! Tool hosts that wrap others.

use super::watch::AgentWatch;
use crate::edit_trust::EditTrust;
use althing_protocol::{BoxFuture, ContextAccess, EditPreview, ToolCall, ToolHost, ToolOutcome, ToolSpec};
use althing_workspace::{AgentFiles, FileHost};
use std::path::Path;
use std::sync::Arc;

pub struct FileToolHost(pub Arc<AgentFiles>);

impl ToolHost for FileToolHost {
    fn tools(&self, access: ContextAccess) -> Vec<ToolSpec> {
        self.0.files().tools(access)
    }

    fn call<'a>(&'a self, call: &'a ToolCall, access: ContextAccess) -> BoxFuture<'a, ToolOutcome> {
        self.0.files().call(call, access)
    }
}

/// Wraps the tool host of an agent that must plan first: while its context paths are read-only, tools that act are
/// hidden, and calls of them fail.
pub struct PlanFirstHost {
    host: Arc<dyn ToolHost>,
    is_read_only: fn(&str) -> bool,
}

impl PlanFirstHost {
    pub fn wrap(
        host: Arc<dyn ToolHost>,
        is_read_only: fn(&str) -> bool,
        plan_first: bool,
    ) -> Arc<dyn ToolHost> {
        if plan_first { Arc::new(Self { host, is_read_only }) } else { host }
    }

    fn offers(&self, tool: &str, access: ContextAccess) -> bool {
        access == ContextAccess::Writable || (self.is_read_only)(tool)
    }
}

impl ToolHost for PlanFirstHost {
    fn tools(&self, access: ContextAccess) -> Vec<ToolSpec> {
        let mut tools = self.host.tools(access);
        tools.retain(|tool| self.offers(&tool.name, access));
        tools
    }

    fn call<'a>(&'a self, call: &'a ToolCall, access: ContextAccess) -> BoxFuture<'a, ToolOutcome> {
        if self.offers(&call.name, access) {
            return self.host.call(call, access);
        }
        Box::pin(async move {
            let content = format!("{} is not available while agents only plan. Nothing was done.", call.name);
            ToolOutcome { content, is_error: true }
        })
    }
}

/// The file tools of the chat agent. Their previews say whether a person must allow the change.
pub struct ChatFileHost {
    pub files: Arc<FileHost>,
    /// The directory that the chat agent works in.
    pub project: String,
    /// Whether a person can be asked. If nobody can, changes are made without asking.
    pub can_ask: bool,
    pub trust: EditTrust,
}

impl ToolHost for ChatFileHost {
    fn tools(&self, access: ContextAccess) -> Vec<ToolSpec> {
        self.files.tools(access)
    }

    fn call<'a>(&'a self, call: &'a ToolCall, access: ContextAccess) -> BoxFuture<'a, ToolOutcome> {
        self.files.call(call, access)
    }

    fn preview<'a>(
        &'a self,
        call: &'a ToolCall,
        access: ContextAccess,
    ) -> BoxFuture<'a, Result<EditPreview, ToolOutcome>> {
        Box::pin(async move {
            let mut preview = self.files.preview(call, access).await?;
            for file in &mut preview.files {
                let below = Path::new(&file.path).strip_prefix(&self.project);
                if let Some(below) = below.ok().map(|path| path.display().to_string()) {
                    file.path = below;
                }
            }
            preview.project.clone_from(&self.project);
            preview.ask = preview.ask && self.can_ask && !self.trust.is_given(&self.project);
            Ok(preview)
        })
    }

    fn call_previewed<'a>(
        &'a self,
        call: &'a ToolCall,
        access: ContextAccess,
        digest: &'a str,
    ) -> BoxFuture<'a, ToolOutcome> {
        self.files.call_previewed(call, access, digest)
    }
}

/// Tools that may write to the user's files at any time. Code that they write is found after each call.
pub struct WatchedHost {
    pub watch: AgentWatch,
    pub host: Arc<dyn ToolHost>,
}

impl ToolHost for WatchedHost {
    fn tools(&self, access: ContextAccess) -> Vec<ToolSpec> {
        self.host.tools(access)
    }

    fn call<'a>(&'a self, call: &'a ToolCall, access: ContextAccess) -> BoxFuture<'a, ToolOutcome> {
        self.watched(self.host.call(call, access))
    }

    fn preview<'a>(
        &'a self,
        call: &'a ToolCall,
        access: ContextAccess,
    ) -> BoxFuture<'a, Result<EditPreview, ToolOutcome>> {
        self.host.preview(call, access)
    }

    fn call_previewed<'a>(
        &'a self,
        call: &'a ToolCall,
        access: ContextAccess,
        digest: &'a str,
    ) -> BoxFuture<'a, ToolOutcome> {
        self.watched(self.host.call_previewed(call, access, digest))
    }
}

impl WatchedHost {
    fn watched<'a>(&'a self, work: BoxFuture<'a, ToolOutcome>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let refused =
                |error| ToolOutcome { content: format!("Nothing was done: {error}"), is_error: true };
            self.watch.during(work).await.unwrap_or_else(refused)
        })
    }
}
