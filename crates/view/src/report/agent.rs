//! An agent's part in the report of a run: its attempts and its answers.

use super::diff;
use super::spent::Spent;
use crate::labels;
use althing_protocol::{
    AgentId, AnswerLabel, AttemptOutcome, CallRecord, Event, Fact, Item, Member, Millis, Purpose, TaskId,
    TaskStatus, Timestamp,
};
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentReport {
    pub id: AgentId,
    /// The task of the agent's work, such as `r1.a1`.
    pub task: TaskId,
    /// The name by which the other agents knew this agent, such as `agent1`.
    pub anonymous: String,
    pub backend: String,
    pub model: String,
    pub offline: bool,
    pub status: String,
    pub error: Option<String>,
    pub answers: Vec<AnswerReport>,
    pub attempts: Vec<AttemptReport>,
    pub usage: Spent,
    /// The time of all attempts together.
    #[serde(rename = "time_ms")]
    pub time: Millis,
    #[serde(skip)]
    is_snapshot_taken: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnswerReport {
    pub label: AnswerLabel,
    pub at: Timestamp,
    pub content: String,
    /// The path of the workspace snapshot that belongs to the answer.
    pub snapshot: Option<String>,
    /// A unified diff since the agent's previous answer; None for the first answer.
    pub diff: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttemptReport {
    pub attempt: u32,
    /// What the agent did, such as `answering`, `judging` or `presenting`.
    pub activity: &'static str,
    /// The answers that the agent was shown, the newest of each agent.
    pub saw: Vec<AnswerLabel>,
    pub began: Timestamp,
    #[serde(rename = "time_ms")]
    pub time: Option<Millis>,
    /// The time to the first token of the first call for which it is known.
    #[serde(rename = "first_token_ms")]
    pub first_token: Option<Millis>,
    pub usage: Spent,
    pub outcome: Option<String>,
}

impl AgentReport {
    pub(super) fn new(run: &TaskId, number: u32, member: &Member) -> Self {
        Self {
            id: member.id.clone(),
            task: run.work(number),
            anonymous: format!("agent{number}"),
            backend: member.backend.clone(),
            model: member.model.clone(),
            offline: member.offline,
            status: "waiting".into(),
            error: None,
            answers: Vec::new(),
            attempts: Vec::new(),
            usage: Spent::default(),
            time: Millis(0),
            is_snapshot_taken: false,
        }
    }

    pub(super) fn apply(&mut self, event: &Event, dir: &str) {
        match &event.fact {
            Fact::AttemptStarted { attempt, purpose, .. } => self.begin(*attempt, *purpose, event.at),
            Fact::AttemptEnded { attempt, outcome, call, .. } => {
                self.note_call(*attempt, call.as_ref());
                self.end(*attempt, outcome, event.at);
            }
            Fact::ItemAdded { attempt, item } => match item {
                Item::Reply(reply) => self.note_call(*attempt, reply.call.as_ref()),
                Item::WorkspaceKept { error } => self.is_snapshot_taken = error.is_none(),
                Item::Answer(answer) => {
                    let last = self.answers.last();
                    let diff = last.map(|last| {
                        let names = (last.label.to_string(), answer.label.to_string());
                        diff(&last.content, &answer.content, (&names.0, &names.1))
                    });
                    let taken = std::mem::take(&mut self.is_snapshot_taken);
                    let snapshot = taken.then(|| format!("{dir}/snapshots/{}", answer.label));
                    let (label, content) = (answer.label, answer.content.clone());
                    "answered".clone_into(&mut self.status);
                    self.answers.push(AnswerReport { label, at: event.at, content, snapshot, diff });
                }
                Item::Vote(_) => "voted".clone_into(&mut self.status),
                _ => {}
            },
            Fact::StatusChanged { status: TaskStatus::Failed, why } => {
                "dropped out".clone_into(&mut self.status);
                self.error.clone_from(why);
            }
            _ => {}
        }
    }

    pub(super) fn add_spent(&mut self, attempt: u32, spent: Spent) {
        self.usage += spent;
        if let Some(current) = self.attempt(attempt) {
            current.usage += spent;
        }
    }

    fn attempt(&mut self, number: u32) -> Option<&mut AttemptReport> {
        self.attempts.iter_mut().rfind(|attempt| attempt.attempt == number)
    }

    pub(super) fn see(&mut self, saw: Vec<AnswerLabel>) {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.saw = saw;
        }
    }

    pub(super) fn newest(&self) -> Option<&AnswerReport> {
        self.answers.last()
    }

    fn begin(&mut self, attempt: u32, purpose: Purpose, at: Timestamp) {
        self.attempts.push(AttemptReport {
            attempt,
            activity: labels::activity(purpose),
            saw: Vec::new(),
            began: at,
            time: None,
            first_token: None,
            usage: Spent::default(),
            outcome: None,
        });
    }

    fn end(&mut self, attempt: u32, outcome: &AttemptOutcome, at: Timestamp) {
        let Some(current) = self.attempt(attempt) else { return };
        let time = at.since(current.began);
        current.time = Some(time);
        current.outcome = Some(labels::outcome(outcome).unwrap_or_else(|| "answered".into()));
        self.time.0 += time.0;
    }

    fn note_call(&mut self, attempt: u32, call: Option<&CallRecord>) {
        let first = call.and_then(|call| call.first_token);
        if let Some(current) = self.attempt(attempt)
            && current.first_token.is_none()
        {
            current.first_token = first;
        }
    }
}
