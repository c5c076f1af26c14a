//! Implements the methods of the MCP protocol for `althing mcp`.

use super::AlthingServer;
use super::resources::templates;
use super::sessions::SessionUses;
use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, GetTaskParams, GetTaskResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, Prompt, PromptArgument, PromptMessage,
    ReadResourceRequestParams, ReadResourceResponse, Role, ServerCapabilities, ServerConfig,
    UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use std::sync::Arc;

const PROMPT: &str = "orchestrate";

/// All connections share one `AlthingServer`.
#[derive(Clone)]
pub(super) struct Handler(Arc<AlthingServer>, SessionUses);

impl Handler {
    pub(super) fn new(server: Arc<AlthingServer>, uses: SessionUses) -> Self {
        Self(server, uses)
    }
}

type Context = RequestContext<RoleServer>;

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(crate::implementation_info())
            .with_instructions(self.0.options.guidance.clone())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(
            self.0.tools.iter().map(super::tools::ToolDefinition::tool).collect(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let headers = context.extensions.get::<Parts>().map(|parts| &parts.headers);
        let session = headers.and_then(|headers| headers.get("mcp-session-id")?.to_str().ok());
        let _running = session.map(|id| self.1.call(id.into()));
        self.0.call(request, context).await
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        let task = PromptArgument::new("task").with_description("What to get done.").with_required(false);
        let about = "How to hand work to teams of agents with `launch_run`.";
        Ok(ListPromptsResult::with_all_items(vec![Prompt::new(PROMPT, Some(about), Some(vec![task]))]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name != PROMPT {
            let reason = format!("there is no prompt `{}`; the only prompt is `{PROMPT}`", request.name);
            return Err(ErrorData::invalid_params(reason, None));
        }
        let mut text = self.0.options.guidance.clone();
        let task = request.arguments.as_ref().and_then(|arguments| arguments.get("task")?.as_str());
        if let Some(task) = task {
            text.push_str("\n\n");
            text.push_str(task);
        }
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(self.0.resources().await))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.0.read(&request.uri).await.map(Into::into)
    }

    async fn get_task(&self, request: GetTaskParams, _context: Context) -> Result<GetTaskResult, ErrorData> {
        self.0.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(&self, request: UpdateTaskParams, _context: Context) -> Result<(), ErrorData> {
        self.0.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _context: Context) -> Result<(), ErrorData> {
        self.0.tasks.cancel_task(&request.task_id)
    }
}
