//! Watches what agents write to the user's files, so that no program without a sandbox runs code that an agent planted.

use super::SessionEnvs;
use super::mcp_servers::AgentServers;
use super::tool_hosts::WatchedHost;
use crate::context::Notify;
use althing_protocol::{Grant, GrantRoot, Notice, RootKind, ToolHost};
use althing_runner::{NoticeSink, PlantedCode};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Watches one agent.
#[derive(Clone)]
pub struct AgentWatch {
    planted: Arc<PlantedCode>,
    /// The directory of the agent's task.
    dir: PathBuf,
    grant: Grant,
    notices: NoticeSink,
}

impl AgentWatch {
    pub(super) fn new(planted: &Arc<PlantedCode>, dir: &Path, grant: Grant, notify: &Notify) -> Self {
        Self { planted: Arc::clone(planted), dir: dir.to_owned(), grant, notices: sink(notify) }
    }

    /// Servers that are not kept from writing are watched during each of their calls, in all directories of the session.
    pub(super) fn servers(
        &self,
        host: Arc<dyn ToolHost>,
        servers: Option<&AgentServers>,
    ) -> Arc<dyn ToolHost> {
        if servers.is_some_and(AgentServers::may_write_anywhere) {
            Arc::new(WatchedHost { host, watch: self.everywhere() })
        } else {
            host
        }
    }

    /// The same for something that can write although the grant does not let it, in all directories of the session.
    fn everywhere(&self) -> Self {
        let context = self.grant.roots(RootKind::Context).map(|root| root.path.clone());
        let dirs = context.chain(self.grant.other_dirs.iter().cloned());
        let roots: Vec<GrantRoot> = dirs.flat_map(|dir| Grant::project(dir).roots).collect();
        Self { grant: Grant { roots, planning: false, ..self.grant.clone() }, ..self.clone() }
    }

    pub(super) async fn load(&self) {
        self.planted.load(&self.dir, &self.notices).await;
    }

    pub(super) async fn open(&self) -> Result<(), String> {
        self.planted.open(&self.dir, &self.grant, &self.notices).await
    }

    pub(super) async fn reopen(&self) -> Result<(), String> {
        self.planted.reopen(&self.dir, &self.grant, &self.notices).await
    }

    pub(super) async fn close(&self) {
        self.planted.close(&self.dir).await;
    }

    pub(super) async fn during<T>(&self, work: impl Future<Output = T>) -> Result<T, String> {
        self.planted.during(&self.dir, &self.grant, &self.notices, work).await
    }
}

/// Watches what Althing copies into the project for an agent.
#[derive(Clone)]
pub struct DeliveryWatch {
    planted: Arc<PlantedCode>,
    work_dirs: Vec<PathBuf>,
    notices: NoticeSink,
}

impl SessionEnvs {
    pub(crate) fn delivery_watch(&self) -> DeliveryWatch {
        let (planted, work_dirs) = (Arc::clone(&self.planted), self.dirs.work.clone());
        DeliveryWatch { planted, work_dirs, notices: sink(&self.notify) }
    }
}

impl DeliveryWatch {
    /// Copies files to a directory for the run of this task directory.
    pub fn deliver<T>(&self, run_dir: &Path, to: &Path, copy: impl FnOnce() -> T) -> Result<T, String> {
        let to = althing_disk::real_path(to);
        let grant = Grant { other_dirs: self.work_dirs.clone(), ..Grant::project(to) };
        self.planted.during_blocking(run_dir, &grant, &self.notices, copy)
    }
}

fn sink(notify: &Notify) -> NoticeSink {
    let notify = Arc::clone(notify);
    Arc::new(move |Notice { text, hint, .. }| {
        let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        notify(&format!("{text}{hint}"));
    })
}
