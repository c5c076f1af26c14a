//! Programs in terminals: started, emulated, watched for questions, typed to, and ended with everything they started.
//! Nothing a program writes reaches our own terminal: it goes to an emulated screen and into reports.

mod dialog;
#[cfg(test)]
mod dialog_tests;
mod drawing;
mod emulator;
#[cfg(feature = "fuzzing")]
mod fuzz_terminal;
mod limits;
mod model;
mod patterns;
mod prompt;
mod prompt_answers;
mod prompt_text;
mod pty;
mod pty_thread;
mod queries;
mod sanitize_line;
mod screen_reader;
mod skim;
mod status;
#[cfg(test)]
mod tests;
mod transcript;
mod turn;
mod wait_detector;

#[cfg(feature = "fuzzing")]
pub use fuzz_terminal::{FuzzTerminal, ScreenReaders};
pub use patterns::PatternTable;

use crate::adapter::TerminalTraits;
use crate::guard_protocol::{GuardedCommand, Input};
use crate::guarded::GuardLauncher;
use crate::program::{RAW_OUTPUT, RawOutputFile, is_conversation_id};
use althing_protocol::{
    AskKind, Item, OutputMasking, ProgramEnd, ProgramJob, ProgramReport, ReportSink, Screen, TaskId,
    TurnProgress,
};
use limits::{
    ANSWER_DELAY, ANSWER_RETRY_INTERVAL, ANSWER_TIMEOUT, DRAIN_TIMEOUT, LEAVE_PAUSE, LEAVE_TIMEOUT,
    MAX_FINAL_OUTPUT, MAX_PENDING_INPUT,
};
use model::TerminalModel;
use prompt::{PromptTyper, READY_LIMIT};
use pty::{Pty, TerminalSize};
use pty_thread::PtyThread;
use screen_reader::{ProgramQuestion, ScreenReader};
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use turn::TurnWatch;
use wait_detector::WaitDetector;

#[derive(Clone, Copy)]
pub(crate) struct TypedPrompt<'a> {
    pub(crate) text: &'a str,
    /// Whether an agent reads the prompt and could take a line of it for a command.
    pub(crate) for_agent: bool,
}

/// Finds the id of a program's conversation, given the process id of its guard.
pub(crate) type FindConversation = Arc<dyn Fn(u32) -> Option<String> + Send + Sync>;

const SEARCH_INTERVAL: Duration = Duration::from_millis(300);

async fn report_conversation(
    find: Option<FindConversation>,
    guard: Option<u32>,
    reports: ReportSink,
) -> Infallible {
    let (Some(find), Some(guard)) = (find, guard) else { return std::future::pending().await };
    loop {
        tokio::time::sleep(SEARCH_INTERVAL).await;
        let find = Arc::clone(&find);
        if let Ok(Some(id)) = tokio::task::spawn_blocking(move || find(guard)).await
            && is_conversation_id(&id)
        {
            reports(ProgramReport::Item(Item::Conversation { id }));
            return std::future::pending().await;
        }
    }
}

#[derive(Debug)]
pub(crate) struct AgentRunner {
    launcher: GuardLauncher,
    output_masking: Option<Arc<dyn OutputMasking>>,
    running: Arc<Mutex<HashMap<TaskId, Arc<Terminal>>>>,
}

impl AgentRunner {
    pub fn new(launcher: GuardLauncher, output_masking: Option<Arc<dyn OutputMasking>>) -> Self {
        Self { launcher, output_masking, running: Arc::default() }
    }

    /// Runs a program to its end and types the prompt, unless the program's arguments contain it. Dropping the future
    /// ends the program and everything it started.
    pub(crate) async fn run(
        &self,
        job: &ProgramJob,
        prompt: TypedPrompt<'_>,
        (guarded_command, find): (GuardedCommand, Option<FindConversation>),
        traits: &TerminalTraits,
        reports: ReportSink,
    ) -> ProgramEnd {
        match self.run_in_pty(job, prompt, (guarded_command, find), traits, reports).await {
            Ok(end) => end,
            Err(error) => ProgramEnd { error: Some(error), ..ProgramEnd::default() },
        }
    }

    async fn run_in_pty(
        &self,
        job: &ProgramJob,
        prompt: TypedPrompt<'_>,
        (mut guarded_command, find): (GuardedCommand, Option<FindConversation>),
        traits: &TerminalTraits,
        reports: ReportSink,
    ) -> Result<ProgramEnd, String> {
        let search_reports = Arc::clone(&reports);
        let reader = ScreenReader::new(traits)?;
        // If an agent has patterns, they recognize its idle input box, which is not a question.
        let has_patterns = !(traits.asks.is_empty() && traits.ready.is_empty() && traits.busy.is_empty());
        let waits = WaitDetector::new(!prompt.for_agent || !has_patterns);
        guarded_command.input = Input::Terminal;
        guarded_command.env.retain(|(name, _)| !TERMINAL_VARIABLES.iter().any(|ours| name == ours));
        guarded_command.env.extend(TERMINAL.map(|(name, value)| (name.into(), value.into())));
        let no_terminal = |error: io::Error| format!("could not open a terminal: {error}");
        let (terminal, woken) = Terminal::open().map_err(no_terminal)?;
        let program_end = terminal.pty.open_program_end().map_err(no_terminal)?;
        let same = program_end.try_clone().map_err(no_terminal)?;
        let launcher = self.launcher.clone().owned_by(Path::new(&job.dir));
        let guarded = launcher.guard(&guarded_command, program_end, same, None).await;
        let mut guarded = guarded.map_err(|error| format!("the program could not be started: {error}"))?;
        let registration = RunningTerminal::register(&self.running, &job.task, &terminal);
        let limit = traits.ready_limit.unwrap_or(READY_LIMIT);
        let prompt_text = if traits.prompt_in_args { String::new() } else { prompt.text.to_owned() };
        let prompt = PromptTyper::new(&prompt_text, prompt.for_agent, limit, Instant::now());
        let is_over = job.resume.as_ref().is_some_and(|resumed| resumed.turn == TurnProgress::Finished);
        let turn = TurnWatch::new(traits.leave.clone(), prompt.is_some(), is_over);
        let raw = RawOutputFile::new(Path::new(&job.dir).join(RAW_OUTPUT), self.output_masking.as_ref());
        let pty_thread = PtyThread::new(
            terminal.clone(),
            woken,
            (reader, waits, turn),
            (prompt, prompt_text),
            (reports, job.spec.adapter.clone()),
            raw,
        );
        let (sender, final_history) = tokio::sync::oneshot::channel();
        let thread = std::thread::Builder::new().name("terminal".to_owned());
        // The thread ends by itself after `Terminal::end_by` was called: below or, if this future is dropped, by
        // `registration`.
        let started = thread.spawn(move || drop(sender.send(pty_thread.run())));
        started.map_err(|error| format!("could not start the terminal's thread: {error}"))?;
        let search = report_conversation(find, guarded.id(), search_reports);
        let exit = tokio::select! { exit = guarded.exited() => exit, never = search => match never {} };
        let limit = guarded.limit().filter(|limit| limit.is_fatal());
        terminal.end_by(Instant::now() + DRAIN_TIMEOUT);
        let pty_end = final_history.await;
        guarded.finish().await;
        drop(registration);
        let pty_end = pty_end.map_err(|_| "the terminal's thread failed".to_owned())?;
        let (code, signal) = exit.map_err(|error| format!("the program could not be run: {error}"))?;
        let error = match (code, signal) {
            _ if limit.is_some() => limit.map(|limit| format!("it was ended: {limit}")),
            (Some(0), _) if pty_end.is_unasked => Some(UNASKED.to_owned()),
            (Some(0), _) => None,
            (Some(code), _) => Some(format!("it ended with exit code {code}")),
            (None, Some(signal)) => Some(format!("it was ended by signal {signal}")),
            (None, None) => Some("it ended for an unknown reason".to_owned()),
        };
        let hint = error.as_deref().filter(|error| *error == UNASKED).map(|_| UNASKED_HINT.to_owned());
        let output = tail(&pty_end.history, MAX_FINAL_OUTPUT).to_owned();
        Ok(ProgramEnd {
            ok: error.is_none(),
            exit_code: code,
            signal,
            output,
            error,
            hint,
            ..ProgramEnd::default()
        })
    }

    /// Types into a terminal. Returns false, and types nothing, if there is no such terminal, or if too much input is
    /// queued because the program does not read.
    pub fn input(&self, task: &TaskId, bytes: &[u8]) -> bool {
        self.find(task).is_some_and(|terminal| terminal.queue_input(bytes))
    }

    pub fn resize(&self, task: &TaskId, cols: u16, rows: u16) {
        if let Some(terminal) = self.find(task) {
            terminal.resize(TerminalSize::clamped(cols, rows));
        }
    }

    pub fn screen(&self, task: &TaskId) -> Option<Screen> {
        Some(self.find(task)?.model().emulator.snapshot())
    }

    /// The last lines of the transcript, oldest first, including lines that scrolled off the screen; empty if the
    /// program is not running.
    pub fn history(&self, task: &TaskId) -> Vec<String> {
        let lines = |terminal: Arc<Terminal>| {
            let model = terminal.model();
            model.transcript.lines().map(str::to_owned).collect()
        };
        self.find(task).map(lines).unwrap_or_default()
    }

    /// Types the keys of an answer, at the earliest [`ANSWER_DELAY`] after the question was reported. Returns false
    /// if the question is not the current one, was already answered or has no such answer.
    pub fn answer(&self, task: &TaskId, native: &str, option: &str) -> bool {
        self.find(task).is_some_and(|terminal| terminal.answer(native, option))
    }

    fn find(&self, task: &TaskId) -> Option<Arc<Terminal>> {
        lock(&self.running).get(task).cloned()
    }
}

const UNASKED: &str = "it ended before its prompt was typed";
const UNASKED_HINT: &str = "if the program needs no prompt, set `prompt: \"\"`";

/// Variables that describe the user's own terminal and do not apply here.
const TERMINAL_VARIABLES: [&str; 8] =
    ["TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TMUX", "STY", "COLUMNS", "LINES"];
const TERMINAL: [(&str, &str); 2] = [("TERM", "xterm-256color"), ("COLORTERM", "truecolor")];

struct Terminal {
    pty: Pty,
    model: Mutex<TerminalModel>,
    typing: Mutex<VecDeque<u8>>,
    question: Mutex<PendingQuestion>,
    leaving: Mutex<Option<(Instant, String)>>,
    /// When the PTY thread must end; set once the program has ended or the run's future was dropped.
    end_deadline: Mutex<Option<Instant>>,
    /// A byte that is written here wakes the PTY thread.
    wake: OwnedFd,
}

#[derive(Debug, Default)]
struct PendingQuestion {
    question: Option<ProgramQuestion>,
    count: u64,
    reported_at: Option<Instant>,
    answer: Option<(Instant, String)>,
    answered_at: Option<Instant>,
}

impl PendingQuestion {
    /// Whether the answer was typed at least [`ANSWER_TIMEOUT`] ago and the question has not been cleared since.
    fn answer_was_ignored(&self, now: Instant) -> bool {
        self.answered_at.is_some_and(|at| now >= at + ANSWER_TIMEOUT)
    }
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal").field("pty", &self.pty).finish_non_exhaustive()
    }
}

impl Terminal {
    fn open() -> io::Result<(Arc<Self>, OwnedFd)> {
        let (woken, wake) = io::pipe()?;
        rustix::io::ioctl_fionbio(&woken, true)?;
        rustix::io::ioctl_fionbio(&wake, true)?;
        let terminal = Self {
            pty: Pty::open(TerminalSize::DEFAULT)?,
            model: Mutex::new(TerminalModel::new(TerminalSize::DEFAULT)),
            typing: Mutex::default(),
            question: Mutex::default(),
            leaving: Mutex::default(),
            end_deadline: Mutex::default(),
            wake: wake.into(),
        };
        Ok((Arc::new(terminal), woken.into()))
    }

    fn model(&self) -> MutexGuard<'_, TerminalModel> {
        lock(&self.model)
    }

    fn wake(&self) {
        // If the pipe is full, the thread wakes up anyway.
        let _ = rustix::io::write(&self.wake, &[0]);
    }

    /// Queues all of the input, or none of it (returns false) if the queue would become too long.
    fn queue_input(&self, bytes: &[u8]) -> bool {
        let mut typing = lock(&self.typing);
        let fits = typing.len() + bytes.len() <= MAX_PENDING_INPUT;
        if fits && !bytes.is_empty() {
            typing.extend(bytes);
            self.wake();
        }
        fits
    }

    fn write_pending(&self) -> bool {
        let mut typing = lock(&self.typing);
        while !typing.is_empty() {
            let (first, _) = typing.as_slices();
            let taken = self.pty.write(first);
            if taken == 0 {
                break;
            }
            typing.drain(..taken);
        }
        typing.is_empty()
    }

    fn has_pending(&self) -> bool {
        !lock(&self.typing).is_empty()
    }

    fn resize(&self, size: TerminalSize) {
        let mut model = self.model();
        model.resize(size);
        let _ = self.pty.resize(size);
    }

    /// Stores a question and returns its id; `None` if the same question was already reported, unless the program has
    /// ignored an answer to it.
    fn ask(&self, question: &ProgramQuestion, now: Instant) -> Option<String> {
        let mut pending = lock(&self.question);
        let is_pending = pending.question.as_ref().is_some_and(|before| question.is_same(before));
        if is_pending && !pending.answer_was_ignored(now) {
            return None;
        }
        let count = pending.count + 1;
        *pending = PendingQuestion {
            question: Some(question.clone()),
            count,
            reported_at: Some(now),
            ..PendingQuestion::default()
        };
        Some(format!("screen-{count}"))
    }

    fn clear_question(&self) {
        let mut pending = lock(&self.question);
        *pending = PendingQuestion { count: pending.count, ..PendingQuestion::default() };
    }

    fn answer(&self, native: &str, option: &str) -> bool {
        let mut pending = lock(&self.question);
        if native != format!("screen-{}", pending.count)
            || pending.answer.is_some()
            || pending.answered_at.is_some()
        {
            return false;
        }
        let answers = pending.question.iter().flat_map(|question| &question.answers);
        let keys = answers.into_iter().find(|(known, _)| known.id == option).map(|(_, keys)| keys.clone());
        if pending.question.as_ref().is_some_and(|question| question.about == AskKind::YourTurn) {
            let Some(command) = keys else { return false };
            let now = Instant::now();
            *lock(&self.leaving) = Some((now, command));
            pending.answered_at = Some(now + LEAVE_TIMEOUT);
            self.wake();
            return true;
        }
        let due = pending.reported_at.map(|at| at + ANSWER_DELAY);
        pending.answer = due.zip(keys);
        self.wake();
        pending.answer.is_some()
    }

    fn has_due_answer(&self, now: Instant) -> bool {
        lock(&self.question).answer.as_ref().is_some_and(|(due, _)| now >= *due)
    }

    fn delay_answer(&self, now: Instant) {
        if let Some((due, _)) = &mut lock(&self.question).answer {
            *due = now + ANSWER_RETRY_INTERVAL;
        }
    }

    /// Types the answer to `question`. An answer to another question is dropped.
    fn type_due_answer(&self, question: &ProgramQuestion, now: Instant) {
        let mut pending = lock(&self.question);
        let is_same = pending.question.as_ref().is_some_and(|asked| question.is_same(asked));
        if let Some((_, keys)) = pending.answer.take().filter(|_| is_same) {
            pending.answered_at = Some(now);
            self.queue_input(keys.as_bytes());
        }
    }

    /// Types the command that ends the program, and some time later the carriage return. If both came at once, programs
    /// would treat them as pasted text.
    fn type_leaving(&self, now: Instant) {
        let mut leaving = lock(&self.leaving);
        let Some((_, command)) = leaving.take_if(|(due, _)| now >= *due) else { return };
        if command.is_empty() {
            self.queue_input(b"\r");
        } else {
            self.queue_input(command.as_bytes());
            *leaving = Some((now + LEAVE_PAUSE, String::new()));
        }
    }

    fn leaving_due(&self) -> Option<Instant> {
        lock(&self.leaving).as_ref().map(|(due, _)| *due)
    }

    fn answer_due(&self) -> Option<Instant> {
        let pending = lock(&self.question);
        let typed = pending.answer.as_ref().map(|(due, _)| *due);
        typed.or(pending.answered_at.map(|at| at + ANSWER_TIMEOUT))
    }

    fn answer_was_ignored(&self, now: Instant) -> bool {
        lock(&self.question).answer_was_ignored(now)
    }

    fn end_by(&self, deadline: Instant) {
        *lock(&self.end_deadline) = Some(deadline);
        self.wake();
    }

    fn deadline(&self) -> Option<Instant> {
        *lock(&self.end_deadline)
    }

    fn is_over(&self, closed: bool, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| closed || now >= deadline)
    }
}

struct RunningTerminal {
    running: Arc<Mutex<HashMap<TaskId, Arc<Terminal>>>>,
    task: TaskId,
    terminal: Arc<Terminal>,
}

impl RunningTerminal {
    fn register(
        running: &Arc<Mutex<HashMap<TaskId, Arc<Terminal>>>>,
        task: &TaskId,
        terminal: &Arc<Terminal>,
    ) -> Self {
        lock(running).insert(task.clone(), terminal.clone());
        Self { running: running.clone(), task: task.clone(), terminal: terminal.clone() }
    }
}

impl Drop for RunningTerminal {
    fn drop(&mut self) {
        self.terminal.end_by(Instant::now());
        let mut running = lock(&self.running);
        if running.get(&self.task).is_some_and(|terminal| Arc::ptr_eq(terminal, &self.terminal)) {
            running.remove(&self.task);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tail(text: &str, most: usize) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(most));
    text.get(from..).unwrap_or_default()
}
