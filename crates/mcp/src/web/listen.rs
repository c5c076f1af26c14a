//! The listening socket: takes connections, as many as there is room for, and ends them all when it is dropped.

use super::connection::{self, Host, Stranger};
use super::limits::ACCEPT_PAUSE;
use super::{Site, WebLimits};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

/// A socket that listens on the loopback; dropping it closes it and every connection.
pub(crate) struct Listener {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Listener {
    /// Listens; `make` is told the address and says who answers there.
    pub(crate) async fn bind(
        address: SocketAddr,
        limits: WebLimits,
        make: impl FnOnce(SocketAddr) -> Arc<dyn Site>,
    ) -> Result<Self, String> {
        if !address.ip().is_loopback() {
            return Err(format!(
                "{address} is not an address of this machine alone: listen on 127.0.0.1 or [::1], and let a tunnel or a \
                 proxy with TLS carry what comes from elsewhere"
            ));
        }
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) =
            bound.await.map_err(|error: std::io::Error| format!("cannot listen on {address}: {error}"))?;
        let host = Arc::new(Host { address, limits, site: make(address) });
        Ok(Self { address, accepting: tokio::spawn(accept(listener, host)) })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it still does: it ends with the runtime that it was made in.
    pub(crate) fn is_up(&self) -> bool {
        !self.accepting.is_finished()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, host: Arc<Host>) {
    // Dropped with this future, and every connection with it.
    let mut connections = JoinSet::new();
    let mut strangers: VecDeque<Stranger> = VecDeque::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= host.limits.connections {
            connections.join_next().await;
            continue;
        }
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // A small answer must not wait for an acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        strangers.retain(|stranger| !stranger.admitted.is_cancelled());
        while strangers.len() >= host.limits.strangers {
            // The oldest goes: whoever means well has long sent its request.
            if let Some(oldest) = strangers.pop_front() {
                oldest.out.cancel();
            }
        }
        let stranger = Stranger::default();
        strangers.push_back(stranger.clone());
        let host = host.clone();
        connections.spawn(async move {
            connection::serve(stream, host, stranger.clone()).await;
            // Gone, which is as good as let in for those who count strangers.
            stranger.admitted.cancel();
        });
    }
}
