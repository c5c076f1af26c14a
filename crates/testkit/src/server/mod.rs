//! The fake model server: hand-written HTTP/1.1 on the loopback interface, because every byte and its timing must be
//! controllable.

mod accept;
mod connection;
mod request;
mod state;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;

use crate::program::ServerProgram;
use crate::recorded::RecordedRequest;
use crate::script::Script;
use state::ServerState;

/// A running fake model server. It stops and closes its connections when dropped.
#[derive(Debug)]
pub struct FakeModel {
    address: SocketAddr,
    state: Arc<ServerState>,
    host: ServerHost,
}

#[derive(Debug)]
enum ServerHost {
    Task(tokio::task::JoinHandle<()>),
    /// Dropping the sender tells the thread to stop.
    Thread(Option<(oneshot::Sender<()>, JoinHandle<()>)>),
}

#[derive(Debug, Clone)]
pub struct FakeModelOptions {
    /// The port. 0 means any free one.
    pub port: u16,
    pub models: Vec<String>,
    /// Whether requests are recorded for `requests` and the waits on them. A long benchmark disables it.
    pub keep_requests: bool,
    pub program: ServerProgram,
}

impl Default for FakeModelOptions {
    fn default() -> Self {
        Self {
            port: 0,
            models: ["model-a", "model-b", "model-c"].map(String::from).into(),
            keep_requests: true,
            program: ServerProgram::default(),
        }
    }
}

impl FakeModel {
    /// Starts a server as a task of the current runtime.
    pub async fn start(script: impl Into<Script>) -> Self {
        Self::start_with(FakeModelOptions::default(), script).await
    }

    #[expect(
        clippy::unused_async,
        reason = "it needs a runtime to run on, which only an awaiting caller has"
    )]
    pub async fn start_with(options: FakeModelOptions, script: impl Into<Script>) -> Self {
        let (listener, address) = listen(options.port);
        let state = Arc::new(ServerState::new(script.into(), options));
        let host = ServerHost::Task(tokio::spawn(accept::run(listener, Arc::clone(&state))));
        Self { address, state, host }
    }

    /// Starts a server on its own thread: for tests without a runtime, and for those that block or pause theirs.
    pub fn start_on_thread(script: impl Into<Script>) -> Self {
        Self::start_on_thread_with(FakeModelOptions::default(), script)
    }

    pub fn start_on_thread_with(options: FakeModelOptions, script: impl Into<Script>) -> Self {
        let port = options.port;
        let state = Arc::new(ServerState::new(script.into(), options));
        let (stop, stopped) = oneshot::channel::<()>();
        let (start_signal, started) = std::sync::mpsc::channel();
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime for the fake model server");
            runtime.block_on(async move {
                let (listener, address) = listen(port);
                start_signal.send(address).expect("the starter waits for the address");
                tokio::select! {
                    () = accept::run(listener, shared) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = started.recv().expect("the fake model server did not start");
        Self { address, state, host: ServerHost::Thread(Some((stop, thread))) }
    }

    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.calls.read(Clone::clone)
    }

    pub fn requests_of(&self, model: &str) -> Vec<RecordedRequest> {
        let mut all = self.requests();
        all.retain(|request| request.model() == model);
        all
    }

    pub fn other_requests(&self) -> Vec<RecordedRequest> {
        self.state.others.read(Clone::clone)
    }

    /// The number of model calls, recorded or not.
    pub fn request_count(&self) -> usize {
        self.state.call_count()
    }

    /// Waits until `n` model calls have arrived and returns all of them. Panics after `limit`.
    pub async fn wait_for_requests(&self, n: usize, limit: Duration) -> Vec<RecordedRequest> {
        self.wait_until(limit, |calls| calls.len() >= n).await
    }

    pub fn wait_for_requests_blocking(&self, n: usize, limit: Duration) -> Vec<RecordedRequest> {
        self.wait_until_blocking(limit, |calls| calls.len() >= n)
    }

    /// Waits until `condition` holds for the recorded model calls. It is checked again whenever a call arrives or ends.
    /// Panics after `limit`.
    pub async fn wait_until(
        &self,
        limit: Duration,
        mut condition: impl FnMut(&[RecordedRequest]) -> bool,
    ) -> Vec<RecordedRequest> {
        let found = self.state.calls.wait_for(limit, |calls| condition(calls).then(|| calls.clone())).await;
        found.unwrap_or_else(|| self.gave_up(limit))
    }

    pub fn wait_until_blocking(
        &self,
        limit: Duration,
        mut condition: impl FnMut(&[RecordedRequest]) -> bool,
    ) -> Vec<RecordedRequest> {
        let found =
            self.state.calls.wait_for_blocking(limit, |calls| condition(calls).then(|| calls.clone()));
        found.unwrap_or_else(|| self.gave_up(limit))
    }

    fn gave_up(&self, limit: Duration) -> ! {
        let seen: Vec<String> = self
            .requests()
            .iter()
            .map(|r| format!("{} {} {:?} {:?}", r.seq(), r.model(), r.tool_names(), r.outcome()))
            .collect();
        panic!("the fake model server waited {limit:?}; it has seen {} calls: {seen:#?}", seen.len());
    }

    pub fn connections(&self) -> usize {
        self.state.connections.read(|count| count.total)
    }

    pub fn open_connections(&self) -> usize {
        self.state.connections.read(|count| count.open)
    }

    pub fn peak_connections(&self) -> usize {
        self.state.connections.read(|count| count.peak)
    }

    /// Stops listening: new connections are refused until `listen_again`. Open ones stay; those not yet accepted are
    /// reset.
    pub async fn refuse(&self) {
        self.state.close_port().await;
    }

    pub async fn listen_again(&self) {
        self.state.open_port().await;
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        match &mut self.host {
            ServerHost::Task(task) => task.abort(),
            ServerHost::Thread(running) => {
                if let Some((stop, thread)) = running.take() {
                    drop(stop);
                    // A panic of the thread was already printed, and a second panic here would abort the test.
                    let _ = thread.join();
                }
            }
        }
    }
}

/// A base URL where nothing listens. Its port stays bound, so that nothing else can take it.
pub fn refused_base_url() -> String {
    static HELD: OnceLock<Mutex<Vec<TcpSocket>>> = OnceLock::new();
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let address = socket.local_addr().expect("the port just bound");
    HELD.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner).push(socket);
    format!("http://{address}/v1")
}

fn listen(port: u16) -> (TcpListener, SocketAddr) {
    let listener = accept::listen(accept::hold(SocketAddr::from(([127, 0, 0, 1], port)), port != 0));
    let address = listener.local_addr().expect("a bound listener has an address");
    (listener, address)
}
