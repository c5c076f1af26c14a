//! Follows a session to its end: shows progress, hands out events, answers signals, and prints the result.

use crate::args::{Options, StreamEvents};
use crate::exit::{Exit, Failure};
use crate::show::{self, Live, Plain};
use crate::stop::StopSignals;
use crate::surroundings::{Surroundings, SystemClock};
use althing_engine::{Interest, Orchestrator, Stopped, Submitter, Subscription};
use althing_protocol::{Clock, Fact, FeedItem, Op, Origin, RunEnd, RunResult, Seq, SessionId, Verdict};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Runtime;

/// How often the live display is redrawn.
const REDRAW: Duration = Duration::from_millis(125);
/// How long a shutdown may take before the process ends anyway.
const SHUTDOWN: Duration = Duration::from_millis(2500);

/// What goes to stdout.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Answer,
    Json,
    Facts,
    Everything,
}

enum Display {
    Plain(Plain),
    Live(Box<Live>),
}

impl Display {
    fn take(&mut self, item: &FeedItem) {
        match self {
            Self::Plain(plain) => plain.take(item),
            Self::Live(live) => live.take(item),
        }
    }
}

/// Follows a session and says how it ended.
pub struct Follower<'a> {
    session: SessionId,
    output: Output,
    output_file: Option<PathBuf>,
    display: Display,
    surroundings: &'a Surroundings,
    result: Option<(RunEnd, RunResult)>,
    signals: StopSignals,
    /// Why events could not be written to stdout.
    lost: Option<std::io::Error>,
    resume_command: String,
}

impl<'a> Follower<'a> {
    pub fn new(
        session: SessionId,
        options: &Options,
        surroundings: &'a Surroundings,
        signals: StopSignals,
    ) -> Self {
        let output = match options.stream_events {
            Some(StreamEvents::All) => Output::Everything,
            Some(StreamEvents::Facts) => Output::Facts,
            None if options.json => Output::Json,
            None => Output::Answer,
        };
        let live = surroundings.stderr_is_terminal && !matches!(output, Output::Facts | Output::Everything);
        let display = if live { Display::Live(Box::default()) } else { Display::Plain(Plain::default()) };
        let resume_command = match &options.state_dir {
            Some(dir) => format!("althing resume {session} --state-dir {}", dir.display()),
            None => format!("althing resume {session}"),
        };
        let output_file = options.output_file.as_ref().map(|file| surroundings.cwd.join(file));
        Self {
            session,
            output,
            output_file,
            display,
            surroundings,
            result: None,
            signals,
            lost: None,
            resume_command,
        }
    }

    /// With plain lines of progress, also on a terminal.
    pub fn plain(mut self) -> Self {
        self.display = Display::Plain(Plain::default());
        self
    }

    /// Follows the session from `from` until it ends.
    pub fn run(mut self, orchestrator: Orchestrator, from: Seq, runtime: &Runtime) -> Result<Exit, Failure> {
        let everything = matches!(self.display, Display::Live(_)) || self.output == Output::Everything;
        let interest = if everything { Interest::Everything } else { Interest::Facts };
        let mut events = orchestrator.feed().subscribe(from, interest);
        let submitter = orchestrator.submitter();
        let signalled = runtime.block_on(self.follow(&mut events, &submitter))?;
        drop((events, submitter));
        let stopped = orchestrator.join().map_err(|_| Failure {
            exit: Exit::NoAnswer,
            ..Failure::usage("the session broke off")
                .hint(format!("what was shown is on disk; go on with `{}`", self.resume_command))
        })?;
        if let Display::Live(live) = &mut self.display {
            live.finish(SystemClock.now());
        }
        self.finish(stopped, signalled)
    }

    /// True if a signal asked to stop.
    async fn follow(&mut self, events: &mut Subscription, submitter: &Submitter) -> Result<bool, Failure> {
        let mut redraw = tokio::time::interval(REDRAW);
        let live = matches!(self.display, Display::Live(_));
        let mut signalled = false;
        let mut patience = std::pin::pin!(tokio::time::sleep(Duration::MAX / 4));
        loop {
            tokio::select! {
                item = events.next() => match item {
                    None => return Ok(signalled),
                    Some(Ok(item)) => self.take(&item),
                    Some(Err(error)) => return Err(Failure::usage(error.message).maybe_hint(error.hint)),
                },
                name = self.signals.next() => {
                    if signalled {
                        return Err(self.cut_short("asked to stop twice"));
                    }
                    signalled = true;
                    show::say(&format!("{name}: stopping …"));
                    patience.as_mut().reset(tokio::time::Instant::now() + SHUTDOWN);
                    // A session that has ended already says so itself.
                    let _ = submitter.submit(Op::Shutdown, Origin::Signal);
                }
                () = &mut patience, if signalled => return Err(self.cut_short("stopping took too long")),
                _ = redraw.tick(), if live => {
                    if let Display::Live(live) = &mut self.display {
                        live.tick(SystemClock.now());
                    }
                }
            }
        }
    }

    fn cut_short(&self, why: &str) -> Failure {
        let hint = format!("what was shown is on disk; go on with `{}`", self.resume_command);
        Failure { exit: Exit::Interrupted, ..Failure::usage(why).hint(hint) }
    }

    fn take(&mut self, item: &FeedItem) {
        let line = match item {
            FeedItem::Event(event) if matches!(self.output, Output::Facts | Output::Everything) => {
                Some(event.to_json())
            }
            FeedItem::Progress(progress) if self.output == Output::Everything => {
                serde_json::to_string(&**progress).ok()
            }
            _ => None,
        };
        if let Some(line) = line {
            // A reader that went away does not stop the run; its result stays on disk.
            if let Err(error) = writeln!(std::io::stdout().lock(), "{line}")
                && error.kind() != std::io::ErrorKind::BrokenPipe
            {
                self.lost.get_or_insert(error);
            }
        }
        self.display.take(item);
        if let FeedItem::Event(event) = item
            && let Fact::Decided(Verdict::Finished { end, result }) = &event.fact
        {
            self.result = Some((*end, (**result).clone()));
        }
    }

    fn finish(mut self, stopped: Stopped, signalled: bool) -> Result<Exit, Failure> {
        match stopped {
            Stopped::Disk(error) => Err(Failure {
                exit: if signalled { Exit::Interrupted } else { Exit::NoAnswer },
                ..Failure::usage(format!("nothing more can be saved: {}", error.message))
                    .maybe_hint(error.hint)
                    .hint(format!("then go on with `{}`", self.resume_command))
            }),
            Stopped::Halted(results) => {
                for result in results.into_iter().filter(|_| self.output == Output::Json) {
                    self.print(RunEnd::Cancelled, &result)?;
                }
                show::say(&format!("interrupted; go on with `{}`", self.resume_command));
                Ok(Exit::Interrupted)
            }
            Stopped::Finished => match self.result.take() {
                Some((end, result)) => {
                    self.print(end, &result)?;
                    match &self.lost {
                        Some(error) => Err(self.lost_output("stdout", error, &result)),
                        None => Ok(end.into()),
                    }
                }
                None => Err(Failure {
                    exit: Exit::NoAnswer,
                    ..Failure::usage("the session ended without a result")
                }),
            },
        }
    }

    /// Prints a result where it was asked for.
    pub fn print(&self, end: RunEnd, result: &RunResult) -> Result<(), Failure> {
        if let Some(error) = result.error.as_ref().filter(|_| end != RunEnd::Answered) {
            show::say(&format!("althing: {error}"));
        }
        let answer = result.final_answer.as_deref();
        if let (Some(file), Some(answer)) = (&self.output_file, answer) {
            std::fs::write(file, answer)
                .map_err(|error| self.lost_output(&file.display().to_string(), &error, result))?;
        }
        let footer = Self::footer(result);
        let text = match (self.output, answer) {
            (Output::Json, _) => serde_json::to_string(result).unwrap_or_default(),
            (Output::Answer, Some(answer)) if self.surroundings.stdout_is_terminal => {
                show::clean_text(&format!("{}{footer}", answer.trim_end()))
            }
            (Output::Answer, Some(answer)) if footer.is_empty() => answer.to_owned(),
            (Output::Answer, Some(answer)) => format!("{}{footer}", answer.trim_end()),
            (Output::Answer, None) | (Output::Facts | Output::Everything, _) => return Ok(()),
        };
        let mut out = std::io::stdout().lock();
        match writeln!(out, "{}", text.trim_end_matches('\n')).and_then(|()| out.flush()) {
            // Whoever read us has enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(self.lost_output("stdout", &error, result)),
            Ok(()) => Ok(()),
        }
    }

    /// What was written to context paths, below the answer; the whole list is kept beside the run where it is long.
    fn footer(result: &RunResult) -> String {
        let log_dir = Path::new(&result.log_dir);
        if let Err(error) = althing_storage::keep_list(&result.context_path_writes, log_dir) {
            show::say(&format!("the list of written files could not be kept: {error}"));
        }
        let footer = althing_storage::footer(&result.context_path_writes, log_dir);
        footer.map(|footer| format!("\n\n{footer}")).unwrap_or_default()
    }

    fn lost_output(&self, place: &str, error: &std::io::Error, result: &RunResult) -> Failure {
        Failure::usage(format!("the answer could not be written to {place}: {error}"))
            .hint(format!("it is kept in {}/final_answer.md (session {})", result.log_dir, self.session))
    }
}
