//! The rules of a run: which facts follow from the state.
//!
//! 1. Every agent answers once, without seeing the others' answers.
//! 2. When every active agent has answered, each agent without a valid vote judges the newest answers: it votes, or
//!    improves an answer where the caps allow it. A slow agent delays the others by at most `first_answer_wait`,
//!    except with `defer_voting_until_all_answered`, `disable_injection` or `skip_voting`.
//! 3. A new answer never stops a running call. It invalidates all votes, except other agents' votes for its author:
//!    those voters preferred the author already before the new answer. A judge that makes further calls is shown the
//!    new answer before its next call. An agent that has already judged is asked again once nobody else judges, or once
//!    it has waited for `first_answer_wait`, so that it judges all new answers in one call.
//!    If all agents have reached the same conclusion, nobody judges. Judges whose votes can no longer change who wins
//!    are stopped, where no agent may answer again.
//! 4. When no agent has anything left to judge, the votes are counted. A person may override the winner. The presenter
//!    writes the final answer, unless the strategy is to reuse the winner's answer.
//! 5. If the run may start over, the author of the final answer evaluates it. A rejected answer restarts the run, and
//!    the agents are told why.
//! 6. An agent that fails drops out. An agent that sends nothing for `straggler_wait` while all others are done drops
//!    out, too. The answers of such agents remain candidates. A limit or a cancellation ends the run with its best
//!    answer so far.

use super::interpret_reply::{NextStep, interrupted_calls};
use super::state::{ContextState, MemberAttempt, MemberState, RunState};
use super::tally::Tally;
use super::{Consequence, Coordination, interpret_reply};
use althing_protocol::{
    AgentId, Answer, AttemptOutcome, Candidate, Decision, Fact, FinalAnswerStrategy, Interaction,
    InteractionId, InteractionKind, Item, JudgeOrder, Phase, Purpose, Revision, RunEnd, TaskSpec, TaskStatus,
    Verdict,
};
use althing_text::pseudo_random;

/// Makes the order in which judges see answers independent of the order that breaks ties.
const JUDGE_ORDER: u64 = 0x6a75_6467_6573;

const PREVIEW_CHARS: usize = 200;

impl RunState {
    pub(crate) fn revision(&self) -> Revision {
        Revision(self.answers.len() as u32)
    }

    pub(crate) fn writable_paths(&self) -> Vec<String> {
        let paths = self.spec.context_paths.iter().filter(|path| path.writable);
        paths.map(|path| path.path.clone()).collect()
    }

    pub(crate) fn answered(&self) -> u32 {
        self.revision().0 - self.discarded.0
    }

    pub(crate) fn candidates(&self, knows: Revision) -> Vec<usize> {
        let known = |member: &MemberState| member.answers.iter().any(|answer| *answer < knows.0 as usize);
        (0..).zip(&self.members).filter(|(_, member)| known(member)).map(|(index, _)| index).collect()
    }

    pub(crate) fn global_cap_reached(&self) -> bool {
        self.spec.rules.max_new_answers_global.is_some_and(|cap| self.answered() >= cap)
    }

    /// Whether the run has reached its cost limit, which `--max-cost` sets: it has cost that much, or a call was not made
    /// because it would have cost too much. In the second case, the replies of calls that are still running count.
    pub(crate) fn is_over_budget(&self) -> bool {
        let is_busy = |member: &MemberState| member.attempt.is_some() || member.suspended.is_some();
        let is_refused = self.refused_call.is_some() && !self.members.iter().any(is_busy);
        is_refused || self.cost_left_usd().is_some_and(|left| left <= 0.0)
    }

    /// What is left of the cost limit, in US dollars; None without a limit.
    pub(crate) fn cost_left_usd(&self) -> Option<f64> {
        self.spec.rules.limits.cost_micro_usd.map(|cap| cap as f64 / 1e6 - self.usage.cost_usd)
    }

    pub(crate) fn limit_passed(&self) -> bool {
        self.timed_out || self.is_over_budget() || self.is_out_of_calls()
    }

    /// Each agent's newest answer with a revision above `after` and up to `up_to`, by agent number; the reader's own is
    /// last.
    pub(crate) fn newest(&self, reader: usize, after: Revision, up_to: Revision) -> Vec<&Answer> {
        let others = (0..self.members.len()).filter(|index| *index != reader);
        self.newest_of(others.chain([reader]), after, up_to)
    }

    /// The answers of `newest`, in the order in which the judge is shown them.
    pub(crate) fn newest_for_judge(&self, judge: usize, after: Revision, up_to: Revision) -> Vec<&Answer> {
        match self.spec.rules.decision.judge_order {
            JudgeOrder::Config => self.newest(judge, after, up_to),
            JudgeOrder::Rotated => self.newest_of(self.rotated(judge), after, up_to),
        }
    }

    /// Each judge starts with a different member, so that each answer is shown in each place equally often. The run's
    /// seed decides who starts where.
    pub(crate) fn rotated(&self, judge: usize) -> impl Iterator<Item = usize> {
        let count = self.members.len();
        let draw = |index: usize| pseudo_random(self.spec.tie_break_seed ^ JUDGE_ORDER, index as u64);
        let own = draw(judge);
        let start = (0..count).filter(|index| draw(*index) < own).count();
        (start..count).chain(0..start)
    }

    fn newest_of(
        &self,
        order: impl Iterator<Item = usize>,
        after: Revision,
        up_to: Revision,
    ) -> Vec<&Answer> {
        let shown = |index: usize| {
            let answers = &self.members.get(index)?.answers;
            let newest = answers.iter().rev().find(|answer| **answer < up_to.0 as usize)?;
            self.answers.get(*newest).filter(|answer| answer.revision > after)
        };
        order.filter_map(shown).collect()
    }

    pub(crate) fn find_member(&self, id: &AgentId) -> Option<(usize, &MemberState)> {
        self.members.iter().enumerate().find(|(_, member)| member.agent.id == *id)
    }
}

impl Coordination {
    /// The facts that follow from the state. The caller applies them and calls again until there are none.
    pub fn consequences(&self) -> Vec<Consequence> {
        if self.state.result.is_some() {
            return self.close();
        }
        // Replies come first: a recorded reply counts even if its attempt is about to end.
        for rule in [Self::begin, Self::interpret_replies, Self::end_attempts, Self::stop_subagents] {
            let facts = rule(self);
            if !facts.is_empty() {
                return facts;
            }
        }
        if self.state.halted {
            return self.interrupt();
        }
        if let Some(end) = self.due_end() {
            // The result lists changed files, the stored plan and the subagents' costs, so these must be known first.
            let open = self.open_context().is_some() || self.must_store_plan();
            let ready = !open && !self.has_running_subagents();
            return if ready { self.finish(end) } else { Vec::new() };
        }
        let resumed = self.resume_attempts();
        if !resumed.is_empty() {
            return resumed;
        }
        match self.phase {
            Phase::Answering if self.must_open_plan() => Vec::new(),
            Phase::Answering | Phase::Voting => self.deliberate(),
            Phase::OverrideWindow => self.override_window(),
            Phase::Presenting => self.present(),
            Phase::Done | Phase::Stage(_) | Phase::Chat(_) => Vec::new(),
        }
    }

    /// How the run must end now; None if it continues.
    pub(super) fn due_end(&self) -> Option<RunEnd> {
        let state = &self.state;
        let busy = state.members.iter().any(|member| member.attempt.is_some() || member.suspended.is_some());
        if state.cancelled {
            return Some(RunEnd::Cancelled);
        }
        // A limit that is reached after the presentation does not discard the final answer.
        let post_vote = &state.post_vote;
        let has_answer = post_vote.presented.is_some() || post_vote.evaluated.is_some();
        if state.limit_passed() && !(self.phase == Phase::Presenting && has_answer) {
            return Some(RunEnd::Limit);
        }
        match self.phase {
            Phase::Answering | Phase::Voting => {
                if busy || state.answered() > 0 {
                    return None;
                }
                let progress = state.progress();
                let more = state.members.iter().any(|member| state.next_attempt(member, progress).is_some());
                // If there is no new answer after a restart, the rejected answer is the result.
                let end = if state.previous.is_some() { RunEnd::Answered } else { RunEnd::NoAnswer };
                (!more).then_some(end)
            }
            Phase::Presenting => self.is_answer_final().then_some(RunEnd::Answered),
            Phase::OverrideWindow | Phase::Done | Phase::Stage(_) | Phase::Chat(_) => None,
        }
    }

    pub(super) fn open_context(&self) -> Option<usize> {
        self.state.members.iter().position(|member| member.context == ContextState::Open)
    }

    fn begin(&self) -> Vec<Consequence> {
        // The tasks are created in order: if the last one exists, all do.
        let all_there = self.state.members.last().is_none_or(|last| last.status.is_some());
        let members = if all_there { &[] } else { self.state.members.as_slice() };
        let missing = (0..).zip(members).filter(|(_, member)| member.status.is_none());
        let mut facts: Vec<Consequence> = missing
            .map(|(index, member)| {
                let (id, agent) = (self.work(index), member.agent.id.clone());
                let spec = TaskSpec::Work { agent };
                (id.clone(), Fact::TaskCreated { id, parent: Some(self.task.clone()), spec })
            })
            .collect();
        let waits = self.interaction.is_some();
        let status = if waits { TaskStatus::WaitingForUser } else { TaskStatus::Running };
        if self.status != status && !self.state.halted {
            // An interrupted task must be running before it can wait.
            if self.status != TaskStatus::Running {
                facts.extend(self.status_change(TaskStatus::Running, None));
            }
            if waits {
                facts.extend(self.status_change(TaskStatus::WaitingForUser, None));
            }
        }
        facts.into_iter().chain(self.tell_limits()).collect()
    }

    fn status_change(&self, status: TaskStatus, why: Option<String>) -> Vec<Consequence> {
        vec![(self.task.clone(), Fact::StatusChanged { status, why })]
    }

    fn end_attempts(&self) -> Vec<Consequence> {
        let mut facts = Vec::new();
        let is_decided = self.state.is_decided();
        for (index, member) in self.state.members.iter().enumerate() {
            let Some(attempt) = &member.attempt else { continue };
            let outcome = if attempt.interrupted || self.state.halted {
                AttemptOutcome::Interrupted
            } else if self.state.limit_passed() || self.state.cancelled {
                AttemptOutcome::Cancelled
            } else if attempt.expired {
                AttemptOutcome::TimedOut
            } else if is_decided && matches!(attempt.purpose, Purpose::Judge { .. }) {
                AttemptOutcome::Cancelled
            } else if matches!(attempt.purpose, Purpose::Answer) && self.state.global_cap_reached() {
                // The agent votes instead of answering.
                AttemptOutcome::Cancelled
            } else {
                continue;
            };
            if attempt.straggled && outcome == AttemptOutcome::TimedOut {
                facts.push((self.task.clone(), Fact::Notice(self.straggler_notice(member))));
            }
            let ended =
                Fact::AttemptEnded { attempt: attempt.number, outcome, usage: attempt.usage, call: None };
            facts.push((self.work(index), ended));
        }
        facts
    }

    /// Returns after one reply, because it may change how the next is interpreted.
    fn interpret_replies(&self) -> Vec<Consequence> {
        for (index, member) in self.state.members.iter().enumerate() {
            let Some(attempt) = &member.attempt else { continue };
            match interpret_reply::next_step(&self.state, index, member, attempt) {
                NextStep::Facts(facts) => {
                    return facts.into_iter().map(|fact| (self.work(index), fact)).collect();
                }
                next @ NextStep::Spawn { .. } if !attempt.is_over() && !self.is_stopping() => {
                    return self.start_subagents(index, &next);
                }
                NextStep::Spawn { .. }
                | NextStep::Call
                | NextStep::Tools(_)
                | NextStep::Snapshot(_)
                | NextStep::CloseContext => {}
            }
        }
        Vec::new()
    }

    /// Continues an interrupted attempt as a new attempt with the same conversation. An interrupted tool call may have
    /// taken effect, so it is not repeated; its agent is told.
    fn resume_attempts(&self) -> Vec<Consequence> {
        let mut facts = Vec::new();
        for (index, member) in self.state.members.iter().enumerate() {
            let Some(old) = &member.suspended else { continue };
            let (work, attempt, purpose) = (self.work(index), member.attempts + 1, old.purpose);
            facts
                .push((work.clone(), Fact::AttemptStarted { attempt, purpose, continues: Some(old.number) }));
            facts.extend(interrupted_calls(&self.state, member, old).into_iter().map(|call| {
                let content =
                    "This call was interrupted. It may have taken effect: check before you repeat the call.";
                let item =
                    Item::ToolResult { call: call.id.clone(), content: content.into(), is_error: true };
                (work.clone(), Fact::ItemAdded { attempt, item })
            }));
            // The agent's model call is repeated in any case, so the agent is shown the newest answers first.
            let is_stale = matches!(purpose, Purpose::Judge { .. }) && old.stale.is_some();
            if is_stale && old.is_reply_processed() && old.open_calls().is_empty() {
                let item = Item::Update { revision: self.state.revision() };
                facts.push((work, Fact::ItemAdded { attempt, item }));
            }
        }
        facts
    }

    fn is_stopping(&self) -> bool {
        self.state.halted || self.state.cancelled || self.state.limit_passed()
    }

    fn interrupt(&self) -> Vec<Consequence> {
        if self.status == TaskStatus::Interrupted {
            Vec::new()
        } else {
            self.status_change(TaskStatus::Interrupted, Some("stopped; can be resumed".into()))
        }
    }

    fn deliberate(&self) -> Vec<Consequence> {
        let state = &self.state;
        let mut facts = Vec::new();
        if self.phase == Phase::Answering && state.first_answers_are_in() && state.answered() > 0 {
            facts.push((self.task.clone(), Fact::PhaseChanged { phase: Phase::Voting }));
        }
        let progress = state.progress();
        for (index, member) in state.members.iter().enumerate() {
            self.report_dropout(index, member, &mut facts);
            if let Some(purpose) = state.next_attempt(member, progress) {
                let work = self.work(index);
                if member.status == Some(TaskStatus::Pending) {
                    facts
                        .push((work.clone(), Fact::StatusChanged { status: TaskStatus::Running, why: None }));
                }
                facts.push((
                    work,
                    Fact::AttemptStarted { attempt: member.attempts + 1, purpose, continues: None },
                ));
            } else if let Some(attempt) = &member.attempt {
                let notification = Self::next_notification(attempt, state.revision());
                let added = |item| (self.work(index), Fact::ItemAdded { attempt: attempt.number, item });
                facts.extend(notification.map(added));
            }
        }
        let busy = state.members.iter().any(|member| member.attempt.is_some());
        if facts.is_empty() && !busy { self.count_votes() } else { facts }
    }

    fn report_dropout(&self, index: usize, member: &MemberState, facts: &mut Vec<Consequence>) {
        let is_recorded = member.status.is_some_and(TaskStatus::is_final);
        if let Some(out) = member.out.as_ref().filter(|_| !is_recorded) {
            facts.push((
                self.work(index),
                Fact::StatusChanged { status: TaskStatus::Failed, why: Some(out.error.clone()) },
            ));
        }
    }

    /// What the agent must be told before its next call; `None` if nothing. A running call is not interrupted for this:
    /// it is paid for, and its answer or vote may count.
    fn next_notification(attempt: &MemberAttempt, revision: Revision) -> Option<Item> {
        // Tool results must directly follow their calls.
        if !attempt.open_calls().is_empty() {
            return None;
        }
        let turns = attempt.turns.len();
        let due = |since: Option<usize>| since.is_some_and(|since| turns > since);
        let judging = matches!(attempt.purpose, Purpose::Judge { .. });
        if due(attempt.warn) {
            Some(Item::TimeWarning)
        } else if judging && due(attempt.stale) {
            Some(Item::Update { revision })
        } else {
            None
        }
    }

    fn count_votes(&self) -> Vec<Consequence> {
        let tally = Tally::of(&self.state);
        let Some(winner) = tally.ranking.first().and_then(|index| self.agent(*index)) else {
            return Vec::new();
        };
        let run = |fact| (self.task.clone(), fact);
        let mut facts = Vec::new();
        if self.state.post_vote.winner.is_none() {
            let (votes, ballots, tie_break) =
                (tally.votes.clone(), tally.ballots.clone(), tally.tie_break.clone());
            let strategy = self.state.spec.rules.strategy();
            let winner = winner.clone();
            let decision = Some(Box::new(tally.report.clone()));
            let verdict = Verdict::Winner { winner, votes, ballots, tie_break, strategy, decision };
            facts.push(run(Fact::Decided(verdict)));
        }
        let Some(countdown) = self.state.spec.rules.override_window.filter(|_| tally.ranking.len() > 1)
        else {
            facts.push(run(Fact::PhaseChanged { phase: Phase::Presenting }));
            return facts;
        };
        if self.interaction.is_none() {
            let kind = InteractionKind::WinnerOverride {
                winner: winner.clone(),
                candidates: self.override_candidates(&tally),
            };
            let again =
                if self.state.restarts == 0 { String::new() } else { self.state.restarts.to_string() };
            let id = InteractionId::new(format!("{}.override{again}", self.task));
            facts.push(run(Fact::InteractionOpened(Interaction { id, kind, countdown: Some(countdown) })));
            facts.extend(self.status_change(TaskStatus::WaitingForUser, None));
        }
        facts.push(run(Fact::PhaseChanged { phase: Phase::OverrideWindow }));
        facts
    }

    fn override_candidates(&self, tally: &Tally) -> Vec<Candidate> {
        let members = tally.ranking.iter().filter_map(|index| self.state.members.get(*index));
        let choice = |member: &MemberState| {
            let answer = self.state.answers.get(*member.answers.last()?)?;
            let agent = member.agent.id.clone();
            let votes = tally.votes.get(&agent).copied().unwrap_or_default();
            Some(Candidate {
                agent,
                label: answer.label,
                votes,
                preview: answer.content.chars().take(PREVIEW_CHARS).collect(),
            })
        };
        members.filter_map(choice).collect()
    }

    fn override_window(&self) -> Vec<Consequence> {
        match &self.interaction {
            Some(open) if self.window_over => {
                vec![(
                    self.task.clone(),
                    Fact::InteractionClosed { id: open.id.clone(), decision: Decision::Continue },
                )]
            }
            Some(_) => Vec::new(),
            None => vec![(self.task.clone(), Fact::PhaseChanged { phase: Phase::Presenting })],
        }
    }

    fn present(&self) -> Vec<Consequence> {
        if self.state.post_vote.winner.is_none() {
            // There is no winner, because the run was restarted.
            return vec![(self.task.clone(), Fact::PhaseChanged { phase: Phase::Answering })];
        }
        if self.is_presented() {
            // Context paths are read-only while the answer is evaluated.
            return if self.open_context().is_some() { Vec::new() } else { self.after_presentation() };
        }
        match self.presenter() {
            Some((index, member)) if member.attempt.is_none() => {
                let purpose = Purpose::Present { strategy: self.presentation() };
                vec![(
                    self.work(index),
                    Fact::AttemptStarted { attempt: member.attempts + 1, purpose, continues: None },
                )]
            }
            _ => Vec::new(),
        }
    }

    /// Under `WinnerReuse`, a member presents only if the run may write; it presents as under `WinnerPresent`.
    fn presentation(&self) -> FinalAnswerStrategy {
        match self.state.spec.rules.strategy() {
            FinalAnswerStrategy::WinnerReuse => FinalAnswerStrategy::WinnerPresent,
            strategy => strategy,
        }
    }

    /// Who presents the final answer. `None` before the votes are counted, if the winner's answer is used unchanged, and
    /// if nobody can present.
    pub(crate) fn presenter(&self) -> Option<(usize, &MemberState)> {
        let post_vote = &self.state.post_vote;
        let chosen = self.state.find_member(post_vote.presenter.as_ref().or(post_vote.winner.as_ref())?)?;
        let spec = &self.state.spec;
        // The agent of a quick run with one agent writes its files while it works, so it need not present.
        let writes_later = spec.may_write() && !spec.is_single_and_quick();
        match spec.rules.strategy() {
            FinalAnswerStrategy::WinnerReuse if !writes_later => None,
            _ if chosen.1.is_live() => Some(chosen),
            FinalAnswerStrategy::WinnerPresent | FinalAnswerStrategy::WinnerReuse => None,
            // Any agent can synthesize; the best-ranked live agent with an answer does.
            FinalAnswerStrategy::Synthesize => {
                let members = &self.state.members;
                let live = |index: usize| Some((index, members.get(index).filter(|it| it.is_live())?));
                Tally::of(&self.state).ranking.into_iter().find_map(live)
            }
        }
    }
}
