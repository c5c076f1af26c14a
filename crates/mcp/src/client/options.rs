//! Settings shared by one agent's MCP servers: how processes start, where their output goes, timeouts and restarts.

use super::limits;
use super::notice::ServerNotice;
use super::spawn::Spawner;
use althing_protocol::OutputMasking;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Receives a server's name and one line of its stderr, or of its stdout that is not MCP. Called on the reading task,
/// so it must not block.
pub(crate) type StderrSink = Arc<dyn Fn(&str, &str) + Send + Sync>;
/// Receives each notice. Must not block.
pub(crate) type NoticeSink = Arc<dyn Fn(&ServerNotice) + Send + Sync>;

#[derive(Clone)]
pub struct ClientOptions {
    /// The environment of this process; child processes inherit only the allow-listed variables (`PATH`, `HOME`,
    /// `LANG`, …).
    pub environment: Vec<(OsString, OsString)>,
    pub spawner: Arc<dyn Spawner>,
    /// If this is `None`, a client is built (rustls with ring, public roots, system proxies). A custom client should
    /// not follow redirects to other origins, because the requests carry the servers' keys.
    pub http: Option<reqwest::Client>,
    /// If this is `None`, the servers' stderr is dropped, and their stdout that is not MCP.
    pub stderr: Option<StderrSink>,
    /// Receives the notices, which are also stored for [`McpToolHost::notices`](super::McpToolHost::notices).
    pub on_notice: Option<NoticeSink>,
    /// The directory for full results that are too long for the model; if this is `None`, they are not stored.
    pub output_dir: Option<PathBuf>,
    /// Masks known secrets in stored results; if this is `None`, results are stored unmasked.
    pub output_masking: Option<Arc<dyn OutputMasking>>,
    /// The limit for a whole call, however much progress it reports, unless the `call_timeout` of its server is
    /// longer.
    pub progress_cap: Duration,
    pub max_restarts: u32,
    /// The pause between the first and the second restart; doubles with each further restart.
    pub restart_pause: Duration,
    /// If a server needs a restart at least this long after its last start, its restart count is reset.
    pub restarts_forgiven_after: Duration,
    /// The limit for each shutdown step of a process.
    pub grace: Duration,
}

impl ClientOptions {
    /// There is no default spawner: the caller has to make sure that a server ends when Althing does.
    pub fn new(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        spawner: Arc<dyn Spawner>,
    ) -> Self {
        Self {
            environment: environment.into_iter().collect(),
            spawner,
            http: None,
            stderr: None,
            on_notice: None,
            output_dir: None,
            output_masking: None,
            progress_cap: limits::CALL_WITH_PROGRESS,
            max_restarts: limits::RESTARTS,
            restart_pause: limits::RESTART_PAUSE,
            restarts_forgiven_after: limits::RESTARTS_FORGIVEN,
            grace: limits::GRACE,
        }
    }
}

impl fmt::Debug for ClientOptions {
    /// The output omits the environment, which contains keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("output_dir", &self.output_dir)
            .field("progress_cap", &self.progress_cap)
            .field("max_restarts", &self.max_restarts)
            .finish_non_exhaustive()
    }
}
