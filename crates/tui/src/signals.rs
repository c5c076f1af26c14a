//! The signals that end or suspend the screen.

use std::io;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// How long the signals of keys are ignored after another program has had the terminal: the key that ended the program
/// may have been noticed there first.
const LATE_KEY: Duration = Duration::from_millis(500);

pub(crate) struct Signals {
    term: Signal,
    hup: Signal,
    int: Signal,
    quit: Signal,
    stop: Signal,
    /// Until when the signals of keys are ignored.
    ignored_until: Option<Instant>,
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
            quit: signal(SignalKind::quit())?,
            stop: signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
            ignored_until: None,
        })
    }

    pub(crate) async fn next(&mut self) -> SignalAction {
        loop {
            let of_key = tokio::select! {
                _ = self.term.recv() => return SignalAction::End,
                _ = self.hup.recv() => return SignalAction::End,
                _ = self.int.recv() => SignalAction::End,
                _ = self.quit.recv() => SignalAction::End,
                _ = self.stop.recv() => SignalAction::Stop,
            };
            if self.ignored_until.is_none_or(|until| until < Instant::now()) {
                return of_key;
            }
        }
    }

    /// Waits for a signal that the terminal sends to every program in the foreground when Ctrl+C, Ctrl+\ or Ctrl+Z is
    /// pressed. The other signals stay for `next`.
    pub(crate) async fn ignore_keys(&mut self) {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.quit.recv() => {}
            _ = self.stop.recv() => {}
        }
    }

    pub(crate) fn end_ignoring_keys(&mut self) {
        self.ignored_until = Some(Instant::now() + LATE_KEY);
    }
}
