//! Drives one program over pipes: input in, output out, within limits.
//!
//! What is said to the program and what its output means is an [`Exchange`]: one prompt ([`super::headless`]) or a
//! structured session ([`super::talk`]). There is no terminal, and nothing of the program reaches our own output.
//! Nothing here waits without a limit: not for a silent program, not for one that does not read its input, not for a
//! process that holds the pipes after the program's end.

use super::raw::RawFile;
use crate::adapter::{Complaint, Ending, Exit, Meaning, Stream};
use crate::clean::Cleaner;
use crate::guarded::{GUARD_SLACK, Guarded, Launcher, input_pipe, output_pipe};
use crate::launch::Launch;
use crate::pipe_loop::{Handler, Outputs, Patience, read_until_end};
use althing_protocol::Ask;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};

/// How long output is still waited for after a program's end, when another process holds the pipe.
const DRAIN: Duration = Duration::from_millis(500);
/// A line that is begun and not ended is shown after this long.
const BEGUN_LINE: Duration = Duration::from_millis(200);

/// What is heard of a program while it runs.
pub(super) enum Heard<'a> {
    /// Output, as it came and as clean text.
    Output(Stream, &'a [u8], &'a str),
    /// What it means.
    Meaning(Meaning),
    /// It has taken its whole prompt, or will take no more of it.
    PromptSent(Result<(), String>),
    /// It asks a person.
    Waiting(Ask),
    /// It goes on.
    MovedOn,
}

/// How a run ended.
pub(super) struct Done {
    pub(super) exit: Exit,
    pub(super) ending: Ending,
    /// It said nothing for too long.
    pub(super) idle: bool,
}

/// Receives what is heard of a program.
pub(super) type On<'a> = &'a mut (dyn FnMut(Heard<'_>) + Send);

/// What is said to a program over its input, and what its output means.
pub(super) trait Exchange: Send {
    /// What a person answers to the program's questions.
    type Answer: Send;

    /// Says what the program is told at its start.
    fn begin(&mut self, outbox: &mut Outbox);

    /// Takes in output, as it came and as clean text. Clean text without bytes is a line that is not ended yet.
    fn output(&mut self, stream: Stream, raw: &[u8], clean: &str, outbox: &mut Outbox, on: On<'_>);

    /// Everything in the outbox was taken, or nothing more will be.
    fn sent(&mut self, result: Result<(), String>, on: On<'_>);

    /// Waits for the next answer of a person. The future may be dropped at any moment.
    fn next_answer(&mut self) -> impl Future<Output = Self::Answer> + Send;

    /// Passes an answer on to the program.
    fn answer(&mut self, answer: Self::Answer, outbox: &mut Outbox, on: On<'_>);

    /// Whether the program waits for a person, so that its silence does not count.
    fn waits_for_person(&self) -> bool;

    /// The program has ended; called also where that was not orderly.
    fn closed(&mut self, on: On<'_>);

    /// What came of it.
    fn end(&mut self, exit: Exit, on: On<'_>) -> Ending;
}

/// What a program is still to be told.
pub(super) struct Outbox {
    /// `None` once closed.
    to: Option<pipe::Sender>,
    unsent: VecDeque<u8>,
    /// Whether the input is closed once everything is sent.
    closing: bool,
    /// When the program must have ended by itself, once it was told that nothing more follows.
    leave_by: Option<Instant>,
}

impl Outbox {
    /// Adds to what the program is told.
    pub(super) fn say(&mut self, bytes: &[u8]) {
        if self.to.is_some() {
            self.unsent.extend(bytes);
        }
    }

    /// Closes the program's input once everything is sent.
    pub(super) fn close(&mut self) {
        self.closing = true;
    }

    /// Closes the program's input and asks the program to end where it has not left by itself within this time.
    pub(super) fn close_and_leave(&mut self, within: Duration) {
        self.close();
        self.leave_by.get_or_insert_with(|| Instant::now() + within);
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
    pub(super) raw: &'a mut RawFile,
}

impl<X: Exchange> Pipes<'_, X> {
    /// Drives it to its end. When the future is dropped, the program is asked to end and killed soon after.
    pub(super) async fn run(self, launcher: &Launcher, on: On<'_>) -> io::Result<Done> {
        let (out, out_end) = output_pipe()?;
        let (err, err_end) = output_pipe()?;
        let (input, input_end) = input_pipe()?;
        let guarded = launcher.guard(self.launch, out_end, err_end, Some(input_end)).await?;
        let grace = Duration::from_millis(self.launch.grace_ms);
        let mut ends_politely =
            EndsPolitely { guarded: Some(guarded), grace, outputs: second_handles(&[&out, &err]) };
        let mut driven = Driven {
            exchange: self.exchange,
            outbox: Outbox { to: Some(input), unsent: VecDeque::new(), closing: false, leave_by: None },
            out: Cleaner::default(),
            err: Cleaner::default(),
            complaint: Complaint::default(),
            raw: self.raw,
            idle: self.idle,
            heard_at: Instant::now(),
            on,
        };
        driven.exchange.begin(&mut driven.outbox);
        let outputs = Outputs { out: Some(out), err: Some(err) };
        let ended = match &mut ends_politely.guarded {
            Some(guarded) => {
                read_until_end(guarded, outputs, Patience { grace, drain: DRAIN }, &mut driven).await
            }
            None => Err(io::ErrorKind::NotFound.into()),
        };
        driven.show_begun_lines();
        driven.raw.finish();
        // Kills what is left: processes that hold the pipes, children in sessions of their own.
        if let Some(guarded) = ends_politely.guarded.take() {
            guarded.finish().await;
        }
        let Driven { mut exchange, outbox, complaint, on, .. } = driven;
        exchange.closed(&mut *on);
        let ended = ended?;
        let leave_by = outbox.leave_by;
        // A program that said that it is done is judged by that, and not by how it was then made to leave.
        let exit = match leave_by {
            Some(_) => Exit { code: Some(0), signal: None },
            None => Exit { code: ended.code, signal: ended.signal },
        };
        let mut ending = exchange.end(exit, on);
        let is_explained = ending.error.as_ref().is_some_and(|error| !error.trim().is_empty());
        if !ending.ok && !is_explained {
            ending.error = Some(complaint.with(&exit.to_string()));
        }
        let idle = ended.asked_at.is_some_and(|asked_at| leave_by.is_none_or(|leave_by| asked_at < leave_by));
        Ok(Done { exit, ending, idle })
    }
}

/// A program being driven.
struct Driven<'a, X> {
    exchange: X,
    outbox: Outbox,
    out: Cleaner,
    err: Cleaner,
    /// The end of what the program wrote to standard error.
    complaint: Complaint,
    raw: &'a mut RawFile,
    idle: Duration,
    /// When the program last said something, or was last answered.
    heard_at: Instant,
    on: On<'a>,
}

impl<X: Exchange> Driven<'_, X> {
    fn show_begun_lines(&mut self) {
        for (cleaner, stream) in [(&mut self.out, Stream::Out), (&mut self.err, Stream::Err)] {
            let begun = cleaner.flush();
            if !begun.is_empty() {
                if stream == Stream::Err {
                    self.complaint.push(begun);
                }
                self.exchange.output(stream, &[], begun, &mut self.outbox, self.on);
            }
        }
    }
}

impl<X: Exchange> Handler for Driven<'_, X> {
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        self.heard_at = Instant::now();
        self.raw.push(bytes);
        let cleaner = if stream == Stream::Out { &mut self.out } else { &mut self.err };
        let clean = cleaner.push(bytes);
        if stream == Stream::Err && !clean.is_empty() {
            self.complaint.push(clean);
        }
        self.exchange.output(stream, bytes, clean, &mut self.outbox, self.on);
    }

    fn deadline(&self) -> Option<Instant> {
        let idle = || (!self.exchange.waits_for_person()).then(|| self.heard_at + self.idle);
        self.outbox.leave_by.or_else(idle)
    }

    async fn next_event(&mut self) -> io::Result<()> {
        let begun = self.out.holds() || self.err.holds();
        tokio::select! {
            biased;
            answer = self.exchange.next_answer() => {
                self.heard_at = Instant::now();
                self.exchange.answer(answer, &mut self.outbox, self.on);
            }
            ready = self.outbox.ready() => {
                ready?;
                if let Some(result) = self.outbox.write() {
                    self.exchange.sent(result, self.on);
                }
            }
            () = sleep_until(self.heard_at + BEGUN_LINE), if begun => self.show_begun_lines(),
        }
        Ok(())
    }
}

/// A program that is asked to end, and killed soon after, when its future is dropped: it may want to put its own
/// conversation on disk.
struct EndsPolitely {
    guarded: Option<Guarded>,
    grace: Duration,
    /// Our ends of its outputs: a program that says something while it ends must not be killed by a closed pipe.
    outputs: Vec<OwnedFd>,
}

/// Second handles of our ends of pipes. Where one cannot be had, its program only ends less politely.
fn second_handles(pipes: &[&pipe::Receiver]) -> Vec<OwnedFd> {
    pipes.iter().filter_map(|pipe| pipe.as_fd().try_clone_to_owned().ok()).collect()
}

impl Drop for EndsPolitely {
    fn drop(&mut self) {
        let (Some(mut guarded), Ok(runtime)) = (self.guarded.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let (limit, outputs) = (self.grace + GUARD_SLACK, std::mem::take(&mut self.outputs));
        runtime.spawn(async move {
            if guarded.terminate().await.is_ok() {
                let _ = tokio::time::timeout(limit, guarded.exited()).await;
            }
            guarded.finish().await;
            drop(outputs);
        });
    }
}
