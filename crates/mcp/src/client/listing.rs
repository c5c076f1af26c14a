//! Lists an MCP server's tools page by page, and again when the server announces a change.

use super::limits;
use super::notice::{NoticeKind, quote};
use super::sanitize::SkippedTools;
use super::spec::ServerSpec;
use super::tool_set::{ServerTool, ServerToolSet, ToolFilter};
use rmcp::model::{
    ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams, ServerResult, SubscriptionFilter,
};
use rmcp::service::Subscription;
use rmcp::{Peer, RoleClient, ServiceError};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

pub(crate) async fn list(
    peer: &Peer<RoleClient>,
    spec: &ServerSpec,
    skipped_tools: &SkippedTools,
) -> Result<(Vec<ServerTool>, Vec<NoticeKind>), String> {
    let mut filter = ToolFilter::new(spec);
    let mut cursor: Option<String> = None;
    for _ in 0..limits::TOOL_PAGES {
        let params = cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let request = ListToolsRequest { params, ..Default::default() };
        let page = match peer.send_request(ClientRequest::ListToolsRequest(request)).await {
            Ok(ServerResult::ListToolsResult(page)) => page,
            Ok(_) => return Err("its answer is not a tool list".to_owned()),
            // A server with only prompts or resources may not implement `tools/list`.
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => break,
            Err(error) => return Err(quote(&error.to_string())),
        };
        for (tool, reason) in skipped_tools.take() {
            filter.skip(tool, reason);
        }
        filter.add_page(page.tools);
        cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
        if cursor.is_none() || filter.is_full() {
            break;
        }
    }
    Ok(filter.finish())
}

pub(crate) struct Refresher {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) spec: Arc<ServerSpec>,
    pub(crate) tool_set: Arc<ServerToolSet>,
    pub(crate) skipped_tools: Arc<SkippedTools>,
    pub(crate) changed: Arc<Notify>,
}

impl Refresher {
    /// Runs until the connection ends. Without a subscription, any number of notifications during a listing lead to
    /// only one more listing.
    pub(crate) async fn run(self, say: impl Fn(NoticeKind) + Send) {
        let mut subscription = self.subscribe().await;
        if subscription.is_some() {
            // The tools may have changed between the first listing and the subscription.
            self.changed.notify_one();
        }
        loop {
            self.change(&mut subscription).await;
            let listed =
                match timeout(limits::REFRESH, list(&self.peer, &self.spec, &self.skipped_tools)).await {
                    Ok(listed) => listed,
                    Err(_) => Err("it did not answer in time".to_owned()),
                };
            if self.peer.is_transport_closed() {
                return;
            }
            match listed {
                Ok((tools, notices)) => {
                    self.tool_set.replace(tools);
                    notices.into_iter().for_each(&say);
                }
                Err(reason) => say(NoticeKind::RefreshFailed { reason }),
            }
            sleep(limits::REFRESH_PAUSE).await;
        }
    }

    /// Servers of revision 2026-07-28 send change notifications only to subscribers.
    async fn subscribe(&self) -> Option<Subscription> {
        let info = self.peer.peer_info()?;
        let tells = info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true));
        if info.protocol_version.has_initialize() || !tells {
            return None;
        }
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = Some(true);
        timeout(limits::REFRESH, self.peer.listen(filter)).await.ok()?.ok()
    }

    async fn change(&self, subscription: &mut Option<Subscription>) {
        let Some(listening) = subscription else { return self.changed.notified().await };
        let next = tokio::select! {
            () = self.changed.notified() => return,
            next = listening.next() => next,
        };
        if !matches!(next, Ok(Some(_))) {
            *subscription = None;
        }
    }
}
