//! The MCP server: `launch_run` and its companion tools for any MCP client, over stdio and streamable HTTP. It waits
//! for a run no longer than clients tolerate, and then returns that the run is still running.

mod approval;
mod arguments;
mod calls;
mod follow;
mod handler;
mod resources;
mod runs;
mod sessions;
mod tasks;
mod tools;

pub use runs::{RunDir, RunFeed, RunFile, RunOutcome, RunService, RunSummary, RunUpdate};

use crate::web::{Listener, Router, Service, Token, WebLimits};
use althing_protocol::{BoxFuture, Secret};
use approval::Approvals;
use handler::Handler;
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::task_manager::TaskManager;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use sessions::{LimitedSessions, SessionUses};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::{CancellationToken, DropGuard};
use tools::ToolDefinition;

const PATH: &str = "/mcp";

/// An idle session expires after this time, because few clients end their sessions.
const SESSION: Duration = Duration::from_secs(12 * 60 * 60);

#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// How to use `launch_run` well; sent as the server's instructions and as its prompt.
    pub guidance: String,
    /// How long `launch_run` and `run_result` wait.
    pub wait: Duration,
    pub require_approval: bool,
    /// The interval of keepalive progress notifications.
    pub keepalive: Duration,
}

impl ServeOptions {
    pub fn new(guidance: impl Into<String>) -> Self {
        Self {
            guidance: guidance.into(),
            wait: Duration::from_secs(45),
            require_approval: false,
            keepalive: Duration::from_secs(15),
        }
    }
}

struct AlthingServer {
    runs: Arc<dyn RunService>,
    options: ServeOptions,
    tools: Vec<ToolDefinition>,
    approvals: Approvals,
    tasks: TaskManager,
}

#[derive(Clone)]
pub struct McpServer(Arc<AlthingServer>);

impl McpServer {
    pub fn new(runs: Arc<dyn RunService>, options: ServeOptions) -> Self {
        let tools = tools::all(&*runs);
        let (approvals, tasks) = (Approvals::default(), TaskManager::new());
        Self(Arc::new(AlthingServer { runs, options, tools, approvals, tasks }))
    }

    /// Serves one client until it closes its end. Dropping the future ends the connection. The pipes and the future
    /// are boxed, so that rmcp's generic code is compiled only in this crate.
    pub fn serve_pipes(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> BoxFuture<'_, Result<(), String>> {
        self.serve_boxed(Box::new(input), Box::new(output))
    }

    fn serve_boxed(
        &self,
        input: Box<dyn AsyncRead + Send + Unpin>,
        output: Box<dyn AsyncWrite + Send + Unpin>,
    ) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(self.serve(input, output))
    }

    async fn serve(
        &self,
        input: Box<dyn AsyncRead + Send + Unpin>,
        output: Box<dyn AsyncWrite + Send + Unpin>,
    ) -> Result<(), String> {
        // The future of the handshake is large.
        let running =
            match Box::pin(Handler::new(self.0.clone(), SessionUses::default()).serve((input, output))).await
            {
                Ok(running) => running,
                // A client that disconnects before sending anything is not an error.
                Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
                Err(error) => return Err(format!("the client does not speak MCP: {error}")),
            };
        running.waiting().await.map(drop).map_err(|error| format!("the connection failed: {error}"))
    }

    /// Serves clients that present the token, on the loopback interface. If `token` is `None`, one is generated.
    pub fn listen(
        &self,
        address: SocketAddr,
        token: Option<Secret>,
        limits: WebLimits,
    ) -> BoxFuture<'_, Result<McpListener, String>> {
        Box::pin(self.bind(address, token, limits))
    }

    async fn bind(
        &self,
        address: SocketAddr,
        token: Option<Secret>,
        limits: WebLimits,
    ) -> Result<McpListener, String> {
        let token = match token {
            Some(token) if token.reveal().len() < 16 => {
                return Err("the token (ALTHING_MCP_TOKEN) is too short: at least 16 characters are needed"
                    .to_owned());
            }
            Some(token) => token,
            None => Token::generate()?,
        };
        let end = CancellationToken::new();
        let route = |address: SocketAddr| -> Arc<dyn Router> {
            let service = self.over_http(address, &limits, end.clone());
            Arc::new(Route { token: Token::digest(token.reveal()), service })
        };
        // All clients have the same token.
        let of_all = WebLimits { of_one_token: limits.connections, ..limits };
        let listener = Listener::bind(address, of_all, route).await?;
        let url = format!("http://{}{PATH}", listener.address());
        Ok(McpListener { url, token, _listener: listener, _end: end.drop_guard() })
    }

    fn over_http(&self, address: SocketAddr, limits: &WebLimits, end: CancellationToken) -> Arc<dyn Service> {
        let (uses, mut sessions) = (SessionUses::default(), LocalSessionManager::default());
        sessions.session_config.keep_alive = Some(SESSION);
        // Gemini CLI's client closes the connection on the initial empty event for resuming a stream.
        sessions.session_config.sse_retry = None;
        let config = StreamableHttpServerConfig::default()
            .with_sse_retry(None)
            .with_sse_keep_alive(Some(limits.keep_alive))
            .with_max_request_body_bytes(limits.body_bytes)
            .with_allowed_hosts([address.to_string(), format!("localhost:{}", address.port())])
            .with_cancellation_token(end);
        let sessions = LimitedSessions { sessions, uses: uses.clone() };
        let handler = Handler::new(self.0.clone(), uses);
        Arc::new(StreamableHttpService::new(move || Ok(handler.clone()), Arc::new(sessions), config))
    }
}

/// Dropping the listener ends every connection.
pub struct McpListener {
    url: String,
    token: Secret,
    _listener: Listener,
    _end: DropGuard,
}

impl McpListener {
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn token(&self) -> &Secret {
        &self.token
    }
}

struct Route {
    token: Token,
    service: Arc<dyn Service>,
}

impl Router for Route {
    fn find(&self, path: &str, token: &Token) -> Option<Arc<dyn Service>> {
        (path == PATH && *token == self.token).then(|| self.service.clone())
    }
}
