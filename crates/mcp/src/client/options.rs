//! What one agent's servers share: how processes start, where their words go, how patient we are.

use super::limits;
use super::notice::ServerNotice;
use super::spawn::Spawner;
use althing_protocol::Masks;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Takes a line of a server's stderr: the server's name, the line. Called on the reading task: it must not block.
pub(crate) type StderrSink = Arc<dyn Fn(&str, &str) + Send + Sync>;
/// Takes a notice as it arises. It must not block.
pub(crate) type NoticeSink = Arc<dyn Fn(&ServerNotice) + Send + Sync>;

/// The settings that one agent's servers share.
#[derive(Clone)]
pub struct ClientOptions {
    /// Our environment, of which children get only the allow-listed part (`PATH`, `HOME`, `LANG`, …).
    pub environment: Vec<(OsString, OsString)>,
    /// Starts the stdio servers.
    pub spawner: Arc<dyn Spawner>,
    /// The HTTP client for HTTP servers; None builds one (rustls with ring, public roots, system proxies). One that
    /// is handed in should not follow redirects to other origins: the servers' keys would go along.
    pub http: Option<reqwest::Client>,
    /// Gets the servers' stderr line by line; None drops it.
    pub stderr: Option<StderrSink>,
    /// Gets each notice as it arises; they are kept for [`McpServers::notices`](super::McpServers::notices) too.
    pub on_notice: Option<NoticeSink>,
    /// Where results too long for the model are kept whole; None keeps them nowhere.
    pub output_dir: Option<PathBuf>,
    /// Takes known secrets out of what is kept there; None keeps it as it is.
    pub masks: Option<Arc<dyn Masks>>,
    /// How long a call may take however much progress it reports.
    pub progress_cap: Duration,
    /// How often a dead server is started again.
    pub max_restarts: u32,
    /// The wait before the first restart; doubles with each.
    pub restart_pause: Duration,
    /// A server that stayed up this long has its restarts forgiven.
    pub restarts_forgiven_after: Duration,
    /// How long a process gets at each step of its end.
    pub grace: Duration,
}

impl ClientOptions {
    /// The usual settings, with this environment to take the allow-listed variables from. How processes are started has
    /// no usual setting: the caller sees to it that a server ends when we do.
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
            masks: None,
            progress_cap: limits::CALL_WITH_PROGRESS,
            max_restarts: limits::RESTARTS,
            restart_pause: limits::RESTART_PAUSE,
            restarts_forgiven_after: limits::RESTARTS_FORGIVEN,
            grace: limits::GRACE,
        }
    }
}

impl fmt::Debug for ClientOptions {
    /// Leaves the environment out: it holds keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("output_dir", &self.output_dir)
            .field("progress_cap", &self.progress_cap)
            .field("max_restarts", &self.max_restarts)
            .finish_non_exhaustive()
    }
}
