//! Questions that are open to a person, and the answers.

use crate::{AgentId, AnswerLabel, Ask, InteractionId, LaunchRun, Millis, PlanRef, Proposal};
use serde::{Deserialize, Serialize};

/// Something that a person may or must answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum InteractionKind {
    /// The vote is over: keep its winner as presenter, or choose another.
    WinnerOverride {
        /// Who won the vote, and presents unless overridden.
        winner: AgentId,
        /// Everyone who may present, the winner among them.
        candidates: Vec<Candidate>,
    },
    /// The interactive agent wants to launch a run.
    RunApproval {
        /// Exactly what would be started.
        proposal: Box<Proposal>,
    },
    /// A plan is ready to be executed.
    PlanApproval {
        /// Where it is.
        plan: PlanRef,
        /// Its tasks in brief, in order.
        preview: Vec<String>,
    },
    /// The session is about to cost more than its budget.
    Budget {
        /// What it has cost, in millionths of a US dollar.
        spent_micro_usd: u64,
        /// What it may cost.
        budget_micro_usd: u64,
    },
    /// A program waits for a person.
    Program(Ask),
    /// A program was cut off, and its task wants a person to say what becomes of it.
    Interrupted,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// Go on with the default.
    Continue,
    /// Let this agent present.
    Presenter {
        /// Who.
        agent: AgentId,
    },
    /// Yes.
    Approve {
        /// The proposal it is for; what was approved is what runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
        /// With these values instead of the ones shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited: Option<Box<LaunchRun>>,
        /// With these words besides.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
    },
    /// No.
    Reject {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Not like this: change it first.
    Change {
        /// How.
        text: String,
    },
    /// One of the options that were offered.
    Choose {
        /// Which.
        option: String,
    },
    /// The program went on by itself.
    MovedOn,
}
