//! Accepts connections while the port is open, and owns the tasks that serve them: dropping the future of `run` drops
//! all these tasks.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::connection;
use super::state::ServerState;

const WAITING: u32 = 1024;

/// Binds a port without listening, so that connections are refused. Two sockets of this process may hold one port: the
/// new socket is bound before the old one is closed, so that no other server can take the port in between.
pub(super) fn hold(address: SocketAddr, restarting: bool) -> TcpSocket {
    let held = TcpSocket::new_v4().and_then(|socket| {
        socket.set_reuseport(true)?;
        // With this option, a server that restarts on its port need not wait until its old connections time out. A port
        // that is only held must not have it, because it would let other processes bind the port.
        socket.set_reuseaddr(restarting)?;
        socket.bind(address)?;
        Ok(socket)
    });
    held.unwrap_or_else(|error| panic!("the fake model server cannot have {address}: {error}"))
}

pub(super) fn listen(held: TcpSocket) -> TcpListener {
    held.listen(WAITING).expect("a held port can be listened on")
}

pub(super) async fn run(listener: TcpListener, state: Arc<ServerState>) {
    let address = listener.local_addr().expect("a listener has an address");
    let mut listener = Some(listener);
    let mut held = None;
    let mut tasks = JoinSet::new();
    loop {
        if let Some(open) = &listener {
            tokio::select! {
                accepted = open.accept() => {
                    if let Ok((stream, _)) = accepted {
                        tasks.spawn(serve(stream, Arc::clone(&state)));
                    }
                }
                () = state.port.wait(|port| (port.holds > 0).then_some(())) => {
                    held = Some(hold(address, false));
                    listener = None;
                    state.port.update(|port| port.listening = false);
                }
                // Finished tasks are collected continuously, so that they do not accumulate in a long benchmark.
                Some(_) = tasks.join_next() => {}
            }
        } else {
            tokio::select! {
                () = state.port.wait(|port| (port.holds == 0).then_some(())) => {
                    listener = Some(listen(held.take().unwrap_or_else(|| hold(address, false))));
                    state.port.update(|port| port.listening = true);
                }
                Some(_) = tasks.join_next() => {}
            }
        }
    }
}

async fn serve(stream: TcpStream, state: Arc<ServerState>) {
    let number = state.connections.update(|count| {
        count.total += 1;
        count.open += 1;
        count.peak = count.peak.max(count.open);
        count.total - 1
    });
    connection::serve(stream, number, &state).await;
    state.connections.update(|count| count.open -= 1);
}
