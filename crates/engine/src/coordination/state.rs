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

/// The reason for dropping a member that sent nothing while all others were done.
const SILENT: &str = "it sent nothing while all others were done";

/// When an agent has ended its turn incorrectly this many times, its attempt ends with `AttemptOutcome::GaveUp`.
pub(crate) const MAX_TRIES: u32 = 3;

/// The state of one member of the run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MemberState {
    pub(crate) agent: Member,
    /// The status of the member's work, once its task exists.
    pub(crate) status: Option<TaskStatus>,
    /// The member's answers since the run last started over, as indexes into the run's answers.
    pub(crate) answers: Vec<usize>,
    /// The number of the member's answers before the run last started over.
    pub(crate) earlier: u32,
    /// The member's vote, while it is valid.
    pub(crate) vote: Option<Ballot>,
    /// Whether the member judged the newest answers and voted for none.
    pub(crate) abstained: bool,
    /// Why the member dropped out; None if it did not. The answers of a member that dropped out remain candidates.
    pub(crate) out: Option<Dropout>,
    /// The running attempt.
    pub(crate) attempt: Option<MemberAttempt>,
    /// An interrupted attempt that will be continued.
    pub(crate) suspended: Option<MemberAttempt>,
    /// The number of the newest attempt.
    pub(crate) attempts: u32,
    /// The number of rounds: attempts to answer or judge, not counting continuations of interrupted attempts.
    pub(crate) rounds: u32,
    /// The revision of the answers that the member was last shown.
    pub(crate) seen: Revision,
    /// The member's access to the writable context paths.
    pub(crate) context: ContextState,
    /// The id of the backend's own conversation, for backends that keep one.
    pub(crate) native: Option<String>,
    /// The member's progress with the plan that the run executes.
    pub(crate) plan: Vec<PlanProgress>,
    /// The number of calls to tools in the member's replies, without answers, votes and evaluations.
    pub(crate) tool_calls: u32,
    /// The limits that the member reached and that people were told about.
    pub(crate) told_limits: Vec<AgentLimit>,
}

/// A member's access to the writable context paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ContextState {
    /// Read-only.
    #[default]
    Closed,
    /// Writable.
    Open,
    /// Opening the paths for writing failed.
    Refused,
}

/// Why a member dropped out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dropout {
    pub(crate) error: String,
    pub(crate) timed_out: bool,
}

/// An attempt of a member, with its conversation so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MemberAttempt {
    /// The number of the attempt within the member's work.
    pub number: u32,
    /// The number of the attempt in which this conversation began; differs from `number` after interruptions.
    pub origin: u32,
    /// Why the attempt is made.
    pub purpose: Purpose,
    /// The member's progress with the plan when the attempt began.
    pub plan: Vec<PlanProgress>,
    /// The revision of the answers that the agent was shown, at the start or by a later update.
    pub knows: Revision,
    /// The conversation after the first message.
    pub turns: Vec<AttemptTurn>,
    /// What the replies of this attempt used, without the replies of the attempt that this one continues.
    pub(crate) usage: Usage,
    /// How often the agent ended its turn incorrectly.
    pub(crate) faults: u32,
    /// How many turns the attempt had when its soft time limit was reached. The agent is warned before its next call.
    pub(crate) warn: Option<usize>,
    /// How many turns the attempt had when another agent answered. If this attempt judges, its agent is shown the
    /// answer before its next call.
    pub(crate) stale: Option<usize>,
    /// Whether the hard time limit passed, or the wait for a silent agent (see `straggled`).
    pub(crate) expired: bool,
    /// The last warning about the attempt, for example that its CLI agent cannot reach its model.
    pub(crate) warning: Option<String>,
    /// Whether the attempt expired because its agent sent nothing while all others were done.
    pub(crate) straggled: bool,
    /// Whether files in context paths had changed when the paths were made read-only after the last reply; None if the
    /// paths have not been made read-only since that reply.
    pub(crate) wrote: Option<bool>,
    /// Whether the presenter was reminded that it has changed nothing in the writable context paths.
    pub(crate) reminded_to_write: bool,
    /// Whether a crash interrupted the attempt; its `AttemptEnded` is not recorded yet.
    pub(crate) interrupted: bool,
    /// How the attempt ended; its `AttemptEnded` is not recorded yet.
    pub(crate) pending_outcome: Option<AttemptOutcome>,
}

/// A turn of an attempt's conversation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AttemptTurn {
    /// A reply of the model.
    Reply(Reply),
    /// The result of a tool call.
    ToolResult {
        /// The model's id for the call.
        call: String,
        /// The text for the model.
        content: String,
        /// Whether the call failed or was refused.
        is_error: bool,
    },
    /// A correction: the agent must end its turn properly.
    Reminder {
        /// The id of the refused call; None if the reply had no calls.
        call: Option<String>,
        /// The text for the model.
        text: String,
        /// Whether the model is shown the task again.
        restates_task: bool,
    },
    /// The agent was shown newer answers.
    Update {
        /// The revision that the agent knew before.
        from: Revision,
        /// The revision that the agent knows now.
        to: Revision,
    },
    /// The agent was warned that its time limit is near.
    TimeWarning,
    /// A snapshot of the workspace was taken, or failed, for the answer in the last reply. The model does not see this
    /// turn.
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

    /// The indexes of the turns in which the model called a tool, in order.
    pub(crate) fn steps_that_call<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = usize> + 'a {
        let calls = move |turn: &AttemptTurn| match turn {
            AttemptTurn::Reply(reply) => reply.tool_calls.iter().any(|call| call.name == tool),
            _ => false,
        };
        self.turns.iter().enumerate().filter(move |(_, turn)| calls(turn)).map(|(step, _)| step)
    }

    /// The last reply and the turns after it.
    pub(crate) fn last_reply(&self) -> Option<(&Reply, &[AttemptTurn])> {
        let at = self.turns.iter().rposition(|turn| matches!(turn, AttemptTurn::Reply(_)))?;
        let (before, since) = self.turns.split_at_checked(at + 1)?;
        match before.last() {
            Some(AttemptTurn::Reply(reply)) => Some((reply, since)),
            _ => None,
        }
    }

    /// Whether the last reply has been processed: something other than a snapshot follows it, or there is no reply.
    pub(crate) fn is_reply_processed(&self) -> bool {
        self.last_reply().is_none_or(|(_, since)| since.iter().any(|turn| *turn != AttemptTurn::Snapshot))
    }

    /// The calls of the last reply that have no result yet.
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

    /// Whether this is a presentation whose agent could write to context paths but has changed nothing there.
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
                // A reminder to write is not a fault of the presenter. Several refused calls in one reply count as one
                // fault.
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
            // If it is unknown what changed, the presenter may have changed something.
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
            | Item::Did { .. } => {}
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

    /// Whether the agent judges now, or will judge when its interrupted attempt is resumed.
    pub(crate) fn is_judging(&self) -> bool {
        let attempt = self.attempt.as_ref().or(self.suspended.as_ref());
        attempt.is_some_and(|attempt| matches!(attempt.purpose, Purpose::Judge { .. }))
    }

    /// The total number of the member's answers, including those before restarts.
    pub(crate) fn given(&self) -> u32 {
        self.earlier + self.answers.len() as u32
    }

    /// Folds a restart of the run into the member.
    pub(crate) fn start_over(&mut self, seen: Revision) {
        self.earlier = self.given();
        self.answers.clear();
        self.vote = None;
        self.abstained = false;
        self.suspended = None;
        self.seen = seen;
        if self.context == ContextState::Refused {
            self.context = ContextState::Closed;
        }
    }

    /// Folds an item into the member. Items of an attempt that has ended do not change the running attempt.
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

    /// Folds the end of an attempt into the member: an interrupted attempt can be resumed; a failed attempt to answer
    /// or to judge makes the agent drop out.
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

/// The state of the run after the vote.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PostVoteState {
    /// The winner of the vote.
    pub(crate) winner: Option<AgentId>,
    /// The presenter that a person chose.
    pub(crate) presenter: Option<AgentId>,
    pub(crate) overridden: bool,
    pub(crate) ballots: Vec<Ballot>,
    /// How the winner was chosen.
    pub(crate) decision: Option<DecisionReport>,
    /// The outcome of the presentation.
    pub(crate) presented: Option<Presentation>,
    /// The outcome of the evaluation of the final answer.
    pub(crate) evaluated: Option<Evaluation>,
}

/// The outcome of the evaluation of the final answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Evaluation {
    /// The answer was accepted, or the evaluation was stopped before it ended.
    Accepted,
    /// The run should start over.
    NeedsRestart(Restart),
    /// The evaluation failed.
    Failed(String),
}

/// The outcome of the presentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presentation {
    Text(String),
    Failed(String),
    /// There is a text, but for this reason it is not the final answer.
    Rejected(String),
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunState {
    /// The spec of the run, in an `Arc` because effects outlive a borrow.
    pub(crate) spec: Arc<RunSpec>,
    pub(crate) members: Vec<MemberState>,
    /// The answers in the order in which they were stored: the nth has revision n.
    pub(crate) answers: Vec<Answer>,
    pub(crate) usage: Usage,
    /// The files that were changed in context paths.
    pub(crate) writes: Vec<FileWrite>,
    /// Whether it is known that nothing has been changed in context paths.
    pub(crate) is_unchanged: bool,
    pub(crate) post_vote: PostVoteState,
    /// The number of restarts.
    pub(crate) restarts: u32,
    /// The final answer that led to the last restart.
    pub(crate) previous: Option<RejectedAnswer>,
    /// Answers up to this revision belong to the time before the last restart and are not candidates.
    pub(crate) discarded: Revision,
    /// The subagents, in the order in which they were started.
    pub(crate) subagents: Vec<Subagent>,
    /// The progress of the plan that the run executes.
    pub(crate) plan: Vec<PlanProgress>,
    /// The number of expired waits for first answers.
    pub(crate) waits: u32,
    /// The revision of the answers when a wait for first answers last expired. An agent that was shown only older
    /// revisions may judge although some first answers are missing.
    pub(crate) early: Revision,
    pub(crate) timed_out: bool,
    /// Why a call was not made: it would have exceeded the cost limit.
    pub(crate) refused_call: Option<String>,
    pub(crate) cancelled: bool,
    /// Whether a shutdown was requested; nothing new begins until a resume.
    pub(crate) halted: bool,
    pub(crate) result: Option<RunResult>,
    /// The stored plan of a planning run, or why it was not stored; None until storing was attempted.
    pub(crate) stored_plan: Option<Result<PlanRef, String>>,
    /// Whether the stored plan has been read, or reading it has failed (see `must_open_plan`).
    pub(crate) plan_opened: bool,
    /// The state of the run that executes the plan.
    pub(crate) execution: Execution,
}
