//! Runs the programs of tasks; implements the trait `Programs`.
//!
//! Headless programs are driven here over pipes, programs in terminals by `terminal::AgentRunner`. This module
//! chooses the adapter, sandbox and permissions of a task's program; it knows nothing about workflows.

mod backend;
mod cli_prompt;
mod escape_prompt;
mod excerpt;
mod generated_files;
mod headless;
mod pipes;
mod prepare;
mod program_sandbox;
mod raw_output;
mod structured_session;
mod usage_tracker;

pub use backend::{CliAgentConfig, CliBackend};
pub use prepare::{ProgramLimits, ProgramStarter};
pub(crate) use raw_output::RawOutputFile;

use crate::adapter::{AgentAdapter, OutputEvent, PermissionLevel, Stream};
use crate::command::Placeholders;
use crate::terminal::{AgentRunner, PatternTable, TypedPrompt};
use althing_protocol::{
    BoxFuture, ExecutionMode, Grant, Item, ProgramEnd, ProgramJob, ProgramReport, Programs, ReportSink,
    Screen, TaskId,
};
use excerpt::OutputExcerpt;
use headless::Headless;
use pipes::{FinishedRun, ProgramEvent};
use prepare::{PreparedProgram, StartRequest};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use structured_session::{OpenSessions, StructuredRun};
use usage_tracker::UsageTracker;

/// The file that holds a program's raw output.
pub(crate) const RAW_OUTPUT: &str = "output.raw";

/// Runs the programs of tasks, headless or in terminals.
pub struct ProgramRunner {
    starter: Arc<ProgramStarter>,
    terminals: AgentRunner,
    patterns: PatternTable,
    sessions: OpenSessions,
    usage_tracker: UsageTracker,
    placeholders: Placeholders,
    /// Paths that no program in a sandbox may write to.
    protected: Vec<PathBuf>,
}

impl std::fmt::Debug for ProgramRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramRunner").field("starter", &self.starter).finish_non_exhaustive()
    }
}

impl ProgramRunner {
    /// `patterns` overrides the adapters' own patterns for reading screens.
    pub fn new(starter: Arc<ProgramStarter>, patterns: PatternTable) -> Self {
        let terminals = AgentRunner::new(starter.launcher.clone(), starter.output_masking.clone());
        let (usage_tracker, placeholders) = (UsageTracker::default(), Placeholders::default());
        let (sessions, protected) = (OpenSessions::default(), Vec::new());
        Self { starter, terminals, patterns, sessions, usage_tracker, placeholders, protected }
    }

    /// Forbids programs in a sandbox to write to these canonical paths.
    #[must_use]
    pub fn with_protected(self, protected: Vec<PathBuf>) -> Self {
        Self { protected, ..self }
    }

    /// The grant of a task's program: it may write to its working directory, but only read the protected paths in it.
    fn grant(&self, job: &ProgramJob) -> Grant {
        let project = PathBuf::from(&job.spec.cwd);
        // A missing directory is reported when the program is started.
        let real = project.canonicalize().unwrap_or_else(|_| project.clone());
        Grant::project(project).with_protected(&self.protected, &real)
    }

    /// The last lines that a program in a terminal printed, oldest first, including those that scrolled off its
    /// screen; empty if no program of the task is running in a terminal.
    pub fn history(&self, task: &TaskId) -> Vec<String> {
        self.terminals.history(task)
    }

    /// Starts the task's program (a CLI agent or a command) in a terminal and waits for its end.
    async fn in_terminal(&self, job: &ProgramJob, reports: ReportSink) -> ProgramEnd {
        let grant = self.grant(job);
        let start = match self.starter.prepare(&StartRequest::of(job, &grant, job.resume.as_deref())) {
            Ok(start) => start,
            Err((error, hint)) => return failed(error, hint),
        };
        let traits = self.patterns.traits(&*start.adapter);
        if let Some(id) = &start.chosen_id {
            reports(ProgramReport::Item(Item::Conversation { id: id.clone() }));
        }
        let lease = self.placeholders.lease(&start.confined.placeholders);
        let prompt = TypedPrompt { text: &start.prompt, for_agent: start.adapter.is_agent() };
        let end = self.terminals.run(job, prompt, start.confined.guarded_command, &traits, reports).await;
        lease.release();
        end
    }

    async fn headless(&self, job: &ProgramJob, reports: &ReportSink) -> ProgramEnd {
        let end = self.run_headless(job, job.resume.as_deref(), reports).await;
        match end {
            // Nothing was done yet, so the task starts over in a new conversation.
            HeadlessAttempt::ConversationLost => match self.run_headless(job, None, reports).await {
                HeadlessAttempt::Ended(end) => end,
                HeadlessAttempt::ConversationLost => failed(
                    "the program could not resume its conversation, nor start a new one".to_owned(),
                    None,
                ),
            },
            HeadlessAttempt::Ended(end) => end,
        }
    }

    /// Starts the task's program (a CLI agent or a command) headless, on pipes, and waits for its end.
    async fn run_headless(
        &self,
        job: &ProgramJob,
        resume: Option<&str>,
        reports: &ReportSink,
    ) -> HeadlessAttempt {
        let grant = self.grant(job);
        let request = StartRequest::of(job, &grant, resume);
        let mut start = match self.starter.prepare(&request) {
            Ok(start) => start,
            Err((error, hint)) => return HeadlessAttempt::Ended(failed(error, hint)),
        };
        let mut raw =
            RawOutputFile::new(Path::new(&job.dir).join(RAW_OUTPUT), self.starter.output_masking.as_ref());
        let prompt = start.prompt.clone();
        let mut reporter = TaskReporter {
            prompt: &prompt,
            resume,
            reports,
            excerpt: OutputExcerpt::default(),
            conversation: None,
            acted: false,
        };
        let lease = self.placeholders.lease(&start.confined.placeholders);
        let idle =
            job.spec.idle_timeout.map_or(self.starter.limits.idle, |limit| Duration::from_millis(limit.0));
        let (guarded_command, launcher) = (&start.confined.guarded_command, &self.starter.launcher);
        let mut on_event = |event: ProgramEvent<'_>| reporter.on_event(event);
        let done = if let Some(structured_protocol) = start.structured_protocol.take() {
            let handle = self.sessions.open(&job.task, structured_protocol);
            StructuredRun { guarded_command, handle, idle, raw: &mut raw }.run(launcher, &mut on_event).await
        } else {
            let parser = start.adapter.parser();
            Headless { guarded_command, prompt: &prompt, idle, parser, raw: &mut raw }
                .run(launcher, &mut on_event)
                .await
        };
        lease.release();
        match done {
            Ok(done) if resume.is_some() && !reporter.acted && lost_conversation(&*start.adapter, &done) => {
                HeadlessAttempt::ConversationLost
            }
            Ok(done) => HeadlessAttempt::Ended(self.end(&start, done, idle, reporter, raw.path())),
            Err(error) => {
                HeadlessAttempt::Ended(failed(format!("the program could not be run: {error}"), None))
            }
        }
    }

    fn end(
        &self,
        start: &PreparedProgram,
        done: FinishedRun,
        idle: Duration,
        reporter: TaskReporter<'_>,
        raw: &Path,
    ) -> ProgramEnd {
        let FinishedRun { exit, outcome, idle: was_idle } = done;
        let whole = format!("the complete raw output is in {}", raw.display());
        let output = match outcome.message {
            Some(message) => {
                let mut excerpt = OutputExcerpt::default();
                excerpt.push(&message);
                excerpt.finish(&whole)
            }
            None => reporter.excerpt.finish(&whole),
        };
        let conversation = reporter.conversation.as_deref().or(reporter.resume);
        let usage = self.usage_tracker.settle(conversation, outcome.usage);
        let ok = outcome.ok && !was_idle;
        let error = if was_idle {
            Some(format!("it printed nothing for {} s and was ended", idle.as_secs_f32()))
        } else {
            outcome.error
        };
        let bound = (start.permissions == PermissionLevel::ReadOnly && !ok).then(|| {
            format!(
                "{} could only read, because no sandbox works here (`--unconfined` lets it run with all your \
                 rights), or the task sets `sandbox: false`, or the task's `permission_mode` is `plan` or `default`",
                start.adapter.name()
            )
        });
        ProgramEnd {
            ok,
            exit_code: exit.code,
            signal: exit.signal,
            output,
            error,
            hint: outcome.hint.or(bound),
            usage,
        }
    }
}

enum HeadlessAttempt {
    Ended(ProgramEnd),
    /// The conversation to resume does not exist, and nothing was done.
    ConversationLost,
}

/// Whether a run failed because the conversation to resume does not exist.
fn lost_conversation(adapter: &dyn AgentAdapter, done: &FinishedRun) -> bool {
    let error = done.outcome.error.as_deref();
    !done.outcome.ok && error.is_some_and(|error| adapter.is_lost_conversation(error))
}

fn failed(error: String, hint: Option<String>) -> ProgramEnd {
    ProgramEnd { error: Some(error), hint, ..ProgramEnd::default() }
}

/// Converts a program's events into reports.
struct TaskReporter<'a> {
    /// The prompt as it is sent.
    prompt: &'a str,
    resume: Option<&'a str>,
    reports: &'a ReportSink,
    excerpt: OutputExcerpt,
    conversation: Option<String>,
    /// Whether the program said or did something.
    acted: bool,
}

impl TaskReporter<'_> {
    fn on_event(&mut self, event: ProgramEvent<'_>) {
        match event {
            ProgramEvent::Output(stream, raw, clean) => {
                if stream == Stream::Out {
                    self.excerpt.push(clean);
                }
                (self.reports)(ProgramReport::Output { raw: raw.to_vec(), clean: clean.to_owned() });
            }
            ProgramEvent::Parsed(OutputEvent::TextDelta(_)) => {}
            ProgramEvent::Parsed(OutputEvent::Item(item)) => {
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
            ProgramEvent::Waiting(ask) => (self.reports)(ProgramReport::Waiting(ask)),
            ProgramEvent::MovedOn => (self.reports)(ProgramReport::MovedOn),
            ProgramEvent::PromptSent(result) => {
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
        self.sessions.answer(task, native, option) || self.terminals.answer(task, native, option)
    }

    fn screen(&self, task: &TaskId) -> Option<Screen> {
        self.terminals.screen(task)
    }
}
