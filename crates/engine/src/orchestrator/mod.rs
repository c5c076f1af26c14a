//! The supervisor: the only impure part of the engine.
//!
//! One thread owns a session. It takes ops and doers' reports, turns them into facts, lets the deciders say what
//! follows, writes everything to the journal in one batch, publishes it, and only then starts or stops doers. So
//! nothing is shown or begun that a crash could make unsaid, and everything that arrives while the disk is busy goes
//! into the next batch.

mod doers;
mod feed;
mod passing;
mod places;
mod timers;

use crate::coordination::Coordination;
use althing_protocol::{
    AgentId, AttemptOutcome, Backend, BackendError, Clock, Decision, Event, Fact, InteractionId, Item,
    Journal, JournalError, JournalReader, Notice, NoticeLevel, Op, Origin, Progress, RunEnd, RunResult,
    RunSpec, Seq, SessionId, SessionOpened, TaskId, TaskSpec, Workplaces,
};
use doers::{Call, DoerKey, Doers, Done, Job};
pub use feed::{Feed, Interest, Subscription};
use places::Places;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use timers::Timers;

/// How many inputs go into one batch at most, so that a flood cannot keep the batch from being written.
const BATCH: usize = 512;
/// How often a full disk is tried again.
const DISK_RETRY: Duration = Duration::from_millis(250);

/// The agents' backends, by agent.
pub type Backends = HashMap<AgentId, Arc<dyn Backend>>;
/// Takes secrets out of what is written or shown.
pub trait Mask: Send + Sync {
    /// An event without them.
    fn event(&self, event: Event) -> Event;

    /// A text without them.
    fn text(&self, text: &str) -> String;

    /// How many bytes at the end of a text may be the beginning of one.
    fn unfinished(&self, text: &str) -> usize;
}

/// Everything a session needs from outside.
pub struct Parts {
    /// Which session.
    pub session: SessionId,
    /// Its log, for writing.
    pub journal: Box<dyn Journal>,
    /// Its log, for reading.
    pub reader: Arc<dyn JournalReader>,
    /// What the log holds already; empty for a new session.
    pub history: Vec<Arc<Event>>,
    /// The agents' backends.
    pub backends: Backends,
    /// Where agents with hands work; None where nobody has any.
    pub workplaces: Option<Arc<dyn Workplaces>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Takes out secrets.
    pub mask: Arc<dyn Mask>,
    /// Where a task's files are, as its result names it.
    pub task_dir: Box<dyn Fn(&TaskId) -> String + Send>,
    /// Where doers run.
    pub runtime: tokio::runtime::Handle,
    /// How long a disk that takes nothing is waited for before the session stops.
    pub disk_patience: Duration,
}

/// Why a session's thread ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Stopped {
    /// Its run is over.
    Finished,
    /// It was asked to stop; it can be resumed. With it, what its runs had so far.
    Halted(Vec<RunResult>),
    /// The disk took nothing more; what was shown is safe.
    Disk(JournalError),
}

/// The session's thread is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended")]
pub struct SubmitError;

pub(crate) enum Input {
    Op(Op, Origin),
    Done { key: DoerKey, done: Done },
}

/// A session under supervision: the handle that front ends hold.
pub struct Orchestrator {
    inbox: Sender<Input>,
    feed: Feed,
    thread: JoinHandle<Stopped>,
}

/// A cheap handle that only submits ops.
#[derive(Clone)]
pub struct Submitter(Sender<Input>);

impl Submitter {
    /// Asks for something; the answer comes as events.
    pub fn submit(&self, op: Op, by: Origin) -> Result<(), SubmitError> {
        self.0.send(Input::Op(op, by)).map_err(|_| SubmitError)
    }
}

impl Orchestrator {
    /// Takes over a session: a new one with its opening, or one with a history.
    pub fn open(parts: Parts, opening: Option<SessionOpened>) -> std::io::Result<Self> {
        let (inbox, received) = mpsc::channel();
        let last = parts.history.last().map_or(Seq(0), |event| event.seq);
        let feed = Feed::new(parts.reader.clone(), last);
        let session = Session::new(parts, opening, feed.clone(), inbox.clone());
        let thread =
            std::thread::Builder::new().name("session".into()).spawn(move || session.run(&received))?;
        Ok(Self { inbox, feed, thread })
    }

    /// A handle that submits ops.
    pub fn submitter(&self) -> Submitter {
        Submitter(self.inbox.clone())
    }

    /// The stream of events.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Waits for the session's end.
    pub fn join(self) -> std::thread::Result<Stopped> {
        drop(self.inbox);
        self.thread.join()
    }
}

/// The owner of a session's state.
struct Session {
    parts: Parts,
    feed: Feed,
    doers: Doers,
    timers: Timers,
    places: Places,
    runs: BTreeMap<TaskId, Coordination>,
    next_seq: Seq,
    /// Recorded but not yet durable, hence not yet shown and not yet acted on.
    pending: Vec<Arc<Event>>,
    opening: Option<SessionOpened>,
    /// What the session was opened to do.
    opened_for: Option<Op>,
    closed: bool,
    halting: bool,
}

impl Session {
    fn new(parts: Parts, opening: Option<SessionOpened>, feed: Feed, inbox: Sender<Input>) -> Self {
        let doers = Doers::new(parts.runtime.clone(), feed.clone(), inbox, parts.mask.clone());
        let mut session = Self {
            next_seq: Seq(1),
            parts,
            feed,
            doers,
            timers: Timers::default(),
            places: Places::default(),
            runs: BTreeMap::new(),
            pending: Vec::new(),
            opening,
            opened_for: None,
            closed: false,
            halting: false,
        };
        for event in std::mem::take(&mut session.parts.history) {
            session.fold(&event);
        }
        session
    }

    fn run(mut self, inbox: &Receiver<Input>) -> Stopped {
        if let Some(opening) = self.opening.take() {
            let op = opening.op.clone();
            self.record(None, None, Fact::SessionOpened(Box::new(opening)));
            self.begin(op);
        }
        loop {
            if self.pending.is_empty() && !self.wait_and_take(inbox) {
                self.halting = true;
                self.record(None, None, Fact::OpAccepted { op: Op::Shutdown, by: Origin::System });
                self.settle();
            }
            if self.is_over() && !self.closed {
                self.record(None, None, Fact::SessionClosed {});
            }
            if let Err(error) = self.commit(inbox) {
                self.feed.close();
                return Stopped::Disk(error);
            }
            self.reconcile();
            if self.halting || self.is_over() {
                return self.stop(inbox);
            }
        }
    }

    /// Whether everything that was asked for is done.
    fn is_over(&self) -> bool {
        !self.runs.is_empty() && self.runs.values().all(|run| run.result().is_some())
    }

    /// Does what the session was opened to do.
    fn begin(&mut self, op: Option<Op>) {
        if let Some(op) = op {
            self.accept(op, Origin::User);
            self.settle();
        }
    }

    /// Waits for something to happen and turns it into facts. False when everyone who could ask is gone.
    fn wait_and_take(&mut self, inbox: &Receiver<Input>) -> bool {
        // A resumed run may be over already but for its closing words.
        let first = match self.timers.next_in(self.parts.clock.now()) {
            Some(wait) => inbox.recv_timeout(wait),
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match first {
            Ok(input) => self.take(input),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        for input in inbox.try_iter().take(BATCH) {
            self.take(input);
        }
        for (task, timer) in self.timers.take_due(self.parts.clock.now()) {
            self.record(Some(task), None, Fact::TimerFired(timer));
        }
        // Only now: replies that came together are judged together, each by what its agent knew.
        self.settle();
        true
    }

    /// Records what an input says; what follows from it is settled later.
    fn take(&mut self, input: Input) {
        match input {
            Input::Op(op, by) => self.accept(op, by),
            Input::Done { key, done } => {
                // What was not wanted any more may still have ended before it was stopped: too late.
                if !self.doers.finished(&key) {
                    return;
                }
                let (seat, attempt) = match &key.job {
                    Job::Call(call) => (call.seat, call.attempt),
                    Job::Chore(chore) => (chore.seat, chore.attempt),
                };
                let Some(work) = self.runs.get(&key.run).map(|run| run.work(seat)) else { return };
                let fact = match done {
                    Done::Replied(Ok(reply)) => Fact::ItemAdded { attempt, item: Item::Reply(reply) },
                    Done::Replied(Err(BackendError { message: error, hint, usage, .. })) => {
                        Fact::AttemptEnded { attempt, outcome: AttemptOutcome::Failed { error, hint }, usage }
                    }
                    Done::Added(item) => Fact::ItemAdded { attempt, item },
                };
                self.record(Some(work), None, fact);
            }
        }
    }

    fn accept(&mut self, op: Op, by: Origin) {
        match op {
            Op::StartRun { spec } => self.start_run(*spec),
            Op::Answer { interaction, decision } => self.answer(&interaction, &decision, by),
            Op::Cancel { .. } => {
                self.record(None, None, Fact::OpAccepted { op, by });
            }
            Op::Resume => {
                self.record(None, None, Fact::OpAccepted { op, by });
                // A crash may have come between the session's opening and what it was opened for.
                if self.runs.is_empty() {
                    let op = self.opened_for.clone();
                    self.begin(op);
                }
            }
            Op::Shutdown => {
                self.halting = true;
                self.record(None, None, Fact::OpAccepted { op, by });
            }
            _ => {}
        }
    }

    /// A run's `TaskCreated` is its acceptance: it holds everything the op did.
    fn start_run(&mut self, spec: RunSpec) {
        let id = TaskId::run(self.runs.len() as u32 + 1);
        let spec = TaskSpec::Run(Box::new(spec));
        self.record(Some(id.clone()), None, Fact::TaskCreated { id, parent: None, spec });
    }

    fn answer(&mut self, interaction: &InteractionId, decision: &Decision, by: Origin) {
        let run = self.runs.values().find(|run| interaction.as_str().starts_with(&format!("{}.", run.task)));
        let verdict = run.map_or_else(
            || Err(format!("the interaction {interaction} is not open")),
            |run| run.answer_override(interaction, decision),
        );
        match verdict {
            Ok(facts) => {
                let op = Op::Answer { interaction: interaction.clone(), decision: decision.clone() };
                let cause = self.record(None, None, Fact::OpAccepted { op, by });
                for (task, fact) in facts {
                    self.record(Some(task), Some(cause), fact);
                }
            }
            Err(text) => {
                let notice =
                    Notice { level: NoticeLevel::Warning, text: format!("not taken: {text}"), hint: None };
                self.record(None, None, Fact::Notice(notice));
            }
        }
    }

    /// Gives a fact its number and time, and folds it. It becomes durable, and shown, with the next commit.
    fn record(&mut self, task: Option<TaskId>, cause: Option<Seq>, fact: Fact) -> Seq {
        let (seq, at) = (self.next_seq, self.parts.clock.now());
        let event = Arc::new(self.parts.mask.event(Event { seq, at, task, cause, fact }));
        self.fold(&event);
        self.pending.push(event);
        seq
    }

    fn fold(&mut self, event: &Event) {
        self.next_seq = event.seq.next();
        if let Fact::TaskCreated { id, spec: TaskSpec::Run(spec), .. } = &event.fact {
            let log_dir = (self.parts.task_dir)(id);
            let run = Coordination::new(self.parts.session.clone(), id.clone(), (**spec).clone(), log_dir);
            self.runs.insert(id.clone(), run);
        }
        match &event.fact {
            Fact::SessionOpened(opened) => self.opened_for.clone_from(&opened.op),
            Fact::SessionClosed {} => self.closed = true,
            _ => {}
        }
        for run in self.runs.values_mut() {
            run.apply(event);
        }
    }

    /// Records what follows from what was recorded, until nothing does.
    fn settle(&mut self) {
        loop {
            let facts: Vec<_> = self.runs.values().flat_map(Coordination::consequences).collect();
            if facts.is_empty() {
                return;
            }
            let cause = self.pending.last().map(|event| event.seq);
            for (task, fact) in facts {
                self.record(Some(task), cause, fact);
            }
        }
    }

    /// Makes everything recorded durable, then shows it. While the disk takes nothing, nothing is shown or begun.
    fn commit(&mut self, inbox: &Receiver<Input>) -> Result<(), JournalError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let began = self.parts.clock.now();
        let mut late = Vec::new();
        while let Err(error) = self.parts.journal.append(&self.pending) {
            let waited = self.parts.clock.now().since(began).duration();
            if !error.retryable || waited >= self.parts.disk_patience || self.halting {
                return Err(error);
            }
            let (reason, hint) = (error.message, error.hint);
            self.feed.pass(|after| Progress::Stalled { after, reason, hint });
            match inbox.recv_timeout(DISK_RETRY) {
                Ok(Input::Op(Op::Shutdown, by)) => {
                    self.halting = true;
                    self.record(None, None, Fact::OpAccepted { op: Op::Shutdown, by });
                }
                Ok(input) => late.push(input),
                Err(_) => {}
            }
        }
        self.feed.publish(&std::mem::take(&mut self.pending));
        for input in late {
            self.take(input);
        }
        self.settle();
        if self.pending.is_empty() { Ok(()) } else { self.commit(inbox) }
    }

    /// Starts and stops doers and deadlines, so that what is under way is what is wanted.
    fn reconcile(&mut self) {
        let now = self.parts.clock.now();
        for (id, run) in &self.runs {
            let wanted = run.wanted();
            self.timers.want(id, wanted.timers, now);
            let calls = wanted.calls.into_iter().map(Job::Call);
            let jobs: Vec<Job> = calls.chain(wanted.chores.into_iter().map(Job::Chore)).collect();
            self.doers.keep_only(id, &jobs);
            for job in jobs {
                let key = DoerKey { run: id.clone(), job };
                if self.doers.has(&key) {
                    continue;
                }
                match key.job.clone() {
                    Job::Call(call) => {
                        let Some(request) = run.request(call.seat) else { continue };
                        let way = self.places.way(&self.parts, run, call.seat);
                        let place = way.map(|way| (way, Places::sight(run, call.seat)));
                        let backend =
                            run.agent(call.seat).and_then(|agent| self.parts.backends.get(agent)).cloned();
                        self.doers.call(key, Call { work: run.work(call.seat), request, backend, place });
                    }
                    Job::Chore(chore) => {
                        let way = self.places.way(&self.parts, run, chore.seat);
                        self.doers.chore(key, chore.kind, run.access(chore.seat), way);
                    }
                }
            }
        }
    }

    /// The last words of a session.
    fn stop(mut self, inbox: &Receiver<Input>) -> Stopped {
        self.doers.stop_all();
        if self.halting && self.runs.values().any(|run| run.result().is_none()) {
            self.feed.close();
            return Stopped::Halted(
                self.runs.values().map(|run| run.result_as_of_now(RunEnd::Cancelled)).collect(),
            );
        }
        let kept: Vec<Result<(), JournalError>> =
            self.runs.values().map(|run| keep_files(&mut *self.parts.journal, run)).collect();
        for error in kept.into_iter().filter_map(Result::err) {
            let text = format!("the run's files could not be written: {error}");
            self.record(
                None,
                None,
                Fact::Notice(Notice { level: NoticeLevel::Warning, text, hint: error.hint }),
            );
        }
        let written = self.commit(inbox);
        self.feed.close();
        match written {
            Ok(()) => Stopped::Finished,
            Err(error) => Stopped::Disk(error),
        }
    }
}

/// Puts a run's answers and result beside the log, for people; the log stays the truth.
fn keep_files(journal: &mut dyn Journal, run: &Coordination) -> Result<(), JournalError> {
    let Some(result) = run.result() else { return Ok(()) };
    // One file for all of them: hundreds of agents must not mean hundreds of files.
    let mut answers = String::new();
    for answer in run.answers() {
        let _ = write!(answers, "# {} ({})\n\n{}\n\n", answer.label, answer.agent, answer.content);
    }
    journal.keep(&run.task, "answers.md", &answers)?;
    if let Some(answer) = &result.final_answer {
        journal.keep(&run.task, "final_answer.md", answer)?;
    }
    let json = serde_json::to_string_pretty(result).unwrap_or_default();
    journal.keep(&run.task, "result.json", &json)
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
