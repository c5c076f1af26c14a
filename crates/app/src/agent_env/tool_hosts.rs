//! Tool hosts that wrap others.

use althing_protocol::{BoxFuture, ContextAccess, ToolCall, ToolHost, ToolOutcome, ToolSpec};
use althing_workspace::AgentFiles;
use std::sync::Arc;

/// The file tools of an environment, as one of several hosts.
pub struct Files(pub Arc<AgentFiles>);

impl ToolHost for Files {
    fn tools(&self, access: ContextAccess) -> Vec<ToolSpec> {
        self.0.files().tools(access)
    }

    fn call<'a>(&'a self, call: &'a ToolCall, access: ContextAccess) -> BoxFuture<'a, ToolOutcome> {
        self.0.files().call(call, access)
    }
}

/// With plan-first rules, hides the tools that act from every agent except the presenter.
pub struct PlanFirst {
    host: Arc<dyn ToolHost>,
    /// Whether a tool only reads.
    looks: fn(&str) -> bool,
}

impl PlanFirst {
    /// Wraps the host if agents have to plan first; otherwise returns it unchanged.
    pub fn over(host: Arc<dyn ToolHost>, looks: fn(&str) -> bool, plan_first: bool) -> Arc<dyn ToolHost> {
        if plan_first { Arc::new(Self { host, looks }) } else { host }
    }

    fn offers(&self, tool: &str, access: ContextAccess) -> bool {
        access == ContextAccess::Writable || (self.looks)(tool)
    }
}

impl ToolHost for PlanFirst {
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
