//! The state of a run: the fold of its facts.

use althing_protocol::{
    AgentId, Answer, AttemptOutcome, BackendErrorKind, Ballot, DecisionReport, FileWrite, Item, Member,
    PlanProgress, PlanRef, Purpose, Reply, Restart, Revision, RunResult, RunSpec, TaskStatus, ToolCall,
    Usage,
};
use std::sync::Arc;

use super::agent_limits::{AgentLimit, is_coordination_tool};
use super::execution::Execution;
use super::restart::RejectedAnswer;
use super::subagents::Subagent;

const SILENT: &str = "it sent nothing while all others were done";

/// After this many incorrect ends of its turn, an agent's attempt ends with `GaveUp`.
pub(crate) const MAX_TRIES: u32 = 3;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MemberState {
    pub(crate) agent: Member,
    pub(crate) status: Option<TaskStatus>,
    /// Answers since the last restart, as indexes into the run's answers.
    pub(crate) answers: Vec<usize>,
    /// The number of answers before the last restart.
    pub(crate) earlier: u32,
    /// The member's vote; None if it has not voted, or its vote became invalid.
    pub(crate) vote: Option<Ballot>,
    /// Whether the member has voted since the run's start or its last restart, even if its vote is not valid.
    pub(crate) has_voted: bool,
    /// Whether the member's last attempt ended with an abstention, and no answer made that outdated.
    pub(crate) abstained: bool,
    /// Why the member dropped out. Its answers remain candidates.
    pub(crate) out: Option<Dropout>,
    pub(crate) attempt: Option<MemberAttempt>,
    pub(crate) suspended: Option<MemberAttempt>,
    pub(crate) attempts: u32,
    /// The number of attempts to answer or judge, not counting continuations of interrupted attempts.
    pub(crate) rounds: u32,
    pub(crate) seen: Revision,
    pub(crate) context: ContextState,
    pub(crate) native: Option<String>,
    pub(crate) plan: Vec<PlanProgress>,
    /// The number of tool calls in the member's replies, except coordination tools (answers, votes, evaluations).
    pub(crate) tool_calls: u32,
    pub(crate) told_limits: Vec<AgentLimit>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ContextState {
    #[default]
    Closed,
    Open,
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dropout {
    pub(crate) error: String,
    pub(crate) timed_out: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MemberAttempt {
    pub number: u32,
    /// The attempt in which this conversation began; differs from `number` after interruptions.
    pub origin: u32,
    pub purpose: Purpose,
    pub plan: Vec<PlanProgress>,
    /// The revision of the answers that the agent was last shown in this attempt.
    pub knows: Revision,
    /// The conversation after the first message.
    pub turns: Vec<AttemptTurn>,
    /// The usage of this attempt's replies, without the attempt that it continues.
    pub(crate) usage: Usage,
    pub(crate) faults: u32,
    /// The number of turns when the soft time limit was reached. The agent is warned before its next call.
    pub(crate) warn: Option<usize>,
    /// The number of turns when another agent answered. A judge is shown the answer before its next call.
    pub(crate) stale: Option<usize>,
    /// Whether the hard time limit passed, or the run stopped waiting for a straggler.
    pub(crate) expired: bool,
    pub(crate) warning: Option<String>,
    /// Whether the agent sent nothing for `straggler_wait` while all others were done.
    pub(crate) straggled: bool,
    /// Whether files in context paths had changed when the paths were made read-only after the last reply; None if the
    /// paths have not been made read-only since that reply.
    pub(crate) wrote: Option<bool>,
    pub(crate) reminded_to_write: bool,
    /// Whether the attempt was running when the session was resumed; its `AttemptEnded` is not recorded yet.
    pub(crate) interrupted: bool,
    /// The outcome, if it is known but its `AttemptEnded` is not recorded yet.
    pub(crate) pending_outcome: Option<AttemptOutcome>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AttemptTurn {
    Reply(Reply),
    ToolResult {
        call: String,
        content: String,
        is_error: bool,
    },
    /// A reminder to end the turn properly, or to write files.
    Reminder {
        /// The id of the refused call; None if the reply had no calls.
        call: Option<String>,
        text: String,
        restates_task: bool,
    },
    Update {
        from: Revision,
        to: Revision,
    },
    TimeWarning,
    /// A snapshot of the workspace was taken, or failed. The model does not see this turn.
    Snapshot,
}

impl MemberAttempt {
    pub(crate) fn new(number: u32, purpose: Purpose) -> Self {
        let knows = match purpose {
            Purpose::Judge { knows, .. } => knows,
            _ => Revision(0),
        };
        Self {
            number,
            origin: number,
            plan: Vec::new(),
            purpose,
            knows,
            turns: Vec::new(),
            usage: Usage::default(),
            faults: 0,
            warn: None,
            stale: None,
            expired: false,
            straggled: false,
            wrote: None,
            reminded_to_write: false,
            interrupted: false,
            pending_outcome: None,
            warning: None,
        }
    }

    pub(crate) fn steps_that_call<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = usize> + 'a {
        let calls = move |turn: &AttemptTurn| match turn {
            AttemptTurn::Reply(reply) => reply.tool_calls.iter().any(|call| call.name == tool),
            _ => false,
        };
        self.turns.iter().enumerate().filter(move |(_, turn)| calls(turn)).map(|(step, _)| step)
    }

    pub(crate) fn last_reply(&self) -> Option<(&Reply, &[AttemptTurn])> {
        let at = self.turns.iter().rposition(|turn| matches!(turn, AttemptTurn::Reply(_)))?;
        let (before, since) = self.turns.split_at_checked(at + 1)?;
        match before.last() {
            Some(AttemptTurn::Reply(reply)) => Some((reply, since)),
            _ => None,
        }
    }

    /// Whether the last reply was processed: a snapshot alone does not process it. True if there is no reply.
    pub(crate) fn is_reply_processed(&self) -> bool {
        self.last_reply().is_none_or(|(_, since)| since.iter().any(|turn| *turn != AttemptTurn::Snapshot))
    }

    pub(crate) fn open_calls(&self) -> Vec<&ToolCall> {
        let Some((reply, since)) = self.last_reply() else { return Vec::new() };
        let answered = |call: &ToolCall| {
            since.iter().any(|turn| match turn {
                AttemptTurn::ToolResult { call: id, .. } | AttemptTurn::Reminder { call: Some(id), .. } => {
                    *id == call.id
                }
                _ => false,
            })
        };
        reply.tool_calls.iter().filter(|call| !answered(call)).collect()
    }

    /// Whether a presenter's context paths were closed after its last reply and nothing had changed in them.
    pub(crate) fn is_presentation_without_writes(&self) -> bool {
        matches!(self.purpose, Purpose::Present { .. }) && self.wrote == Some(false)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.interrupted || self.expired
    }

    fn take(&mut self, item: &Item) {
        match item {
            Item::Reply(reply) => {
                self.usage += reply.usage;
                self.wrote = None;
                self.turns.push(AttemptTurn::Reply(reply.clone()));
            }
            Item::ToolResult { call, content, is_error } => {
                self.turns.push(AttemptTurn::ToolResult {
                    call: call.clone(),
                    content: content.clone(),
                    is_error: *is_error,
                });
            }
            Item::Reminder { call, text, restates_task } => {
                // A reminder to write is no fault. Several refused calls in one reply count as one fault.
                let is_about_writes = self.is_presentation_without_writes();
                self.reminded_to_write |= is_about_writes;
                self.faults += u32::from(!self.is_reply_processed() && !is_about_writes);
                self.turns.push(AttemptTurn::Reminder {
                    call: call.clone(),
                    text: text.clone(),
                    restates_task: *restates_task,
                });
            }
            Item::Update { revision } => {
                self.turns.push(AttemptTurn::Update { from: self.knows, to: *revision });
                self.knows = *revision;
                self.stale = None;
            }
            Item::TimeWarning => {
                self.warn = None;
                self.turns.push(AttemptTurn::TimeWarning);
            }
            Item::WorkspaceKept { .. } => self.turns.push(AttemptTurn::Snapshot),
            // If the changes could not be listed, the presenter may have changed something.
            Item::ContextClosed { writes, error } => self.wrote = Some(!writes.is_empty() || error.is_some()),
            Item::Answer(_) => self.pending_outcome = Some(AttemptOutcome::Answered),
            Item::Vote(_) => self.pending_outcome = Some(AttemptOutcome::Voted),
            Item::StaleVote(_)
            | Item::Briefed(_)
            | Item::FilesTaken { .. }
            | Item::PlanProgress(_)
            | Item::PlanStored { .. }
            | Item::PlanOpened { .. }
            | Item::ContextOpened { .. }
            | Item::Conversation { .. }
            | Item::PromptSent { .. }
            | Item::Said { .. }
            | Item::Did { .. }
            | Item::EditProposed { .. } => {}
        }
    }
}

impl MemberState {
    pub(crate) fn new(agent: Member) -> Self {
        Self {
            agent,
            status: None,
            answers: Vec::new(),
            earlier: 0,
            vote: None,
            has_voted: false,
            abstained: false,
            out: None,
            attempt: None,
            suspended: None,
            attempts: 0,
            rounds: 0,
            seen: Revision(0),
            context: ContextState::Closed,
            native: None,
            plan: Vec::new(),
            tool_calls: 0,
            told_limits: Vec::new(),
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.out.is_none()
    }

    pub(crate) fn has_answered(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Whether the member judges, or will judge when its interrupted attempt is continued.
    pub(crate) fn is_judging(&self) -> bool {
        let attempt = self.attempt.as_ref().or(self.suspended.as_ref());
        attempt.is_some_and(|attempt| matches!(attempt.purpose, Purpose::Judge { .. }))
    }

    /// The number of the member's answers, including those before restarts.
    pub(crate) fn given(&self) -> u32 {
        self.earlier + self.answers.len() as u32
    }

    pub(crate) fn start_over(&mut self, seen: Revision) {
        self.earlier = self.given();
        self.answers.clear();
        self.vote = None;
        self.has_voted = false;
        self.abstained = false;
        self.suspended = None;
        self.seen = seen;
        if self.context == ContextState::Refused {
            self.context = ContextState::Closed;
        }
    }

    /// Items of an attempt that has ended do not change the running attempt.
    pub(crate) fn take(&mut self, attempt: u32, item: &Item) {
        match item {
            Item::ContextOpened { error: None } => self.context = ContextState::Open,
            Item::ContextOpened { error: Some(_) } => self.context = ContextState::Refused,
            Item::ContextClosed { .. } => self.context = ContextState::Closed,
            Item::Reply(Reply { native: Some(native), .. }) => self.native = Some(native.clone()),
            _ => {}
        }
        if let Some(current) = self.attempt.as_mut().filter(|current| current.number == attempt) {
            if let Item::Reply(reply) = item {
                let calls = reply.tool_calls.iter().filter(|call| !is_coordination_tool(&call.name)).count();
                self.tool_calls = self.tool_calls.saturating_add(u32::try_from(calls).unwrap_or(u32::MAX));
            }
            current.take(item);
            self.seen = self.seen.max(current.knows);
        }
    }

    pub(crate) fn end(&mut self, attempt: u32, outcome: &AttemptOutcome) {
        let Some(ended) = self.attempt.take_if(|current| current.number == attempt) else { return };
        let after_the_vote = ended.purpose.is_after_the_vote();
        self.abstained = *outcome == AttemptOutcome::Abstained;
        let out = match outcome {
            AttemptOutcome::Interrupted => {
                self.suspended = Some(ended);
                None
            }
            // The agent is not at fault: the run ends at its cost limit.
            AttemptOutcome::Failed { kind: Some(BackendErrorKind::CostLimit), .. } => None,
            AttemptOutcome::GaveUp { reason } => Some(Dropout { error: reason.clone(), timed_out: false }),
            AttemptOutcome::Failed { error, .. } => Some(Dropout { error: error.clone(), timed_out: false }),
            AttemptOutcome::TimedOut => {
                let warning = ended.warning.map(|text| format!("; the last warning: {text}"));
                let why = if ended.straggled { SILENT } else { "its round's time limit passed" };
                let error = format!("{why}{}", warning.unwrap_or_default());
                Some(Dropout { error, timed_out: true })
            }
            AttemptOutcome::Answered
            | AttemptOutcome::Voted
            | AttemptOutcome::Abstained
            | AttemptOutcome::Presented { .. }
            | AttemptOutcome::Evaluated { .. }
            | AttemptOutcome::Exited { .. }
            | AttemptOutcome::Said
            | AttemptOutcome::Paused
            | AttemptOutcome::Cancelled => None,
        };
        // An agent that fails to present or to evaluate does not drop out: the run uses the answer that exists.
        if !after_the_vote && out.is_some() {
            self.out = out;
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PostVoteState {
    pub(crate) winner: Option<AgentId>,
    /// The presenter that a person chose.
    pub(crate) presenter: Option<AgentId>,
    pub(crate) overridden: bool,
    pub(crate) ballots: Vec<Ballot>,
    pub(crate) decision: Option<DecisionReport>,
    pub(crate) presented: Option<Presentation>,
    pub(crate) evaluated: Option<Evaluation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Evaluation {
    /// Accepted, or the evaluation was stopped before it ended.
    Accepted,
    NeedsRestart(Restart),
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presentation {
    Text(String),
    Failed(String),
    /// There is a text, but it is no answer, for this reason.
    Rejected(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunState {
    /// An `Arc`, because effects outlive a borrow.
    pub(crate) spec: Arc<RunSpec>,
    pub(crate) members: Vec<MemberState>,
    /// In the order in which they were stored: the nth answer has revision n.
    pub(crate) answers: Vec<Answer>,
    pub(crate) usage: Usage,
    pub(crate) writes: Vec<FileWrite>,
    /// Whether it is known that nothing was changed in context paths.
    pub(crate) is_unchanged: bool,
    pub(crate) post_vote: PostVoteState,
    pub(crate) restarts: u32,
    /// The final answer that the last restart rejected.
    pub(crate) previous: Option<RejectedAnswer>,
    /// Answers up to this revision are older than the last restart and are not candidates.
    pub(crate) discarded: Revision,
    pub(crate) subagents: Vec<Subagent>,
    pub(crate) plan: Vec<PlanProgress>,
    /// The number of expired waits for first answers.
    pub(crate) waits: u32,
    /// The revision when such a wait last expired. Agents that were shown only older revisions may judge although first
    /// answers are missing.
    pub(crate) early: Revision,
    pub(crate) timed_out: bool,
    /// Why a call was not made: it would have exceeded the cost limit.
    pub(crate) refused_call: Option<String>,
    pub(crate) cancelled: bool,
    /// A shutdown was requested; nothing begins until a resume.
    pub(crate) halted: bool,
    pub(crate) result: Option<RunResult>,
    /// The stored plan, or why it was not stored; None until storing was attempted.
    pub(crate) stored_plan: Option<Result<PlanRef, String>>,
    /// Whether the stored plan was read, or reading it failed.
    pub(crate) plan_opened: bool,
    pub(crate) execution: Execution,
}
