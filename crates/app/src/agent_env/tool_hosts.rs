//! Tool hosts that wrap others.

use althing_protocol::{BoxFuture, ContextAccess, ToolCall, ToolHost, ToolOutcome, ToolSpec};
use althing_workspace::AgentFiles;
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
