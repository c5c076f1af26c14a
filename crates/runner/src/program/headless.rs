//! A headless run of a program: the prompt is its whole stdin, and no questions are asked.

use super::pipes::{EventSink, FinishedRun, Outbox, PipeExchange, Pipes, ProgramEvent};
use super::raw_output::RawOutputFile;
use crate::adapter::{Exit, OutputEvent, OutputParser, ProgramOutcome, Stream};
use crate::guard_protocol::GuardedCommand;
use crate::guarded::GuardLauncher;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

pub(super) struct Headless<'a> {
    pub(super) guarded_command: &'a GuardedCommand,
    pub(super) prompt: &'a str,
    pub(super) idle: Duration,
    pub(super) parser: Box<dyn OutputParser>,
    pub(super) raw: &'a mut RawOutputFile,
}

impl Headless<'_> {
    pub(super) async fn run(self, launcher: &GuardLauncher, sink: EventSink<'_>) -> io::Result<FinishedRun> {
        let exchange = OnePrompt { prompt: self.prompt, parser: self.parser };
        let pipes = Pipes { guarded_command: self.guarded_command, exchange, idle: self.idle, raw: self.raw };
        pipes.run(launcher, sink).await
    }
}

struct OnePrompt<'a> {
    prompt: &'a str,
    parser: Box<dyn OutputParser>,
}

impl PipeExchange for OnePrompt<'_> {
    type Answer = Infallible;

    fn begin(&mut self, outbox: &mut Outbox) {
        outbox.send(self.prompt.as_bytes());
        outbox.close();
    }

    fn output(&mut self, stream: Stream, raw: &[u8], clean: &str, outbox: &mut Outbox, sink: EventSink<'_>) {
        self.parser.output(stream, raw, clean, &mut |event| {
            if matches!(&event, OutputEvent::Trouble(trouble) if trouble.is_final) {
                outbox.give_up();
            }
            sink(ProgramEvent::Parsed(event));
        });
        sink(ProgramEvent::Output(stream, raw, clean));
    }

    fn sent(&mut self, result: Result<(), String>, sink: EventSink<'_>) {
        sink(ProgramEvent::PromptSent(result));
    }

    fn next_answer(&mut self) -> impl Future<Output = Infallible> + Send {
        std::future::pending()
    }

    fn answer(&mut self, answer: Infallible, _: &mut Outbox, _: EventSink<'_>) {
        match answer {}
    }

    fn waits_for_person(&self) -> bool {
        false
    }

    fn closed(&mut self, _: EventSink<'_>) {}

    fn end(&mut self, exit: Exit, sink: EventSink<'_>) -> ProgramOutcome {
        self.parser.end(exit, &mut |event| sink(ProgramEvent::Parsed(event)))
    }
}
