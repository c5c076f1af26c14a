//! Drives one program over pipes: input in, output out, within limits.
//!
//! What is said to the program and what its output means is an [`PipeExchange`]: one prompt ([`super::headless`]) or a
//! structured session ([`super::talk`]). There is no terminal, and nothing of the program reaches our own output.
//! Nothing here waits without a limit: not for a silent program, not for one that does not read its input, not for a
//! process that holds the pipes after the program's end.

use super::raw_output::RawOutputFile;
use crate::adapter::{Diagnostics, Exit, OutputEvent, ProgramOutcome, Stream};
use crate::clean::Cleaner;
use crate::guarded::{GUARD_SLACK, Guarded, Launcher, input_pipe, output_pipe};
use crate::launch::Launch;
use crate::pipe_loop::{OutputPipes, PipeHandler, StopTimeouts, read_until_end};
use althing_protocol::Ask;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};

/// How long output is still waited for after a program's end, when another process holds the pipe.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// A line that is begun and not ended is shown after this long.
const PARTIAL_LINE_DELAY: Duration = Duration::from_millis(200);

/// What is heard of a program while it runs.
pub(super) enum ProgramEvent<'a> {
    /// Output, as it came and as clean text.
    Output(Stream, &'a [u8], &'a str),
    /// What it means.
    Parsed(OutputEvent),
    /// It has taken its whole prompt, or will take no more of it.
    PromptSent(Result<(), String>),
    /// It asks a person.
    Waiting(Ask),
    /// It goes on.
    MovedOn,
}

/// How a run ended.
pub(super) struct FinishedRun {
    pub(super) exit: Exit,
    pub(super) outcome: ProgramOutcome,
    /// It said nothing for too long.
    pub(super) idle: bool,
}

/// Receives what is heard of a program.
pub(super) type EventSink<'a> = &'a mut (dyn FnMut(ProgramEvent<'_>) + Send);

/// What is said to a program over its input, and what its output means.
pub(super) trait PipeExchange: Send {
    /// What a person answers to the program's questions.
    type Answer: Send;

    /// Says what the program is told at its start.
    fn begin(&mut self, outbox: &mut Outbox);

    /// Takes in output, as it came and as clean text. Clean text without bytes is a line that is not ended yet.
    fn output(&mut self, stream: Stream, raw: &[u8], clean: &str, outbox: &mut Outbox, sink: EventSink<'_>);

    /// Everything in the outbox was taken, or nothing more will be.
    fn sent(&mut self, result: Result<(), String>, sink: EventSink<'_>);

    /// Waits for the next answer of a person. The future may be dropped at any moment.
    fn next_answer(&mut self) -> impl Future<Output = Self::Answer> + Send;

    /// Passes an answer on to the program.
    fn answer(&mut self, answer: Self::Answer, outbox: &mut Outbox, sink: EventSink<'_>);

    /// Whether the program waits for a person, so that its silence does not count.
    fn waits_for_person(&self) -> bool;

    /// The program has ended; called also where that was not orderly.
    fn closed(&mut self, sink: EventSink<'_>);

    /// What came of it.
    fn end(&mut self, exit: Exit, sink: EventSink<'_>) -> ProgramOutcome;
}

/// What a program is still to be told.
pub(super) struct Outbox {
    /// `None` once closed.
    to: Option<pipe::Sender>,
    unsent: VecDeque<u8>,
    /// Whether the input is closed once everything is sent.
    closing: bool,
    /// When the program must have ended by itself, once it was told that nothing more follows.
    exit_deadline: Option<Instant>,
}

impl Outbox {
    /// Adds to what the program is told.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        if self.to.is_some() {
            self.unsent.extend(bytes);
        }
    }

    /// Closes the program's input once everything is sent.
    pub(super) fn close(&mut self) {
        self.closing = true;
    }

    /// Closes the program's input and asks the program to end where it has not left by itself within this time.
    pub(super) fn close_and_expect_exit(&mut self, within: Duration) {
        self.close();
        self.exit_deadline.get_or_insert_with(|| Instant::now() + within);
    }

    /// Waits until [`Self::write`] has something to do.
    async fn ready(&self) -> io::Result<()> {
        match &self.to {
            Some(to) if !self.unsent.is_empty() => to.writable().await,
            Some(_) if self.closing => Ok(()),
            Some(_) | None => std::future::pending().await,
        }
    }

    /// Writes as much as the program takes. `Some` once that was everything, or nothing more will be taken.
    fn write(&mut self) -> Option<Result<(), String>> {
        let (next, _) = self.unsent.as_slices();
        match self.to.as_ref()?.try_write(next) {
            _ if next.is_empty() => {}
            Ok(taken) => drop(self.unsent.drain(..taken)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(error) => {
                self.to = None;
                return Some(Err(if error.kind() == io::ErrorKind::BrokenPipe {
                    "the program closed its input before it had read all of it".to_owned()
                } else {
                    error.to_string()
                }));
            }
        }
        if !self.unsent.is_empty() {
            return None;
        }
        if self.closing {
            self.to = None;
        }
        Some(Ok(()))
    }
}

/// A program to be driven.
pub(super) struct Pipes<'a, X> {
    pub(super) launch: &'a Launch,
    pub(super) exchange: X,
    /// How long the program may say nothing.
    pub(super) idle: Duration,
    pub(super) raw: &'a mut RawOutputFile,
}

impl<X: PipeExchange> Pipes<'_, X> {
    /// Drives it to its end. When the future is dropped, the program is asked to end and killed soon after.
    pub(super) async fn run(self, launcher: &Launcher, sink: EventSink<'_>) -> io::Result<FinishedRun> {
        let (out, out_end) = output_pipe()?;
        let (err, err_end) = output_pipe()?;
        let (input, input_end) = input_pipe()?;
        let guarded = launcher.guard(self.launch, out_end, err_end, Some(input_end)).await?;
        let grace = Duration::from_millis(self.launch.grace_ms);
        let mut graceful_stop =
            GracefulStop { guarded: Some(guarded), grace, pipes: clone_handles(&[&out, &err]) };
        let mut driver = PipeDriver {
            exchange: self.exchange,
            outbox: Outbox { to: Some(input), unsent: VecDeque::new(), closing: false, exit_deadline: None },
            out: Cleaner::default(),
            err: Cleaner::default(),
            diagnostics: Diagnostics::default(),
            raw: self.raw,
            idle: self.idle,
            last_activity: Instant::now(),
            sink,
        };
        driver.exchange.begin(&mut driver.outbox);
        let pipes = OutputPipes { out: Some(out), err: Some(err) };
        let ended = match &mut graceful_stop.guarded {
            Some(guarded) => {
                read_until_end(guarded, pipes, StopTimeouts { grace, drain: DRAIN_TIMEOUT }, &mut driver)
                    .await
            }
            None => Err(io::ErrorKind::NotFound.into()),
        };
        driver.flush_partial_lines();
        driver.raw.finish();
        // Kills what is left: processes that hold the pipes, children in sessions of their own.
        if let Some(guarded) = graceful_stop.guarded.take() {
            guarded.finish().await;
        }
        let PipeDriver { mut exchange, outbox, diagnostics, sink, .. } = driver;
        exchange.closed(&mut *sink);
        let ended = ended?;
        let exit_deadline = outbox.exit_deadline;
        // A program that said that it is done is judged by that, and not by how it was then made to leave.
        let exit = match exit_deadline {
            Some(_) => Exit { code: Some(0), signal: None },
            None => Exit { code: ended.code, signal: ended.signal },
        };
        let mut outcome = exchange.end(exit, sink);
        let is_explained = outcome.error.as_ref().is_some_and(|error| !error.trim().is_empty());
        if !outcome.ok && !is_explained {
            outcome.error = Some(diagnostics.explain(&exit.to_string()));
        }
        let idle = ended
            .asked_at
            .is_some_and(|asked_at| exit_deadline.is_none_or(|exit_deadline| asked_at < exit_deadline));
        Ok(FinishedRun { exit, outcome, idle })
    }
}

/// A program being driven.
struct PipeDriver<'a, X> {
    exchange: X,
    outbox: Outbox,
    out: Cleaner,
    err: Cleaner,
    /// The end of what the program wrote to standard error.
    diagnostics: Diagnostics,
    raw: &'a mut RawOutputFile,
    idle: Duration,
    /// When the program last said something, or was last answered.
    last_activity: Instant,
    sink: EventSink<'a>,
}

impl<X: PipeExchange> PipeDriver<'_, X> {
    fn flush_partial_lines(&mut self) {
        for (cleaner, stream) in [(&mut self.out, Stream::Out), (&mut self.err, Stream::Err)] {
            let partial = cleaner.flush();
            if !partial.is_empty() {
                if stream == Stream::Err {
                    self.diagnostics.push(partial);
                }
                self.exchange.output(stream, &[], partial, &mut self.outbox, self.sink);
            }
        }
    }
}

impl<X: PipeExchange> PipeHandler for PipeDriver<'_, X> {
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        self.last_activity = Instant::now();
        self.raw.push(bytes);
        let cleaner = if stream == Stream::Out { &mut self.out } else { &mut self.err };
        let clean = cleaner.push(bytes);
        if stream == Stream::Err && !clean.is_empty() {
            self.diagnostics.push(clean);
        }
        self.exchange.output(stream, bytes, clean, &mut self.outbox, self.sink);
    }

    fn deadline(&self) -> Option<Instant> {
        let idle = || (!self.exchange.waits_for_person()).then(|| self.last_activity + self.idle);
        self.outbox.exit_deadline.or_else(idle)
    }

    async fn next_event(&mut self) -> io::Result<()> {
        let partial = self.out.holds() || self.err.holds();
        tokio::select! {
            biased;
            answer = self.exchange.next_answer() => {
                self.last_activity = Instant::now();
                self.exchange.answer(answer, &mut self.outbox, self.sink);
            }
            ready = self.outbox.ready() => {
                ready?;
                if let Some(result) = self.outbox.write() {
                    self.exchange.sent(result, self.sink);
                }
            }
            () = sleep_until(self.last_activity + PARTIAL_LINE_DELAY), if partial => self.flush_partial_lines(),
        }
        Ok(())
    }
}

/// A program that is asked to end, and killed soon after, when its future is dropped: it may want to put its own
/// conversation on disk.
struct GracefulStop {
    guarded: Option<Guarded>,
    grace: Duration,
    /// Our ends of its outputs: a program that says something while it ends must not be killed by a closed pipe.
    pipes: Vec<OwnedFd>,
}

/// Second handles of our ends of pipes. Where one cannot be had, its program only ends less politely.
fn clone_handles(pipes: &[&pipe::Receiver]) -> Vec<OwnedFd> {
    pipes.iter().filter_map(|pipe| pipe.as_fd().try_clone_to_owned().ok()).collect()
}

impl Drop for GracefulStop {
    fn drop(&mut self) {
        let (Some(mut guarded), Ok(runtime)) = (self.guarded.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let (limit, pipes) = (self.grace + GUARD_SLACK, std::mem::take(&mut self.pipes));
        runtime.spawn(async move {
            if guarded.terminate().await.is_ok() {
                let _ = tokio::time::timeout(limit, guarded.exited()).await;
            }
            guarded.finish().await;
            drop(pipes);
        });
    }
}
