//! Questions that are open to a person, and the answers.

use crate::{AgentId, AnswerLabel, InteractionId, Millis};
use serde::{Deserialize, Serialize};

/// Something that a person may or must answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interaction {
    /// Its id, unique within the session.
    pub id: InteractionId,
    /// What is asked.
    #[serde(flatten)]
    pub kind: InteractionKind,
    /// How long it stays open; then the default is taken. None: until answered.
    pub countdown: Option<Millis>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum InteractionKind {
    /// The vote is over: keep its winner as presenter, or choose another.
    WinnerOverride {
        /// Who won the vote, and presents unless overridden.
        winner: AgentId,
        /// Everyone who may present, the winner among them.
        candidates: Vec<Candidate>,
    },
}

/// One who may present.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Who.
    pub agent: AgentId,
    /// Its newest answer.
    pub label: AnswerLabel,
    /// Votes it received.
    pub votes: u32,
    /// The beginning of that answer.
    pub preview: String,
}

/// The answer to an interaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// Go on with the default.
    Continue,
    /// Let this agent present.
    Presenter {
        /// Who.
        agent: AgentId,
    },
}
