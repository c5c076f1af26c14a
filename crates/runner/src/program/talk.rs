//! Drives one program over its structured protocol: the prompt in, its questions out to a person, the answers back.
//!
//! The same limits hold as for any program on pipes, except that its silence does not count while it waits for a person.

use super::headless::{DRAIN, Done, EndsPolitely, Heard, Pipe, ends};
use super::raw::RawFile;
use crate::adapter::{Exit, Stream};
use crate::dialogue::{Dialogue, Turn};
use crate::guarded::{CHUNK, GUARD_SLACK, Launcher, input_pipe, output_pipe};
use crate::launch::Launch;
use althing_protocol::TaskId;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};

/// How long a program may take to leave by itself once its turn is over.
const LEAVE: Duration = Duration::from_secs(2);
/// A message that is longer is left out: none is worth that much memory.
const LONGEST: usize = 8 * 1024 * 1024;
/// How much of what a program wrote for people is remembered.
const COMPLAINT: usize = 4 * 1024;

/// A dialogue that people can answer in, and what is then to be said.
#[derive(Debug)]
struct Open {
    dialogue: Mutex<Box<dyn Dialogue>>,
    /// The question that was answered, and what is to be said.
    answered: UnboundedSender<(String, Vec<Value>)>,
}

impl Open {
    fn dialogue(&self) -> MutexGuard<'_, Box<dyn Dialogue>> {
        self.dialogue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The dialogues under way.
#[derive(Debug, Default)]
pub(super) struct Talks(Arc<Mutex<HashMap<TaskId, Arc<Open>>>>);

impl Talks {
    /// Begins one; it is open as long as the line is.
    pub(super) fn open(&self, task: &TaskId, dialogue: Box<dyn Dialogue>) -> Line {
        let (answered, answers) = unbounded_channel();
        let open = Arc::new(Open { dialogue: Mutex::new(dialogue), answered });
        lock(&self.0).insert(task.clone(), Arc::clone(&open));
        Line { talks: Arc::clone(&self.0), task: task.clone(), open, answers }
    }

    /// Gives an answer. False where that was not asked.
    pub(super) fn answer(&self, task: &TaskId, native: &str, option: &str) -> bool {
        let Some(open) = lock(&self.0).get(task).cloned() else { return false };
        let said = open.dialogue().answer(native, option);
        said.is_some_and(|said| open.answered.send((native.to_owned(), said)).is_ok())
    }
}

/// One dialogue under way.
#[derive(Debug)]
pub(super) struct Line {
    talks: Arc<Mutex<HashMap<TaskId, Arc<Open>>>>,
    task: TaskId,
    open: Arc<Open>,
    answers: UnboundedReceiver<(String, Vec<Value>)>,
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut talks = lock(&self.talks);
        if talks.get(&self.task).is_some_and(|open| Arc::ptr_eq(open, &self.open)) {
            talks.remove(&self.task);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A dialogue to be held.
pub(super) struct Talk<'a> {
    pub(super) launch: &'a Launch,
    pub(super) line: Line,
    /// How long the program may say nothing.
    pub(super) idle: Duration,
    pub(super) raw: &'a mut RawFile,
}

impl Talk<'_> {
    /// Holds it to its end. When the future is dropped, the program is asked to end and killed soon after.
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
        let mut held = Held {
            guarded: EndsPolitely { guarded: Some(guarded), grace, outputs: ends(&[&out, &err]) },
            out: Pipe::new(out),
            err: Pipe::new(err),
            input: Some(input),
            saying: Vec::new(),
            begun: Vec::new(),
            complaint: String::new(),
            open: BTreeSet::new(),
            prompt: Prompt::Unsaid,
            over: None,
            heard_at: Instant::now(),
            line: self.line,
            raw: self.raw,
        };
        let ended = held.until_end(self.idle, grace, on).await;
        held.raw.finish();
        if let Some(guarded) = held.guarded.guarded.take() {
            guarded.finish().await;
        }
        if held.prompt != Prompt::Told {
            on(Heard::PromptSent(Err("the program ended before it was told its prompt".to_owned())));
        }
        if !held.open.is_empty() {
            on(Heard::MovedOn);
        }
        let (exit, idle) = ended?;
        // It said that it is done; how it was then made to leave says nothing about it.
        let judged = if held.over.is_some() { Exit { code: Some(0), signal: None } } else { exit };
        let ending = held.line.open.dialogue().end(judged, &held.complaint);
        Ok(Done { exit: judged, ending, idle })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prompt {
    Unsaid,
    /// On its way to the program.
    Said,
    Told,
}

/// A dialogue being held.
struct Held<'a> {
    guarded: EndsPolitely,
    out: Pipe,
    err: Pipe,
    /// None once nothing more is to be said.
    input: Option<pipe::Sender>,
    /// What the program has not taken yet.
    saying: Vec<u8>,
    /// A line that is not ended.
    begun: Vec<u8>,
    complaint: String,
    /// Questions that nobody answered yet.
    open: BTreeSet<String>,
    prompt: Prompt,
    /// When it must have left, once its turn is over.
    over: Option<Instant>,
    heard_at: Instant,
    line: Line,
    raw: &'a mut RawFile,
}

impl Held<'_> {
    async fn until_end(
        &mut self,
        idle: Duration,
        grace: Duration,
        on: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> io::Result<(Exit, bool)> {
        let mut buffer = vec![0; CHUNK];
        let (mut asked_to_end, mut was_idle, mut exit) = (None, false, None);
        let mut drained = Instant::now();
        let first = self.line.open.dialogue().begin();
        self.say(&first);
        loop {
            if let Some(exit) = exit.filter(|_| !self.out.open && !self.err.open) {
                return Ok((exit, was_idle));
            }
            let deadline = match (exit, asked_to_end, self.over) {
                (Some(_), _, _) => Some(drained),
                (None, Some(at), _) => Some(at),
                (None, None, Some(at)) => Some(at),
                (None, None, None) => self.open.is_empty().then(|| self.heard_at + idle),
            };
            let Some(guarded) = &mut self.guarded.guarded else { return Err(io::ErrorKind::NotFound.into()) };
            tokio::select! {
                biased;
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    match (exit, asked_to_end) {
                        (Some(exit), _) => return Ok((exit, was_idle)),
                        (None, Some(_)) => {
                            return Err(io::Error::other("the guard did not end the program in time"));
                        }
                        (None, None) => {
                            was_idle = self.over.is_none();
                            asked_to_end = Some(Instant::now() + grace + GUARD_SLACK);
                            guarded.terminate().await?;
                        }
                    }
                }
                ended = guarded.exited(), if exit.is_none() => {
                    let (code, signal) = ended?;
                    exit = Some(Exit { code, signal });
                    drained = Instant::now() + DRAIN;
                }
                Some((native, said)) = self.line.answers.recv() => {
                    self.heard_at = Instant::now();
                    self.say(&said);
                    self.settle(&native, on);
                }
                ready = writable(self.input.as_ref()), if !self.saying.is_empty() && self.input.is_some() => {
                    ready?;
                    self.write(on);
                }
                ready = self.out.from.readable(), if self.out.open => {
                    ready?;
                    self.take_in(Stream::Out, &mut buffer, on)?;
                }
                ready = self.err.from.readable(), if self.err.open => {
                    ready?;
                    self.take_in(Stream::Err, &mut buffer, on)?;
                }
            }
        }
    }

    /// Puts messages in line.
    fn say(&mut self, messages: &[Value]) {
        for message in messages {
            self.saying.extend_from_slice(message.to_string().as_bytes());
            self.saying.push(b'\n');
        }
    }

    /// Writes as much as the program takes.
    fn write(&mut self, on: &mut (dyn FnMut(Heard<'_>) + Send)) {
        match self.input.as_ref().map(|input| input.try_write(&self.saying)) {
            Some(Ok(taken)) => {
                self.saying.drain(..taken);
            }
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return,
            // Nobody reads any more; the program's end says why.
            Some(Err(_)) | None => {
                self.input = None;
                return;
            }
        }
        if self.saying.is_empty() && self.prompt == Prompt::Said {
            self.prompt = Prompt::Told;
            on(Heard::PromptSent(Ok(())));
        }
        if self.saying.is_empty() && self.over.is_some() {
            self.input = None;
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
        on(Heard::Output(stream, raw, clean));
        if stream == Stream::Err {
            self.complaint.push_str(clean);
            let from = self.complaint.ceil_char_boundary(self.complaint.len().saturating_sub(COMPLAINT));
            self.complaint.drain(..from);
            return Ok(());
        }
        for piece in raw.split_inclusive(|byte| *byte == b'\n') {
            if self.begun.len() + piece.len() <= LONGEST {
                self.begun.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.begun);
                if let Ok(message) = serde_json::from_slice::<Value>(&line) {
                    self.hear(&message, on);
                }
            }
        }
        Ok(())
    }

    fn hear(&mut self, message: &Value, on: &mut (dyn FnMut(Heard<'_>) + Send)) {
        let mut turn = Turn::default();
        self.line.open.dialogue().hear(message, &mut turn);
        for meaning in turn.meanings {
            on(Heard::Meaning(meaning));
        }
        self.say(&turn.say);
        if turn.prompted {
            self.prompt = Prompt::Said;
        }
        for ask in turn.asks {
            self.open.extend(ask.native.clone());
            on(Heard::Waiting(ask));
        }
        for native in turn.settled {
            self.settle(&native, on);
        }
        if turn.over && self.over.is_none() {
            self.over = Some(Instant::now() + LEAVE);
            if self.saying.is_empty() {
                self.input = None;
            }
        }
    }

    /// A question was answered, or needs no answer any more.
    fn settle(&mut self, native: &str, on: &mut (dyn FnMut(Heard<'_>) + Send)) {
        if self.open.remove(native) && self.open.is_empty() {
            on(Heard::MovedOn);
        }
    }
}

async fn writable(input: Option<&pipe::Sender>) -> io::Result<()> {
    match input {
        Some(input) => input.writable().await,
        None => std::future::pending().await,
    }
}
