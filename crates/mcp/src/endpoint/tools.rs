//! Serves an endpoint's tool list and tool calls.

use crate::keepalive;
use althing_protocol::{EndpointHandler, ToolCall, ToolOutcome, ToolSpec};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub(super) struct Tools {
    offered: Arc<[Tool]>,
    calls: Arc<dyn EndpointHandler>,
    listed: Arc<AtomicBool>,
    /// Cancelled when the endpoint is closed.
    end: CancellationToken,
    count: Arc<AtomicU64>,
    keepalive: Duration,
}

impl Tools {
    pub(super) fn new(
        specs: Vec<ToolSpec>,
        calls: Arc<dyn EndpointHandler>,
        listed: Arc<AtomicBool>,
        end: CancellationToken,
        keepalive: Duration,
    ) -> Self {
        let offered = specs.into_iter().map(offer).collect();
        Self { offered, calls, listed, end, count: Arc::default(), keepalive }
    }

    async fn outcome(&self, request: CallToolRequestParams) -> ToolOutcome {
        if !self.offered.iter().any(|tool| tool.name == request.name) {
            let names: Vec<&str> = self.offered.iter().map(|tool| &*tool.name).collect();
            let content = format!("there is no tool `{}`; use one of: {}", request.name, names.join(", "));
            return ToolOutcome { content, is_error: true };
        }
        let id = format!("mcp-{}", self.count.fetch_add(1, Ordering::Relaxed) + 1);
        let arguments = serde_json::Value::Object(request.arguments.unwrap_or_default()).to_string();
        self.calls.call(ToolCall { id, name: request.name.into_owned(), arguments }).await
    }
}

pub(crate) fn offer(spec: ToolSpec) -> Tool {
    let serde_json::Value::Object(schema) = spec.parameters else {
        // Althing's own tools always have a schema; a tool without one takes no arguments.
        let nothing = serde_json::Map::from_iter([("type".to_owned(), "object".into())]);
        return Tool::new(spec.name, spec.description, nothing);
    };
    Tool::new(spec.name, spec.description, schema)
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(crate::implementation_info())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.listed.store(true, Ordering::Relaxed);
        Ok(ListToolsResult::with_all_items(self.offered.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let gone = |why: &str| ErrorData::internal_error(why.to_owned(), None);
        tokio::select! {
            biased;
            () = self.end.cancelled() => Err(gone("this agent's endpoint was closed")),
            () = context.ct.cancelled() => Err(gone("the call was cancelled")),
            outcome = keepalive::while_waiting(&context, self.keepalive, self.outcome(request)) => {
                let content = vec![ContentBlock::text(outcome.content)];
                let result = if outcome.is_error {
                    CallToolResult::error(content)
                } else {
                    CallToolResult::success(content)
                };
                Ok(result.into())
            }
        }
    }
}
