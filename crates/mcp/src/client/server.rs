//! The lifecycle of one configured MCP server: decides when it is restarted or given up.

use super::connection::Connection;
use super::host::Shared;
use super::http;
use super::limits;
use super::notice::{NoticeKind, StartError, quote};
use super::render::{self, Rendered};
use super::spec::ServerSpec;
use super::tool_set::ServerToolSet;
use rmcp::ServiceError;
use rmcp::model::JsonObject;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

pub(crate) struct McpServerClient {
    pub(crate) spec: Arc<ServerSpec>,
    pub(crate) tool_set: Arc<ServerToolSet>,
    shared: Arc<Shared>,
    current: RwLock<Option<Arc<Connection>>>,
    /// The lock is held during a restart, so that waiting calls share that restart.
    restarts: Mutex<Restarts>,
    /// Only a server that was called can hold state that a restart loses.
    called: AtomicBool,
}

#[derive(Default)]
struct Restarts {
    used: u32,
    last: Option<Instant>,
    given_up_reported: bool,
    /// Whether Althing stopped the process, to start it again with other permissions.
    renewed: bool,
}

impl McpServerClient {
    pub(crate) async fn start(
        shared: Arc<Shared>,
        spec: ServerSpec,
        changes: Arc<AtomicU64>,
    ) -> Result<Self, StartError> {
        let (spec, tool_set) = (Arc::new(spec), ServerToolSet::new(changes));
        let connection = Connection::start(&shared, &spec, &tool_set).await?;
        let current = RwLock::new(Some(Arc::new(connection)));
        let (restarts, called) = (Mutex::default(), AtomicBool::new(false));
        Ok(Self { spec, tool_set, shared, current, restarts, called })
    }

    pub(crate) fn current(&self) -> Option<Arc<Connection>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: JsonObject) -> Rendered {
        let was_called = self.called.swap(true, Ordering::Relaxed);
        let (connection, restarted) = match self.usable().await {
            Ok((connection, note)) => (connection, note.filter(|_| was_called)),
            Err(why) => return Rendered { text: why, is_error: true },
        };
        let total = self.shared.options.progress_cap;
        let answer = connection.call(tool.to_owned(), arguments, self.spec.call_timeout, total).await;
        let mut rendered = match answer {
            Ok(result) => render::answer(result),
            Err(error) => Rendered { text: self.explain(&connection, error).await, is_error: true },
        };
        if let Some(note) = restarted {
            rendered.text = format!("[{note}]\n{}", rendered.text);
        }
        rendered
    }

    async fn explain(&self, connection: &Connection, error: ServiceError) -> String {
        let name = quote(&self.spec.name);
        if self.current().is_none() {
            return format!("MCP server {name} was closed during the call");
        }
        match error {
            // Not shortened, because it often explains in detail what is wrong with the arguments.
            ServiceError::McpError(error) => {
                format!(
                    "MCP server {name} answered the call with an error: {} (error {})",
                    error.message, error.code.0
                )
            }
            ServiceError::Timeout { timeout } => format!(
                "MCP server {name} did not answer within {} s, and the call was cancelled. Whether it took effect \
                 is not known.",
                timeout.as_secs_f32()
            ),
            ServiceError::TransportSend(error) if !connection.is_gone_on_failure() => format!(
                "the call to MCP server {name} failed: {}. Whether it took effect is not known.",
                http::causes(error.error.as_ref())
            ),
            ServiceError::TransportClosed if !connection.is_gone_on_failure() => {
                let how = connection.take_failure().unwrap_or_else(|| "broke off its response".to_owned());
                format!("MCP server {name} {how}. Whether the call took effect is not known.")
            }
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                let how = self.report_end(connection).await;
                format!(
                    "MCP server {name} {how} during the call. Whether the call took effect is not known, so it was \
                     not repeated. The next call starts the server again, unless it has ended too often."
                )
            }
            ServiceError::UnexpectedResponse => {
                format!("MCP server {name} answered with an unexpected type of response")
            }
            other => quote(&format!("the call to MCP server {name} failed: {other}")),
        }
    }

    async fn report_end(&self, connection: &Connection) -> String {
        let mut how = connection.ending().await;
        let stderr_tail = connection.stderr_tail();
        if !stderr_tail.is_empty() {
            how = format!("{how} (its last output was: {})", stderr_tail.join(" / "));
        }
        if connection.mark_end_reported() {
            self.shared.notice(&self.spec.name, NoticeKind::Died { how: how.clone() });
        }
        how
    }

    /// Also returns a note for the model if the server had to be restarted. The error is for the model as well.
    async fn usable(&self) -> Result<(Arc<Connection>, Option<String>), String> {
        if let Some(connection) = self.current().filter(|connection| connection.is_up()) {
            return Ok((connection, None));
        }
        let mut restarts = self.restarts.lock().await;
        let dead = self.current();
        if let Some(connection) = dead.as_ref().filter(|connection| connection.is_up()) {
            return Ok((connection.clone(), None));
        }
        let name = quote(&self.spec.name);
        if restarts.renewed && dead.is_some() {
            return self.start_renewed(&mut restarts).await;
        }
        let how = match &dead {
            Some(connection) => self.report_end(connection).await,
            None => return Err(format!("MCP server {name} is closed")),
        };
        if dead.is_some_and(|connection| connection.age() >= self.shared.options.restarts_forgiven_after) {
            *restarts = Restarts::default();
        }
        if restarts.used >= self.shared.options.max_restarts {
            if !std::mem::replace(&mut restarts.given_up_reported, true) {
                self.shared.notice(&self.spec.name, NoticeKind::GivenUp { restarts: restarts.used });
            }
            return Err(format!(
                "MCP server {name} {how}; it ended too often to be started again. Continue without its tools."
            ));
        }
        let connection = self
            .restart(&mut restarts)
            .await
            .map_err(|error| format!("MCP server {name} {how} and could not be started again: {error}"))?;
        let note = format!(
            "MCP server {name} {how} and was started again before this call; what it held in memory is gone"
        );
        Ok((connection, Some(note)))
    }

    async fn restart(&self, restarts: &mut Restarts) -> Result<Arc<Connection>, StartError> {
        if let Some(last) = restarts.last {
            sleep_until(last + pause(self.shared.options.restart_pause, restarts.used)).await;
        }
        restarts.used += 1;
        restarts.last = Some(Instant::now());
        match Connection::start(&self.shared, &self.spec, &self.tool_set).await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                self.put(Some(connection.clone()));
                self.shared.notice(&self.spec.name, NoticeKind::Restarted { restart: restarts.used });
                Ok(connection)
            }
            Err(error) => {
                self.shared.notice(&self.spec.name, NoticeKind::RestartFailed(error.clone()));
                Err(error)
            }
        }
    }

    async fn start_renewed(
        &self,
        restarts: &mut Restarts,
    ) -> Result<(Arc<Connection>, Option<String>), String> {
        let name = quote(&self.spec.name);
        let connection =
            Connection::start(&self.shared, &self.spec, &self.tool_set).await.map_err(|error| {
                self.shared.notice(&self.spec.name, NoticeKind::RestartFailed(error.clone()));
                format!("MCP server {name} could not be started again: {error}")
            })?;
        let connection = Arc::new(connection);
        self.put(Some(connection.clone()));
        restarts.renewed = false;
        let note = format!(
            "MCP server {name} was started again before this call, because the paths that it may write to have \
             changed; what it held in memory is gone"
        );
        Ok((connection, Some(note)))
    }

    /// Stops the process, because the permissions of a running process cannot be changed; the next call starts it
    /// again. A server that Althing did not start is left alone.
    pub(crate) async fn renew(&self) {
        let mut restarts = self.restarts.lock().await;
        if let Some(connection) = self.current().filter(|connection| connection.has_process()) {
            restarts.renewed = true;
            connection.close(self.shared.options.grace).await;
        }
    }

    fn put(&self, connection: Option<Arc<Connection>>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = connection;
    }

    pub(crate) async fn close(&self) {
        // The lock prevents a concurrent restart.
        let _restarts = self.restarts.lock().await;
        let connection = self.current();
        self.put(None);
        if let Some(connection) = connection {
            connection.close(self.shared.options.grace).await;
        }
    }
}

/// The pause after `used` restarts: starts with `first` and doubles with each restart, up to a limit.
fn pause(first: Duration, used: u32) -> Duration {
    let doubled = first.saturating_mul(2_u32.saturating_pow(used.saturating_sub(1)));
    doubled.min(limits::RESTART_PAUSE_MAX)
}
