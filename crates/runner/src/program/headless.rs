//! A headless run of a program: its prompt is its whole input, and nobody is asked.

use super::pipes::{EventSink, FinishedRun, Outbox, PipeExchange, Pipes, ProgramEvent};
use super::raw_output::RawOutputFile;
use crate::adapter::{Exit, OutputParser, ProgramOutcome, Stream};
use crate::guarded::Launcher;
use crate::launch::Launch;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

/// A run to be made.
pub(super) struct Headless<'a> {
    pub(super) launch: &'a Launch,
    pub(super) prompt: &'a str,
    /// How long it may say nothing.
    pub(super) idle: Duration,
    pub(super) parser: Box<dyn OutputParser>,
    pub(super) raw: &'a mut RawOutputFile,
}

impl Headless<'_> {
    /// Runs it to its end. When the future is dropped, the program is asked to end and killed soon after.
    pub(super) async fn run(self, launcher: &Launcher, sink: EventSink<'_>) -> io::Result<FinishedRun> {
        let exchange = OnePrompt { prompt: self.prompt, parser: self.parser };
        let pipes = Pipes { launch: self.launch, exchange, idle: self.idle, raw: self.raw };
        pipes.run(launcher, sink).await
    }
}

/// One prompt in, output out.
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

    fn output(&mut self, stream: Stream, raw: &[u8], clean: &str, _: &mut Outbox, sink: EventSink<'_>) {
        self.parser.output(stream, raw, clean, &mut |event| sink(ProgramEvent::Parsed(event)));
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
