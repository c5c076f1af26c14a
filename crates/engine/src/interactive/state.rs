//! The state of a turn of a conversation: the fold of its facts.

use crate::launch::LAUNCH_RUN;
use crate::prompt::reminders::with_user_message;
use althing_protocol::{
    AttemptOutcome, ChatState, Decision, EditPreview, LaunchRun, ModeChoice, PathGrant, Proposal, Purpose,
    Reply, RunResult, RunStatus, Seq, TaskId, ToolCall, Usage,
};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UserMessage {
    /// The number of the fact that accepted the message.
    pub(crate) seq: Seq,
    pub(crate) text: String,
    pub(crate) modes: ModeChoice,
    pub(crate) grants: Vec<PathGrant>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ChatStep {
    Reply {
        seq: Seq,
        reply: Reply,
    },
    Result {
        seq: Seq,
        call: String,
        content: String,
        is_error: bool,
    },
    /// A reminder that the agent's reply was empty.
    Reminder {
        seq: Seq,
        text: String,
    },
}

impl ChatStep {
    pub(crate) fn seq(&self) -> Seq {
        match self {
            Self::Reply { seq, .. } | Self::Result { seq, .. } | Self::Reminder { seq, .. } => *seq,
        }
    }

    pub(crate) fn is_reply(&self) -> bool {
        matches!(self, Self::Reply { .. })
    }

    fn tool_calls(&self) -> usize {
        match self {
            Self::Reply { reply, .. } => reply.tool_calls.len(),
            Self::Result { .. } | Self::Reminder { .. } => 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LaunchedRun {
    pub(crate) id: TaskId,
    pub(crate) result: Option<RunResult>,
    pub(crate) cancelled: bool,
}

impl LaunchedRun {
    pub(crate) fn new(id: TaskId) -> Self {
        Self { id, result: None, cancelled: false }
    }

    /// A run without a result is active, and so is a planning run that must still start the run that executes its plan.
    fn is_active(&self, may_follow: bool) -> bool {
        let follows = |result: &RunResult| may_follow && result.follow_up.is_some() && !self.cancelled;
        self.result.as_ref().is_none_or(follows)
    }
}

/// The state of a `launch_run` call, or of a message that directly starts a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LaunchState {
    /// The proposal that was shown for approval.
    pub(crate) proposal: Option<Box<Proposal>>,
    /// The user's answer about the launch or the plan.
    pub(crate) decision: Option<Decision>,
    pub(crate) run: Option<LaunchedRun>,
    /// The launch of the run: as the user approved it or, if no approval was needed, with its defaults filled in.
    pub(crate) launched: Option<Box<LaunchRun>>,
    pub(crate) execution: Option<LaunchedRun>,
    /// Whether the user was asked about the plan, or told that there is none.
    pub(crate) plan_shown: bool,
    /// The requested changes, and the result of the run that made the plan.
    pub(crate) replan: Option<(String, Box<RunResult>)>,
}

impl LaunchState {
    pub(crate) fn active(&self) -> Option<&LaunchedRun> {
        let waits = self.execution.is_none();
        let run = self.run.as_ref().filter(|run| run.is_active(waits));
        run.or_else(|| self.execution.as_ref().filter(|run| run.is_active(false)))
    }

    pub(crate) fn active_mut(&mut self) -> Option<&mut LaunchedRun> {
        let waits = self.execution.is_none();
        let run = self.run.as_mut().filter(|run| run.is_active(waits));
        run.or_else(|| self.execution.as_mut().filter(|run| run.is_active(false)))
    }

    pub(crate) fn last_result(&self) -> Option<&RunResult> {
        [&self.execution, &self.run].into_iter().flatten().find_map(|run| run.result.as_ref())
    }

    /// Whether the conversation itself must launch the execution of a plan. Only in logs of 0.1.0, where a planning run
    /// does not know that its plan should be executed.
    pub(crate) fn execution_is_due(&self) -> bool {
        let planned = self.run.as_ref().and_then(|run| run.result.as_ref());
        self.launched.as_ref().is_some_and(|launch| launch.execute_after_planning)
            && self.execution.is_none()
            && planned
                .is_some_and(|result| result.status == RunStatus::Completed && result.follow_up.is_none())
    }

    /// Whether an approval of the launch or the plan has not yet led to a run.
    pub(crate) fn is_approved(&self) -> bool {
        let next = if self.plan_shown { &self.execution } else { &self.run };
        matches!(self.decision, Some(Decision::Approve { .. })) && next.is_none()
    }

    pub(crate) fn unseen_plan(&self) -> Option<&RunResult> {
        let planned = self.run.as_ref()?.result.as_ref()?;
        let ready = planned.modes.planning && planned.status == RunStatus::Completed;
        (ready && !self.plan_shown).then_some(planned)
    }

    pub(crate) fn is_running(&self, stopping: bool) -> bool {
        self.active().is_some() || (self.execution_is_due() && !stopping)
    }
}

/// The state of a tool call that changes files, once it is known what it would change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProposedEdit {
    pub(crate) preview: EditPreview,
    /// The user's answer, if the user was asked.
    pub(crate) decision: Option<Decision>,
}

/// An attempt of the chat agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChatAttempt {
    pub(crate) number: u32,
    pub(crate) purpose: Purpose,
    pub(crate) usage: Usage,
    /// The attempt was running when the session was resumed; its `AttemptEnded` is not recorded yet.
    pub(crate) interrupted: bool,
    pub(crate) faults: u32,
    /// How the attempt ended, if it summarized the conversation and its `AttemptEnded` is not recorded yet. Otherwise
    /// None: how an attempt to answer ends follows from its last reply.
    pub(crate) settled: Option<AttemptOutcome>,
}

impl ChatAttempt {
    pub(crate) fn new(number: u32, purpose: Purpose, faults: u32) -> Self {
        Self { number, purpose, usage: Usage::default(), interrupted: false, faults, settled: None }
    }
}

/// The active turn: from a message to the agent's final reply, or to the end of the run that the message started
/// directly.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChatTurn {
    /// The user's message; None if the turn only compacts the conversation.
    pub(crate) message: Option<UserMessage>,
    pub(crate) direct: bool,
    pub(crate) steps: Vec<ChatStep>,
    pub(crate) compaction: CompactionStep,
    pub(crate) attempt: Option<ChatAttempt>,
    /// Interrupted and paused attempts; the last one is continued first.
    pub(crate) suspended: Vec<ChatAttempt>,
    pub(crate) replaced_replies: usize,
    pub(crate) replaced_calls: usize,
    /// The conversation's state whenever no approval is awaited and no run is active.
    pub(crate) base_state: ChatState,
    pub(crate) launching: Option<LaunchState>,
    /// The calls without a result whose changes of files are known, by call id.
    pub(crate) edits: BTreeMap<String, ProposedEdit>,
    /// Whether the user stopped the turn.
    pub(crate) cancelled: bool,
    /// The user refused to raise the budget.
    pub(crate) budget_refused: bool,
    pub(crate) over: Option<AttemptOutcome>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CompactionStep {
    NotChecked,
    Requested,
    Summarized(Box<Reply>),
    /// The compaction was done or has failed. Another one follows if the conversation grows too long again.
    Finished {
        /// After a failure: the size in tokens at which the compaction is tried again.
        retry_at: Option<u64>,
    },
}

impl ChatTurn {
    pub(crate) fn reminder(&self, text: &str, restates_task: bool) -> String {
        let message = self.message.as_ref().filter(|_| restates_task);
        message.map_or_else(|| text.to_owned(), |message| with_user_message(text, &message.text))
    }

    pub(crate) fn new(message: Option<UserMessage>, direct: bool) -> Self {
        Self {
            message,
            direct,
            steps: Vec::new(),
            compaction: CompactionStep::NotChecked,
            attempt: None,
            suspended: Vec::new(),
            replaced_replies: 0,
            replaced_calls: 0,
            base_state: ChatState::Chatting,
            launching: None,
            edits: BTreeMap::new(),
            cancelled: false,
            budget_refused: false,
            over: None,
        }
    }

    pub(crate) fn last_reply(&self) -> Option<(&Reply, &[ChatStep])> {
        let at = self.steps.iter().rposition(ChatStep::is_reply)?;
        let (before, since) = self.steps.split_at_checked(at + 1)?;
        match before.last() {
            Some(ChatStep::Reply { reply, .. }) => Some((reply, since)),
            _ => None,
        }
    }

    pub(crate) fn open_calls(&self) -> Vec<&ToolCall> {
        let Some((reply, since)) = self.last_reply() else { return Vec::new() };
        let answered = |call: &ToolCall| {
            since.iter().any(|step| matches!(step, ChatStep::Result { call: id, .. } if *id == call.id))
        };
        reply.tool_calls.iter().filter(|call| !answered(call)).collect()
    }

    pub(crate) fn launch_call(&self) -> Option<&ToolCall> {
        self.open_calls().into_iter().find(|call| call.name == LAUNCH_RUN)
    }

    /// The number of replies, including those that a summary replaced.
    pub(crate) fn replies(&self) -> usize {
        self.replaced_replies + self.steps.iter().filter(|step| step.is_reply()).count()
    }

    /// The number of tool calls, including those in replies that a summary replaced.
    pub(crate) fn tool_calls(&self) -> usize {
        self.replaced_calls + self.steps.iter().map(ChatStep::tool_calls).sum::<usize>()
    }

    pub(crate) fn replace_steps(&mut self, up_to: Seq) {
        let (replies, calls) = (self.replies(), self.tool_calls());
        self.steps.retain(|step| step.seq() > up_to);
        self.replaced_replies = replies - self.steps.iter().filter(|step| step.is_reply()).count();
        self.replaced_calls = calls - self.steps.iter().map(ChatStep::tool_calls).sum::<usize>();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.cancelled || self.budget_refused
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PastTurn {
    pub(crate) message: UserMessage,
    pub(crate) steps: Vec<ChatStep>,
    /// The result of the run that the message started directly.
    pub(crate) direct: Option<Box<RunResult>>,
    /// Why the agent gave no final reply, if it gave none.
    pub(crate) cut_short: Option<String>,
    /// The number of the fact that ended the turn.
    pub(crate) end: Seq,
}

impl PastTurn {
    /// The answer or error of the run that the message started directly; otherwise the agent's last text, or why there
    /// is none.
    pub(crate) fn answer(&self) -> &str {
        if let Some(result) = &self.direct {
            return result.final_answer.as_deref().or(result.error.as_deref()).unwrap_or_default();
        }
        let text = self.steps.iter().rev().find_map(|step| match step {
            ChatStep::Reply { reply, .. } if !reply.text.trim().is_empty() => Some(reply.text.as_str()),
            _ => None,
        });
        text.or(self.cut_short.as_deref()).unwrap_or_default()
    }
}

pub(crate) fn state_after_run(status: RunStatus) -> ChatState {
    match status {
        RunStatus::Completed => ChatState::ProcessingResults,
        RunStatus::Partial | RunStatus::Failed => ChatState::ProcessingPartial,
        RunStatus::Cancelled => ChatState::ProcessingCancelled,
    }
}

/// Fills the unset modes of one choice from another.
pub(crate) fn merge_choices(first: ModeChoice, second: &ModeChoice) -> ModeChoice {
    ModeChoice {
        agent_mode: first.agent_mode.or(second.agent_mode),
        agent: first.agent.or_else(|| second.agent.clone()),
        refinement: first.refinement.or(second.refinement),
        planning: first.planning.or(second.planning),
    }
}
