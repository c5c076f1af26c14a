//! Drives one program over pipes, headless or in a structured session. Except for a person's answer, nothing here
//! waits without a limit: not for a silent program, not for one that does not read its input, not for a process that
//! holds the pipes open after the program's end.

use super::conversation_id::without_refused_id;
use super::raw_output::RawOutputFile;
use crate::adapter::{Diagnostics, Exit, OutputEvent, ProgramOutcome, Stream};
use crate::clean::Cleaner;
use crate::guard_protocol::GuardedCommand;
use crate::guarded::{GUARD_SLACK, GuardLauncher, Guarded, input_pipe, output_pipe};
use crate::pipe_loop::{OutputPipes, PipeHandler, StopTimeouts, read_until_end};
use althing_protocol::Ask;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};

/// How long to wait for more output after a program's end, while another process holds the pipe open.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// How much may wait for a program that does not read its input before the next message for it.
const MAX_UNSENT: usize = 32 << 20;
const PARTIAL_LINE_DELAY: Duration = Duration::from_millis(200);

pub(super) enum ProgramEvent<'a> {
    Output(Stream, &'a [u8], &'a str),
    Parsed(OutputEvent),
    PromptSent(Result<(), String>),
    Waiting(Ask),
    MovedOn,
}

pub(super) struct FinishedRun {
    pub(super) exit: Exit,
    pub(super) outcome: ProgramOutcome,
    pub(super) idle: bool,
}

pub(super) type EventSink<'a> = &'a mut (dyn FnMut(ProgramEvent<'_>) + Send);

pub(super) trait PipeExchange: Send {
    type Answer: Send;

    fn begin(&mut self, outbox: &mut Outbox);

    /// Clean text without raw bytes is an incomplete line whose bytes were passed before.
    fn output(&mut self, stream: Stream, raw: &[u8], clean: &str, outbox: &mut Outbox, sink: EventSink<'_>);

    /// Called when everything queued was written, or with an error when the program closed its input or writing
    /// failed.
    fn sent(&mut self, result: Result<(), String>, sink: EventSink<'_>);

    /// The future must be cancel-safe.
    fn next_answer(&mut self) -> impl Future<Output = Self::Answer> + Send;

    fn answer(&mut self, answer: Self::Answer, outbox: &mut Outbox, sink: EventSink<'_>);

    /// While the program waits for a person, the limit on its silence does not apply.
    fn waits_for_person(&self) -> bool;

    fn closed(&mut self, sink: EventSink<'_>);

    fn end(&mut self, exit: Exit, sink: EventSink<'_>) -> ProgramOutcome;
}

pub(super) struct Outbox {
    to: Option<pipe::Sender>,
    unsent: VecDeque<u8>,
    closing: bool,
    exit_deadline: Option<Instant>,
    gave_up: bool,
}

impl Outbox {
    /// Gives up on a program that makes us answer and does not read the answers.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        if self.unsent.len() > MAX_UNSENT {
            self.give_up();
        } else if self.to.is_some() {
            self.unsent.extend(bytes);
        }
    }

    pub(super) fn close(&mut self) {
        self.closing = true;
    }

    /// Closes the program's stdin once everything is written. If the program has not exited within this time, it is
    /// asked to end.
    pub(super) fn close_and_expect_exit(&mut self, within: Duration) {
        self.close();
        self.exit_deadline.get_or_insert_with(|| Instant::now() + within);
    }

    pub(super) fn give_up(&mut self) {
        self.gave_up = true;
        self.close_and_expect_exit(Duration::ZERO);
    }

    async fn ready(&self) -> io::Result<()> {
        match &self.to {
            Some(to) if !self.unsent.is_empty() => to.writable().await,
            Some(_) if self.closing => Ok(()),
            Some(_) | None => std::future::pending().await,
        }
    }

    /// `None` while something is left to write, `Some(Ok)` once everything was written, and `Some(Err)` if the
    /// program closed its input or writing failed.
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

pub(super) struct Pipes<'a, X> {
    pub(super) guarded_command: &'a GuardedCommand,
    pub(super) exchange: X,
    pub(super) idle: Duration,
    pub(super) raw: &'a mut RawOutputFile,
}

impl<X: PipeExchange> Pipes<'_, X> {
    /// Dropping the future asks the program to end and kills it after the grace period.
    pub(super) async fn run(self, launcher: &GuardLauncher, sink: EventSink<'_>) -> io::Result<FinishedRun> {
        let sink: EventSink<'_> = &mut |event: ProgramEvent<'_>| {
            if let Some(event) = without_refused_id(event) {
                sink(event);
            }
        };
        let (out, out_end) = output_pipe()?;
        let (err, err_end) = output_pipe()?;
        let (input, input_end) = input_pipe()?;
        let guarded = launcher.guard(self.guarded_command, out_end, err_end, Some(input_end)).await?;
        let grace = Duration::from_millis(self.guarded_command.grace_ms);
        let mut graceful_stop =
            GracefulStop { guarded: Some(guarded), grace, pipes: clone_handles(&[&out, &err]) };
        let mut driver = PipeDriver {
            exchange: self.exchange,
            outbox: Outbox {
                to: Some(input),
                unsent: VecDeque::new(),
                closing: false,
                exit_deadline: None,
                gave_up: false,
            },
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
        // Kills what is left: processes that hold the pipes open, children in other sessions.
        if let Some(guarded) = graceful_stop.guarded.take() {
            guarded.finish().await;
        }
        let PipeDriver { mut exchange, outbox, diagnostics, sink, .. } = driver;
        exchange.closed(&mut *sink);
        let ended = ended?;
        let exit_deadline = outbox.exit_deadline;
        // A program that reported the end of its turn is judged by that report, not by how it was ended afterwards.
        let exit = match exit_deadline {
            Some(_) if !outbox.gave_up => Exit { code: Some(0), signal: None },
            _ => Exit { code: ended.code, signal: ended.signal },
        };
        let mut outcome = exchange.end(exit, sink);
        let limit = ended.limit.filter(|limit| limit.is_fatal());
        if let Some(limit) = &limit {
            outcome.ok = false;
            outcome.error = Some(format!("it was ended: {limit}"));
        }
        let is_explained = outcome.error.as_ref().is_some_and(|error| !error.trim().is_empty());
        if !outcome.ok && !is_explained {
            outcome.error = Some(diagnostics.explain(&exit.to_string()));
        }
        let idle = ended
            .asked_at
            .is_some_and(|asked_at| exit_deadline.is_none_or(|exit_deadline| asked_at < exit_deadline));
        Ok(FinishedRun { exit, outcome, idle: idle && limit.is_none() })
    }
}

struct PipeDriver<'a, X> {
    exchange: X,
    outbox: Outbox,
    out: Cleaner,
    err: Cleaner,
    diagnostics: Diagnostics,
    raw: &'a mut RawOutputFile,
    idle: Duration,
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

/// When the run's future is dropped, asks the program to end and has it killed only after the grace period, so that
/// it can save its own conversation first.
struct GracefulStop {
    guarded: Option<Guarded>,
    grace: Duration,
    /// Keeps the read ends open, so that a program that prints while it ends does not get SIGPIPE.
    pipes: Vec<OwnedFd>,
}

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
