//! A structured session with a program: the prompt in, its questions out to a person, the answers back.
//!
//! The same limits hold as for any program on pipes, except that its silence does not count while it waits for a person.

use super::pipes::{Done, Exchange, Heard, On, Outbox, Pipes};
use super::raw::RawFile;
use crate::adapter::{Ending, Exit, Stream};
use crate::dialogue::{Dialogue, Turn};
use crate::guarded::Launcher;
use crate::launch::Launch;
use crate::lines::{Line as OutputLine, Lines};
use althing_protocol::TaskId;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How long a program may take to leave by itself once its turn is over.
const LEAVE: Duration = Duration::from_secs(2);
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
    pub(super) async fn run(self, launcher: &Launcher, on: On<'_>) -> io::Result<Done> {
        let exchange = Session {
            line: self.line,
            lines: Lines::default(),
            complaint: String::new(),
            open: BTreeSet::new(),
            prompt: Prompt::Unsaid,
        };
        let pipes = Pipes { launch: self.launch, exchange, idle: self.idle, raw: self.raw };
        pipes.run(launcher, on).await
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prompt {
    Unsaid,
    /// On its way to the program.
    Said,
    Told,
}

/// A structured session under way.
struct Session {
    line: Line,
    lines: Lines,
    complaint: String,
    /// Questions that nobody answered yet.
    open: BTreeSet<String>,
    prompt: Prompt,
}

impl Exchange for Session {
    /// The question that was answered, and what the program is told.
    type Answer = (String, Vec<Value>);

    fn begin(&mut self, outbox: &mut Outbox) {
        say(outbox, &self.line.open.dialogue().begin());
    }

    fn output(&mut self, stream: Stream, raw: &[u8], clean: &str, outbox: &mut Outbox, on: On<'_>) {
        on(Heard::Output(stream, raw, clean));
        if stream == Stream::Err {
            self.complaint.push_str(clean);
            let from = self.complaint.ceil_char_boundary(self.complaint.len().saturating_sub(COMPLAINT));
            self.complaint.drain(..from);
            return;
        }
        let mut lines = std::mem::take(&mut self.lines);
        lines.push(raw, &mut |line| {
            if let OutputLine::Whole(line) = line
                && let Ok(message) = serde_json::from_slice::<Value>(line)
            {
                self.hear(&message, outbox, on);
            }
        });
        self.lines = lines;
    }

    fn sent(&mut self, result: Result<(), String>, on: On<'_>) {
        // Where the program reads no more, its end says why.
        if result.is_ok() && self.prompt == Prompt::Said {
            self.prompt = Prompt::Told;
            on(Heard::PromptSent(Ok(())));
        }
    }

    async fn next_answer(&mut self) -> Self::Answer {
        match self.line.answers.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    fn answer(&mut self, (native, messages): Self::Answer, outbox: &mut Outbox, on: On<'_>) {
        say(outbox, &messages);
        self.settle(&native, on);
    }

    fn waits_for_person(&self) -> bool {
        !self.open.is_empty()
    }

    fn closed(&mut self, on: On<'_>) {
        if self.prompt != Prompt::Told {
            on(Heard::PromptSent(Err("the program ended before it was told its prompt".to_owned())));
        }
        if !self.open.is_empty() {
            on(Heard::MovedOn);
        }
    }

    fn end(&mut self, exit: Exit, _: On<'_>) -> Ending {
        self.line.open.dialogue().end(exit, &self.complaint)
    }
}

impl Session {
    fn hear(&mut self, message: &Value, outbox: &mut Outbox, on: On<'_>) {
        let mut turn = Turn::default();
        self.line.open.dialogue().hear(message, &mut turn);
        for meaning in turn.meanings {
            on(Heard::Meaning(meaning));
        }
        say(outbox, &turn.say);
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
        if turn.over {
            outbox.close_and_leave(LEAVE);
        }
    }

    /// A question was answered, or needs no answer any more.
    fn settle(&mut self, native: &str, on: On<'_>) {
        if self.open.remove(native) && self.open.is_empty() {
            on(Heard::MovedOn);
        }
    }
}

/// Adds messages to what the program is told.
fn say(outbox: &mut Outbox, messages: &[Value]) {
    for message in messages {
        outbox.say(message.to_string().as_bytes());
        outbox.say(b"\n");
    }
}
