//! One connection to one MCP server: its calls, and how it ended. It never restarts the server.

use super::exit_reason::ExitReason;
use super::handshake::{self, Client, OpenConnection};
use super::host::Shared;
use super::limits;
use super::listing::{self, Refresher};
use super::log::ServerLog;
use super::notice::{NoticeKind, StartError};
use super::spec::ServerSpec;
use super::supervise::SupervisedProcess;
use super::tool_set::ServerToolSet;
use althing_text::truncate_chars;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientRequest,
    JsonObject, RequestId, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RunningService};
use rmcp::{Peer, RoleClient, ServiceError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    /// Dropping the service ends the connection; `close` also waits.
    service: Mutex<Option<RunningService<RoleClient, Client>>>,
    process: Option<SupervisedProcess>,
    exit_reason: Arc<ExitReason>,
    log: Arc<ServerLog>,
    refresher: AbortHandle,
    since: Instant,
    end_reported: AtomicBool,
}

impl Connection {
    /// Dropping the future stops everything it started.
    pub(crate) async fn start(
        shared: &Arc<Shared>,
        spec: &Arc<ServerSpec>,
        tool_set: &Arc<ServerToolSet>,
    ) -> Result<Self, StartError> {
        let log = ServerLog::new(&spec.name, shared.options.stderr.clone());
        match timeout(spec.start_timeout, Self::start_with(shared, spec, tool_set, &log)).await {
            Ok(started) => started,
            Err(_) => Err(StartError::Timeout { limit: spec.start_timeout, stderr_tail: log.last() }),
        }
    }

    async fn start_with(
        shared: &Arc<Shared>,
        spec: &Arc<ServerSpec>,
        tool_set: &Arc<ServerToolSet>,
        log: &Arc<ServerLog>,
    ) -> Result<Self, StartError> {
        let changed = Arc::new(Notify::new());
        let OpenConnection { service, process, exit_reason, skipped_tools } =
            handshake::open(shared, spec, log, &changed).await?;
        let peer = service.peer().clone();
        let (tools, notices) = match listing::list(&peer, spec, &skipped_tools).await {
            Ok(listed) => listed,
            Err(_) if peer.is_transport_closed() => {
                let how = handshake::ending(&exit_reason, process.as_ref()).await;
                return Err(StartError::Ended { how, stderr_tail: log.last() });
            }
            Err(reason) => return Err(StartError::ListTools { reason }),
        };
        tool_set.replace(tools);
        let say = {
            let (shared, server) = (shared.clone(), spec.name.clone());
            move |kind: NoticeKind| shared.notice(&server, kind)
        };
        notices.into_iter().for_each(&say);
        let refresher = Refresher {
            peer: peer.clone(),
            spec: spec.clone(),
            tool_set: tool_set.clone(),
            skipped_tools,
            changed,
        };
        Ok(Self {
            peer,
            service: Mutex::new(Some(service)),
            process,
            exit_reason,
            log: log.clone(),
            refresher: tokio::spawn(refresher.run(say)).abort_handle(),
            since: Instant::now(),
            end_reported: AtomicBool::new(false),
        })
    }

    pub(crate) fn is_up(&self) -> bool {
        !self.peer.is_transport_closed()
    }

    pub(crate) fn has_process(&self) -> bool {
        self.process.is_some()
    }

    /// Always true for a process; for HTTP only if the transport is closed, because a single request may fail on its
    /// own.
    pub(crate) fn is_gone_on_failure(&self) -> bool {
        self.process.is_some() || !self.is_up()
    }

    /// Returns why an exchange failed while the connection stayed open, and removes the stored reason, so that it is not
    /// reported for a later exchange.
    pub(crate) fn take_failure(&self) -> Option<String> {
        self.exit_reason.take()
    }

    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    pub(crate) fn protocol(&self) -> Option<String> {
        self.peer.peer_info().map(|info| info.protocol_version.as_str().to_owned())
    }

    pub(crate) fn instructions(&self) -> Option<String> {
        let info = self.peer.peer_info()?;
        info.instructions.as_deref().map(|text| truncate_chars(text.trim(), limits::INSTRUCTIONS))
    }

    /// Dropping the future sends the server a cancellation.
    pub(crate) async fn call(
        &self,
        tool: String,
        arguments: JsonObject,
        silence: Duration,
        total: Duration,
    ) -> Result<ServerResult, ServiceError> {
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        let options = PeerRequestOptions::with_timeout(silence)
            .reset_timeout_on_progress()
            .with_max_total_timeout(total.max(silence));
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let handle = self.peer.send_request_with_option(request, options).await?;
        let mut cancel_on_drop = CancelOnDrop { call: Some((self.peer.clone(), handle.id.clone())) };
        let answer = handle.await_response().await;
        cancel_on_drop.call = None;
        answer
    }

    /// How the connection ended, phrased to follow the server's name. Waits briefly until the reason is known.
    pub(crate) async fn ending(&self) -> String {
        handshake::ending(&self.exit_reason, self.process.as_ref()).await
    }

    pub(crate) fn stderr_tail(&self) -> Vec<String> {
        self.log.last()
    }

    pub(crate) fn mark_end_reported(&self) -> bool {
        !self.end_reported.swap(true, Ordering::Relaxed)
    }

    /// Takes at most two grace periods, and then waits until the server's process, if any, has ended.
    pub(crate) async fn close(&self, grace: Duration) {
        self.refresher.abort();
        if let Some(mut service) = self.service.lock().await.take() {
            // On an error or timeout, the process supervisor finishes the shutdown.
            let _ = service.close_with_timeout(grace * 2).await;
        }
        if let Some(process) = &self.process {
            process.ended().await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.refresher.abort();
    }
}

struct CancelOnDrop {
    call: Option<(Peer<RoleClient>, RequestId)>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some((peer, id)), Ok(runtime)) = (self.call.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let reason = Some("the call was cancelled".to_owned());
        let note = CancelledNotification::new(CancelledNotificationParam::new(Some(id), reason));
        runtime.spawn(async move {
            // An error means that the server is gone.
            let _ = peer.send_notification(note.into()).await;
        });
    }
}
