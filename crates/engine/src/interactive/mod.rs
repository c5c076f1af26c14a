//! The decider of a conversation: the chat agent replies to messages and launches runs. Pure. A crash may leave any
//! prefix of a batch, so the conversation must be resumable after any fact.

mod answers;
mod budget;
mod compaction;
mod continued;
mod cut;
mod decide;
mod edits;
mod history;
mod launch_call;
mod request;
mod rules;
mod state;
mod tokens;
mod transitions;
mod wanted_effects;

use crate::decider::Consequence;
use crate::summary::structural_summary;
use althing_protocol::{
    AttemptOutcome, ChatSpec, ChatState, Decision, Event, Fact, Interaction, InteractionKind, Item,
    ModeChoice, Notice, NoticeLevel, Op, Phase, Purpose, RunResult, Seq, SessionId, TaskId, TaskSpec,
    TaskStatus, Usage, Verdict,
};
use budget::SessionBudget;
use compaction::CompactedHistory;
use request::BasePrompt;
use state::{
    ChatAttempt, ChatStep, ChatTurn, CompactionStep, LaunchState, LaunchedRun, PastTurn, UserMessage,
    merge_choices, state_after_run,
};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

pub use continued::{NothingToContinue, history_before, inherited_history, session_history};

/// The decider of one conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct InteractiveSession {
    session: SessionId,
    task: TaskId,
    spec: Arc<ChatSpec>,
    base_prompt: Arc<BasePrompt>,
    phase: ChatState,
    status: TaskStatus,
    modes: ModeChoice,
    queue: VecDeque<UserMessage>,
    compaction_requested: bool,
    turn: Option<ChatTurn>,
    past: Vec<PastTurn>,
    /// The compacted part of the conversation, before `past`.
    earlier: Option<CompactedHistory>,
    /// The first message, which states the goal of the conversation.
    goal: Option<UserMessage>,
    pins: BTreeSet<Seq>,
    attempts: u32,
    /// The number of the session's newest run.
    newest_run: u32,
    runs: Vec<RunResult>,
    interaction: Option<Interaction>,
    interactions: u32,
    budget: SessionBudget,
    /// Whether the user has allowed all changes of files in this conversation.
    edits_allowed: bool,
    /// A notice that must still be recorded.
    notice: Option<Notice>,
    /// The id of the backend's own conversation, if the backend keeps one.
    native: Option<String>,
    /// The provider's last count of the conversation, and an estimate of everything since, in tokens.
    provider_count: Option<(u64, u64)>,
    /// The estimated size of the conversation in tokens, including the summary. Updated incrementally, so that a long
    /// history is not traversed before every turn.
    estimated_tokens: u64,
    halted: bool,
}

impl InteractiveSession {
    /// Creates the decider from the data of the conversation's `TaskCreated`.
    pub fn new(session: SessionId, task: TaskId, spec: ChatSpec) -> Self {
        let budget = spec.agent.as_ref().and_then(|agent| agent.budget_micro_usd);
        Self {
            session,
            task,
            modes: spec.modes.clone(),
            base_prompt: Arc::new(BasePrompt::new(&spec)),
            estimated_tokens: tokens::estimate_messages(&request::inherited_messages(&spec)),
            spec: Arc::new(spec),
            phase: ChatState::Idle,
            status: TaskStatus::Pending,
            queue: VecDeque::new(),
            compaction_requested: false,
            turn: None,
            past: Vec::new(),
            earlier: None,
            goal: None,
            pins: BTreeSet::new(),
            attempts: 0,
            newest_run: 0,
            runs: Vec::new(),
            interaction: None,
            interactions: 0,
            budget: SessionBudget::new(budget),
            edits_allowed: false,
            notice: None,
            native: None,
            provider_count: None,
            halted: false,
        }
    }

    /// The state of the conversation.
    pub fn state(&self) -> ChatState {
        self.phase
    }

    /// The task of the conversation.
    pub fn task(&self) -> &TaskId {
        &self.task
    }

    /// The spec of the conversation.
    pub fn spec(&self) -> &ChatSpec {
        &self.spec
    }

    /// The user's mode choices.
    pub fn modes(&self) -> &ModeChoice {
        &self.modes
    }

    /// The queued messages: for each, the number of the fact that accepted it, and its text.
    pub fn queued(&self) -> impl Iterator<Item = (Seq, &str)> {
        self.queue.iter().map(|message| (message.seq, message.text.as_str()))
    }

    /// The results of the conversation's runs, in order.
    pub fn runs(&self) -> &[RunResult] {
        &self.runs
    }

    /// The active run of the current turn.
    pub fn current_run(&self) -> Option<&TaskId> {
        self.launching()?.active().map(|run| &run.id)
    }

    /// The cost of the conversation itself; each run's cost is in its result.
    pub fn usage(&self) -> Usage {
        self.budget.conversation
    }

    fn launching(&self) -> Option<&LaunchState> {
        self.turn.as_ref()?.launching.as_ref()
    }

    fn awaits_approval(&self) -> bool {
        let open = self.interaction.as_ref();
        open.is_some_and(|open| {
            !matches!(open.kind, InteractionKind::Budget { .. } | InteractionKind::EditApproval { .. })
        })
    }

    /// The mode choices for a turn: those of its message take precedence over those of the conversation.
    fn choice(&self, turn: &ChatTurn) -> ModeChoice {
        let of_message = turn.message.as_ref().map(|message| message.modes.clone()).unwrap_or_default();
        merge_choices(of_message, &self.modes)
    }

    /// Folds one event into the state. Events of unrelated tasks are ignored.
    pub fn apply(&mut self, event: &Event) {
        match (&event.fact, &event.task) {
            (Fact::OpAccepted { op, .. }, _) => self.accept(event.seq, op),
            (Fact::TaskCreated { id, parent, spec: TaskSpec::Run(_) }, _) => {
                self.note_run_created(id, parent.as_ref() == Some(&self.task))
            }
            (fact, Some(task)) if *task == self.task => self.apply_own(event.seq, fact),
            (Fact::Decided(Verdict::Finished { result, .. }), Some(task)) => self.end_run(task, result),
            _ => {}
        }
    }

    fn accept(&mut self, seq: Seq, op: &Op) {
        match op {
            Op::SendMessage { text, modes, grants } => self.queue.push_back(UserMessage {
                seq,
                text: text.clone(),
                modes: modes.clone(),
                grants: grants.clone(),
            }),
            Op::Unqueue { message } => self.queue.retain(|queued| queued.seq != *message),
            Op::Pin { message } => {
                let queued = || self.queue.back().map(|message| message.seq);
                self.pins.extend(message.or_else(queued).or_else(|| self.newest_message()));
            }
            Op::Compact => self.compaction_requested = self.spec.agent.is_some(),
            Op::SetModes { modes } => self.modes = modes.clone(),
            Op::StopReply | Op::Cancel { .. } if self.stops_turn(op) => {
                if let Some(turn) = &mut self.turn {
                    turn.cancelled = true;
                }
            }
            Op::Cancel { task } => {
                let launching = self.turn.as_mut().and_then(|turn| turn.launching.as_mut());
                let run = launching.and_then(LaunchState::active_mut).filter(|run| run.id == *task);
                if let Some(run) = run {
                    run.cancelled = true;
                }
            }
            Op::Shutdown => self.halted = true,
            Op::Resume => {
                self.halted = false;
                // The log may be somebody else's, and the user may have taken "always" back: later previews say
                // whether to ask.
                self.edits_allowed = false;
                if let Some(attempt) = self.turn.as_mut().and_then(|turn| turn.attempt.as_mut()) {
                    attempt.interrupted = true;
                }
            }
            _ => {}
        }
    }

    fn note_run_created(&mut self, id: &TaskId, mine: bool) {
        let number = id.as_str().strip_prefix('r').and_then(|number| number.parse().ok());
        self.newest_run = self.newest_run.max(number.unwrap_or_default());
        let launched = self.launched();
        let Some(turn) = self.turn.as_mut().filter(|_| mine) else { return };
        let launching = turn.launching.get_or_insert_default();
        match &launching.run {
            None => {
                launching.run = Some(LaunchedRun::new(id.clone()));
                launching.launched = launched.map(Box::new);
            }
            Some(_) => launching.execution = Some(LaunchedRun::new(id.clone())),
        }
    }

    fn end_run(&mut self, task: &TaskId, result: &RunResult) {
        let launching = self.turn.as_mut().and_then(|turn| turn.launching.as_mut());
        let Some(run) = launching.and_then(LaunchState::active_mut).filter(|run| run.id == *task) else {
            return;
        };
        run.result = Some(result.clone());
        if let Some(turn) = &mut self.turn {
            turn.base_state = state_after_run(result.status);
        }
        self.budget.add_run(&result.usage);
        self.runs.push(result.clone());
    }

    fn apply_own(&mut self, seq: Seq, fact: &Fact) {
        match fact {
            Fact::StatusChanged { status, .. } => self.status = *status,
            Fact::PhaseChanged { phase: Phase::Chat(state) } => self.enter(seq, *state),
            Fact::AttemptStarted { attempt, purpose, continues } => {
                self.start(*attempt, *purpose, *continues)
            }
            Fact::AttemptEnded { attempt, outcome, usage, .. } => {
                if outcome.has_own_usage() {
                    self.budget.add_call(usage);
                }
                self.end(*attempt, outcome);
            }
            Fact::ItemAdded { attempt, item } => self.add(seq, *attempt, item),
            Fact::InteractionOpened(interaction) => self.open(interaction),
            Fact::InteractionClosed { decision, .. } => self.close(decision),
            Fact::Decided(verdict) => self.apply_summary(verdict),
            Fact::Notice(notice) => {
                self.notice.take_if(|due| due == notice);
                // While a plan is still to be shown, a notice of the conversation means that there is no plan to show.
                let launching = self.turn.as_mut().and_then(|turn| turn.launching.as_mut());
                if let Some(launching) = launching.filter(|launching| launching.unseen_plan().is_some()) {
                    launching.plan_shown = true;
                }
            }
            _ => {}
        }
    }

    /// Leaving `IDLE` starts a turn with the next queued message, if there is one; returning to `IDLE` closes the turn.
    fn enter(&mut self, seq: Seq, state: ChatState) {
        let before = std::mem::replace(&mut self.phase, state);
        if before == ChatState::Idle && state != ChatState::Idle {
            let message = self.queue.pop_front();
            if let Some(message) = &message {
                self.goal.get_or_insert_with(|| message.clone());
                self.count_since(&message.text);
            }
            let compaction = if std::mem::take(&mut self.compaction_requested) {
                CompactionStep::Requested
            } else {
                CompactionStep::NotChecked
            };
            let mut turn = ChatTurn::new(message, false);
            turn.compaction = compaction;
            turn.direct = turn.message.is_some()
                && (self.spec.agent.is_none() || self.choice(&turn).planning == Some(true));
            self.turn = Some(turn);
        } else if state == ChatState::Idle
            && let Some(turn) = self.turn.take()
        {
            self.close_turn(seq, turn);
        }
    }

    fn close_turn(&mut self, end: Seq, turn: ChatTurn) {
        let Some(message) = turn.message else { return };
        let result = turn.launching.as_ref().and_then(LaunchState::last_result).cloned();
        let cut_short = match &turn.over {
            Some(AttemptOutcome::Said) => None,
            Some(AttemptOutcome::Failed { error, .. }) => Some(format!("[no reply: {error}]")),
            Some(AttemptOutcome::GaveUp { reason }) => Some(format!("[no reply: {reason}]")),
            _ if turn.direct && result.is_some() => None,
            _ => Some("[stopped by the user]".to_owned()),
        };
        let direct = result.filter(|_| turn.direct).map(Box::new);
        let past = PastTurn { message, steps: turn.steps, direct, cut_short, end };
        if past.direct.is_some() || past.cut_short.is_some() {
            self.count_since(&structural_summary(past.answer(), self.result_limit(), ""));
        }
        self.past.push(past);
    }

    fn start(&mut self, number: u32, purpose: Purpose, continues: Option<u32>) {
        self.attempts = number;
        let Some(turn) = &mut self.turn else { return };
        let mut faults = 0;
        // A new attempt drops the suspended ones, up to the one that it continues. A new compaction drops none, because
        // the suspended reply continues afterwards.
        while let Some(old) = turn.suspended.pop_if(|_| purpose != Purpose::Compact || continues.is_some()) {
            if continues == Some(old.number) {
                faults = old.faults;
                break;
            }
        }
        if purpose == Purpose::Compact && matches!(turn.compaction, CompactionStep::Finished { .. }) {
            turn.compaction = CompactionStep::NotChecked;
        }
        turn.attempt = Some(ChatAttempt::new(number, purpose, faults));
    }

    fn end(&mut self, number: u32, outcome: &AttemptOutcome) {
        let retry_at = (*outcome != AttemptOutcome::Said).then(|| self.retry_size());
        let Some(turn) = &mut self.turn else { return };
        let Some(ended) = turn.attempt.take_if(|attempt| attempt.number == number) else { return };
        match (ended.purpose, outcome) {
            (_, AttemptOutcome::Interrupted | AttemptOutcome::Paused) => turn.suspended.push(ended),
            (Purpose::Compact, _) => {
                turn.compaction = CompactionStep::Finished { retry_at };
                let problem = match outcome {
                    AttemptOutcome::Failed { error, .. } => error,
                    AttemptOutcome::GaveUp { reason } => reason,
                    _ => return,
                };
                self.notice = Some(Notice {
                    level: NoticeLevel::Warning,
                    text: format!(
                        "the conversation could not be summarized ({problem}); it continues unchanged"
                    ),
                    hint: None,
                });
            }
            _ => {
                turn.over = Some(outcome.clone());
                if turn.direct {
                    turn.base_state = ChatState::Chatting;
                }
            }
        }
    }

    fn add(&mut self, seq: Seq, number: u32, item: &Item) {
        if let Item::Reply(reply) = item {
            self.budget.add_call(&reply.usage);
        }
        let Some(turn) = &mut self.turn else { return };
        let Some(attempt) = turn.attempt.as_mut().filter(|attempt| attempt.number == number) else { return };
        if let Item::Reply(reply) = item {
            attempt.usage += reply.usage;
        }
        match item {
            Item::Reply(reply) if attempt.purpose == Purpose::Compact => {
                turn.compaction = CompactionStep::Summarized(Box::new(reply.clone()))
            }
            Item::Reply(reply) => {
                // The counts of a CLI agent include its internal calls, so they do not measure this conversation.
                let counts = reply.usage.input_tokens > 0 && reply.usage.calls <= 1 && reply.native.is_none();
                self.provider_count =
                    counts.then(|| (reply.usage.input_tokens.saturating_add(reply.usage.output_tokens), 0));
                if reply.native.is_some() {
                    self.native.clone_from(&reply.native);
                }
                turn.steps.push(ChatStep::Reply { seq, reply: reply.clone() });
                self.estimated_tokens += tokens::estimate_reply(&reply.text, &reply.tool_calls);
            }
            Item::ToolResult { call, content, is_error } => {
                let launched = turn.launch_call().is_some_and(|open| open.id == *call);
                if launched {
                    turn.launching = None;
                }
                turn.edits.remove(call);
                turn.steps.push(ChatStep::Result {
                    seq,
                    call: call.clone(),
                    content: content.clone(),
                    is_error: *is_error,
                });
                self.count_since(content);
            }
            Item::EditProposed { call, preview } => turn.propose_edit(call, preview, self.edits_allowed),
            Item::Reminder { text, restates_task, .. } => {
                attempt.faults += 1;
                let text = turn.reminder(text, *restates_task);
                turn.steps.push(ChatStep::Reminder { seq, text: text.clone() });
                self.count_since(&text);
            }
            _ => {}
        }
    }

    fn open(&mut self, interaction: &Interaction) {
        self.interactions += 1;
        self.interaction = Some(interaction.clone());
        let Some(turn) = &mut self.turn else { return };
        match &interaction.kind {
            InteractionKind::RunApproval { proposal } => {
                turn.launching.get_or_insert_default().proposal = Some(proposal.clone())
            }
            InteractionKind::PlanApproval { .. } => turn.launching.get_or_insert_default().plan_shown = true,
            _ => {}
        }
    }

    fn close(&mut self, decision: &Decision) {
        let Some(open) = self.interaction.take() else { return };
        let Some(turn) = &mut self.turn else { return };
        let approved = matches!(decision, Decision::Approve { .. });
        match open.kind {
            InteractionKind::Budget { .. } if approved => self.budget.allow_more(),
            InteractionKind::Budget { .. } => turn.budget_refused = true,
            InteractionKind::EditApproval { call, .. } => {
                self.edits_allowed |= turn.decide_edit(&call, decision);
            }
            _ => {
                let launching = turn.launching.get_or_insert_default();
                launching.decision = Some(decision.clone());
                let plan = launching.run.as_ref().and_then(|run| run.result.clone());
                if let (Decision::Change { text }, Some(plan)) = (decision, plan) {
                    let replan = Some((text.clone(), Box::new(plan)));
                    *launching = LaunchState { replan, ..LaunchState::default() };
                }
                if !approved {
                    turn.base_state = ChatState::Chatting;
                }
            }
        }
    }

    fn count_since(&mut self, text: &str) {
        let tokens = tokens::estimate_message(text);
        self.estimated_tokens += tokens;
        if let Some((_, since)) = &mut self.provider_count {
            *since += tokens;
        }
    }

    fn fact(&self, fact: Fact) -> Consequence {
        (self.task.clone(), fact)
    }
}

#[cfg(test)]
pub(crate) mod tests;
