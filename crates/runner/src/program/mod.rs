//! Starts CLI agents (Claude Code, Codex, Gemini CLI, opencode) and the other programs of tasks, headless over pipes or
//! in terminals: chooses the adapter, sandbox and permissions. Implements the trait `Programs`.

mod backend;
mod cli_prompt;
mod conversation_id;
mod credentials;
mod escape_prompt;
mod excerpt;
mod executable;
mod foreign_settings;
mod generated_files;
mod headless;
mod last_message;
mod model_prices;
mod pipes;
mod prepare;
mod private_settings;
mod program_sandbox;
mod raw_output;
mod recorded_calls;
mod reply_collector;
mod report_limit;
mod resumed;
mod structured_session;
mod task_reporter;
mod troubles;
mod unfinished_turn;
mod usage_tracker;

pub use backend::{CliAgentConfig, CliBackend};
pub(crate) use conversation_id::is_conversation_id;
pub use model_prices::ModelPrices;
pub use prepare::{ProgramLimits, ProgramStarter};
pub use private_settings::clean_left_settings;
pub(crate) use raw_output::RawOutputFile;
pub(crate) use troubles::ReportedTroubles;

use crate::adapter::{AgentAdapter, PermissionLevel};
use crate::agent_processes::UntilEnded;
use crate::code_watch::{CodeWatch, WatchedProgram, WrittenCode};
use crate::git_code::git_code;
use crate::linked_code::linked_code;
use crate::placeholders::Placeholders;
use crate::planted_code::{NoticeSink, PlantedCode};
use crate::terminal::{AgentRunner, PatternTable, TypedPrompt};
use althing_disk::refuse_replaced;
use althing_protocol::{
    BoxFuture, ExecutionMode, Grant, Item, ProgramEnd, ProgramJob, ProgramReport, Programs, ReportSink,
    Screen, TaskId,
};
use excerpt::OutputExcerpt;
use foreign_settings::notice_of_ignored;
use headless::Headless;
use last_message::{EndedProgram, KnownConversation, keep_from_overwriting};
use pipes::{FinishedRun, ProgramEvent};
use prepare::{PreparedProgram, StartRequest};
use report_limit::limited;
use resumed::{find_conversation, resumed_id, with_prompt_to_send, without_refused_conversation};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use structured_session::{OpenSessions, StructuredRun};
use task_reporter::TaskReporter;
use usage_tracker::UsageTracker;

pub(crate) const RAW_OUTPUT: &str = "output.raw";

/// Canonical paths that no program in a sandbox may write to.
#[derive(Clone, Debug, Default)]
pub struct ProtectedPaths {
    /// A program that works inside one of these paths cannot write at all.
    pub paths: Vec<PathBuf>,
    /// Directories from which code is loaded. A program that works in or below such a directory can write there.
    pub code_dirs: Vec<PathBuf>,
}

/// Starts CLI agents and the other programs of tasks as processes, headless or in terminals.
pub struct ProgramRunner {
    starter: Arc<ProgramStarter>,
    terminals: AgentRunner,
    patterns: PatternTable,
    sessions: OpenSessions,
    usage_tracker: UsageTracker,
    prices: ModelPrices,
    placeholders: Placeholders,
    protected: ProtectedPaths,
    work_dirs: Vec<PathBuf>,
    /// The directories with the settings of CLI agents, and those of `PATH`. A program in a sandbox cannot write to
    /// them, unless it works in one of them.
    unwritable_dirs: Vec<PathBuf>,
    planted: Arc<PlantedCode>,
    agents_write: Vec<PathBuf>,
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
        let (sessions, prices, protected) =
            (OpenSessions::default(), ModelPrices::default(), ProtectedPaths::default());
        Self {
            starter,
            terminals,
            patterns,
            sessions,
            usage_tracker,
            prices,
            placeholders,
            protected,
            work_dirs: Vec::new(),
            unwritable_dirs: Vec::new(),
            planted: Arc::default(),
            agents_write: Vec::new(),
        }
    }

    /// Forbids programs in a sandbox to write to these paths.
    #[must_use]
    pub fn with_protected(self, protected: ProtectedPaths) -> Self {
        Self { protected, ..self }
    }

    /// Sets the prices for CLI agents that report tokens but no cost.
    #[must_use]
    pub fn with_prices(self, prices: ModelPrices) -> Self {
        Self { prices, ..self }
    }

    /// Sets the list of the session to which everything belongs that agents and programs write and that could run code.
    #[must_use]
    pub fn with_planted_code(self, planted: Arc<PlantedCode>) -> Self {
        Self { planted, ..self }
    }

    /// Sets the directories in which the user and the other tasks work. A program in a sandbox cannot change files of
    /// its own directory that git runs for repositories in these directories.
    #[must_use]
    pub fn with_work_dirs(self, work_dirs: Vec<PathBuf>) -> Self {
        Self { work_dirs, ..self }
    }

    /// Sets the canonical directories to which agents of the session may write. The executable of a CLI agent that
    /// runs without a sandbox is not searched for there.
    #[must_use]
    pub fn with_agents_write(self, agents_write: Vec<PathBuf>) -> Self {
        Self { agents_write, ..self }
    }

    /// Keeps programs in a sandbox from writing to these canonical paths, unless they work in one of them.
    #[must_use]
    pub fn with_unwritable_dirs(self, unwritable_dirs: Vec<PathBuf>) -> Self {
        Self { unwritable_dirs, ..self }
    }

    /// Decides the sandbox policy (grant) of a task's program: it may write to its working directory, but only read the
    /// protected paths in it and, in a sandbox, the code that git runs or that [`linked_code`] finds there.
    async fn grant(&self, job: &ProgramJob) -> Grant {
        // The path was resolved when the workflow began. A missing directory is reported when the program is started.
        let real = PathBuf::from(&job.spec.cwd);
        let ProtectedPaths { paths, code_dirs } = &self.protected;
        let grant = Grant::project(real.clone()).with_protected(paths, &real);
        let code_dirs = code_dirs.iter().filter(|dir| dir.starts_with(&real) && **dir != real);
        let grant = grant.with_protected(&code_dirs.cloned().collect::<Vec<_>>(), &real);
        let unwritable = self.unwritable_dirs.iter().filter(|dir| !real.starts_with(dir));
        let grant = grant.with_protected(&unwritable.cloned().collect::<Vec<_>>(), &real);
        let (other_dirs, agents_write) = (self.work_dirs.clone(), self.agents_write.clone());
        let grant = Grant { other_dirs, agents_write, ..grant };
        if !self.starter.is_confined(&job.spec) {
            return grant;
        }
        let (searched, elsewhere) = ([real.clone()], self.work_dirs.clone());
        let search = move || {
            let linked: Vec<PathBuf> = linked_code(&searched).into_iter().map(|code| code.path).collect();
            (git_code(&searched, &[], &elsewhere), linked)
        };
        let (code, linked) = match tokio::task::spawn_blocking(search).await {
            Ok(found) => found,
            // What git runs is unknown, so the program may not write at all.
            Err(error) => {
                tracing::error!(%error, "the search for code that runs later failed");
                return Grant { planning: true, ..grant };
            }
        };
        let grant = grant.with_protected(&linked, &real);
        let grant = grant.with_protected(&code.paths, &real).with_protected(&code.unknown, &real);
        Grant { protected_files: code.config_files, ..grant }
    }

    /// The last lines that a task's program in a terminal printed, oldest first, including those that scrolled off
    /// its screen; empty if no program of the task is running in a terminal.
    pub fn history(&self, task: &TaskId) -> Vec<String> {
        self.terminals.history(task)
    }

    async fn in_terminal(&self, job: &ProgramJob, grant: &Grant, reports: ReportSink) -> ProgramEnd {
        let job = &with_prompt_to_send(job);
        let mut start = match self.starter.prepare(&StartRequest::of(job, grant, resumed_id(job))).await {
            Ok(start) => start,
            Err((error, hint)) => return failed(error, hint),
        };
        let used = UntilEnded::new(Path::new(&job.dir), (start.take_used(), Arc::clone(&reports)));
        let traits = self.patterns.traits(&*start.adapter);
        if let Some(id) = &start.chosen_id {
            reports(ProgramReport::Item(Item::Conversation { id: id.clone() }));
        }
        let lease = self.placeholders.lease(&start.confined.placeholders);
        let prompt = TypedPrompt { text: &start.prompt, for_agent: start.adapter.is_agent() };
        let known = KnownConversation::default();
        let reports = known.listen(
            start.chosen_id.as_deref().or_else(|| resumed_id(job)),
            start.adapter.name(),
            reports,
        );
        // A resumed conversation is known, and so is one whose id was chosen.
        let search = job.resume.is_none() && start.chosen_id.is_none();
        let find = search.then(|| find_conversation(&start));
        let ended = EndedProgram {
            adapter: &*start.adapter,
            command: (start.confined.guarded_command.clone(), start.own_args),
            dir: Path::new(&job.dir),
            launcher: self.starter.launcher.clone().owned_by(Path::new(&job.dir)),
        };
        let command = (start.confined.guarded_command, find);
        let mut end = self.terminals.run(job, prompt, command, &traits, reports).await;
        if let Some(message) = ended.last_message(&known).await {
            let mut excerpt = OutputExcerpt::default();
            excerpt.push(&message);
            end.output = excerpt.finish("the whole message is in the agent's own conversation");
        }
        drop(used);
        lease.release();
        end
    }

    async fn headless(&self, job: &ProgramJob, grant: &Grant, reports: &ReportSink) -> ProgramEnd {
        if let Some(end) = self.end_of_finished_turn(job, grant, reports) {
            return end;
        }
        let end = self.run_headless(&with_prompt_to_send(job), grant, resumed_id(job), reports).await;
        match end {
            HeadlessAttempt::ConversationLost => match self.run_headless(job, grant, None, reports).await {
                HeadlessAttempt::Ended(end) => end,
                HeadlessAttempt::ConversationLost => failed(
                    "the program could not resume its conversation, nor start a new one".to_owned(),
                    None,
                ),
            },
            HeadlessAttempt::Ended(end) => end,
        }
    }

    async fn run_headless(
        &self,
        job: &ProgramJob,
        grant: &Grant,
        resume: Option<&str>,
        reports: &ReportSink,
    ) -> HeadlessAttempt {
        let request = StartRequest::of(job, grant, resume);
        let mut start = match self.starter.prepare(&request).await {
            Ok(start) => start,
            Err((error, hint)) => return HeadlessAttempt::Ended(failed(error, hint)),
        };
        if let Some(notice) = notice_of_ignored(start.adapter.name(), &start.ignored_settings) {
            reports(ProgramReport::Notice(notice));
        }
        let used = UntilEnded::new(Path::new(&job.dir), (start.take_used(), Arc::clone(reports)));
        let mut raw =
            RawOutputFile::new(Path::new(&job.dir).join(RAW_OUTPUT), self.starter.output_masking.as_ref());
        let (prompt, name) = (start.prompt.clone(), start.adapter.name().to_owned());
        let mut reporter = TaskReporter::new(&name, &prompt, resume, reports);
        let lease = self.placeholders.lease(&start.confined.placeholders);
        let idle =
            job.spec.idle_timeout.map_or(self.starter.limits.idle, |limit| Duration::from_millis(limit.0));
        let launcher = &self.starter.launcher.clone().owned_by(Path::new(&job.dir));
        let guarded_command = &start.confined.guarded_command;
        let mut on_event = |event: ProgramEvent<'_>| reporter.on_event(event);
        let done = if let Some(structured_protocol) = start.structured_protocol.take() {
            let env = |name: &str| guarded_command.variable(name);
            if let Some((dir, name_end)) =
                resume.and_then(|id| start.adapter.overwritten_when_loaded(id, &env))
            {
                keep_from_overwriting(&dir, &name_end);
            }
            let handle = self.sessions.open(&job.task, structured_protocol);
            StructuredRun { guarded_command, handle, idle, raw: &mut raw }.run(launcher, &mut on_event).await
        } else {
            let parser = start.adapter.parser();
            Headless { guarded_command, prompt: &prompt, idle, parser, raw: &mut raw }
                .run(launcher, &mut on_event)
                .await
        };
        drop(used);
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
        let usage = self.usage_tracker.settle(conversation, &outcome.usage, raw.parent().unwrap_or(raw));
        let names: Vec<&str> = start.price_names.iter().map(String::as_str).collect();
        // A plain command costs nothing; it has neither a model nor a kind.
        let usage =
            if names.is_empty() { usage } else { self.prices.priced(usage, &outcome.usage.by_model, &names) };
        let ok = outcome.ok && !was_idle;
        let error = if was_idle {
            let said = reporter.trouble.map(|text| format!("; the last problem that it reported: {text}"));
            let silent = format!("it printed nothing for {} s and was ended", idle.as_secs_f32());
            Some(silent + &said.unwrap_or_default())
        } else {
            outcome.error
        };
        let bound = (start.permissions == PermissionLevel::ReadOnly && !ok).then(|| {
            format!(
                "{} could only read files. Possible reasons: no sandbox works here (`--unconfined` lets it run with \
                 all your rights), the task sets `sandbox: false`, or its `permission_mode` is `plan` or `default`",
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

fn lost_conversation(adapter: &dyn AgentAdapter, done: &FinishedRun) -> bool {
    let error = done.outcome.error.as_deref();
    !done.outcome.ok && error.is_some_and(|error| adapter.is_lost_conversation(error))
}

fn failed(error: String, hint: Option<String>) -> ProgramEnd {
    ProgramEnd { error: Some(error), hint, ..ProgramEnd::default() }
}

fn replaced_directory(dir: &Path) -> Option<ProgramEnd> {
    let replaced = refuse_replaced(dir).err()?;
    let hint = "start the workflow again if the task is to work there".to_owned();
    Some(failed(replaced.to_string(), Some(hint)))
}

impl Programs for ProgramRunner {
    /// If the future is dropped, the sink is kept until every process of the program is gone, and then gets the same
    /// notice about written files as after a normal end.
    fn run<'a>(&'a self, job: &'a ProgramJob, reports: ReportSink) -> BoxFuture<'a, ProgramEnd> {
        Box::pin(async move {
            let reports = limited(&job.spec.adapter, reports);
            let job = &without_refused_conversation(job, &reports);
            let is_agent =
                self.starter.adapters.get(&job.spec.adapter).is_some_and(|adapter| adapter.is_agent());
            if let Some(end) = replaced_directory(Path::new(&job.spec.cwd)) {
                return end;
            }
            let is_confined = self.starter.is_confined(&job.spec);
            let notices: NoticeSink = {
                let reports = Arc::clone(&reports);
                Arc::new(move |notice| reports(ProgramReport::Notice(notice)))
            };
            self.planted.load(Path::new(&job.dir), &notices).await;
            drop(notices);
            if !is_confined
                && let Some(error) = self.planted.problem(Path::new(&job.spec.cwd), &job.spec.adapter).await
            {
                let hint = "look at the files, and delete what you do not want; then start the workflow again, or let the \
                            task run in the sandbox (`sandbox: true`)";
                return failed(error, Some(hint.to_owned()));
            }
            let grant = self.grant(job).await;
            let watch = if is_agent || is_confined { Some(CodeWatch::start(&grant).await) } else { None };
            let number = match watch.as_ref().filter(|_| is_confined) {
                Some(watch) => match self.planted.started(Path::new(&job.dir), watch) {
                    Ok(number) => Some(number),
                    Err(error) => {
                        return failed(format!("the files here could not be listed: {error}"), None);
                    }
                },
                None => None,
            };
            let on_written = {
                let (reports, planted) = (Arc::clone(&reports), Arc::clone(&self.planted));
                move |written: Option<WrittenCode>| {
                    if let Some(written) = &written {
                        reports(ProgramReport::Notice(written.notice()));
                    }
                    if let Some(number) = number {
                        planted.ended(number, written.as_ref());
                    }
                }
            };
            let watched = WatchedProgram::new(watch, Path::new(&job.dir), on_written.clone());
            let end = match job.spec.mode {
                ExecutionMode::Headless => self.headless(job, &grant, &reports).await,
                ExecutionMode::Interactive => self.in_terminal(job, &grant, Arc::clone(&reports)).await,
            };
            on_written(watched.finish().await);
            end
        })
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
