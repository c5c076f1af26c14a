//! The event model: everything that happens in a session is a numbered fact (event) in one log.

use crate::{
    AgentId, AttemptOutcome, Ballot, CallRecord, Decision, DecisionReport, FinalAnswerStrategy, Interaction,
    InteractionId, Item, Op, OpId, Origin, Phase, Purpose, RunResult, Seq, SessionId, SessionKind, TaskId,
    TaskSpec, TaskStatus, Timer, Timestamp, Usage,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The version of the log's schema. A log with a newer schema is refused and left unchanged.
pub const LOG_SCHEMA: u32 = 1;

/// A fact with its position in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The event's number.
    pub seq: Seq,
    /// When the event was recorded.
    pub at: Timestamp,
    /// The task that the event belongs to; None for the session itself.
    pub task: Option<TaskId>,
    /// For a fact that follows from earlier facts: the newest fact at that moment. For the notice that an
    /// answer to an interaction was rejected: the fact that opened the interaction. None for a fact from outside, such as an op or a timer.
    pub cause: Option<Seq>,
    /// The fact itself.
    #[serde(flatten)]
    pub fact: Fact,
}

/// Everything that can happen in a session. Facts are durable, numbered without gaps, and written before they are
/// published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Fact {
    /// The session was opened.
    SessionOpened(Box<SessionOpened>),
    /// The session ended; nothing is left to resume.
    SessionClosed {},
    /// An op was accepted. Not recorded for `Input` and `Resize`, nor for an op without an id that starts a task,
    /// because `TaskCreated` contains its spec.
    OpAccepted {
        /// The op.
        op: Op,
        /// Who submitted the op.
        by: Origin,
        /// The sender's id for the op. An op that is delivered again under the same id is ignored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<OpId>,
    },
    /// A task was created.
    TaskCreated {
        /// The id of the new task.
        id: TaskId,
        /// The parent task in the tree.
        parent: Option<TaskId>,
        /// What the task does.
        spec: TaskSpec,
    },
    /// A task's status changed.
    StatusChanged {
        /// The new status.
        status: TaskStatus,
        /// The reason, as a text for people.
        why: Option<String>,
    },
    /// An attempt at a task began.
    AttemptStarted {
        /// The attempt's number within the task, counted from 1; never reused.
        attempt: u32,
        /// Why the attempt is made.
        #[serde(flatten)]
        purpose: Purpose,
        /// The interrupted or paused attempt whose conversation this attempt continues.
        continues: Option<u32>,
    },
    /// An attempt ended.
    AttemptEnded {
        /// The number of the attempt.
        attempt: u32,
        /// How the attempt ended.
        #[serde(flatten)]
        outcome: AttemptOutcome,
        /// The usage of the attempt's recorded replies or, if a model call failed or a program ended, only of that call
        /// or program (see [`AttemptOutcome::has_own_usage`]). In logs of 0.1, empty for attempts that ended in another
        /// way.
        #[serde(default)]
        usage: Usage,
        /// If a model call failed: its record. None in logs of 0.1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallRecord>,
    },
    /// A finished piece of content was added.
    ItemAdded {
        /// The attempt that the item belongs to.
        attempt: u32,
        /// The content.
        item: Item,
    },
    /// A question to a person was opened.
    InteractionOpened(Interaction),
    /// A question to a person was closed.
    InteractionClosed {
        /// The id of the question.
        id: InteractionId,
        /// The person's answer, the default that applied, or `MovedOn`.
        decision: Decision,
    },
    /// A run, a workflow or a conversation entered another phase.
    PhaseChanged {
        /// The new phase.
        phase: Phase,
    },
    /// A decision that later facts depend on.
    Decided(Verdict),
    /// A message to people.
    Notice(Notice),
    /// A timer expired.
    TimerFired(Timer),
}

/// The first fact of a session's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionOpened {
    /// The schema version of the log.
    pub schema: u32,
    /// The id of the session.
    pub session: SessionId,
    /// The kind of the session.
    pub kind: SessionKind,
    /// The goal of the session, in the user's words. For a conversation: the message on the command line, or
    /// `conversation` if there was none.
    pub goal: String,
    /// The directory in which the session was started.
    pub cwd: String,
    /// The version of Althing that opened the session.
    pub version: String,
    /// Where the config came from: a path, or a description of how it was generated.
    pub config_source: String,
    /// The config's text without its secrets. A resumed session uses it if the config file has changed.
    pub config_text: String,
    /// SHA-256 of the config's text, to detect changes of the config file.
    pub config_digest: String,
    /// The state directory in which the session was created. If the state directory was moved, paths below the recorded
    /// one are mapped to the new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<String>,
    /// The directory of the project that the session uses, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// What the session was opened to do. Recorded here so that a session can be resumed even if a crash left only this
    /// fact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<Op>,
}

/// A decision of a decider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The winner was determined.
    Winner {
        /// The agent that won.
        winner: AgentId,
        /// The number of first choices per agent.
        votes: BTreeMap<AgentId, u32>,
        /// The ballots that were counted.
        ballots: Vec<Ballot>,
        /// A text for people: how a tie was broken, or that nobody voted. None if neither applies.
        tie_break: Option<String>,
        /// How the final answer will be produced.
        strategy: FinalAnswerStrategy,
        /// How the winner was chosen; None in logs of 0.1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<Box<DecisionReport>>,
    },
    /// A person chose a presenter other than the winner.
    Override {
        /// The chosen presenter.
        presenter: AgentId,
    },
    /// The final answer was rejected, and the run starts over.
    Restarted {
        /// What the answer lacks.
        reason: String,
        /// What the agents should do differently.
        instructions: String,
        /// The number of this restart, counted from 1.
        nth: u32,
    },
    /// The older part of the conversation was replaced by a summary.
    Compacted {
        /// The summary covers everything up to this fact, except what is preserved verbatim.
        up_to: Seq,
        /// The summary.
        summary: String,
        /// The numbers of the facts whose messages are preserved verbatim.
        kept: Vec<Seq>,
        /// Lines that are preserved verbatim: decisions, file paths, runs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        markers: Vec<String>,
        /// The size of the conversation before and after, in tokens.
        tokens: (u64, u64),
        /// The number of past exchanges that were replaced; 0 in logs of 0.1.
        #[serde(default)]
        exchanges: u32,
        /// The number of the agent's replies for the current message that were replaced, together with their tool
        /// results.
        #[serde(default)]
        steps: u32,
    },
    /// The run ended.
    Finished {
        /// Why the run ended.
        end: RunEnd,
        /// The run's result.
        result: Box<RunResult>,
    },
}

/// Why a run ended; determines the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// A final answer was produced.
    Answered,
    /// No agent produced an answer.
    NoAnswer,
    /// A limit on time, cost or model calls was reached.
    Limit,
    /// The run was cancelled.
    Cancelled,
}

/// The severity of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    /// Information only.
    Info,
    /// Something needs attention, but the work continues.
    Warning,
    /// Something failed.
    Error,
}

/// A message to people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The severity.
    pub level: NoticeLevel,
    /// The message.
    pub text: String,
    /// What the user can do about the problem.
    pub hint: Option<String>,
}

/// Transient progress: never written to the log, never seen by a decider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Progress {
    /// A piece of a streaming reply.
    Delta {
        /// The newest fact when the piece arrived.
        after: Seq,
        /// The task that the reply belongs to.
        task: TaskId,
        /// What the piece is.
        kind: DeltaKind,
        /// The text of the piece.
        text: String,
    },
    /// The subscriber fell behind: it misses progress, but gets all facts.
    Gap {
        /// The last fact that the subscriber received.
        after: Seq,
    },
    /// A program wrote output.
    Output {
        /// The newest fact when the output was read.
        after: Seq,
        /// The task that the program belongs to.
        task: TaskId,
        /// The output as written; known secrets are masked, and invalid UTF-8 is replaced.
        raw: String,
        /// The output without escape sequences and redraws; known secrets are masked.
        clean: String,
    },
    /// A program's screen changed; `Engine::screen` returns the new screen.
    ScreenChanged {
        /// The newest fact when the screen changed.
        after: Seq,
        /// The task that the program belongs to.
        task: TaskId,
    },
    /// The journal cannot be written at the moment; until it can, nothing is published or started.
    Stalled {
        /// The last durable fact.
        after: Seq,
        /// The error of the journal.
        reason: String,
        /// What the user can do about the problem.
        hint: Option<String>,
    },
}

/// What a delta of a model call contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeltaKind {
    /// More of the reply's text.
    Text,
    /// More of the model's reasoning.
    Reasoning,
    /// The name of a tool that is being called.
    ToolCall,
    /// More of the answer that an agent writes as the argument of the tool `new_answer`.
    Answer,
    /// The model call is retried; everything that streamed so far is void.
    Retry,
    /// What the model call waits for; nothing of the reply has arrived yet.
    Waiting,
}

/// An item of the event feed.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedItem {
    /// A durable fact.
    Event(Arc<Event>),
    /// Transient progress.
    Progress(Arc<Progress>),
}

impl Fact {
    /// Makes an `OpAccepted` for an op without an id.
    pub fn accepted(op: Op, by: Origin) -> Self {
        Self::OpAccepted { op, by, id: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_fact_survives_a_round_trip_through_its_line() {
        let facts = [
            Fact::SessionClosed {},
            Fact::StatusChanged { status: TaskStatus::WaitingForUser, why: None },
            Fact::AttemptStarted { attempt: 2, purpose: Purpose::Answer, continues: Some(1) },
            Fact::AttemptEnded {
                attempt: 2,
                outcome: AttemptOutcome::Failed {
                    error: "500".into(),
                    hint: None,
                    kind: Some(crate::BackendErrorKind::Server),
                },
                usage: Usage::default(),
                call: None,
            },
            Fact::ItemAdded {
                attempt: 1,
                item: Item::Reminder { call: None, text: "call a tool".into(), restates_task: true },
            },
            Fact::TimerFired(Timer::Orchestrator),
            Fact::PhaseChanged { phase: Phase::Voting },
            Fact::accepted(Op::Resume, Origin::User),
            Fact::OpAccepted { op: Op::Resume, by: Origin::Client, id: Some("retry-1".into()) },
        ];
        for (n, fact) in (1..).zip(facts) {
            let event = Event {
                seq: Seq(n),
                at: Timestamp(1_794_736_572_123),
                task: Some("r1".into()),
                cause: None,
                fact,
            };
            let line = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event, "{line}");
        }
    }

    #[test]
    fn a_line_has_its_fields_in_the_order_people_read_them() {
        let fact = Fact::PhaseChanged { phase: Phase::Voting };
        let event =
            Event { seq: Seq(7), at: Timestamp(0), task: Some("r1".into()), cause: Some(Seq(3)), fact };
        let expected = r#"{"seq":7,"at":"1970-01-01T00:00:00.000Z","task":"r1","cause":3,"type":"phase_changed","data":{"phase":"voting"}}"#;
        assert_eq!(serde_json::to_string(&event).unwrap(), expected);
    }
}
