//! What the conversation's decider knows of a turn: the fold of its facts, and nothing else.

use crate::launch::LAUNCH_RUN;
use althing_protocol::{
    AttemptOutcome, ChatState, Decision, LaunchRun, ModeChoice, PathGrant, Proposal, Purpose, Reply,
    RunResult, RunStatus, Seq, TaskId, ToolCall,
};

/// What the user said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UserMessage {
    /// The fact that accepted it.
    pub(crate) seq: Seq,
    pub(crate) text: String,
    pub(crate) modes: ModeChoice,
    /// The paths that the user grants to the runs of this message.
    pub(crate) grants: Vec<PathGrant>,
}

/// What was said in a turn after the user's message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ChatStep {
    /// The agent spoke.
    Reply { seq: Seq, reply: Reply },
    /// A tool call was answered.
    Result { call: String, content: String, is_error: bool },
    /// It was told to say something.
    Reminder(String),
}

/// A run that a turn launched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LaunchedRun {
    pub(crate) id: TaskId,
    pub(crate) result: Option<RunResult>,
    /// It was asked to stop.
    pub(crate) cancelled: bool,
}

impl LaunchedRun {
    pub(crate) fn new(id: TaskId) -> Self {
        Self { id, result: None, cancelled: false }
    }

    /// Whether it is under way: it has no result, or has still to start the run that carries out its plan.
    fn is_active(&self, may_follow: bool) -> bool {
        let follows = |result: &RunResult| may_follow && result.follow_up.is_some() && !self.cancelled;
        self.result.as_ref().is_none_or(follows)
    }
}

/// A `launch_run` call on its way to its result.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LaunchState {
    /// What was shown for approval.
    pub(crate) proposal: Option<Box<Proposal>>,
    /// What the user said to it.
    pub(crate) decision: Option<Decision>,
    /// The run, once it exists.
    pub(crate) run: Option<LaunchedRun>,
    /// What that run was launched with, settled.
    pub(crate) launched: Option<Box<LaunchRun>>,
    /// The run that carries out the plan.
    pub(crate) execution: Option<LaunchedRun>,
    /// The user was asked about the plan of a message that is a run by itself, or told that there is none.
    pub(crate) plan_shown: bool,
    /// What the user wants changed about the plan before.
    pub(crate) replan: Option<(String, Box<RunResult>)>,
}

impl LaunchState {
    /// The run under way.
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

    /// The result that says how it ended.
    pub(crate) fn last_result(&self) -> Option<&RunResult> {
        [&self.execution, &self.run].into_iter().flatten().find_map(|run| run.result.as_ref())
    }

    /// Whether the conversation has to launch the execution of a plan itself: in logs of 0.1.0 a planning run does not know
    /// that its plan is to be carried out.
    pub(crate) fn execution_is_due(&self) -> bool {
        let planned = self.run.as_ref().and_then(|run| run.result.as_ref());
        self.launched.as_ref().is_some_and(|launch| launch.execute_after_planning)
            && self.execution.is_none()
            && planned
                .is_some_and(|result| result.status == RunStatus::Completed && result.follow_up.is_none())
    }

    /// Whether it was approved, and the run is still to come into being.
    pub(crate) fn is_approved(&self) -> bool {
        let next = if self.plan_shown { &self.execution } else { &self.run };
        matches!(self.decision, Some(Decision::Approve { .. })) && next.is_none()
    }

    /// The result of a run that only planned, while its plan is still to be shown to the user.
    pub(crate) fn unseen_plan(&self) -> Option<&RunResult> {
        let planned = self.run.as_ref()?.result.as_ref()?;
        let ready = planned.modes.planning && planned.status == RunStatus::Completed;
        (ready && !self.plan_shown).then_some(planned)
    }

    /// Whether a run of it is to be seen as running.
    pub(crate) fn is_running(&self, stopping: bool) -> bool {
        self.active().is_some() || (self.execution_is_due() && !stopping)
    }
}

/// One try of the agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChatAttempt {
    pub(crate) number: u32,
    pub(crate) purpose: Purpose,
    /// A crash cut it off: the fact of its end is still to be written.
    pub(crate) interrupted: bool,
    /// How often it said nothing at all.
    pub(crate) faults: u32,
    /// What it came to: the fact of its end is still to be written.
    pub(crate) settled: Option<AttemptOutcome>,
}

/// A turn under way: from a message to the agent's last word on it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChatTurn {
    /// The message; None where the conversation is only to be shortened.
    pub(crate) message: Option<UserMessage>,
    /// Whether the message is a run by itself.
    pub(crate) direct: bool,
    pub(crate) steps: Vec<ChatStep>,
    /// How far the summing up has come that may precede the turn.
    pub(crate) compaction: CompactionStep,
    pub(crate) attempt: Option<ChatAttempt>,
    /// An attempt that was cut off and is to be carried on.
    pub(crate) suspended: Option<ChatAttempt>,
    /// Where the conversation stands while neither an approval nor a run is waited for.
    pub(crate) base_state: ChatState,
    pub(crate) launching: Option<LaunchState>,
    /// The user asked to stop.
    pub(crate) cancelled: bool,
    /// The user would not spend more.
    pub(crate) budget_refused: bool,
    /// The agent's part is over.
    pub(crate) over: Option<AttemptOutcome>,
}

/// How far the summing up before a turn has come.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CompactionStep {
    /// Not looked at: it is done if the conversation has grown too long.
    NotChecked,
    /// The user asked for it.
    Requested,
    /// The model said this.
    Summarized(Reply),
    /// Done, or given up.
    Finished,
}

impl ChatTurn {
    pub(crate) fn new(message: Option<UserMessage>, direct: bool) -> Self {
        Self {
            message,
            direct,
            steps: Vec::new(),
            compaction: CompactionStep::NotChecked,
            attempt: None,
            suspended: None,
            base_state: ChatState::Chatting,
            launching: None,
            cancelled: false,
            budget_refused: false,
            over: None,
        }
    }

    /// The last reply and what was said since.
    pub(crate) fn last_reply(&self) -> Option<(&Reply, &[ChatStep])> {
        let at = self.steps.iter().rposition(|step| matches!(step, ChatStep::Reply { .. }))?;
        let (before, since) = self.steps.split_at_checked(at + 1)?;
        match before.last() {
            Some(ChatStep::Reply { reply, .. }) => Some((reply, since)),
            _ => None,
        }
    }

    /// The calls of the last reply that have no result yet.
    pub(crate) fn open_calls(&self) -> Vec<&ToolCall> {
        let Some((reply, since)) = self.last_reply() else { return Vec::new() };
        let answered = |call: &ToolCall| {
            since.iter().any(|step| matches!(step, ChatStep::Result { call: id, .. } if *id == call.id))
        };
        reply.tool_calls.iter().filter(|call| !answered(call)).collect()
    }

    /// The first call of the last reply that launches a run and has no result yet.
    pub(crate) fn launch_call(&self) -> Option<&ToolCall> {
        self.open_calls().into_iter().find(|call| call.name == LAUNCH_RUN)
    }

    pub(crate) fn replies(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, ChatStep::Reply { .. })).count()
    }

    /// Whether nothing more is to be begun in it.
    pub(crate) fn is_stopping(&self) -> bool {
        self.cancelled || self.budget_refused
    }
}

/// A turn that is over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PastTurn {
    pub(crate) message: UserMessage,
    pub(crate) steps: Vec<ChatStep>,
    /// The result of the run that the message was by itself.
    pub(crate) direct: Option<Box<RunResult>>,
    /// Why the agent has no last word, where it has none.
    pub(crate) cut_short: Option<String>,
    /// The fact that ended it.
    pub(crate) end: Seq,
}

impl PastTurn {
    /// The agent's last word, or the run's.
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

/// The state in which a run's end leaves the conversation.
pub(crate) fn state_after_run(status: RunStatus) -> ChatState {
    match status {
        RunStatus::Completed => ChatState::ProcessingResults,
        RunStatus::Partial | RunStatus::Failed => ChatState::ProcessingPartial,
        RunStatus::Cancelled => ChatState::ProcessingCancelled,
    }
}
