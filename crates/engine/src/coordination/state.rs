//! What a run's decider knows: the fold of the run's facts, and nothing else.

use althing_protocol::{
    AgentId, Answer, AttemptOutcome, Ballot, FileWrite, Item, Member, PlanProgress, PlanRef, Purpose, Reply,
    Restart, Revision, RunResult, RunSpec, TaskStatus, ToolCall, Usage,
};
use std::sync::Arc;

use super::execution::Execution;
use super::restart::RejectedAnswer;
use super::subagents::Subagent;

/// How often an agent may end a turn wrongly before it is out.
pub(crate) const MAX_TRIES: u32 = 3;

/// One agent's seat in the run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MemberState {
    pub(crate) agent: Member,
    /// Where the task of its work stands, once there is one.
    pub(crate) status: Option<TaskStatus>,
    /// Its answers since the run last started over, as indexes into the run's.
    pub(crate) answers: Vec<usize>,
    /// How many it had given before that.
    pub(crate) earlier: u32,
    /// Its vote, while it stands.
    pub(crate) vote: Option<Ballot>,
    /// Why it takes no further part. Its answers stay candidates all the same.
    pub(crate) out: Option<Dropout>,
    /// What it is doing.
    pub(crate) attempt: Option<MemberAttempt>,
    /// An attempt that was cut off and is to be carried on.
    pub(crate) suspended: Option<MemberAttempt>,
    /// The number of its newest attempt.
    pub(crate) attempts: u32,
    /// Attempts that count as rounds: neither carried on ones nor what comes after the vote.
    pub(crate) rounds: u32,
    /// The answers it was shown last.
    pub(crate) seen: Revision,
    /// Whether it may write to the writable context paths.
    pub(crate) context: ContextState,
    /// Its backend's own conversation, where it keeps one.
    pub(crate) native: Option<String>,
    /// How far it is with the plan that the run carries out.
    pub(crate) plan: Vec<PlanProgress>,
}

/// Where an agent stands with the writable context paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ContextState {
    /// It may read them.
    #[default]
    Closed,
    /// It may write to them.
    Open,
    /// They could not be opened to it.
    Refused,
}

/// Why an agent is out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dropout {
    pub(crate) error: String,
    pub(crate) timed_out: bool,
}

/// One try of a seat, with the conversation so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MemberAttempt {
    /// Its number within the work.
    pub number: u32,
    /// The number of the attempt whose conversation it carries on; its own, where it began with it.
    pub origin: u32,
    /// What it is for.
    pub purpose: Purpose,
    /// How far its agent was with the plan when it began.
    pub plan: Vec<PlanProgress>,
    /// The answers it was shown at its start and by updates since.
    pub knows: Revision,
    /// What was said since its first message.
    pub turns: Vec<AttemptTurn>,
    /// How often it ended a turn wrongly.
    pub(crate) faults: u32,
    /// Its soft limit passed when it had so many turns; it is told before its next call.
    pub(crate) warn: Option<usize>,
    /// Others answered when it had so many turns; it is told before its next call.
    pub(crate) stale: Option<usize>,
    /// Its hard limit passed.
    pub(crate) expired: bool,
    /// A crash cut it off: the fact of its end is still to be written.
    pub(crate) interrupted: bool,
    /// What it came to: the fact of its end is still to be written.
    pub(crate) pending_outcome: Option<AttemptOutcome>,
}

/// A turn of an attempt's conversation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AttemptTurn {
    /// The model spoke.
    Reply(Reply),
    /// A tool call was answered.
    ToolResult {
        /// The model's id for the call.
        call: String,
        /// What it was told.
        content: String,
        /// Whether as an error.
        is_error: bool,
    },
    /// It was told to end its turn properly.
    Reminder {
        /// The call that was refused, where it made one.
        call: Option<String>,
        /// What it was told.
        text: String,
    },
    /// It was told of newer answers.
    Update {
        /// What it knew before.
        from: Revision,
        /// What it knows now.
        to: Revision,
    },
    /// It was told that its time is nearly up.
    TimeWarning,
    /// Its workspace was kept with the answer in its last reply. Nothing that it is told.
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
            faults: 0,
            warn: None,
            stale: None,
            expired: false,
            interrupted: false,
            pending_outcome: None,
        }
    }

    /// The steps at which the model called a tool, in order.
    pub(crate) fn steps_that_call<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = usize> + 'a {
        let calls = move |turn: &AttemptTurn| match turn {
            AttemptTurn::Reply(reply) => reply.tool_calls.iter().any(|call| call.name == tool),
            _ => false,
        };
        self.turns.iter().enumerate().filter(move |(_, turn)| calls(turn)).map(|(step, _)| step)
    }

    /// The last reply and what was said since.
    pub(crate) fn last_reply(&self) -> Option<(&Reply, &[AttemptTurn])> {
        let at = self.turns.iter().rposition(|turn| matches!(turn, AttemptTurn::Reply(_)))?;
        let (before, since) = self.turns.split_at_checked(at + 1)?;
        match before.last() {
            Some(AttemptTurn::Reply(reply)) => Some((reply, since)),
            _ => None,
        }
    }

    /// Whether the last reply still waits for its ruling, or for its tools.
    pub(crate) fn is_ruled(&self) -> bool {
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

    pub(crate) fn is_over(&self) -> bool {
        self.interrupted || self.expired
    }

    fn take(&mut self, item: &Item) {
        match item {
            Item::Reply(reply) => self.turns.push(AttemptTurn::Reply(reply.clone())),
            Item::ToolResult { call, content, is_error } => {
                self.turns.push(AttemptTurn::ToolResult {
                    call: call.clone(),
                    content: content.clone(),
                    is_error: *is_error,
                });
            }
            Item::Reminder { call, text } => {
                // One reply may hold several refused calls; it is one fault.
                self.faults += u32::from(!self.is_ruled());
                self.turns.push(AttemptTurn::Reminder { call: call.clone(), text: text.clone() });
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
            Item::Answer(_) => self.pending_outcome = Some(AttemptOutcome::Answered),
            Item::Vote(_) => self.pending_outcome = Some(AttemptOutcome::Voted),
            Item::StaleVote(_)
            | Item::FilesTaken { .. }
            | Item::PlanProgress(_)
            | Item::PlanStored { .. }
            | Item::PlanOpened { .. }
            | Item::ContextOpened { .. }
            | Item::ContextClosed { .. }
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
            out: None,
            attempt: None,
            suspended: None,
            attempts: 0,
            rounds: 0,
            seen: Revision(0),
            context: ContextState::Closed,
            native: None,
            plan: Vec::new(),
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.out.is_none()
    }

    pub(crate) fn has_answered(&self) -> bool {
        !self.answers.is_empty()
    }

    /// How many answers it has given, in all.
    pub(crate) fn given(&self) -> u32 {
        self.earlier + self.answers.len() as u32
    }

    /// Folds a restart of the run.
    pub(crate) fn start_over(&mut self, seen: Revision) {
        self.earlier = self.given();
        self.answers.clear();
        self.vote = None;
        self.suspended = None;
        self.seen = seen;
        if self.context == ContextState::Refused {
            self.context = ContextState::Closed;
        }
    }

    /// Folds an item of the attempt under way; content of an attempt that is over changes nothing.
    pub(crate) fn take(&mut self, attempt: u32, item: &Item) {
        match item {
            Item::ContextOpened { error: None } => self.context = ContextState::Open,
            Item::ContextOpened { error: Some(_) } => self.context = ContextState::Refused,
            Item::ContextClosed { .. } => self.context = ContextState::Closed,
            Item::Reply(Reply { native: Some(native), .. }) => self.native = Some(native.clone()),
            _ => {}
        }
        if let Some(current) = self.attempt.as_mut().filter(|current| current.number == attempt) {
            current.take(item);
            self.seen = self.seen.max(current.knows);
        }
    }

    /// Folds the end of an attempt.
    pub(crate) fn end(&mut self, attempt: u32, outcome: &AttemptOutcome) {
        let Some(ended) = self.attempt.take_if(|current| current.number == attempt) else { return };
        let after_the_vote = ended.purpose.is_after_the_vote();
        let out = match outcome {
            AttemptOutcome::Interrupted => {
                self.suspended = Some(ended);
                None
            }
            AttemptOutcome::GaveUp { reason } => Some(Dropout { error: reason.clone(), timed_out: false }),
            AttemptOutcome::Failed { error, .. } => Some(Dropout { error: error.clone(), timed_out: false }),
            AttemptOutcome::TimedOut => {
                Some(Dropout { error: "its round's time limit passed".into(), timed_out: true })
            }
            AttemptOutcome::Answered
            | AttemptOutcome::Voted
            | AttemptOutcome::Presented { .. }
            | AttemptOutcome::Evaluated { .. }
            | AttemptOutcome::Exited { .. }
            | AttemptOutcome::Said
            | AttemptOutcome::Cancelled => None,
        };
        // Who fails to present has still taken part: the run falls back to its answer.
        if !after_the_vote && out.is_some() {
            self.out = out;
        }
    }
}

/// How far the run has come after the vote.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ending {
    /// Who won.
    pub(crate) winner: Option<AgentId>,
    /// Who presents, once that is settled.
    pub(crate) presenter: Option<AgentId>,
    pub(crate) overridden: bool,
    pub(crate) ballots: Vec<Ballot>,
    /// How the presentation went.
    pub(crate) presented: Option<Presentation>,
    /// What was thought of the final answer.
    pub(crate) evaluated: Option<Evaluation>,
}

/// What was thought of the final answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Evaluation {
    /// It is good enough.
    Accepted,
    /// It is not.
    NeedsRestart(Restart),
    /// That could not be found out.
    Failed(String),
}

/// How the presentation went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presentation {
    Text(String),
    Failed(String),
}

/// Everything a run's decider knows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunState {
    /// Shared with the doers, which outlive a borrow.
    pub(crate) spec: Arc<RunSpec>,
    pub(crate) members: Vec<MemberState>,
    /// In the order in which they were stored: the nth has revision n.
    pub(crate) answers: Vec<Answer>,
    pub(crate) usage: Usage,
    /// What was changed in context paths.
    pub(crate) writes: Vec<FileWrite>,
    pub(crate) ending: Ending,
    /// How often the run has started over.
    pub(crate) restarts: u32,
    /// What it had come to before it last started over.
    pub(crate) previous: Option<RejectedAnswer>,
    /// The answers of before: kept, but no candidates.
    pub(crate) discarded: Revision,
    /// The agents that its agents have started, in that order.
    pub(crate) subagents: Vec<Subagent>,
    /// How far the plan is that it carries out.
    pub(crate) plan: Vec<PlanProgress>,
    /// Waits for first answers that have passed.
    pub(crate) waits: u32,
    /// The newest revision that waiting agents may judge although some have not answered.
    pub(crate) early: Revision,
    pub(crate) timed_out: bool,
    pub(crate) cancelled: bool,
    /// A shutdown was asked for: nothing new begins until a resume.
    pub(crate) halted: bool,
    pub(crate) result: Option<RunResult>,
    /// Where the plan is that it came to, or why it was not stored; None as long as that is to be done.
    pub(crate) stored_plan: Option<Result<PlanRef, String>>,
    /// The plan that it carries out was read again before it began.
    pub(crate) plan_opened: bool,
    /// How far the run is that carries out the plan.
    pub(crate) execution: Execution,
}
