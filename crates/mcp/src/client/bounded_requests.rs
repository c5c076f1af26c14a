//! Limits how many requests of an MCP server may wait for our replies. If a server sends requests (above all `ping`)
//! without end and does not take the replies, `rmcp` would keep them all in memory, so the connection is closed
//! instead.

use super::exit_reason::ExitReason;
use super::limits;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification};
use rmcp::transport::Transport;
use std::collections::HashSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(crate) struct BoundedRequests<T> {
    /// `None` after the transport was dropped because of the limit.
    transport: Option<T>,
    /// Requests of the server to which `rmcp` has not replied yet.
    open: HashSet<RequestId>,
    /// One more reference for each reply that the server has not taken yet.
    sending: Arc<()>,
    closed: CancellationToken,
    exit_reason: Arc<ExitReason>,
}

impl<T> BoundedRequests<T> {
    pub(crate) fn new(transport: T, exit_reason: Arc<ExitReason>) -> Self {
        Self {
            transport: Some(transport),
            open: HashSet::new(),
            sending: Arc::default(),
            closed: CancellationToken::new(),
            exit_reason,
        }
    }

    fn count(&mut self, message: &ServerJsonRpcMessage) -> bool {
        match message {
            ServerJsonRpcMessage::Request(request) => {
                self.open.insert(request.id.clone());
            }
            ServerJsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.remove(id);
                }
            }
            ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_) => {}
        }
        let sending = Arc::strong_count(&self.sending) - 1;
        self.open.len() + sending <= limits::UNANSWERED
    }
}

impl<T: Transport<RoleClient> + 'static> Transport<RoleClient> for BoundedRequests<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let reply_to = match &item {
            ClientJsonRpcMessage::Response(response) => Some(Some(&response.id)),
            ClientJsonRpcMessage::Error(error) => Some(error.id.as_ref()),
            ClientJsonRpcMessage::Request(_) | ClientJsonRpcMessage::Notification(_) => None,
        };
        let sending = reply_to.is_some().then(|| Arc::clone(&self.sending));
        if let Some(id) = reply_to.flatten() {
            self.open.remove(id);
        }
        let closed = self.closed.clone();
        let sent = self.transport.as_mut().map(|transport| transport.send(item));
        async move {
            let result = match sent {
                Some(sent) => tokio::select! {
                    result = sent => result,
                    () = closed.cancelled() => Ok(()),
                },
                None => Ok(()),
            };
            drop(sending);
            result
        }
    }

    /// `None` if the connection has ended or there are too many requests. Cancel-safe if the transport is.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = self.transport.as_mut()?.receive().await?;
        if self.count(&message) {
            return Some(message);
        }
        self.exit_reason.set(format!(
            "was disconnected: it sent more than {} requests without taking the replies",
            limits::UNANSWERED
        ));
        self.closed.cancel();
        // The transport is dropped and not closed, because closing waits for the server.
        self.transport = None;
        None
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.closed.cancel();
        match &mut self.transport {
            Some(transport) => transport.close().await,
            None => Ok(()),
        }
    }
}
