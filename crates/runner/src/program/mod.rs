//! Runs programs for tasks: the port `Programs`.
//!
//! Headless programs are driven here, over pipes; those in terminals by the terminals' runner. Knows which adapter a task
//! means, on which terms it may run, and what came of it; nothing here knows what a workflow is.

mod backend;
mod digest;
mod files;
mod headless;
mod pipes;
mod prose;
mod raw;
mod spending;
mod start;
mod talk;
mod walls;
mod words;

pub use backend::{CliAgentConfig, CliBackend};
pub(crate) use raw::RawFile;
pub use start::{ProgramLimits, ProgramStarter};

use crate::adapter::{Freedom, Meaning, Stream};
use crate::command::Placeholders;
use crate::terminal::{AgentRunner, PatternTable, TypedPrompt};
use althing_protocol::{
    BoxFuture, ExecutionMode, Grant, Item, ProgramEnd, ProgramJob, ProgramReport, Programs, ReportSink,
    Screen, TaskId,
};
use digest::Digest;
use headless::Headless;
use pipes::{Done, Heard};
use spending::Spending;
use start::{Start, Want};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use talk::{Talk, Talks};

/// The name of the file that holds a program's output as it came.
pub(crate) const RAW_OUTPUT: &str = "output.raw";

/// Runs the programs of tasks.
pub struct ProgramRunner {
    starter: Arc<ProgramStarter>,
    terminals: AgentRunner,
    patterns: PatternTable,
    talks: Talks,
    spending: Spending,
    placeholders: Placeholders,
}

impl std::fmt::Debug for ProgramRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramRunner").field("starter", &self.starter).finish_non_exhaustive()
    }
}

impl ProgramRunner {
    /// Starts programs with this starter, and reads their screens by these patterns.
    pub fn new(starter: Arc<ProgramStarter>, patterns: PatternTable) -> Self {
        let terminals = AgentRunner::new(starter.launcher.clone(), starter.masks.clone());
        let (spending, placeholders) = (Spending::default(), Placeholders::default());
        Self { starter, terminals, patterns, talks: Talks::default(), spending, placeholders }
    }

    /// The last lines that a program in a terminal said, oldest first: what has left its screen is here.
    pub fn history(&self, task: &TaskId) -> Vec<String> {
        self.terminals.history(task)
    }

    async fn in_terminal(&self, job: &ProgramJob, reports: ReportSink) -> ProgramEnd {
        let grant = Grant::project(job.spec.cwd.clone().into());
        let start = match self.starter.start(&Want::of(job, &grant, job.resume.as_deref())) {
            Ok(start) => start,
            Err((error, hint)) => return failed(error, hint),
        };
        let traits = self.patterns.traits(&*start.adapter);
        if let Some(id) = &start.chosen {
            reports(ProgramReport::Item(Item::Conversation { id: id.clone() }));
        }
        let held = self.placeholders.hold(&start.prepared.placeholders);
        let prompt = TypedPrompt { text: &start.prompt, for_agent: start.adapter.is_agent() };
        let end = self.terminals.run_launch(job, prompt, start.prepared.launch, &traits, reports).await;
        held.done();
        end
    }

    async fn headless(&self, job: &ProgramJob, reports: &ReportSink) -> ProgramEnd {
        let end = self.attempt(job, job.resume.as_deref(), reports).await;
        match end {
            // Nothing of it was done: it begins anew.
            Attempt::Lost => match self.attempt(job, None, reports).await {
                Attempt::Ended(end) => end,
                Attempt::Lost => failed("the program lost its conversation twice".to_owned(), None),
            },
            Attempt::Ended(end) => end,
        }
    }

    async fn attempt(&self, job: &ProgramJob, resume: Option<&str>, reports: &ReportSink) -> Attempt {
        let grant = Grant::project(job.spec.cwd.clone().into());
        let want = Want::of(job, &grant, resume);
        let mut start = match self.starter.start(&want) {
            Ok(start) => start,
            Err((error, hint)) => return Attempt::Ended(failed(error, hint)),
        };
        let mut raw = RawFile::new(Path::new(&job.dir).join(RAW_OUTPUT), self.starter.masks.as_ref());
        let prompt = start.prompt.clone();
        let mut heard = Listener {
            prompt: &prompt,
            resume,
            reports,
            digest: Digest::default(),
            conversation: None,
            acted: false,
        };
        let held = self.placeholders.hold(&start.prepared.placeholders);
        let idle =
            job.spec.idle_timeout.map_or(self.starter.limits.idle, |limit| Duration::from_millis(limit.0));
        let (launch, launcher) = (&start.prepared.launch, &self.starter.launcher);
        let mut hear = |what: Heard<'_>| heard.hear(what);
        let done = if let Some(dialogue) = start.dialogue.take() {
            let line = self.talks.open(&job.task, dialogue);
            Talk { launch, line, idle, raw: &mut raw }.run(launcher, &mut hear).await
        } else {
            let parser = start.adapter.parser();
            Headless { launch, prompt: &prompt, idle, parser, raw: &mut raw }.run(launcher, &mut hear).await
        };
        held.done();
        match done {
            Ok(done) if resume.is_some() && !heard.acted && lost(&done) => Attempt::Lost,
            Ok(done) => Attempt::Ended(self.end(&start, done, idle, heard, raw.path())),
            Err(error) => Attempt::Ended(failed(format!("the program could not be run: {error}"), None)),
        }
    }

    fn end(&self, start: &Start, done: Done, idle: Duration, heard: Listener<'_>, raw: &Path) -> ProgramEnd {
        let Done { exit, ending, idle: was_idle } = done;
        let whole = format!("all of it, as it came, is in {}", raw.display());
        let output = match ending.message {
            Some(message) => {
                let mut digest = Digest::default();
                digest.push(&message);
                digest.finish(&whole)
            }
            None => heard.digest.finish(&whole),
        };
        let conversation = heard.conversation.as_deref().or(heard.resume);
        let usage = self.spending.settle(conversation, ending.usage);
        let ok = ending.ok && !was_idle;
        let error = if was_idle {
            Some(format!("it said nothing for {} s and was ended", idle.as_secs_f32()))
        } else {
            ending.error
        };
        let bound = (start.freedom == Freedom::ReadOnly && !ok).then(|| {
            format!(
                "{} could only read, because no sandbox works here; `--unconfined` gives it all your rights",
                start.adapter.name()
            )
        });
        ProgramEnd {
            ok,
            exit_code: exit.code,
            signal: exit.signal,
            output,
            error,
            hint: ending.hint.or(bound),
            usage,
        }
    }
}

enum Attempt {
    Ended(ProgramEnd),
    /// The conversation to go on with is not there (any more), and nothing was done.
    Lost,
}

/// Whether a run failed because its conversation is not there.
fn lost(done: &Done) -> bool {
    const WORDS: [&str; 4] =
        ["No conversation found", "no rollout found", "Invalid session identifier", "Session not found"];
    let error = done.ending.error.as_deref().unwrap_or_default();
    !done.ending.ok && WORDS.iter().any(|word| error.contains(word))
}

fn failed(error: String, hint: Option<String>) -> ProgramEnd {
    ProgramEnd { error: Some(error), hint, ..ProgramEnd::default() }
}

/// Passes on what is heard of a program.
struct Listener<'a> {
    /// The prompt as it is sent.
    prompt: &'a str,
    resume: Option<&'a str>,
    reports: &'a ReportSink,
    digest: Digest,
    conversation: Option<String>,
    /// Whether it said or did something.
    acted: bool,
}

impl Listener<'_> {
    fn hear(&mut self, what: Heard<'_>) {
        match what {
            Heard::Output(stream, raw, clean) => {
                if stream == Stream::Out {
                    self.digest.push(clean);
                }
                (self.reports)(ProgramReport::Output { raw: raw.to_vec(), clean: clean.to_owned() });
            }
            Heard::Meaning(Meaning::Saying(_)) => {}
            Heard::Meaning(Meaning::Item(item)) => {
                if let Item::Conversation { id } = &item {
                    self.conversation = Some(id.clone());
                    if self.resume == Some(id) {
                        return;
                    }
                } else {
                    self.acted = true;
                }
                (self.reports)(ProgramReport::Item(item));
            }
            Heard::Waiting(ask) => (self.reports)(ProgramReport::Waiting(ask)),
            Heard::MovedOn => (self.reports)(ProgramReport::MovedOn),
            Heard::PromptSent(result) => {
                let sent = Item::PromptSent { text: self.prompt.to_owned(), error: result.err() };
                (self.reports)(ProgramReport::Item(sent));
            }
        }
    }
}

impl Programs for ProgramRunner {
    fn run<'a>(&'a self, job: &'a ProgramJob, reports: ReportSink) -> BoxFuture<'a, ProgramEnd> {
        match job.spec.mode {
            ExecutionMode::Headless => Box::pin(async move { self.headless(job, &reports).await }),
            ExecutionMode::Interactive => Box::pin(self.in_terminal(job, reports)),
        }
    }

    fn input(&self, task: &TaskId, bytes: &[u8]) -> bool {
        self.terminals.input(task, bytes)
    }

    fn resize(&self, task: &TaskId, cols: u16, rows: u16) {
        self.terminals.resize(task, cols, rows);
    }

    fn answer(&self, task: &TaskId, native: &str, option: &str) -> bool {
        self.talks.answer(task, native, option) || self.terminals.answer(task, native, option)
    }

    fn screen(&self, task: &TaskId) -> Option<Screen> {
        self.terminals.screen(task)
    }
}
