//! Signals that ask the program to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask to stop.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl StopSignals {
    /// From now on they no longer kill the process outright.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
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
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}
