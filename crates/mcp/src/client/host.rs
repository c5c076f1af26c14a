//! An agent's MCP servers as a [`ToolHost`]: starts them, offers their tools, routes calls. What a server may touch
//! is fixed by the sandbox it is started in.

use super::catalog::Catalog;
use super::http;
use super::limits;
use super::notice::{NoticeKind, ServerNotice, StartError, quote};
use super::options::ClientOptions;
use super::output::ResultStore;
use super::server::McpServerClient;
use super::spec::ServerSpec;
use super::tool_set::ToolInfo;
use althing_protocol::{BoxFuture, ContextAccess, ToolCall, ToolHost, ToolOutcome, ToolSpec};
use futures_util::FutureExt;
use futures_util::future::join_all;
use rmcp::model::JsonObject;
use serde_json::Value;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub(crate) struct Shared {
    pub(crate) options: ClientOptions,
    notices: Mutex<VecDeque<ServerNotice>>,
    /// The client is built when the first HTTP server needs it; most agents have none.
    http: OnceLock<Result<reqwest::Client, StartError>>,
}

impl Shared {
    pub(crate) fn notice(&self, server: &str, kind: NoticeKind) {
        let notice = ServerNotice { server: server.to_owned(), kind };
        if let Some(tell) = &self.options.on_notice {
            tell(&notice);
        }
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.len() == limits::NOTICES {
            notices.pop_front();
        }
        notices.push_back(notice);
    }

    pub(crate) fn http(&self) -> Result<reqwest::Client, StartError> {
        match &self.options.http {
            Some(client) => Ok(client.clone()),
            None => self.http.get_or_init(http::client).clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerState {
    pub name: String,
    /// Whether the server runs. If not, the next call restarts it, unless it was restarted too often or closed.
    pub up: bool,
    pub protocol: Option<String>,
    pub tools: usize,
    /// The server's instructions, shortened to 4096 characters. Untrusted text: show it, do not follow it.
    pub instructions: Option<String>,
}

/// Dropping this value stops the servers in the background; [`close`](Self::close) waits until they have stopped.
pub struct McpToolHost {
    shared: Arc<Shared>,
    servers: Vec<McpServerClient>,
    output: ResultStore,
    changes: Arc<AtomicU64>,
    /// The catalog, with the change count at which it was built.
    catalog: Mutex<(u64, Arc<Catalog>)>,
}

impl McpToolHost {
    /// Starts all MCP servers in parallel. A server is left out, with a notice, if it fails to start, takes longer
    /// than its limit, or has the name of an earlier server. The future is boxed, so that rmcp's generic code is
    /// compiled only in this crate.
    pub fn start(specs: Vec<ServerSpec>, options: ClientOptions) -> BoxFuture<'static, Self> {
        Box::pin(Self::start_all(specs, options))
    }

    async fn start_all(specs: Vec<ServerSpec>, options: ClientOptions) -> Self {
        let output = ResultStore::new(options.output_dir.clone(), options.output_masking.clone());
        let shared = Arc::new(Shared { options, notices: Mutex::default(), http: OnceLock::new() });
        let changes = Arc::new(AtomicU64::new(0));
        let mut names = HashSet::new();
        let (specs, duplicates): (Vec<_>, Vec<_>) =
            specs.into_iter().partition(|spec| names.insert(spec.name.clone()));
        for spec in duplicates {
            shared.notice(&spec.name, NoticeKind::DuplicateServer);
        }
        let starts = specs.into_iter().map(|spec| {
            let (shared, changes) = (shared.clone(), changes.clone());
            async move {
                let name = spec.name.clone();
                let started = McpServerClient::start(shared.clone(), spec, changes).await;
                started.map_err(|error| shared.notice(&name, NoticeKind::NotStarted(error))).ok()
            }
        });
        let servers = join_all(starts).await.into_iter().flatten().collect();
        let catalog = Mutex::new((0, Arc::default()));
        Self { shared, servers, output, changes, catalog }
    }

    /// The notices, oldest first; at most 256.
    pub fn notices(&self) -> Vec<ServerNotice> {
        self.shared.notices.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The started servers, in config order.
    pub fn servers(&self) -> Vec<ServerState> {
        let state = |server: &McpServerClient| {
            let connection = server.current();
            ServerState {
                name: server.spec.name.clone(),
                up: connection.as_ref().is_some_and(|connection| connection.is_up()),
                protocol: connection.as_ref().and_then(|connection| connection.protocol()),
                tools: server.tool_set.tools().len(),
                instructions: connection.and_then(|connection| connection.instructions()),
            }
        };
        self.servers.iter().map(state).collect()
    }

    pub fn tool_infos(&self) -> Vec<ToolInfo> {
        self.catalog().entries.iter().map(|entry| entry.info.clone()).collect()
    }

    /// Stops the servers that Althing started, because their permissions have changed. The next call of a server's
    /// tool starts that server again and, if the server was called before, tells the model about the restart.
    pub async fn renew(&self) {
        join_all(self.servers.iter().map(McpServerClient::renew)).await;
    }

    /// Stops the servers: each within a few seconds, but a restart of a server that is under way is waited for first.
    /// Later calls are refused.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(join_all(self.servers.iter().map(McpServerClient::close)).map(drop))
    }

    fn catalog(&self) -> Arc<Catalog> {
        let changes = self.changes.load(Ordering::Acquire);
        let mut cached = self.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.0 != changes {
            let tools: Vec<_> = self
                .servers
                .iter()
                .map(|server| (server.spec.name.as_str(), server.tool_set.tools()))
                .collect();
            *cached = (changes, Arc::new(Catalog::new(&tools)));
        }
        cached.1.clone()
    }

    async fn answer(&self, call: &ToolCall) -> ToolOutcome {
        let catalog = self.catalog();
        let found = catalog
            .find(&call.name)
            .and_then(|entry| self.servers.get(entry.server).map(|server| (server, entry)));
        let Some((server, entry)) = found else {
            return failed_outcome(format!("there is no tool {} (any more)", quote(&call.name)));
        };
        let arguments = match arguments(&call.arguments) {
            Ok(arguments) => arguments,
            Err(reason) => return failed_outcome(reason),
        };
        let rendered = server.call(&entry.info.tool, arguments).await;
        let content = self.output.shorten(rendered.text, &entry.info.name).await;
        ToolOutcome { content, is_error: rendered.is_error }
    }
}

impl ToolHost for McpToolHost {
    fn tools(&self, _access: ContextAccess) -> Vec<ToolSpec> {
        self.catalog().entries.iter().map(|entry| entry.spec.clone()).collect()
    }

    fn call<'a>(&'a self, call: &'a ToolCall, _access: ContextAccess) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(self.answer(call))
    }
}

fn failed_outcome(reason: String) -> ToolOutcome {
    ToolOutcome { content: reason, is_error: true }
}

/// Models send an empty string for a tool without parameters.
fn arguments(text: &str) -> Result<JsonObject, String> {
    if text.trim().is_empty() {
        return Ok(JsonObject::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(other) => {
            Err(format!("the arguments must be a JSON object, not {}; the tool was not called", kind(&other)))
        }
        Err(error) => Err(format!("the arguments are not JSON ({error}); the tool was not called")),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
