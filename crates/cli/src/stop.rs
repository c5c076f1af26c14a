//! Signals that ask the program to stop.

use althing_app::Failure;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// How long a graceful stop may take before the process exits anyway. It includes the two seconds after which a program
/// that ignores the request to end is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    deadline: Option<Instant>,
}

/// From this call on, the signals no longer kill the process.
pub fn signals(runtime: &Runtime) -> Result<StopSignals, Failure> {
    let _inside = runtime.enter();
    StopSignals::listen()
        .map_err(|error| Failure::no_answer(format!("could not listen for signals: {error}")))
}

/// A runtime for a command that only waits for signals while a thread works.
pub fn small_runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::no_answer(format!("could not listen for signals: {error}")))
}

/// Runs a blocking job on another thread. The receiver yields the job's result, or an error if the job panics.
pub fn start_thread<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<tokio::sync::oneshot::Receiver<T>, Failure> {
    let (done, waiting) = tokio::sync::oneshot::channel();
    let started = std::thread::Builder::new().spawn(move || {
        let _ = done.send(job());
    });
    started.map_err(|error| Failure::no_answer(format!("could not start a thread: {error}")))?;
    Ok(waiting)
}

pub enum StopRequest {
    /// Stop gracefully. Contains the name of the signal.
    Stop(&'static str),
    /// Exit now. Contains the reason.
    End(&'static str),
}

impl StopSignals {
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            deadline: None,
        })
    }

    /// Waits for the first signal; in later calls, for another signal or the deadline of the graceful stop.
    pub async fn next_request(&mut self) -> StopRequest {
        let Some(deadline) = self.deadline else {
            let name = self.next().await;
            self.deadline = Some(Instant::now() + STOP_TIMEOUT);
            return StopRequest::Stop(name);
        };
        tokio::select! {
            _ = self.next() => StopRequest::End("a second signal arrived, so Althing exited without waiting for the session"),
            () = tokio::time::sleep_until(deadline) => {
                StopRequest::End("the session did not stop in time, so Althing exited without waiting for it")
            }
        }
    }

    /// Runs a blocking job on another thread. If a signal arrives first, or the deadline of an earlier one passes, the job
    /// is abandoned and the error is the signal's name or the reason. If no thread can be started or the job panics, the error is another message.
    pub async fn run_unless_stopped<T: Send + 'static>(
        &mut self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, &'static str> {
        let started = start_thread(job);
        let ended = async {
            match started {
                Ok(waiting) => waiting.await.map_err(|_| "the job failed because of a bug in Althing"),
                Err(_) => Err("could not start a thread"),
            }
        };
        tokio::select! {
            value = ended => value,
            request = self.next_request() => match request {
                StopRequest::Stop(reason) | StopRequest::End(reason) => Err(reason),
            },
        }
    }

    pub async fn next(&mut self) -> &'static str {
        let name = tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => "SIGHUP",
        };
        tracing::info!(name, "signal");
        name
    }
}
