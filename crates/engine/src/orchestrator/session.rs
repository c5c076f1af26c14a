//! The thread that owns a session's state: it turns inputs into facts, makes the facts durable, and then publishes
//! them. If the disk is full (ENOSPC, quota used up), the session waits and retries, at most for
//! `journal_retry_timeout`.

use super::cost_limit::Costs;
use super::effects::{EffectId, Effects};
use super::envs::AgentEnvCache;
use super::feed::Feed;
use super::result_files::new_decider;
use super::timers::Timers;
use super::{Input, SessionDeps, SessionEnd};
use crate::decider::{Consequence, Decider, EffectKey, ProgramAnswer};
use althing_protocol::{
    Briefing, Decision, Event, Fact, InteractionId, Item, JournalError, Notice, NoticeLevel, Op, OpId,
    Origin, ProgramReport, Progress, RunSpec, Seq, SessionOpened, Submission, TaskId, TaskSpec,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// The maximum number of inputs in a batch after the first, so that a flood of inputs cannot delay the write forever.
const BATCH: usize = 512;
/// The longest time between two attempts to write to an unavailable journal; an input causes an earlier attempt.
pub(super) const DISK_RETRY: Duration = Duration::from_millis(250);

pub(super) struct Session {
    pub(super) deps: SessionDeps,
    pub(super) feed: Feed,
    pub(super) effects: Effects,
    pub(super) timers: Timers,
    pub(super) envs: AgentEnvCache,
    /// The conversation or the workflow, and any number of runs.
    pub(super) deciders: BTreeMap<TaskId, Box<dyn Decider>>,
    /// The number of runs so far, including subagent runs.
    runs: u32,
    /// The tasks whose result files were written, or cannot be written. They are not written again, except those of a
    /// workflow after a retry of one of its tasks.
    pub(super) files_written: BTreeSet<TaskId>,
    /// The session has given up waiting until result files can be written, and does not wait again.
    pub(super) gave_up_files: bool,
    pub(super) briefings: BTreeMap<TaskId, Briefing>,
    parents: BTreeMap<TaskId, TaskId>,
    next_seq: Seq,
    /// Facts that are recorded but not durable yet: they are not published and have no effects.
    pending: Vec<Arc<Event>>,
    /// The open questions, with the numbers of the facts that opened them.
    questions: BTreeMap<InteractionId, Seq>,
    /// Answers that are sent to programs once the corresponding facts are durable.
    pub(super) program_answers: Vec<ProgramAnswer>,
    /// What the session has spent, and what the running calls cost at least.
    pub(super) costs: Costs,
    /// The ids of the accepted ops, for deduplication.
    accepted_ids: BTreeSet<OpId>,
    current_id: Option<OpId>,
    opening: Option<SessionOpened>,
    opened_for: Option<Op>,
    pub(super) closed: bool,
    pub(super) halting: bool,
}

impl Session {
    pub(super) fn new(
        deps: SessionDeps,
        opening: Option<SessionOpened>,
        feed: Feed,
        inbox: Sender<Input>,
    ) -> Self {
        let (mask, clock) = (deps.mask.clone(), deps.clock.clone());
        let effects = Effects::new(deps.runtime.clone(), feed.clone(), inbox, mask, clock);
        let mut session = Self {
            next_seq: Seq(1),
            deps,
            feed,
            effects,
            timers: Timers::default(),
            envs: AgentEnvCache::default(),
            deciders: BTreeMap::new(),
            runs: 0,
            files_written: BTreeSet::new(),
            gave_up_files: false,
            briefings: BTreeMap::new(),
            parents: BTreeMap::new(),
            pending: Vec::new(),
            questions: BTreeMap::new(),
            program_answers: Vec::new(),
            costs: Costs::default(),
            accepted_ids: BTreeSet::new(),
            current_id: None,
            opening,
            opened_for: None,
            closed: false,
            halting: false,
        };
        for event in std::mem::take(&mut session.deps.history) {
            session.fold(&event);
        }
        session
    }

    pub(super) fn run(mut self, inbox: &Receiver<Input>) -> SessionEnd {
        if let Some(opening) = self.opening.take() {
            let op = opening.op.clone();
            self.record(None, None, Fact::SessionOpened(Box::new(opening)));
            self.begin(op);
        }
        // On a resume, the files of all ended tasks are written again: the earlier process may have been killed before
        // it wrote them. After a failure that may pass, the first commit tries again.
        drop(self.write_result_files());
        loop {
            if self.pending.is_empty() && !self.wait_for_input(inbox) {
                self.halt();
            }
            // As long as effects have not ended, notices about them may still arrive; then `stop` records the end of
            // the session.
            if self.is_over() && !self.closed && self.effects.is_idle() {
                self.record(None, None, Fact::SessionClosed {});
            }
            if let Err(error) = self.commit_or_wait_for_disk(inbox) {
                self.feed.close();
                return SessionEnd::Disk(error);
            }
            self.reconcile();
            if self.halting || self.is_over() {
                return self.stop(inbox);
            }
        }
    }

    /// Makes the session stop, so that it can be resumed.
    pub(super) fn halt(&mut self) {
        self.halting = true;
        self.record(None, None, Fact::accepted(Op::Shutdown, Origin::System));
        self.settle();
    }

    /// Whether the session is done: there is a task without a parent, and all such tasks have ended.
    pub(super) fn is_over(&self) -> bool {
        let mut top = self.deciders.iter().filter(|(task, _)| self.is_root_task(task)).peekable();
        top.peek().is_some() && top.all(|(_, decider)| decider.is_over())
    }

    pub(super) fn is_root_task(&self, task: &TaskId) -> bool {
        !self.parents.contains_key(task)
    }

    fn begin(&mut self, op: Option<Op>) {
        if let Some(op) = op {
            self.accept(op, Origin::User);
            self.settle();
        }
    }

    /// Waits for input or a timer, and records it. False if no sender of the inbox exists any more.
    fn wait_for_input(&mut self, inbox: &Receiver<Input>) -> bool {
        let first = match self.timers.next_in(self.deps.clock.now()) {
            Some(wait) => inbox.recv_timeout(wait),
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match first {
            Ok(input) => self.handle_input(input),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        for input in inbox.try_iter().take(BATCH) {
            self.handle_input(input);
        }
        for (task, timer) in self.timers.take_due(self.deps.clock.now()) {
            if !self.counts(&task, &timer) {
                continue;
            }
            // The timer of a workflow's task is recorded on that task.
            let task = match &timer {
                althing_protocol::Timer::Task { task, .. } => task.clone(),
                _ => task,
            };
            self.record(Some(task), None, Fact::TimerFired(timer));
        }
        // Replies that arrived together must be judged by what their agents knew, so all inputs are recorded before
        // settling.
        self.settle();
        true
    }

    fn handle_input(&mut self, input: Input) {
        match input {
            Input::Op(submission) => self.handle_submission(submission),
            // The outcome of an aborted effect is ignored.
            Input::EffectEnded { id, outcome } if self.effects.remove(&id) => {
                self.record_outcome(&id, outcome)
            }
            Input::ProgramReported { id, report: ProgramReport::Notice(notice) }
            | Input::Noticed { id, notice } => self.record_notice(&id, notice),
            Input::ProgramReported { id, report } if self.effects.is_running(&id) => {
                self.record_report(&id, report)
            }
            Input::EffectGone { serial } => self.effects.gone(serial),
            Input::EffectEnded { .. } | Input::ProgramReported { .. } => {}
        }
    }

    /// A notice about an effect is true even if the effect was aborted.
    pub(super) fn record_notice(&mut self, id: &EffectId, notice: Notice) {
        if let Some(decider) = self.deciders.get(&id.owner) {
            let task = decider.task_of(&id.key);
            self.record(Some(task), None, Fact::Notice(notice));
        }
    }

    fn record_report(&mut self, id: &EffectId, report: ProgramReport) {
        let EffectKey::Program(program) = &id.key else { return };
        let facts = match report {
            ProgramReport::Item(item) => {
                vec![(program.task.clone(), Fact::ItemAdded { attempt: program.attempt, item })]
            }
            report => {
                let decider = self.deciders.get(&id.owner);
                decider.map(|decider| decider.program_reported(program, report)).unwrap_or_default()
            }
        };
        self.record_all(facts, None);
    }

    /// An op with the id of an op that was accepted before is ignored.
    fn handle_submission(&mut self, Submission { op, by, id }: Submission) {
        if id.as_ref().is_some_and(|id| self.accepted_ids.contains(id)) {
            return;
        }
        if let Some(place) = self.deps.mask.secret_place(&op) {
            return self.refuse(&format!("{place} contains a secret, which would be masked"));
        }
        // An op that starts a task is recorded by its `TaskCreated`; an `OpAccepted` is needed only to record its id.
        let starts = matches!(op, Op::StartRun { .. } | Op::StartWorkflow { .. } | Op::StartChat { .. });
        if starts && id.is_some() {
            self.record(None, None, Fact::OpAccepted { op: op.clone(), by, id: id.clone() });
        }
        self.current_id = id;
        self.accept(op, by);
        self.current_id = None;
    }

    fn accepted(&self, op: Op, by: Origin) -> Fact {
        Fact::OpAccepted { op, by, id: self.current_id.clone() }
    }

    fn accept(&mut self, op: Op, by: Origin) {
        match op {
            Op::StartRun { spec } => self.start_run(*spec),
            Op::StartWorkflow { spec } if !self.deciders.contains_key(&TaskId::workflow()) => {
                let id = TaskId::workflow();
                let spec = TaskSpec::Workflow(spec);
                self.record(Some(id.clone()), None, Fact::TaskCreated { id, parent: None, spec });
            }
            Op::StartChat { spec } if !self.deciders.contains_key(&TaskId::chat()) => {
                let id = TaskId::chat();
                let spec = TaskSpec::Chat(spec);
                self.record(Some(id.clone()), None, Fact::TaskCreated { id, parent: None, spec });
            }
            Op::SendMessage { .. }
            | Op::Unqueue { .. }
            | Op::Pin { .. }
            | Op::Compact
            | Op::StopReply
            | Op::SetModes { .. }
                if self.deciders.contains_key(&TaskId::chat()) =>
            {
                match self.deciders.get(&TaskId::chat()).and_then(|chat| chat.refusal_of(&op)) {
                    Some(why) => self.refuse(&why),
                    None => {
                        self.record(Some(TaskId::chat()), None, self.accepted(op, by));
                    }
                }
            }
            Op::Answer { interaction, decision } => self.answer(&interaction, &decision, by),
            Op::Cancel { .. } => {
                self.record(None, None, self.accepted(op, by));
            }
            Op::Retry { .. } => {
                let workflow = self.deciders.get(&TaskId::workflow());
                let refusal =
                    workflow.map_or(Some("this session has no workflow".to_owned()), |it| it.refusal_of(&op));
                match refusal {
                    Some(why) => self.refuse(&why),
                    None => {
                        self.record(None, None, self.accepted(op, by));
                    }
                }
            }
            // The override window may have closed just before.
            Op::PauseCountdown { ref interaction, .. } => {
                if self.questions.contains_key(interaction) {
                    self.record(None, None, self.accepted(op, by));
                }
            }
            Op::Resume => {
                self.record(None, None, self.accepted(op, by));
                // A crash may have happened after the session was opened and before its op was executed.
                if self.deciders.is_empty() {
                    let op = self.opened_for.clone();
                    self.begin(op);
                }
            }
            Op::Shutdown => {
                self.halting = true;
                self.record(None, None, self.accepted(op, by));
            }
            // Terminal input is never recorded, because keystrokes may contain passwords.
            Op::Input { task, bytes } => {
                let programs = self.deps.programs.as_ref();
                if !programs.is_some_and(|programs| programs.input(&task, &bytes)) {
                    self.refuse(&format!("{task} has no terminal that accepts input now"));
                }
            }
            Op::Resize { task, cols, rows } => {
                if let Some(programs) = &self.deps.programs {
                    programs.resize(&task, cols, rows);
                }
            }
            Op::StartWorkflow { .. } => self.refuse("this session already has a workflow"),
            Op::StartChat { .. } => self.refuse("this session is already a conversation"),
            Op::SendMessage { .. }
            | Op::Unqueue { .. }
            | Op::Pin { .. }
            | Op::Compact
            | Op::StopReply
            | Op::SetModes { .. } => self.refuse("this session is not a conversation"),
        }
    }

    fn refuse(&mut self, why: &str) {
        self.refuse_because_of(None, why);
    }

    /// `cause` is the fact that the op refers to. If an answer is rejected, this is the fact that opened the question,
    /// which stays open.
    fn refuse_because_of(&mut self, cause: Option<Seq>, why: &str) {
        let text = format!("rejected: {why}");
        self.record(None, cause, Fact::Notice(Notice { level: NoticeLevel::Warning, text, hint: None }));
    }

    /// The run's `TaskCreated` contains the whole op, so no `OpAccepted` is needed.
    fn start_run(&mut self, spec: RunSpec) {
        let id = TaskId::run(self.runs + 1);
        let spec = TaskSpec::Run(Box::new(spec));
        self.record(Some(id.clone()), None, Fact::TaskCreated { id, parent: None, spec });
    }

    fn answer(&mut self, interaction: &InteractionId, decision: &Decision, by: Origin) {
        let verdict =
            self.deciders.values().find_map(|decider| decider.answer_question(interaction, decision));
        let verdict = verdict.unwrap_or_else(|| Err(format!("the interaction {interaction} is not open")));
        match verdict {
            Ok((facts, program_answer)) => {
                let op = Op::Answer { interaction: interaction.clone(), decision: decision.clone() };
                let cause = self.record(None, None, self.accepted(op, by));
                self.record_all(facts, Some(cause));
                self.program_answers.extend(program_answer);
            }
            Err(why) => self.refuse_because_of(self.questions.get(interaction).copied(), &why),
        }
    }

    /// The fact becomes durable and is published with the next commit.
    pub(super) fn record(&mut self, task: Option<TaskId>, cause: Option<Seq>, fact: Fact) -> Seq {
        let (seq, at) = (self.next_seq, self.deps.clock.now());
        let event = Arc::new(self.deps.mask.event(Event { seq, at, task, cause, fact }));
        self.fold(&event);
        self.pending.push(event);
        seq
    }

    fn record_all(&mut self, facts: Vec<Consequence>, cause: Option<Seq>) {
        for (task, fact) in facts {
            self.record(Some(task), cause, fact);
        }
    }

    fn fold(&mut self, event: &Event) {
        self.next_seq = event.seq.next();
        self.costs.count(&event.fact);
        match &event.fact {
            Fact::TaskCreated { id, parent, spec } => {
                if let Some(parent) = parent {
                    self.parents.insert(id.clone(), parent.clone());
                }
                self.create(id, spec);
            }
            Fact::SessionOpened(opened) => self.opened_for.clone_from(&opened.op),
            Fact::OpAccepted { op, id, .. } => {
                if matches!(op, Op::Retry { .. }) {
                    self.closed = false;
                    self.files_written.remove(&TaskId::workflow());
                }
                self.accepted_ids.extend(id.clone());
            }
            Fact::SessionClosed {} => self.closed = true,
            Fact::ItemAdded { item: Item::Briefed(briefing), .. } => {
                if let Some(task) = &event.task {
                    self.briefings.insert(task.clone(), briefing.clone());
                }
            }
            Fact::InteractionOpened(interaction) => {
                self.questions.insert(interaction.id.clone(), event.seq);
            }
            Fact::InteractionClosed { id, .. } => {
                self.questions.remove(id);
            }
            _ => {}
        }
        for decider in self.deciders.values_mut() {
            decider.apply(event);
        }
    }

    fn create(&mut self, id: &TaskId, spec: &TaskSpec) {
        if matches!(spec, TaskSpec::Run(_)) {
            self.runs += 1;
        }
        if let Some(decider) = new_decider(&self.deps.session, id, spec, &*self.deps.task_dir) {
            self.deciders.insert(id.clone(), decider);
        }
    }

    pub(super) fn settle(&mut self) {
        loop {
            // In reverse order of task ids, so that a child task is settled before the parent that waits for it.
            let facts: Vec<_> =
                self.deciders.values().rev().flat_map(|decider| decider.consequences()).collect();
            if facts.is_empty() {
                return;
            }
            let cause = self.pending.last().map(|event| event.seq);
            self.record_all(facts, cause);
        }
    }

    /// Waits for an input for at most [`DISK_RETRY`]. A shutdown is recorded at once; any other input is added to
    /// `late`.
    pub(super) fn wait_for_disk(
        &mut self,
        error: JournalError,
        inbox: &Receiver<Input>,
        late: &mut Vec<Input>,
    ) {
        let (reason, hint) = (error.message, error.hint);
        self.feed.publish_progress(|after| Progress::Stalled { after, reason, hint });
        match inbox.recv_timeout(DISK_RETRY) {
            Ok(Input::Op(Submission { op: Op::Shutdown, by, .. })) => {
                self.halting = true;
                self.record(None, None, Fact::accepted(Op::Shutdown, by));
            }
            Ok(input) => late.push(input),
            Err(_) => {}
        }
    }

    /// Makes the recorded facts durable, then publishes them. After a failure that may pass (disk full), it retries
    /// until `journal_retry_timeout` is over or the session must stop; until then no fact is published and no effect
    /// starts.
    pub(super) fn commit_or_wait_for_disk(&mut self, inbox: &Receiver<Input>) -> Result<(), JournalError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.report_costs();
        let began = self.deps.clock.now();
        let mut late = Vec::new();
        while let Err(error) = self.deps.journal.append(&self.pending) {
            let waited = self.deps.clock.now().since(began).duration();
            if !error.is_retryable() || waited >= self.deps.journal_retry_timeout || self.halting {
                return Err(error);
            }
            self.wait_for_disk(error, inbox, &mut late);
        }
        let written = std::mem::take(&mut self.pending);
        // A subscriber that sees a result may read its files, so they are written before publishing.
        self.write_result_files_or_wait(inbox, &mut late);
        if let Some(observer) = &mut self.deps.observer {
            for event in &written {
                observer(event);
            }
        }
        self.feed.publish(&written);
        for input in late {
            self.handle_input(input);
        }
        self.settle();
        if self.pending.is_empty() { Ok(()) } else { self.commit_or_wait_for_disk(inbox) }
    }
}
