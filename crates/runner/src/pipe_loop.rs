//! The one loop that reads a guarded program's pipes until the program has ended.
//!
//! Commands, headless programs and structured sessions all use it, so that the same holds for all of them: nothing is
//! waited for without a limit, memory does not grow with the output, and a program that floods its output starves
//! neither its own other pipe nor other programs.

use crate::adapter::Stream;
use crate::guarded::{CHUNK, GUARD_SLACK, Guarded};
use std::io;
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};

/// What is done with a program's output, and when the program has to end.
pub(crate) trait PipeHandler: Send {
    /// Takes in what the program wrote.
    fn output(&mut self, stream: Stream, bytes: &[u8]);

    /// When the program is to be asked to end; `None` while there is no limit.
    fn deadline(&self) -> Option<Instant>;

    /// Waits for the handler's own next event and handles it. The future is dropped when something else happens first.
    fn next_event(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        std::future::pending()
    }
}

/// The pipes that a program writes to; `None` once closed.
#[derive(Debug)]
pub(crate) struct OutputPipes {
    pub(crate) out: Option<pipe::Receiver>,
    pub(crate) err: Option<pipe::Receiver>,
}

/// How a program is ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StopTimeouts {
    /// From asking the program to end to killing it.
    pub(crate) grace: Duration,
    /// How long output is still waited for after the program's end, when another process holds the pipe.
    pub(crate) drain: Duration,
}

/// How a program ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessEnd {
    /// The exit code, unless a signal ended the program.
    pub(crate) code: Option<i32>,
    /// The signal that ended the program.
    pub(crate) signal: Option<i32>,
    /// When the program was asked to end, if it was.
    pub(crate) asked_at: Option<Instant>,
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

    /// Reads each pipe once, so that a flood on one of them does not hide the other.
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

/// Reads until the program has ended and its pipes are closed. At its deadline the program is asked to end.
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
                ended = Some(ProcessEnd { code, signal, asked_at });
                drained_at = Instant::now() + timeouts.drain;
            }
            handled = handler.next_event() => handled?,
            ready = pipes.readable() => {
                ready?;
                pipes.read(&mut buffer, handler)?;
                // A pipe that is flooded is always ready: the runtime looks at all others between two of its reads.
                tokio::task::yield_now().await;
            }
        }
    }
}
