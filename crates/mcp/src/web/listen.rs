//! The listening socket of the HTTP server: accepts connections up to a limit, and closes them all when it is
//! dropped.

use super::admitted::AdmittedConnections;
use super::connection::{self, ConnectionContext, PendingConnection};
use super::limits::ACCEPT_PAUSE;
use super::{Router, WebLimits};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

/// A listener on the loopback interface. Dropping it closes the socket and every connection.
pub(crate) struct Listener {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Listener {
    pub(crate) async fn bind(
        address: SocketAddr,
        limits: WebLimits,
        make: impl FnOnce(SocketAddr) -> Arc<dyn Router>,
    ) -> Result<Self, String> {
        if !address.ip().is_loopback() {
            return Err(format!(
                "{address} is not a loopback address: listen on 127.0.0.1 or [::1], and use a tunnel or a TLS proxy for \
                 remote clients"
            ));
        }
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) =
            bound.await.map_err(|error: std::io::Error| format!("cannot listen on {address}: {error}"))?;
        let context = Arc::new(ConnectionContext {
            address,
            limits,
            router: make(address),
            admitted: AdmittedConnections::default(),
        });
        Ok(Self { address, accepting: tokio::spawn(accept(listener, context)) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The socket stops with the runtime that it was created in.
    pub(crate) fn is_up(&self) -> bool {
        !self.accepting.is_finished()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, context: Arc<ConnectionContext>) {
    // Dropping this future drops the set, which aborts every connection.
    let mut connections = JoinSet::new();
    let mut unauthenticated: VecDeque<PendingConnection> = VecDeque::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= context.limits.connections {
            context.admitted.evict_one();
            connections.join_next().await;
            continue;
        }
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // A small response must not wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        unauthenticated.retain(|pending| !pending.admitted.is_cancelled());
        while unauthenticated.len() >= context.limits.unauthenticated {
            // The oldest connection is closed, because a well-behaved client has long sent its request.
            if let Some(oldest) = unauthenticated.pop_front() {
                oldest.evicted.cancel();
            }
        }
        let pending = PendingConnection::default();
        unauthenticated.push_back(pending.clone());
        let context = context.clone();
        connections.spawn(async move {
            connection::serve(stream, context, pending.clone()).await;
            pending.admitted.cancel();
            pending.ended.cancel();
        });
    }
}
