//! The decider of a run (coordination of its agents): folds facts into a state and derives what follows. Pure: no
//! clock, no I/O, no randomness, no `async`.

mod agent_limits;
mod answer_checks;
mod countdown;
mod decide;
mod execution;
mod interpret_reply;
mod novelty;
mod outcome;
mod plan;
mod restart;
mod rules;
mod state;
mod stragglers;
mod subagents;
mod tally;
mod turns;
mod wanted_effects;

use crate::decider::{CallKey, Consequence, SideTask, SideTaskKind, WantedEffects};
use althing_protocol::{
    AgentId, Answer, AnswerLabel, AttemptOutcome, BackendErrorKind, ContextAccess, Decision, Event, Fact,
    Interaction, Item, Millis, Op, Phase, Purpose, Restart, Revision, RunResult, RunSpec, SessionId, TaskId,
    TaskStatus, Timer, Timestamp, Usage, Verdict,
};
use execution::Execution;
pub(crate) use restart::RejectedAnswer;
pub(crate) use state::{AttemptTurn, ContextState, MemberAttempt, MemberState, RunState};
use state::{Evaluation, PostVoteState, Presentation};
use std::sync::Arc;

/// The decider of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Coordination {
    pub(crate) task: TaskId,
    parent: Option<TaskId>,
    pub(crate) session: SessionId,
    /// The directory of the run's result files.
    log_dir: String,
    pub(crate) state: RunState,
    pub(crate) phase: Phase,
    /// The question of the override window, while the window is open.
    interaction: Option<Interaction>,
    countdown: Option<countdown::Countdown>,
    /// Whether the override window has expired or was closed. A restart resets this.
    window_over: bool,
    status: TaskStatus,
    /// The time from the first fact to the newest, without downtime before a resume and without the override window.
    active: Millis,
    began: Option<Timestamp>,
    last_at: Option<Timestamp>,
}

impl Coordination {
    /// Creates the decider from the data of the run's `TaskCreated`.
    pub fn new(session: SessionId, task: TaskId, spec: RunSpec, log_dir: String) -> Self {
        let plan = spec.plan.as_ref().map(|plan| plan.progress.clone()).unwrap_or_default();
        let member = |agent| MemberState { plan: plan.clone(), ..MemberState::new(agent) };
        let members = spec.members.iter().cloned().map(member).collect();
        let state = RunState {
            spec: Arc::new(spec),
            members,
            answers: Vec::new(),
            usage: Usage::default(),
            writes: Vec::new(),
            is_unchanged: true,
            post_vote: PostVoteState::default(),
            restarts: 0,
            previous: None,
            discarded: Revision(0),
            subagents: Vec::new(),
            plan,
            waits: 0,
            early: Revision(0),
            timed_out: false,
            refused_call: None,
            cancelled: false,
            halted: false,
            result: None,
            execution: Execution::Due,
            stored_plan: None,
            plan_opened: false,
        };
        Self {
            task,
            parent: None,
            session,
            log_dir,
            state,
            phase: Phase::Answering,
            interaction: None,
            countdown: None,
            window_over: false,
            status: TaskStatus::Pending,
            active: Millis(0),
            began: None,
            last_at: None,
        }
    }

    /// The date on which the run began, in UTC, such as `2026-01-31`.
    pub(crate) fn began_on(&self) -> Option<String> {
        let began = self.began?.to_string();
        began.split_once('T').map(|(date, _)| date.to_owned())
    }

    /// The run's result, once it has ended.
    pub fn result(&self) -> Option<&RunResult> {
        self.state.result.as_ref()
    }

    /// The spec of the run.
    pub fn spec(&self) -> &RunSpec {
        &self.state.spec
    }

    pub(crate) fn shared_spec(&self) -> Arc<RunSpec> {
        self.state.spec.clone()
    }

    /// The id of a member's agent.
    pub fn agent(&self, member_index: usize) -> Option<&AgentId> {
        self.state.members.get(member_index).map(|member| &member.agent.id)
    }

    /// A member's current access to the context paths.
    pub fn access(&self, member_index: usize) -> ContextAccess {
        match self.state.members.get(member_index).map(|member| member.context) {
            Some(ContextState::Open) => ContextAccess::Writable,
            _ => ContextAccess::ReadOnly,
        }
    }

    /// The label of each agent's newest answer that the member knows; empty if the member has no running attempt.
    pub fn known_to(&self, member_index: usize) -> Vec<AnswerLabel> {
        let Some(attempt) = self.state.members.get(member_index).and_then(|member| member.attempt.as_ref())
        else {
            return Vec::new();
        };
        let knows = if attempt.purpose.is_after_the_vote() { self.state.revision() } else { attempt.knows };
        self.state.newest(member_index, Revision(0), knows).into_iter().map(|answer| answer.label).collect()
    }

    /// The answers stored so far, in order.
    pub fn answers(&self) -> &[Answer] {
        &self.state.answers
    }

    /// The task of a member's work.
    pub fn work(&self, member_index: usize) -> TaskId {
        self.task.work(member_index as u32 + 1)
    }

    fn member_index_of(&self, task: &TaskId) -> Option<usize> {
        let rest = task.as_str().strip_prefix(self.task.as_str())?.strip_prefix(".a")?;
        rest.parse::<usize>().ok()?.checked_sub(1).filter(|index| *index < self.state.members.len())
    }

    /// Folds an event into the state. Events of other tasks only add to the active time.
    pub fn apply(&mut self, event: &Event) {
        self.count_time(event);
        match (&event.fact, &event.task) {
            (Fact::OpAccepted { op, .. }, _) => self.accept(op, event.at),
            (fact, Some(task)) if *task == self.task => self.apply_to_run(fact, event.at),
            (fact, Some(task)) if *task == self.task.execution() => self.state.execution.apply(fact),
            (fact, Some(task)) => match self.member_index_of(task) {
                Some(index) => self.apply_to_work(index, fact),
                None => self.apply_to_subagent(task, fact),
            },
            _ => {}
        }
    }

    fn count_time(&mut self, event: &Event) {
        let resumed = matches!(event.fact, Fact::OpAccepted { op: Op::Resume, .. });
        if let Some(last) = self.last_at.filter(|_| !resumed && self.interaction.is_none()) {
            self.active.0 += event.at.since(last).0;
        }
        self.began.get_or_insert(event.at);
        self.last_at = Some(event.at);
    }

    fn accept(&mut self, op: &Op, at: Timestamp) {
        match op {
            Op::PauseCountdown { interaction, paused } => self.pause_countdown(interaction, *paused, at),
            Op::Cancel { task } if task.covers(&self.task) => self.state.cancelled = true,
            Op::Cancel { task } => self.stop_subagent(task),
            Op::Shutdown => self.state.halted = true,
            Op::Resume => {
                self.state.halted = false;
                self.restart_countdown(at);
                for attempt in self.state.members.iter_mut().filter_map(|member| member.attempt.as_mut()) {
                    attempt.interrupted = true;
                }
            }
            _ => {}
        }
    }

    fn apply_to_run(&mut self, fact: &Fact, at: Timestamp) {
        match fact {
            Fact::TaskCreated { parent, .. } => self.parent.clone_from(parent),
            Fact::StatusChanged { status, .. } => self.status = *status,
            Fact::PhaseChanged { phase } => self.phase = *phase,
            Fact::InteractionOpened(interaction) => {
                self.interaction = Some(interaction.clone());
                self.restart_countdown(at);
            }
            Fact::InteractionClosed { .. } => {
                (self.interaction, self.countdown) = (None, None);
                self.window_over = true;
            }
            Fact::Decided(verdict) => self.decide(verdict),
            Fact::TimerFired(timer) => self.fire(timer),
            _ => {}
        }
    }

    fn decide(&mut self, verdict: &Verdict) {
        let post_vote = &mut self.state.post_vote;
        match verdict {
            Verdict::Winner { winner, ballots, decision, .. } => {
                post_vote.winner = Some(winner.clone());
                post_vote.decision = decision.as_deref().cloned();
                post_vote.ballots.clone_from(ballots);
            }
            Verdict::Override { presenter } => {
                post_vote.presenter = Some(presenter.clone());
                post_vote.overridden = true;
            }
            Verdict::Finished { result, .. } => self.state.result = Some((**result).clone()),
            Verdict::Restarted { reason, instructions, nth } => {
                let why = Restart { reason: reason.clone(), instructions: instructions.clone() };
                self.start_over(*nth, why);
            }
            Verdict::Compacted { .. } => {}
        }
    }

    fn fire(&mut self, timer: &Timer) {
        match timer {
            Timer::Orchestrator => self.state.timed_out = true,
            Timer::FirstAnswers { .. } => {
                self.state.waits += 1;
                self.state.early = self.state.revision();
            }
            Timer::OverrideWindow => self.window_over = true,
            Timer::Straggler { agent, attempt, step } => self.with_attempt(agent, *attempt, |attempt| {
                // If a reply was recorded just before the timer fired, the call was not silent.
                if attempt.turns.len() == *step {
                    attempt.straggled = true;
                    attempt.expired = true;
                }
            }),
            Timer::Task { .. } => {}
            Timer::RoundSoft { agent, attempt } => self.with_attempt(agent, *attempt, |attempt| {
                attempt.warn.get_or_insert(attempt.turns.len());
            }),
            Timer::RoundHard { agent, attempt } => {
                self.with_attempt(agent, *attempt, |attempt| attempt.expired = true)
            }
        }
    }

    fn with_attempt(&mut self, agent: &AgentId, number: u32, change: impl FnOnce(&mut MemberAttempt)) {
        let member = self.state.members.iter_mut().find(|member| member.agent.id == *agent);
        if let Some(attempt) =
            member.and_then(|member| member.attempt.as_mut()).filter(|attempt| attempt.number == number)
        {
            change(attempt);
        }
    }

    fn apply_to_work(&mut self, index: usize, fact: &Fact) {
        match fact {
            Fact::TaskCreated { .. } => self.set_status(index, TaskStatus::Pending),
            Fact::StatusChanged { status, .. } => self.set_status(index, *status),
            Fact::AttemptStarted { attempt, purpose, continues } => {
                self.start(index, *attempt, *purpose, *continues)
            }
            Fact::AttemptEnded { attempt, outcome, usage, .. } => {
                self.state.usage += if outcome.has_own_usage() { *usage } else { Usage::default() };
                self.end(index, *attempt, outcome);
            }
            Fact::ItemAdded { attempt, item } => self.add(index, *attempt, item),
            Fact::Notice(notice) => self.fold_notice(index, notice),
            _ => {}
        }
    }

    fn set_status(&mut self, index: usize, status: TaskStatus) {
        if let Some(member) = self.state.members.get_mut(index) {
            member.status = Some(status);
        }
    }

    fn start(&mut self, index: usize, number: u32, purpose: Purpose, continues: Option<u32>) {
        let Some(member) = self.state.members.get_mut(index) else { return };
        let continued = member.suspended.take().filter(|suspended| continues == Some(suspended.number));
        member.attempts = number;
        member.rounds += u32::from(continues.is_none() && !purpose.is_after_the_vote());
        let attempt = match continued {
            Some(old) => MemberAttempt {
                number,
                usage: Usage::default(),
                interrupted: false,
                expired: false,
                straggled: false,
                ..old
            },
            None => MemberAttempt::new(number, purpose),
        };
        member.seen = member.seen.max(attempt.knows);
        member.attempt = Some(MemberAttempt { plan: member.plan.clone(), ..attempt });
    }

    fn end(&mut self, index: usize, number: u32, outcome: &AttemptOutcome) {
        let Some(member) = self.state.members.get_mut(index) else { return };
        let purpose = member.attempt.as_ref().map(|attempt| attempt.purpose);
        member.end(number, outcome);
        if let AttemptOutcome::Failed { error, kind: Some(BackendErrorKind::CostLimit), .. } = outcome {
            self.state.refused_call = Some(error.clone());
            // The run ends at its limit, so its presentation does not count as failed.
            if matches!(purpose, Some(Purpose::Present { .. })) {
                return;
            }
        }
        let failure = match outcome {
            AttemptOutcome::Failed { error, .. } => Some(error.clone()),
            AttemptOutcome::GaveUp { reason } => Some(reason.clone()),
            AttemptOutcome::TimedOut => Some("its time limit passed".into()),
            AttemptOutcome::Answered
            | AttemptOutcome::Voted
            | AttemptOutcome::Abstained
            | AttemptOutcome::Presented { .. }
            | AttemptOutcome::Evaluated { .. }
            | AttemptOutcome::Exited { .. }
            | AttemptOutcome::Said
            | AttemptOutcome::Paused
            | AttemptOutcome::Cancelled
            | AttemptOutcome::Interrupted => None,
        };
        match (purpose, outcome) {
            (Some(Purpose::Present { .. }), AttemptOutcome::Presented { text, rejected }) => {
                self.state.post_vote.presented = Some(match rejected {
                    Some(reason) => Presentation::Rejected(reason.clone()),
                    None => Presentation::Text(text.clone()),
                });
            }
            (Some(Purpose::Present { .. }), _) => {
                self.state.post_vote.presented = failure.map(Presentation::Failed);
            }
            (Some(Purpose::Evaluate), AttemptOutcome::Evaluated { restart: Some(restart) }) => {
                self.state.post_vote.evaluated = Some(Evaluation::NeedsRestart(restart.clone()));
            }
            (Some(Purpose::Evaluate), AttemptOutcome::Interrupted) => {}
            (Some(Purpose::Evaluate), _) => {
                self.state.post_vote.evaluated =
                    Some(failure.map_or(Evaluation::Accepted, Evaluation::Failed));
            }
            _ => {}
        }
    }

    fn add(&mut self, index: usize, attempt: u32, item: &Item) {
        let interrupts_others = !self.state.spec.rules.disable_injection;
        match item {
            Item::Answer(answer) => {
                // A new answer makes all votes invalid, because the voters did not know it. Only other agents' votes for
                // its author stand: these voters already preferred the author's older answer.
                for member in self.state.members.iter_mut().filter(|_| interrupts_others) {
                    let by_author = member.agent.id == answer.agent;
                    member.vote = member.vote.take().filter(|vote| vote.target == answer.agent && !by_author);
                    member.abstained = false;
                    if let Some(attempt) = member.attempt.as_mut().filter(|_| member.agent.id != answer.agent)
                    {
                        attempt.stale.get_or_insert(attempt.turns.len());
                    }
                }
                self.state.answers.push(answer.clone());
                let stored = self.state.answers.len() - 1;
                if let Some(member) = self.state.members.get_mut(index) {
                    member.answers.push(stored);
                }
            }
            Item::Vote(ballot) => {
                if let Some(member) = self.state.members.get_mut(index) {
                    member.vote = Some(ballot.clone());
                    member.has_voted = true;
                }
            }
            Item::StaleVote(_) => {
                if let Some(member) = self.state.members.get_mut(index) {
                    member.has_voted = true;
                }
            }
            Item::Reply(reply) => self.state.usage += reply.usage,
            Item::FilesTaken { from, error } => self.record_imported_files(from, error.as_ref()),
            Item::PlanProgress(progress) => {
                plan::update_progress(&mut self.state.plan, progress);
                if let Some(member) = self.state.members.get_mut(index) {
                    plan::update_progress(&mut member.plan, progress);
                }
            }
            Item::PlanStored { plan, error } => {
                let stored = plan.clone().ok_or_else(|| error.clone().unwrap_or_default());
                self.state.stored_plan = Some(stored);
            }
            Item::PlanOpened { plan, .. } => self.state.open_plan(plan.as_ref()),
            // The list covers all changes since the paths were first opened.
            Item::ContextClosed { writes, error: None } => {
                self.state.writes.clone_from(writes);
                self.state.is_unchanged = writes.is_empty();
            }
            Item::ContextOpened { error: None } => self.state.is_unchanged = false,
            Item::ContextClosed { error: Some(_), .. } | Item::ContextOpened { error: Some(_) } => {}
            Item::Briefed(_)
            | Item::ToolResult { .. }
            | Item::Reminder { .. }
            | Item::Update { .. }
            | Item::TimeWarning
            | Item::WorkspaceKept { .. }
            | Item::Conversation { .. }
            | Item::PromptSent { .. }
            | Item::Said { .. }
            | Item::Did { .. }
            | Item::EditProposed { .. } => {}
        }
        if let Some(member) = self.state.members.get_mut(index) {
            member.take(attempt, item);
        }
    }

    /// Whether this run asked the question and it is still open.
    pub fn has_open_question(&self, interaction: &althing_protocol::InteractionId) -> bool {
        self.interaction.as_ref().is_some_and(|open| open.id == *interaction)
    }

    /// Checks a person's answer to the override window; returns the facts that follow, or why the answer is rejected.
    pub fn answer_override(
        &self,
        interaction: &althing_protocol::InteractionId,
        decision: &Decision,
    ) -> Result<Vec<Consequence>, String> {
        let Some(open) = self.interaction.as_ref().filter(|open| open.id == *interaction) else {
            return Err(format!("the interaction {interaction} is not open"));
        };
        let closed = Fact::InteractionClosed { id: open.id.clone(), decision: decision.clone() };
        let mut facts = Vec::new();
        if let Decision::Presenter { agent } = decision {
            let known =
                self.state.members.iter().any(|member| member.agent.id == *agent && member.has_answered());
            if !known {
                return Err(format!("{agent} has no answer to present"));
            }
            if self.state.post_vote.winner.as_ref() != Some(agent) {
                facts
                    .push((self.task.clone(), Fact::Decided(Verdict::Override { presenter: agent.clone() })));
            }
        }
        facts.push((self.task.clone(), closed));
        Ok(facts)
    }
}

#[cfg(test)]
pub(crate) mod tests;
