//! A structured session with a CLI agent: sends the prompt, passes the program's questions to a person and the
//! answers back. There is no limit on the program's silence while it waits for a person.

use super::pipes::{EventSink, FinishedRun, Outbox, PipeExchange, Pipes, ProgramEvent};
use super::raw_output::RawOutputFile;
use super::report_limit::{Budget, MAX_QUESTIONS};
use crate::adapter::{Exit, OutputEvent, ProgramOutcome, Stream, Trouble};
use crate::guard_protocol::GuardedCommand;
use crate::guarded::GuardLauncher;
use crate::lines::{LineSplitter, OutputLine};
use crate::structured::{ProtocolStep, StructuredProtocol};
use althing_protocol::TaskId;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_DIAGNOSTICS: usize = 4 * 1024;
const TOO_LONG: &str = "it sent a message of more than 8 MiB, which was not read";

#[derive(Debug)]
struct OpenSession {
    structured_protocol: Mutex<Box<dyn StructuredProtocol>>,
    answers_tx: UnboundedSender<(String, Vec<Value>)>,
}

impl OpenSession {
    fn structured_protocol(&self) -> MutexGuard<'_, Box<dyn StructuredProtocol>> {
        self.structured_protocol.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(super) struct OpenSessions(Arc<Mutex<HashMap<TaskId, Arc<OpenSession>>>>);

impl OpenSessions {
    pub(super) fn open(
        &self,
        task: &TaskId,
        structured_protocol: Box<dyn StructuredProtocol>,
    ) -> SessionHandle {
        let (answers_tx, answers) = unbounded_channel();
        let open = Arc::new(OpenSession { structured_protocol: Mutex::new(structured_protocol), answers_tx });
        lock(&self.0).insert(task.clone(), Arc::clone(&open));
        SessionHandle { sessions: Arc::clone(&self.0), task: task.clone(), open, answers }
    }

    /// Answers a question; false if the task has no open session, if the question is not open (any more), or if it
    /// has no such option.
    pub(super) fn answer(&self, task: &TaskId, native: &str, option: &str) -> bool {
        let Some(open) = lock(&self.0).get(task).cloned() else { return false };
        let messages = open.structured_protocol().answer(native, option);
        messages.is_some_and(|messages| open.answers_tx.send((native.to_owned(), messages)).is_ok())
    }
}

#[derive(Debug)]
pub(super) struct SessionHandle {
    sessions: Arc<Mutex<HashMap<TaskId, Arc<OpenSession>>>>,
    task: TaskId,
    open: Arc<OpenSession>,
    answers: UnboundedReceiver<(String, Vec<Value>)>,
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        let mut sessions = lock(&self.sessions);
        if sessions.get(&self.task).is_some_and(|open| Arc::ptr_eq(open, &self.open)) {
            sessions.remove(&self.task);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct StructuredRun<'a> {
    pub(super) guarded_command: &'a GuardedCommand,
    pub(super) handle: SessionHandle,
    pub(super) idle: Duration,
    pub(super) raw: &'a mut RawOutputFile,
}

impl StructuredRun<'_> {
    pub(super) async fn run(self, launcher: &GuardLauncher, sink: EventSink<'_>) -> io::Result<FinishedRun> {
        let exchange = StructuredSession {
            handle: self.handle,
            lines: LineSplitter::default(),
            diagnostics: String::new(),
            open_questions: BTreeSet::new(),
            questions: Budget::of_questions(),
            prompt: PromptProgress::Unsent,
        };
        let pipes = Pipes { guarded_command: self.guarded_command, exchange, idle: self.idle, raw: self.raw };
        pipes.run(launcher, sink).await
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PromptProgress {
    Unsent,
    Sending,
    Sent,
}

struct StructuredSession {
    handle: SessionHandle,
    lines: LineSplitter,
    diagnostics: String,
    open_questions: BTreeSet<String>,
    questions: Budget,
    prompt: PromptProgress,
}

impl PipeExchange for StructuredSession {
    type Answer = (String, Vec<Value>);

    fn begin(&mut self, outbox: &mut Outbox) {
        send_messages(outbox, &self.handle.open.structured_protocol().begin());
    }

    fn output(&mut self, stream: Stream, raw: &[u8], clean: &str, outbox: &mut Outbox, sink: EventSink<'_>) {
        sink(ProgramEvent::Output(stream, raw, clean));
        if stream == Stream::Err {
            self.diagnostics.push_str(clean);
            let from =
                self.diagnostics.ceil_char_boundary(self.diagnostics.len().saturating_sub(MAX_DIAGNOSTICS));
            self.diagnostics.drain(..from);
            let troubles =
                clean.lines().filter_map(|line| self.handle.open.structured_protocol().trouble(line));
            troubles.for_each(|trouble| sink(ProgramEvent::Parsed(trouble)));
            return;
        }
        let mut lines = std::mem::take(&mut self.lines);
        lines.push(raw, &mut |line| {
            let OutputLine::Whole(line) = line else {
                sink(ProgramEvent::Parsed(Trouble::passing(TOO_LONG)));
                return;
            };
            if let Ok(message) = serde_json::from_slice::<Value>(line) {
                self.receive(&message, outbox, sink);
            }
        });
        self.lines = lines;
    }

    fn sent(&mut self, result: Result<(), String>, sink: EventSink<'_>) {
        // If the prompt was not sent, `closed` reports that when the program has ended.
        if result.is_ok() && self.prompt == PromptProgress::Sending {
            self.prompt = PromptProgress::Sent;
            sink(ProgramEvent::PromptSent(Ok(())));
        }
    }

    async fn next_answer(&mut self) -> Self::Answer {
        match self.handle.answers.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    fn answer(&mut self, (native, messages): Self::Answer, outbox: &mut Outbox, sink: EventSink<'_>) {
        send_messages(outbox, &messages);
        self.close_question(&native, sink);
    }

    fn waits_for_person(&self) -> bool {
        !self.open_questions.is_empty()
    }

    fn closed(&mut self, sink: EventSink<'_>) {
        if self.prompt != PromptProgress::Sent {
            sink(ProgramEvent::PromptSent(Err("the program ended before its prompt was sent".to_owned())));
        }
        if !self.open_questions.is_empty() {
            sink(ProgramEvent::MovedOn);
        }
    }

    fn end(&mut self, exit: Exit, _: EventSink<'_>) -> ProgramOutcome {
        self.handle.open.structured_protocol().end(exit, &self.diagnostics)
    }
}

impl StructuredSession {
    fn receive(&mut self, message: &Value, outbox: &mut Outbox, sink: EventSink<'_>) {
        let mut step = ProtocolStep::default();
        self.handle.open.structured_protocol().receive(message, &mut step);
        for event in step.events {
            if matches!(&event, OutputEvent::Trouble(trouble) if trouble.is_final) {
                outbox.give_up();
            }
            sink(ProgramEvent::Parsed(event));
        }
        send_messages(outbox, &step.messages);
        if step.sends_prompt {
            self.prompt = PromptProgress::Sending;
        }
        for ask in step.questions {
            // A program cannot be left waiting for an answer to a question that nobody sees.
            if !self.questions.take(&ask) {
                let text =
                    format!("it asked more than {MAX_QUESTIONS} questions, or too long ones, and was ended");
                sink(ProgramEvent::Parsed(OutputEvent::Trouble(Trouble { text, is_final: true })));
                return outbox.give_up();
            }
            self.open_questions.extend(ask.native.clone());
            sink(ProgramEvent::Waiting(ask));
        }
        for native in step.closed_questions {
            self.close_question(&native, sink);
        }
        if step.is_over {
            outbox.close_and_expect_exit(EXIT_TIMEOUT);
        }
    }

    fn close_question(&mut self, native: &str, sink: EventSink<'_>) {
        if self.open_questions.remove(native) && self.open_questions.is_empty() {
            sink(ProgramEvent::MovedOn);
        }
    }
}

fn send_messages(outbox: &mut Outbox, messages: &[Value]) {
    for message in messages {
        outbox.send(message.to_string().as_bytes());
        outbox.send(b"\n");
    }
}
