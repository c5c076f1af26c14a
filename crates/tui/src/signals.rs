//! The signals that end or suspend the screen.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) struct Signals {
    term: Signal,
    hup: Signal,
    int: Signal,
    stop: Signal,
}

pub(crate) enum SignalAction {
    End,
    Stop,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            hup: signal(SignalKind::hangup())?,
            int: signal(SignalKind::interrupt())?,
            stop: signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
        })
    }

    pub(crate) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.term.recv() => SignalAction::End,
            _ = self.hup.recv() => SignalAction::End,
            _ = self.int.recv() => SignalAction::End,
            _ = self.stop.recv() => SignalAction::Stop,
        }
    }
}
