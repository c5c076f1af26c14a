//! The environment of one member of a run: its files, its tools, and the processes that act for it.

use super::guidance;
use super::mcp_servers::AgentServers;
use super::watch::AgentWatch;
use crate::context::Notify;
use althing_engine::{Guidance, Planning, ToolRouter, WorkspaceBriefing};
use althing_protocol::{
    AgentEnv, AgentId, AnswerLabel, BoxFuture, ContextAccess, FileWrite, Grant, ToolHost,
};
use althing_runner::Container;
use althing_workspace::{AgentFiles, Memory, run_blocking};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const END_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct MemberEnv {
    pub(super) local: Arc<AgentFiles>,
    pub(super) grant: Grant,
    pub(super) plan_first: bool,
    pub(super) router: ToolRouter,
    pub(super) briefing: WorkspaceBriefing,
    pub(super) guidance: Mutex<Guidance>,
    pub(super) memory: Option<Memory>,
    pub(super) container: Option<Arc<Container>>,
    /// `None` if the config has none, if the run only plans, or if the servers are simulated.
    pub(super) servers: Option<AgentServers>,
    pub(super) watch: AgentWatch,
    pub(super) notify: AgentNotifier,
}

pub(super) struct AgentNotifier {
    pub(super) notify: Notify,
    pub(super) agent: AgentId,
}

impl AgentNotifier {
    fn notice(&self, text: &str) {
        (self.notify)(&format!("{}: {text}", self.agent));
    }

    pub(super) fn notices(&self, local: &AgentFiles) {
        for notice in local.take_notices() {
            self.notice(&notice);
        }
    }
}

impl AgentEnv for MemberEnv {
    fn path(&self) -> &str {
        self.local.path()
    }

    fn tool_host(&self) -> &dyn ToolHost {
        &self.router
    }

    fn grant(&self, access: ContextAccess) -> Grant {
        let planning = self.grant.planning || (self.plan_first && access == ContextAccess::ReadOnly);
        Grant { planning, ..self.grant.clone() }.with_access(access)
    }

    fn briefing(&self, access: ContextAccess) -> String {
        let guidance = self.guidance.lock().unwrap_or_else(PoisonError::into_inner);
        let planning = guidance.planning != Planning::Off && access == ContextAccess::ReadOnly;
        let briefing =
            WorkspaceBriefing { commands: self.briefing.commands && !planning, ..self.briefing.clone() };
        format!("{}{}", briefing.text(access), guidance.text(access))
    }

    fn snapshot(&self, label: AnswerLabel) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            // The notes are saved even if the snapshot of the files fails.
            let snapshot = self.local.take_snapshot(label).await;
            let notes = self.save_own_notes().await;
            snapshot.and(notes)
        })
    }

    fn show_snapshots(&self, labels: Vec<AnswerLabel>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(self.local.show_snapshots(labels))
    }

    fn view_of(&self, agent: u32) -> String {
        self.local.view_of(agent)
    }

    fn import_dir<'a>(&'a self, from: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.local.import_dir(from, name))
    }

    fn open_context(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            self.local.open_context().await?;
            self.notify.notices(&self.local);
            // Before anything can write.
            if let Err(error) = self.watch.open().await {
                self.local.close_context().await?;
                return Err(error);
            }
            self.recreate(ContextAccess::Writable).await
        })
    }

    fn close_context(&self) -> BoxFuture<'_, Result<Vec<FileWrite>, String>> {
        Box::pin(async move {
            // Processes that may write are ended first, so that the list of written files is complete. The list is
            // made even if a process cannot be ended.
            let revoked = self.end_processes().await;
            let writes = self.local.close_context().await?;
            // Processes that could not be ended stay watched.
            if revoked.is_ok() {
                self.watch.close().await;
            }
            if let Err(error) = revoked {
                self.notify.notice(&format!(
                    "the agent's programs could not be stopped ({error}); files that they write from now on are neither listed nor \
                     undone"
                ));
            }
            Ok(writes)
        })
    }
}

impl MemberEnv {
    async fn save_own_notes(&self) -> Result<(), String> {
        let Some(memory) = self.memory.clone() else { return Ok(()) };
        let notes = run_blocking(move || memory.save().and_then(|()| guidance::notes(&memory))).await?;
        self.guidance.lock().unwrap_or_else(PoisonError::into_inner).notes = Some(notes);
        Ok(())
    }

    /// Ends every process of the agent that may write to context paths: its MCP servers, its container, and the
    /// programs of aborted calls, which may run until they are killed.
    async fn end_processes(&self) -> Result<(), String> {
        if let Some(servers) = &self.servers {
            servers.end().await;
        }
        let recreated = self.recreate(ContextAccess::ReadOnly).await;
        let ended = althing_runner::processes_ended(Path::new(self.local.path()));
        let ended = tokio::time::timeout(END_TIMEOUT, ended).await;
        recreated.and(ended.map_err(|_| "a process does not end".to_owned()))
    }

    /// Gives commands and servers this access to context paths. Mounts of a running container cannot be changed, so
    /// the container is replaced.
    async fn recreate(&self, access: ContextAccess) -> Result<(), String> {
        if let Some(servers) = &self.servers {
            servers.set_access(access).await?;
        }
        match &self.container {
            Some(container) => container.recreate(access).await.map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}
