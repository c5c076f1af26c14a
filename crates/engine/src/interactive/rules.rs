//! The rules of a conversation: which facts follow from the state.
//!
//! 1. Messages are processed one at a time; others are queued. In plan mode, or without a chat agent, a message
//!    directly starts a run with the conversation as its history; if the run makes a plan, the plan is executed only
//!    after the user has approved it.
//! 2. The agent's turn continues until the agent replies without calling a tool. Its tool calls are executed; one that
//!    changes files is shown first and, if a person must allow it, asked about (`edits.rs`). A `launch_run` call is
//!    checked, shown for approval if that is required, and becomes a run below the conversation.
//! 3. The result of a `launch_run` call is the run's result, even if the run failed. With `execute_after_planning`, it
//!    also contains the result of a second run, which executes the plan without another approval.
//! 4. The user can stop a run or the whole turn; the agent is told about a stopped run. An approval starts exactly the
//!    approved run, once.
//! 5. Before a model call of a conversation that has grown too long, its older part is summarized, within a turn too.
//!    Before the session exceeds its budget, the user is asked.

use super::budget::Expense;
use super::state::{ChatAttempt, ChatTurn, CompactionStep, LaunchState};
use super::transitions::next_state_towards;
use super::{InteractiveSession, compaction};
use crate::decider::{Consequence, SideTaskKind};
use crate::launch::{self, Consent, LAUNCH_RUN, ResolvedRun};
use crate::summary::excerpt;
use althing_protocol::{
    AttemptOutcome, ChatLimits, ChatState, Decision, Fact, Interaction, InteractionId, InteractionKind, Item,
    LaunchRun, ModeChoice, Modes, Notice, NoticeLevel, Op, Origin, Phase, Purpose, RunResult, RunSpec,
    TaskId, TaskSpec, TaskStatus, ToolCall,
};

const MAX_TRIES: u32 = 3;

/// The maximum size of a plan in the context of the run that changes it, in bytes.
const MAX_PLAN_BYTES: usize = 32 * 1024;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum NextTurnStep {
    Call,
    /// The execution of tool calls from the attempt's last reply, or the preview of one that changes files.
    Tools(Vec<SideTaskKind>),
    /// A person's answer, or the end of a run.
    Wait,
    /// Nothing has to run; these facts are recorded.
    Facts(Vec<Consequence>),
}

impl InteractiveSession {
    /// The facts that follow from the state. The caller applies them and calls again until there are none.
    pub fn consequences(&self) -> Vec<Consequence> {
        if let Some(notice) = &self.notice {
            return vec![self.fact(Fact::Notice(notice.clone()))];
        }
        if let Some(status) = self.due_status() {
            return vec![self.fact(Fact::StatusChanged { status, why: None })];
        }
        if let Some(state) = self.due_state() {
            return vec![self.fact(Fact::PhaseChanged { phase: Phase::Chat(state) })];
        }
        let Some(turn) = &self.turn else { return Vec::new() };
        if let Some(attempt) = &turn.attempt {
            // Replies come first: a recorded reply counts even if its attempt is about to end.
            if let Some(outcome) = settled(turn, attempt) {
                return vec![self.attempt_ended(attempt, outcome)];
            }
            if attempt.interrupted || self.halted {
                return vec![self.attempt_ended(attempt, AttemptOutcome::Interrupted)];
            }
        }
        if self.halted {
            return Vec::new();
        }
        if turn.is_stopping() {
            return self.stop_turn(turn);
        }
        if let Some(error) = self.grant_error(turn) {
            return vec![match &turn.attempt {
                None => self.attempt_started(Purpose::Converse, None),
                Some(attempt) => {
                    self.attempt_ended(attempt, AttemptOutcome::Failed { error, hint: None, kind: None })
                }
            }];
        }
        if turn.direct {
            return self.run_directly(turn);
        }
        if let (Some(old), None) = (turn.suspended.last(), &turn.attempt) {
            // If a compaction is due, it begins first; the suspended reply continues afterwards.
            let waits = old.purpose == Purpose::Converse && self.must_compact(turn);
            return if waits { self.begin(turn) } else { self.resume_attempt(turn, old) };
        }
        match &turn.attempt {
            None => self.begin(turn),
            Some(attempt) if attempt.purpose == Purpose::Compact => self.finish_compaction(turn, attempt),
            Some(attempt) => match self.next(turn, attempt) {
                NextTurnStep::Facts(facts) => facts,
                NextTurnStep::Call | NextTurnStep::Tools(_) | NextTurnStep::Wait => Vec::new(),
            },
        }
    }

    /// Only the user can correct granted paths, so no model is called if they are invalid.
    fn grant_error(&self, turn: &ChatTurn) -> Option<String> {
        let message = turn.message.as_ref().filter(|message| !message.grants.is_empty())?;
        launch::with_grants(&self.spec.team, &message.grants).err()
    }

    fn due_status(&self) -> Option<TaskStatus> {
        let busy = self.turn.as_ref().is_some_and(|turn| turn.attempt.is_some());
        let wanted = match &self.interaction {
            _ if self.halted && busy => return None,
            _ if self.halted => TaskStatus::Interrupted,
            Some(_) => TaskStatus::WaitingForUser,
            None => TaskStatus::Running,
        };
        if self.status == wanted {
            return None;
        }
        Some(if self.status.can_become(wanted) { wanted } else { TaskStatus::Running })
    }

    /// The next state on the way to the due state; None if the conversation is in the due state.
    fn due_state(&self) -> Option<ChatState> {
        let wanted = match &self.turn {
            None if self.halted => return None,
            None if self.queue.is_empty() && !self.compaction_requested => ChatState::Idle,
            None => ChatState::Chatting,
            Some(turn) => {
                let stopping = turn.is_stopping();
                let runs = turn.launching.as_ref().is_some_and(|run| run.is_running(stopping));
                let approved = turn.launching.as_ref().is_some_and(LaunchState::is_approved);
                let approved = approved && !stopping && turn.over.is_none();
                let here = if self.awaits_approval() || approved {
                    ChatState::AwaitingApproval
                } else if runs {
                    ChatState::Running
                } else {
                    turn.base_state
                };
                if here == self.phase && self.is_over(turn) { ChatState::Idle } else { here }
            }
        };
        (wanted != self.phase).then(|| next_state_towards(self.phase, wanted))
    }

    fn is_over(&self, turn: &ChatTurn) -> bool {
        if turn.over.is_some() {
            return true;
        }
        let active = turn.launching.as_ref().is_some_and(|run| run.active().is_some());
        if turn.attempt.is_some() || active || self.interaction.is_some() {
            return false;
        }
        let ran = turn.direct
            && turn.launching.as_ref().is_some_and(|run| {
                run.last_result().is_some() && run.unseen_plan().is_none() && !run.is_approved()
            });
        let idle = turn.message.is_none() && turn.suspended.is_empty() && !self.must_compact(turn);
        turn.is_stopping() || ran || idle
    }

    fn attempt_ended(&self, attempt: &ChatAttempt, outcome: AttemptOutcome) -> Consequence {
        self.fact(Fact::AttemptEnded { attempt: attempt.number, outcome, usage: attempt.usage, call: None })
    }

    fn item(&self, attempt: &ChatAttempt, item: Item) -> Consequence {
        self.fact(Fact::ItemAdded { attempt: attempt.number, item })
    }

    pub(super) fn result(
        &self,
        attempt: &ChatAttempt,
        call: &ToolCall,
        content: impl Into<String>,
        is_error: bool,
    ) -> Consequence {
        let (call, content) = (call.id.clone(), content.into());
        self.item(attempt, Item::ToolResult { call, content, is_error })
    }

    fn attempt_started(&self, purpose: Purpose, continues: Option<u32>) -> Consequence {
        self.fact(Fact::AttemptStarted { attempt: self.attempts + 1, purpose, continues })
    }

    /// Ends what is open in the turn, one fact at a time: the open question, then the active run, then the attempt.
    fn stop_turn(&self, turn: &ChatTurn) -> Vec<Consequence> {
        if let Some(open) = &self.interaction {
            let decision = Decision::Reject { reason: Some("the turn was stopped".into()) };
            return vec![self.fact(Fact::InteractionClosed { id: open.id.clone(), decision })];
        }
        if let Some(run) = turn.launching.as_ref().and_then(LaunchState::active) {
            let op = Op::Cancel { task: run.id.clone() };
            let cancel = (run.id.clone(), Fact::accepted(op, Origin::System));
            return if run.cancelled { Vec::new() } else { vec![cancel] };
        }
        let Some(attempt) = &turn.attempt else { return Vec::new() };
        let ran = turn.launching.as_ref().filter(|launching| launching.last_result().is_some());
        if let (Some(launching), Some(call)) = (ran, turn.launch_call()) {
            return vec![self.result(attempt, call, self.launch_result(launching), false)];
        }
        let outcome = if turn.cancelled {
            AttemptOutcome::Cancelled
        } else {
            AttemptOutcome::GaveUp { reason: "exceeding the budget was not approved".into() }
        };
        vec![self.attempt_ended(attempt, outcome)]
    }

    fn run_directly(&self, turn: &ChatTurn) -> Vec<Consequence> {
        let not_launched = LaunchState::default();
        let launching = turn.launching.as_ref().unwrap_or(&not_launched);
        if launching.active().is_some() || self.interaction.is_some() {
            return Vec::new();
        }
        if let Some(planned) = launching.unseen_plan() {
            return vec![self.fact(self.plan_question(planned))];
        }
        if launching.run.is_some() && !launching.is_approved() {
            return Vec::new();
        }
        if let Some(question) = self.budget_question(Expense::Run) {
            return vec![self.fact(question)];
        }
        match (self.direct_run(turn, launching), &turn.attempt) {
            (Ok(spec), _) => vec![self.create_run(spec)],
            // The error is recorded as a failed attempt, which must first be started.
            (Err(_), None) => vec![self.attempt_started(Purpose::Converse, None)],
            (Err(error), Some(attempt)) => {
                vec![self.attempt_ended(attempt, AttemptOutcome::Failed { error, hint: None, kind: None })]
            }
        }
    }

    /// The question whether to execute the plan, or a notice that there is no plan.
    fn plan_question(&self, planned: &RunResult) -> Fact {
        let tasks = launch::plan_preview(planned.final_answer.as_deref().unwrap_or_default());
        // Only a stored plan can be approved, because the stored plan is what is executed.
        let Some((plan, preview)) = planned.plan.clone().zip(tasks) else {
            let text = format!("run {} ended without a plan that can be executed", planned.run_id);
            let hint = Some(
                "send the message again, and add what the agents need to know to make a plan".to_owned(),
            );
            return Fact::Notice(Notice { level: NoticeLevel::Warning, text, hint });
        };
        let id = InteractionId::new(format!("{}.plan{}", self.task, self.interactions + 1));
        let kind = InteractionKind::PlanApproval { plan, preview };
        Fact::InteractionOpened(Interaction { id, kind, countdown: None })
    }

    pub(super) fn direct_launch(turn: &ChatTurn) -> LaunchRun {
        let task = turn.message.as_ref().map(|message| message.text.clone()).unwrap_or_default();
        let replan = turn.launching.as_ref().and_then(|launching| launching.replan.as_ref());
        let context = replan.map(|(changes, plan)| {
            let whole = format!("the whole plan is in {}/final_answer.md", plan.log_dir);
            let before = plan.final_answer.as_deref().unwrap_or_default();
            let before = excerpt(before, MAX_PLAN_BYTES, &whole);
            format!("There is a plan already:\n{before}\n\nThe user wants it changed: {changes}")
        });
        // Refinement is on unless the user switched it off. (In a `launch_run` call, it is off by default for a single
        // agent.)
        let refinement = Some(Modes::default().refinement);
        LaunchRun { task, context, refinement, ..LaunchRun::default() }
    }

    fn direct_run(&self, turn: &ChatTurn, launching: &LaunchState) -> Result<RunSpec, String> {
        let plan = launching.run.as_ref().and_then(|run| run.result.as_ref());
        let spec = match (plan, &launching.decision, &launching.launched) {
            (Some(plan), Some(Decision::Approve { instructions, .. }), Some(planned)) => {
                let mut launch = (**planned).clone();
                launch.context = instructions.as_ref().map(|text| format!("The user adds: {text}"));
                let mut spec = self.execution(turn, &launch, plan, Consent::Person)?;
                if let Some(plan) = &mut spec.plan {
                    plan.additions.clone_from(instructions);
                }
                spec
            }
            _ => self.resolve(turn, &Self::direct_launch(turn), &self.choice(turn), Consent::Person)?.spec,
        };
        Ok(RunSpec { history: self.history(), ..spec })
    }

    pub(super) fn execution(
        &self,
        turn: &ChatTurn,
        planning: &LaunchRun,
        plan: &RunResult,
        consent: Consent,
    ) -> Result<RunSpec, String> {
        let launch = LaunchRun { planning_mode: false, execute_after_planning: false, ..planning.clone() };
        let launch = self.resolve(turn, &launch, &ModeChoice::default(), consent)?;
        Ok(launch::execution_run(launch.spec, plan))
    }

    pub(super) fn resolve(
        &self,
        turn: &ChatTurn,
        launch: &LaunchRun,
        choice: &ModeChoice,
        consent: Consent,
    ) -> Result<ResolvedRun, String> {
        let mut launch =
            launch::resolve_launch(&self.team(turn), launch, choice, consent, self.tie_break_seed())?;
        let limits = &mut launch.spec.rules.limits;
        limits.cost_micro_usd = limits.cost_micro_usd.into_iter().chain(self.budget.left()).min();
        Ok(launch)
    }

    fn next_run(&self) -> TaskId {
        TaskId::run(self.newest_run + 1)
    }

    /// The seed for breaking ties in the next run: differs between runs, and is the same on replay.
    fn tie_break_seed(&self) -> u64 {
        althing_text::fnv1a(&format!("{}.{}", self.session, self.next_run()))
    }

    pub(super) fn create_run(&self, spec: RunSpec) -> Consequence {
        let id = self.next_run();
        let spec = TaskSpec::Run(Box::new(spec));
        (id.clone(), Fact::TaskCreated { id, parent: Some(self.task.clone()), spec })
    }

    /// Continues an interrupted attempt as a new one with the same conversation. An interrupted tool call may have
    /// taken effect, so it is not repeated; the agent is told. An active run resumes by itself.
    fn resume_attempt(&self, turn: &ChatTurn, old: &ChatAttempt) -> Vec<Consequence> {
        let mut facts = vec![self.attempt_started(old.purpose, Some(old.number))];
        let attempt = self.attempts + 1;
        let interrupted = |call: &&ToolCall| call.name != LAUNCH_RUN && !Self::awaits_permission(turn, call);
        for call in turn.open_calls().into_iter().filter(interrupted) {
            let content =
                "This call was interrupted. It may have taken effect: check before you repeat the call."
                    .to_owned();
            let item = Item::ToolResult { call: call.id.clone(), content, is_error: true };
            facts.push(self.fact(Fact::ItemAdded { attempt, item }));
        }
        facts
    }

    fn begin(&self, turn: &ChatTurn) -> Vec<Consequence> {
        if self.interaction.is_some() {
            return Vec::new();
        }
        if let Some(question) = self.budget_question(Expense::Call) {
            return vec![self.fact(question)];
        }
        let purpose = if self.must_compact(turn) { Purpose::Compact } else { Purpose::Converse };
        vec![self.attempt_started(purpose, None)]
    }

    fn finish_compaction(&self, turn: &ChatTurn, attempt: &ChatAttempt) -> Vec<Consequence> {
        let CompactionStep::Summarized(reply) = &turn.compaction else { return Vec::new() };
        if let Some(summary) = compaction::summary_in(reply) {
            return vec![self.fact(Fact::Decided(self.compaction_verdict(summary)))];
        }
        let reason = "the model gave no summary".to_owned();
        vec![self.attempt_ended(attempt, AttemptOutcome::GaveUp { reason })]
    }

    fn limits(&self) -> ChatLimits {
        self.spec.agent.as_ref().map(|agent| agent.limits).unwrap_or_default()
    }

    pub(super) fn next(&self, turn: &ChatTurn, attempt: &ChatAttempt) -> NextTurnStep {
        if self.interaction.is_some() {
            return NextTurnStep::Wait;
        }
        let Some((reply, since)) = turn.last_reply() else { return self.call(turn, attempt) };
        let open = turn.open_calls();
        let limits = self.limits();
        let over = limits.tool_calls.filter(|most| turn.tool_calls() > *most as usize);
        if let Some(most) = over.filter(|_| !open.is_empty()) {
            let text = format!(
                "Refused: the {most} tool calls for one message are used up (`orchestrator.limits.tool_calls_per_agent` \
                 in the user's config). Answer the user now."
            );
            let refused = open.into_iter().map(|call| self.result(attempt, call, text.clone(), true));
            return NextTurnStep::Facts(refused.collect());
        }
        let others: Vec<&ToolCall> = open.iter().filter(|call| call.name != LAUNCH_RUN).copied().collect();
        if let Some(step) = self.next_tools(turn, attempt, &others) {
            return step;
        }
        if let Some(call) = open.first() {
            return self.launch(turn, attempt, call);
        }
        if reply.tool_calls.is_empty() && since.is_empty() {
            let text = "Your reply was empty. Now answer the user's message, as text or by calling a tool."
                .to_owned();
            let fact = if attempt.faults + 1 >= MAX_TRIES {
                self.attempt_ended(
                    attempt,
                    AttemptOutcome::GaveUp { reason: "the model's replies were empty".into() },
                )
            } else {
                self.item(attempt, Item::Reminder { call: None, text, restates_task: true })
            };
            return NextTurnStep::Facts(vec![fact]);
        }
        if turn.replies() >= limits.model_calls as usize {
            let most = limits.model_calls;
            let error = format!("The chat agent did not finish its turn within {most} model calls.");
            let hint = "`orchestrator.limits.model_calls_per_message` in the config changes this limit.";
            let failed = AttemptOutcome::Failed { error, hint: Some(hint.to_owned()), kind: None };
            return NextTurnStep::Facts(vec![self.attempt_ended(attempt, failed)]);
        }
        self.call(turn, attempt)
    }

    fn call(&self, turn: &ChatTurn, attempt: &ChatAttempt) -> NextTurnStep {
        match self.budget_question(Expense::Call) {
            Some(question) => NextTurnStep::Facts(vec![self.fact(question)]),
            None if self.must_compact(turn) => {
                NextTurnStep::Facts(vec![self.attempt_ended(attempt, AttemptOutcome::Paused)])
            }
            None => NextTurnStep::Call,
        }
    }
}

/// How the attempt must end now; None if it goes on.
fn settled(turn: &ChatTurn, attempt: &ChatAttempt) -> Option<AttemptOutcome> {
    if attempt.settled.is_some() || attempt.purpose != Purpose::Converse {
        return attempt.settled.clone();
    }
    let (reply, since) = turn.last_reply()?;
    let is_final = reply.tool_calls.is_empty() && !reply.text.trim().is_empty() && since.is_empty();
    is_final.then_some(AttemptOutcome::Said)
}
