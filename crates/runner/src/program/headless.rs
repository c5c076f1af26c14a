//! Drives one program over pipes: prompt in, output out, nobody asked.
//!
//! There is no terminal, nothing of the program reaches our own output, and nothing here waits without a limit: not for
//! a silent program, not for one that does not take its prompt, not for someone who holds its pipe after its end.
//! Memory does not grow with the output: a program that writes faster than we take it in has to wait.

use super::raw::RawFile;
use crate::adapter::{Ending, Exit, Meaning, OutputParser, Stream};
use crate::clean::Cleaner;
use crate::guarded::{CHUNK, GUARD_SLACK, Guarded, Launcher, input_pipe, output_pipe};
use crate::launch::Launch;
use althing_protocol::Ask;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};

/// After a program ended, how long its output is still waited for when someone holds the pipe.
pub(super) const DRAIN: Duration = Duration::from_millis(500);
/// A line that is begun and not ended is shown after this long.
const PATIENCE: Duration = Duration::from_millis(200);

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

/// A run to be made.
pub(super) struct Headless<'a> {
    pub(super) launch: &'a Launch,
    pub(super) prompt: &'a str,
    /// How long it may say nothing.
    pub(super) idle: Duration,
    pub(super) parser: Box<dyn OutputParser>,
    pub(super) raw: &'a mut RawFile,
}

impl Headless<'_> {
    /// Runs it to its end. When the future is dropped, the program is asked to end and killed soon after.
    pub(super) async fn run(
        self,
        launcher: &Launcher,
        on: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> io::Result<Done> {
        let (out, out_end) = output_pipe()?;
        let (err, err_end) = output_pipe()?;
        let (input, input_end) = input_pipe()?;
        let guarded = launcher.guard(self.launch, out_end, err_end, Some(input_end)).await?;
        let grace = Duration::from_millis(self.launch.grace_ms);
        let mut run = Run {
            guarded: EndsPolitely { guarded: Some(guarded), grace, outputs: ends(&[&out, &err]) },
            out: Pipe::new(out),
            err: Pipe::new(err),
            parser: self.parser,
            raw: self.raw,
            heard_at: Instant::now(),
        };
        let ended = run.until_end(input, self.prompt, self.idle, grace, on).await;
        let Run { mut guarded, mut out, mut err, mut parser, raw, .. } = run;
        for (pipe, stream) in [(&mut out, Stream::Out), (&mut err, Stream::Err)] {
            let rest = pipe.cleaner.flush();
            if !rest.is_empty() {
                parser.output(stream, &[], rest, &mut |meaning| on(Heard::Meaning(meaning)));
                on(Heard::Output(stream, &[], rest));
            }
        }
        raw.finish();
        // Kills what is left: whoever held the pipe, children in sessions of their own.
        if let Some(guarded) = guarded.guarded.take() {
            guarded.finish().await;
        }
        let (exit, idle) = ended?;
        let ending = parser.end(exit, &mut |meaning| on(Heard::Meaning(meaning)));
        Ok(Done { exit, ending, idle })
    }
}

/// A program that is asked to end, and killed soon after, when nobody wants it any more: it may want to put its own
/// conversation on disk.
pub(super) struct EndsPolitely {
    pub(super) guarded: Option<Guarded>,
    pub(super) grace: Duration,
    /// Our ends of its outputs: a program that says something while it ends must not be killed by a closed pipe.
    pub(super) outputs: Vec<OwnedFd>,
}

/// Second handles of our ends of pipes. Where one cannot be had, its program only ends less politely.
pub(super) fn ends(pipes: &[&pipe::Receiver]) -> Vec<OwnedFd> {
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

/// One of a program's outputs.
pub(super) struct Pipe {
    pub(super) from: pipe::Receiver,
    pub(super) open: bool,
    pub(super) cleaner: Cleaner,
}

impl Pipe {
    pub(super) fn new(from: pipe::Receiver) -> Self {
        Self { from, open: true, cleaner: Cleaner::default() }
    }

    /// What is there to read now; None where there is nothing, or nothing more for ever.
    pub(super) fn read<'b>(&mut self, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        match self.from.try_read(buffer) {
            Ok(0) => {
                self.open = false;
                Ok(None)
            }
            Ok(length) => Ok(buffer.get(..length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

struct Run<'a> {
    guarded: EndsPolitely,
    out: Pipe,
    err: Pipe,
    parser: Box<dyn OutputParser>,
    raw: &'a mut RawFile,
    /// When it last said something.
    heard_at: Instant,
}

impl Run<'_> {
    async fn until_end(
        &mut self,
        input: pipe::Sender,
        prompt: &str,
        idle: Duration,
        grace: Duration,
        on: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> io::Result<(Exit, bool)> {
        let mut buffer = vec![0; CHUNK];
        let mut feeding = std::pin::pin!(feed(input, prompt));
        let (mut fed, mut asked_to_end, mut exit) = (false, None, None);
        let mut drained = Instant::now();
        loop {
            if let Some(exit) = exit
                && !self.out.open
                && !self.err.open
            {
                return Ok((exit, asked_to_end.is_some()));
            }
            let deadline = match (exit, asked_to_end) {
                (Some(_), _) => drained,
                (None, Some(at)) => at,
                (None, None) => self.heard_at + idle,
            };
            let Some(guarded) = &mut self.guarded.guarded else { return Err(io::ErrorKind::NotFound.into()) };
            let holds = self.out.cleaner.holds() || self.err.cleaner.holds();
            tokio::select! {
                biased;
                () = sleep_until(deadline) => match (exit, asked_to_end) {
                    (Some(exit), _) => return Ok((exit, asked_to_end.is_some())),
                    (None, Some(_)) => return Err(io::Error::other("the guard did not end the program in time")),
                    (None, None) => {
                        asked_to_end = Some(Instant::now() + grace + GUARD_SLACK);
                        guarded.terminate().await?;
                    }
                },
                ended = guarded.exited(), if exit.is_none() => {
                    let (code, signal) = ended?;
                    exit = Some(Exit { code, signal });
                    drained = Instant::now() + DRAIN;
                }
                sent = &mut feeding, if !fed => {
                    fed = true;
                    on(Heard::PromptSent(sent));
                }
                ready = self.out.from.readable(), if self.out.open => {
                    ready?;
                    self.take_in(Stream::Out, &mut buffer, on)?;
                    // One that floods is always ready: everyone else is looked at between two of its reads.
                    tokio::task::yield_now().await;
                }
                ready = self.err.from.readable(), if self.err.open => {
                    ready?;
                    self.take_in(Stream::Err, &mut buffer, on)?;
                    tokio::task::yield_now().await;
                }
                () = sleep_until(self.heard_at + PATIENCE), if holds => self.show_begun_lines(on),
            }
        }
    }

    fn take_in(
        &mut self,
        stream: Stream,
        buffer: &mut [u8],
        on: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> io::Result<()> {
        let pipe = if stream == Stream::Out { &mut self.out } else { &mut self.err };
        let Some(raw) = pipe.read(buffer)? else { return Ok(()) };
        self.heard_at = Instant::now();
        self.raw.push(raw);
        let clean = pipe.cleaner.push(raw);
        self.parser.output(stream, raw, clean, &mut |meaning| on(Heard::Meaning(meaning)));
        on(Heard::Output(stream, raw, clean));
        Ok(())
    }

    fn show_begun_lines(&mut self, on: &mut (dyn FnMut(Heard<'_>) + Send)) {
        for (pipe, stream) in [(&mut self.out, Stream::Out), (&mut self.err, Stream::Err)] {
            let begun = pipe.cleaner.flush();
            if !begun.is_empty() {
                self.parser.output(stream, &[], begun, &mut |meaning| on(Heard::Meaning(meaning)));
                on(Heard::Output(stream, &[], begun));
            }
        }
    }
}

/// Sends the prompt and closes the pipe.
async fn feed(mut input: pipe::Sender, prompt: &str) -> Result<(), String> {
    match input.write_all(prompt.as_bytes()).await {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err("the program closed its input before it had read all of it".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}
