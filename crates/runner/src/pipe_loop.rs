//! The loop that reads a guarded program's pipes until the program has ended; for commands, headless CLI agents and
//! structured sessions.

use crate::adapter::Stream;
use crate::guarded::{CHUNK, GUARD_SLACK, Guarded};
use crate::limits::ReachedLimit;
use std::io;
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};

pub(crate) trait PipeHandler: Send {
    fn output(&mut self, stream: Stream, bytes: &[u8]);

    /// When the program is asked to end; `None` if there is no limit.
    fn deadline(&self) -> Option<Instant>;

    /// Waits for the handler's own next event and handles it. Must be cancel-safe: the future is dropped when
    /// something else happens first.
    fn next_event(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        std::future::pending()
    }
}

#[derive(Debug)]
pub(crate) struct OutputPipes {
    pub(crate) out: Option<pipe::Receiver>,
    pub(crate) err: Option<pipe::Receiver>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StopTimeouts {
    pub(crate) grace: Duration,
    /// How long to wait for more output after the program's end, while another process holds the pipe open.
    pub(crate) drain: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessEnd {
    /// The exit code; `None` if a signal ended the program.
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) asked_at: Option<Instant>,
    pub(crate) limit: Option<ReachedLimit>,
}

impl OutputPipes {
    fn is_closed(&self) -> bool {
        self.out.is_none() && self.err.is_none()
    }

    async fn readable(&self) -> io::Result<()> {
        tokio::select! {
            ready = readable(self.out.as_ref()) => ready,
            ready = readable(self.err.as_ref()) => ready,
        }
    }

    /// Reads each pipe once, so that a flood on one of them does not starve the other.
    fn read(&mut self, buffer: &mut [u8], handler: &mut impl PipeHandler) -> io::Result<()> {
        for (pipe, stream) in [(&mut self.out, Stream::Out), (&mut self.err, Stream::Err)] {
            match pipe.as_ref().map(|pipe| pipe.try_read(buffer)) {
                Some(Ok(0)) => *pipe = None,
                Some(Ok(length)) => handler.output(stream, buffer.get(..length).unwrap_or_default()),
                Some(Err(error)) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Some(Err(_)) | None => {}
            }
        }
        Ok(())
    }
}

async fn readable(pipe: Option<&pipe::Receiver>) -> io::Result<()> {
    match pipe {
        Some(pipe) => pipe.readable().await,
        None => std::future::pending().await,
    }
}

/// Reads until the program has ended and its pipes are closed, but at most for [`StopTimeouts::drain`] after the
/// program's end. At the handler's deadline, asks the program to end.
pub(crate) async fn read_until_end(
    guarded: &mut Guarded,
    mut pipes: OutputPipes,
    timeouts: StopTimeouts,
    handler: &mut impl PipeHandler,
) -> io::Result<ProcessEnd> {
    let mut buffer = vec![0; CHUNK];
    let (mut asked_at, mut ended): (Option<Instant>, Option<ProcessEnd>) = (None, None);
    let mut drained_at = Instant::now();
    loop {
        if let Some(ended) = ended.filter(|_| pipes.is_closed()) {
            return Ok(ended);
        }
        let deadline = match (ended, asked_at) {
            (Some(_), _) => Some(drained_at),
            (None, Some(asked_at)) => Some(asked_at + timeouts.grace + GUARD_SLACK),
            (None, None) => handler.deadline(),
        };
        tokio::select! {
            biased;
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                match (ended, asked_at) {
                    (Some(ended), _) => return Ok(ended),
                    (None, Some(_)) => return Err(io::Error::other("the guard did not end the program in time")),
                    (None, None) => {
                        asked_at = Some(Instant::now());
                        guarded.terminate().await?;
                    }
                }
            }
            exited = guarded.exited(), if ended.is_none() => {
                let (code, signal) = exited?;
                ended = Some(ProcessEnd { code, signal, asked_at, limit: guarded.limit() });
                drained_at = Instant::now() + timeouts.drain;
            }
            handled = handler.next_event() => handled?,
            ready = pipes.readable() => {
                ready?;
                pipes.read(&mut buffer, handler)?;
                // A flooded pipe is always ready; yielding lets the runtime poll other tasks between two reads.
                tokio::task::yield_now().await;
            }
        }
    }
}
