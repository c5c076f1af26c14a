//! Signals that ask the program to stop.

use althing_app::Failure;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// How long stopping may take before the process ends anyway.
const PATIENCE: Duration = Duration::from_millis(2500);

/// The signals that ask to stop.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    /// When it must be over, once it was asked for.
    until: Option<Instant>,
}

/// The signals that ask to stop; from now on they no longer kill the process.
pub fn signals(runtime: &Runtime) -> Result<StopSignals, Failure> {
    let _inside = runtime.enter();
    StopSignals::listen().map_err(|error| Failure::no_answer(format!("signals cannot be heard: {error}")))
}

/// What is asked for.
pub enum Asked {
    /// To stop, by the signal of this name.
    Stop(&'static str),
    /// To end as things are, and why.
    End(&'static str),
}

impl StopSignals {
    /// From now on they no longer kill the process outright.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            until: None,
        })
    }

    /// Waits until it is asked to stop; after that, until it is asked again or stopping has taken too long.
    pub async fn asked(&mut self) -> Asked {
        let Some(until) = self.until else {
            let name = self.next().await;
            self.until = Some(Instant::now() + PATIENCE);
            return Asked::Stop(name);
        };
        tokio::select! {
            _ = self.next() => Asked::End("asked to stop twice"),
            () = tokio::time::sleep_until(until) => Asked::End("stopping took too long"),
        }
    }

    /// Waits for a blocking job in a thread of its own, or for a signal: then the job is left behind.
    pub async fn unless<T: Send + 'static>(
        &mut self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, &'static str> {
        let (done, waiting) = tokio::sync::oneshot::channel();
        let started = std::thread::Builder::new().spawn(move || {
            // Nobody waits any more once a signal came.
            let _ = done.send(job());
        });
        let ended = async {
            match (started, waiting.await) {
                (Ok(_), Ok(value)) => Ok(value),
                _ => Err("the system gives no thread"),
            }
        };
        tokio::select! {
            value = ended => value,
            name = self.next() => Err(name),
        }
    }

    /// The next one, by name.
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
