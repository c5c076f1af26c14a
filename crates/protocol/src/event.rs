//! The one event model: everything that happens is a numbered fact in one log.
//!
//! A line of the log is `{"seq", "at", "task", "cause", "type", "data", "crc"}`; this file knows all of it but
//! the checksum, which belongs to `journal`.

use crate::{
    AgentId, AttemptOutcome, Ballot, Decision, FinalAnswerStrategy, Interaction, InteractionId, Item, Op,
    OpId, Origin, Phase, Purpose, RunResult, Seq, SessionId, SessionKind, TaskId, TaskSpec, TaskStatus,
    Timer, Timestamp, Usage,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The version of the log's schema. A log of a newer one is refused, unchanged.
pub const LOG_SCHEMA: u32 = 1;

/// A fact with its place in the log. Its JSON is one object: serde's adjacent tagging gives `type` and `data`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number.
    pub seq: Seq,
    /// When it was recorded.
    pub at: Timestamp,
    /// The task it is about; None for the session itself.
    pub task: Option<TaskId>,
    /// The fact that brought it about.
    pub cause: Option<Seq>,
    /// What happened.
    #[serde(flatten)]
    pub fact: Fact,
}

/// What can happen. Durable, numbered without gaps, written before it is published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Fact {
    /// A session began.
    SessionOpened(Box<SessionOpened>),
    /// A session came to its end; nothing is left to resume.
    SessionClosed {},
    /// Somebody asked for something.
    OpAccepted {
        /// What.
        op: Op,
        /// Who.
        by: Origin,
        /// The sender's own id for it: an op that is delivered again under the same id is not accepted again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<OpId>,
    },
    /// A task came into being.
    TaskCreated {
        /// Its id.
        id: TaskId,
        /// Its parent in the tree.
        parent: Option<TaskId>,
        /// What it is.
        spec: TaskSpec,
    },
    /// A task's status changed.
    StatusChanged {
        /// To what.
        status: TaskStatus,
        /// Why, for people.
        why: Option<String>,
    },
    /// A try of a work began.
    AttemptStarted {
        /// Its number within the work, from 1: with the task it names the attempt for ever.
        attempt: u32,
        /// What it is for.
        #[serde(flatten)]
        purpose: Purpose,
        /// The interrupted attempt whose conversation it carries on.
        continues: Option<u32>,
    },
    /// A try of a work ended.
    AttemptEnded {
        /// Which.
        attempt: u32,
        /// How.
        #[serde(flatten)]
        outcome: AttemptOutcome,
        /// What it spent that no reply accounts for (failed calls).
        #[serde(default)]
        usage: Usage,
    },
    /// A finished piece of content.
    ItemAdded {
        /// The attempt it belongs to.
        attempt: u32,
        /// What it is.
        item: Item,
    },
    /// Something needs a person.
    InteractionOpened(Interaction),
    /// It does not any more.
    InteractionClosed {
        /// Which.
        id: InteractionId,
        /// The answer, or the default that was taken.
        decision: Decision,
    },
    /// A run went on to another phase.
    PhaseChanged {
        /// Which.
        phase: Phase,
    },
    /// A decision that later facts rest on.
    Decided(Verdict),
    /// Something people should know.
    Notice(Notice),
    /// A deadline passed.
    TimerFired(Timer),
}

/// The head of a session's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionOpened {
    /// The version of the schema the log is written in.
    pub schema: u32,
    /// Which session.
    pub session: SessionId,
    /// What kind.
    pub kind: SessionKind,
    /// What it is for, in the user's words.
    pub goal: String,
    /// The directory it was started in.
    pub cwd: String,
    /// The version of Althing that opened it.
    pub version: String,
    /// Where the config came from: a path, or how it was made up.
    pub config_source: String,
    /// The config's text without its secrets: what `resume` goes on with.
    pub config_text: String,
    /// SHA-256 of the config file as it was, to notice changes.
    pub config_digest: String,
    /// The state directory that the session was begun in: paths below it in this log are to be read relative to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<String>,
    /// The project workspace's directory, where it works in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// What it was opened to do. Here, so that a session which a crash left with nothing but its opening can go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<Op>,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The vote is over.
    Winner {
        /// Who won.
        winner: AgentId,
        /// Votes by agent.
        votes: BTreeMap<AgentId, u32>,
        /// The ballots counted.
        ballots: Vec<Ballot>,
        /// How a draw was settled, for people; None where the votes were clear.
        tie_break: Option<String>,
        /// How the final answer will be made.
        strategy: FinalAnswerStrategy,
    },
    /// A person chose who presents.
    Override {
        /// Who.
        presenter: AgentId,
    },
    /// The final answer was found wanting, and the run starts over.
    Restarted {
        /// What it lacks.
        reason: String,
        /// What to do differently.
        instructions: String,
        /// Which restart of the run, from 1.
        nth: u32,
    },
    /// The older part of the conversation was summed up.
    Compacted {
        /// Everything up to this fact is in the summary, but for what is kept word for word.
        up_to: Seq,
        /// The summary.
        summary: String,
        /// What is kept word for word besides: the facts that hold it.
        kept: Vec<Seq>,
        /// Lines that are kept besides: decisions, file paths, runs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        markers: Vec<String>,
        /// The size before and after, in tokens, as well as that can be told.
        tokens: (u64, u64),
    },
    /// The run is over.
    Finished {
        /// How it came to its end.
        end: RunEnd,
        /// What it gives back.
        result: Box<RunResult>,
    },
}

/// How a run came to its end; what the exit status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// A final answer was produced.
    Answered,
    /// No agent gave an answer.
    NoAnswer,
    /// A limit passed.
    Limit,
    /// It was stopped on request.
    Cancelled,
}

/// How serious a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    /// Good to know.
    Info,
    /// Something is not as it should be.
    Warning,
    /// Something failed.
    Error,
}

/// Something people should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// How serious.
    pub level: NoticeLevel,
    /// What.
    pub text: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// What passes: never journaled, never seen by a decider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Progress {
    /// A piece of a reply as it streams.
    Delta {
        /// The last fact before it.
        after: Seq,
        /// Whose.
        task: TaskId,
        /// What of it.
        kind: DeltaKind,
        /// The piece.
        text: String,
    },
    /// You fell behind; what you missed of the log follows.
    Gap {
        /// The last fact you had.
        after: Seq,
    },
    /// A program put something out.
    Output {
        /// The last fact before it.
        after: Seq,
        /// Whose.
        task: TaskId,
        /// As it came; bytes that are no text are replaced.
        raw: String,
        /// Without escape sequences and redraws.
        clean: String,
    },
    /// A program's screen looks different: pull a snapshot.
    ScreenChanged {
        /// The last fact before it.
        after: Seq,
        /// Whose.
        task: TaskId,
    },
    /// The disk takes nothing at the moment: nothing is shown or started until it does.
    Stalled {
        /// The last fact that is safe.
        after: Seq,
        /// What the disk said.
        reason: String,
        /// What to do about it.
        hint: Option<String>,
    },
}

/// What of a reply a delta is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeltaKind {
    /// Text.
    Text,
    /// Reasoning.
    Reasoning,
    /// The name of a tool that is being called.
    ToolCall,
    /// The call is tried again; what streamed before is void.
    Retry,
}

/// What a subscriber receives. Shared: one event goes to every front end.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedItem {
    /// A durable fact.
    Event(Arc<Event>),
    /// Something passing.
    Progress(Arc<Progress>),
}

impl Fact {
    /// An op is accepted that its sender gave no id.
    pub fn accepted(op: Op, by: Origin) -> Self {
        Self::OpAccepted { op, by, id: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reads_back_from_its_line_whatever_its_fact() {
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
            },
            Fact::ItemAdded { attempt: 1, item: Item::Reminder { call: None, text: "call a tool".into() } },
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
