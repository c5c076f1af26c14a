//! Accepts connections while the door is open, and owns the tasks that serve them: when this future is dropped, they
//! all are.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::connection;
use super::state::State;

/// Another process may hold our port for a moment while the door was shut; this is how long that is tried.
const REBIND_TRIES: usize = 200;
const REBIND_PAUSE: Duration = Duration::from_millis(10);

pub(super) async fn run(listener: TcpListener, state: Arc<State>) {
    let address = listener.local_addr().expect("a listener has an address");
    let mut listener = Some(listener);
    let mut tasks = JoinSet::new();
    loop {
        if let Some(open) = &listener {
            tokio::select! {
                accepted = open.accept() => {
                    if let Ok((stream, _)) = accepted {
                        tasks.spawn(serve(stream, Arc::clone(&state)));
                    }
                }
                () = state.door.wait(|door| (door.holds > 0).then_some(())) => {
                    listener = None;
                    state.door.update(|door| door.listening = false);
                }
                // Finished tasks are collected as they go, so that a long benchmark does not pile them up.
                Some(_) = tasks.join_next() => {}
            }
        } else {
            tokio::select! {
                () = state.door.wait(|door| (door.holds == 0).then_some(())) => {
                    listener = Some(rebind(address).await);
                    state.door.update(|door| door.listening = true);
                }
                Some(_) = tasks.join_next() => {}
            }
        }
    }
}

async fn serve(stream: TcpStream, state: Arc<State>) {
    let number = state.connections.update(|count| {
        count.total += 1;
        count.open += 1;
        count.peak = count.peak.max(count.open);
        count.total - 1
    });
    connection::serve(stream, number, &state).await;
    state.connections.update(|count| count.open -= 1);
}

async fn rebind(address: SocketAddr) -> TcpListener {
    for _ in 0..REBIND_TRIES {
        if let Ok(listener) = TcpListener::bind(address).await {
            return listener;
        }
        tokio::time::sleep(REBIND_PAUSE).await;
    }
    panic!("the fake model server cannot listen again on {address}");
}
