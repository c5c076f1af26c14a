//! Opens a connection to an MCP server and negotiates the protocol revision. `initialize` is tried first, although
//! revision 2026-07-28 replaced it: some older servers exit or hang when they receive `server/discover` first.

use super::bounded_http::BoundedHttp;
use super::bounded_requests::BoundedRequests;
use super::exit_reason::ExitReason;
use super::host::Shared;
use super::http;
use super::limits;
use super::log::ServerLog;
use super::notice::{StartError, quote};
use super::sanitize::SkippedTools;
use super::spawn::SpawnRequest;
use super::spec::{ServerSpec, ServerTransport};
use super::stdio::StdioTransport;
use super::supervise::SupervisedProcess;
use althing_protocol::{Secret, is_passed_to_programs};
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, NotificationContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::{ClientHandler, ClientServiceExt, RoleClient};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub(crate) struct OpenConnection {
    pub(crate) service: RunningService<RoleClient, Client>,
    pub(crate) process: Option<SupervisedProcess>,
    pub(crate) exit_reason: Arc<ExitReason>,
    pub(crate) skipped_tools: Arc<SkippedTools>,
}

/// This client offers servers no capabilities: no sampling, no roots, no elicitation.
pub(crate) struct Client {
    changed: Arc<Notify>,
}

impl ClientHandler for Client {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("althing", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

enum HandshakeFailure {
    /// The server answered with an error; it may support only `server/discover`.
    Answered(StartError),
    Failed(StartError),
}

impl From<StartError> for HandshakeFailure {
    fn from(error: StartError) -> Self {
        Self::Failed(error)
    }
}

/// Dropping the future stops everything it started.
pub(crate) async fn open(
    shared: &Shared,
    spec: &ServerSpec,
    log: &Arc<ServerLog>,
    changed: &Arc<Notify>,
) -> Result<OpenConnection, StartError> {
    let discover = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] };
    match attempt(shared, spec, log, changed, ClientLifecycleMode::Initialize).await {
        Ok(open) => Ok(open),
        Err(HandshakeFailure::Failed(error)) => Err(error),
        Err(HandshakeFailure::Answered(error)) => {
            attempt(shared, spec, log, changed, discover).await.map_err(|_| error)
        }
    }
}

async fn attempt(
    shared: &Shared,
    spec: &ServerSpec,
    log: &Arc<ServerLog>,
    changed: &Arc<Notify>,
    mode: ClientLifecycleMode,
) -> Result<OpenConnection, HandshakeFailure> {
    let client = Client { changed: changed.clone() };
    match &spec.transport {
        ServerTransport::Stdio { command, args, env, cwd } => {
            let request = spawn_request(shared, command, args, env, cwd.as_ref());
            open_stdio(shared, &request, log, client, mode).await
        }
        ServerTransport::Http { url, headers } => open_http(shared, url, headers, client, mode).await,
    }
}

fn spawn_request(
    shared: &Shared,
    command: &str,
    args: &[String],
    env: &[(String, Secret)],
    cwd: Option<&PathBuf>,
) -> SpawnRequest {
    let configured: Vec<(OsString, OsString)> =
        env.iter().map(|(name, value)| (name.into(), value.reveal().into())).collect();
    let is_passed = |name: &OsStr| name.to_str().is_some_and(is_passed_to_programs);
    let inherited = shared.options.environment.iter().cloned();
    let inherited =
        inherited.filter(|(name, _)| is_passed(name) && !configured.iter().any(|(other, _)| other == name));
    let env = inherited.chain(configured.iter().cloned()).collect();
    SpawnRequest { program: command.to_owned(), args: args.to_vec(), env, cwd: cwd.cloned() }
}

async fn open_stdio(
    shared: &Shared,
    request: &SpawnRequest,
    log: &Arc<ServerLog>,
    client: Client,
    mode: ClientLifecycleMode,
) -> Result<OpenConnection, HandshakeFailure> {
    let child = shared.options.spawner.spawn(request).await.map_err(|error| spawn_error(request, &error))?;
    let shutdown = CancellationToken::new();
    let (exit_reason, skipped_tools) = (Arc::<ExitReason>::default(), Arc::<SkippedTools>::default());
    let grace = shared.options.grace;
    let process = SupervisedProcess::start(child.process, shutdown.clone(), grace);
    // Shutdown has three steps of one grace period each, and one more for the rest of stderr.
    tokio::spawn(log.clone().drain(child.stderr, shutdown.clone(), grace * 4));
    let notes = (exit_reason.clone(), log.clone(), skipped_tools.clone());
    let transport = StdioTransport::new(child.stdin, child.stdout, shutdown, notes);
    let transport = BoundedRequests::new(transport, exit_reason.clone());
    match client.serve_with_lifecycle(transport, mode).await {
        Ok(service) => Ok(OpenConnection { service, process: Some(process), exit_reason, skipped_tools }),
        Err(ClientInitializeError::JsonRpcError(error)) => {
            let reason = quote(&format!("error {}: {}", error.code.0, error.message));
            Err(HandshakeFailure::Answered(StartError::Handshake { reason }))
        }
        Err(ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }) => {
            let how = ending(&exit_reason, Some(&process)).await;
            Err(StartError::Ended { how, stderr_tail: log.last() }.into())
        }
        Err(error) => Err(StartError::Handshake { reason: quote(&error.to_string()) }.into()),
    }
}

fn spawn_error(request: &SpawnRequest, error: &io::Error) -> StartError {
    let program = quote(&request.program);
    let cwd_is_there = request.cwd.as_ref().is_none_or(|cwd| cwd.is_dir());
    if error.kind() == io::ErrorKind::NotFound && cwd_is_there {
        StartError::NotFound { program }
    } else {
        let reason = if cwd_is_there { error.to_string() } else { "its `cwd` is not a directory".to_owned() };
        StartError::Spawn { program, reason: quote(&reason) }
    }
}

async fn open_http(
    shared: &Shared,
    url: &str,
    headers: &[(String, Secret)],
    client: Client,
    mode: ClientLifecycleMode,
) -> Result<OpenConnection, HandshakeFailure> {
    let url = http::address(url)?;
    let origin = http::origin(&url);
    let (exit_reason, skipped_tools) = (Arc::<ExitReason>::default(), Arc::<SkippedTools>::default());
    let http_client = BoundedHttp {
        client: shared.http()?,
        skipped_tools: skipped_tools.clone(),
        exit_reason: exit_reason.clone(),
    };
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(http::headers(headers)?)
        .max_sse_event_size(limits::FRAME);
    let transport = StreamableHttpClientTransport::with_client(http_client, config);
    let transport = BoundedRequests::new(transport, exit_reason.clone());
    match client.serve_with_lifecycle(transport, mode).await {
        Ok(service) => Ok(OpenConnection { service, process: None, exit_reason, skipped_tools }),
        Err(error) if error.is_authorization_required() => Err(StartError::Unauthorized { origin }.into()),
        Err(ClientInitializeError::JsonRpcError(error)) => {
            let reason = quote(&format!("error {}: {}", error.code.0, error.message));
            Err(HandshakeFailure::Answered(StartError::Handshake { reason }))
        }
        Err(ClientInitializeError::TransportError { error, .. }) => {
            let start_error = StartError::Http { origin, reason: http::causes(error.error.as_ref()) };
            Err(if is_client_error(error.error.as_ref()) {
                HandshakeFailure::Answered(start_error)
            } else {
                start_error.into()
            })
        }
        Err(error) => Err(StartError::Http { origin, reason: http::causes(&error) }.into()),
    }
}

/// A server that supports only the newest revision may answer `initialize` with a plain 4xx.
fn is_client_error(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(
        error.downcast_ref::<StreamableHttpError<reqwest::Error>>(),
        Some(StreamableHttpError::HttpStatus(status)) if (400..500).contains(&status.status)
    )
}

/// The text follows the server's name.
pub(crate) async fn ending(exit_reason: &ExitReason, process: Option<&SupervisedProcess>) -> String {
    if let Some(how) = exit_reason.get() {
        return how;
    }
    if let Some(process) = process
        && let Ok(how) = timeout(limits::EXIT_STATUS_WAIT, process.ended()).await
    {
        return how;
    }
    "closed the connection".to_owned()
}
