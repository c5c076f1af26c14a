//! Routes each tool call of a model to the host that offers the tool: file tools, commands, MCP servers, task lists.
//! Which hosts an agent gets, and so which tools it is offered, is decided in `agent_env/mod.rs` of `althing_app`.

use althing_protocol::{BoxFuture, ContextAccess, EditPreview, ToolCall, ToolHost, ToolOutcome, ToolSpec};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The tool hosts of one agent. If two hosts offer a tool of the same name, the first one gets the calls.
pub struct ToolRouter {
    hosts: Vec<Arc<dyn ToolHost>>,
    /// Tools that the agent does not get, whichever host offers them.
    excluded: BTreeSet<String>,
}

impl ToolRouter {
    /// Combines hosts, without the excluded tools.
    pub fn new(hosts: Vec<Arc<dyn ToolHost>>, excluded: impl IntoIterator<Item = String>) -> Self {
        Self { hosts, excluded: excluded.into_iter().collect() }
    }

    /// A call to an excluded tool is refused like a call to an unknown tool.
    fn route_tool_call(&self, call: &ToolCall, access: ContextAccess) -> Option<&Arc<dyn ToolHost>> {
        let offers = |host: &&Arc<dyn ToolHost>| host.tools(access).iter().any(|tool| tool.name == call.name);
        self.hosts.iter().find(offers).filter(|_| !self.excluded.contains(&call.name))
    }
}

impl ToolHost for ToolRouter {
    fn tools(&self, access: ContextAccess) -> Vec<ToolSpec> {
        let mut seen = BTreeSet::new();
        let offered = self.hosts.iter().flat_map(|host| host.tools(access));
        offered.filter(|tool| !self.excluded.contains(&tool.name) && seen.insert(tool.name.clone())).collect()
    }

    fn call<'a>(&'a self, call: &'a ToolCall, access: ContextAccess) -> BoxFuture<'a, ToolOutcome> {
        match self.route_tool_call(call, access) {
            Some(host) => host.call(call, access),
            None => Box::pin(async move { no_tool(call) }),
        }
    }

    fn preview<'a>(
        &'a self,
        call: &'a ToolCall,
        access: ContextAccess,
    ) -> BoxFuture<'a, Result<EditPreview, ToolOutcome>> {
        match self.route_tool_call(call, access) {
            Some(host) => host.preview(call, access),
            None => Box::pin(async move { Err(no_tool(call)) }),
        }
    }

    fn call_previewed<'a>(
        &'a self,
        call: &'a ToolCall,
        access: ContextAccess,
        digest: &'a str,
    ) -> BoxFuture<'a, ToolOutcome> {
        match self.route_tool_call(call, access) {
            Some(host) => host.call_previewed(call, access, digest),
            None => Box::pin(async move { no_tool(call) }),
        }
    }
}

fn no_tool(call: &ToolCall) -> ToolOutcome {
    ToolOutcome { content: format!("There is no tool `{}`.", call.name), is_error: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NamedHost(&'static str, &'static str);

    impl ToolHost for NamedHost {
        fn tools(&self, _: ContextAccess) -> Vec<ToolSpec> {
            vec![ToolSpec {
                name: self.0.into(),
                description: String::new(),
                parameters: serde_json::json!({}),
            }]
        }

        fn call<'a>(&'a self, _: &'a ToolCall, _: ContextAccess) -> BoxFuture<'a, ToolOutcome> {
            Box::pin(async { ToolOutcome { content: self.1.into(), is_error: false } })
        }
    }

    async fn called(router: &ToolRouter, name: &str) -> ToolOutcome {
        let call = ToolCall { id: "1".into(), name: name.into(), arguments: "{}".into() };
        router.call(&call, ContextAccess::ReadOnly).await
    }

    #[tokio::test]
    async fn a_call_goes_to_the_first_host_that_offers_the_tool_and_excluded_tools_are_refused() {
        let hosts: Vec<Arc<dyn ToolHost>> = vec![
            Arc::new(NamedHost("read", "first")),
            Arc::new(NamedHost("read", "second")),
            Arc::new(NamedHost("run", "third")),
        ];
        let router = ToolRouter::new(hosts, ["run".to_owned()]);
        let offered: Vec<String> =
            router.tools(ContextAccess::ReadOnly).into_iter().map(|tool| tool.name).collect();
        assert_eq!(offered, ["read"]);
        assert_eq!(called(&router, "read").await.content, "first");
        assert!(called(&router, "run").await.is_error, "excluded");
        assert!(called(&router, "fly").await.is_error, "unknown");
    }
}
