//! Interactions: questions to a person, and the answers.

use crate::{AgentId, AnswerLabel, Ask, EditPreview, InteractionId, LaunchRun, Millis, PlanRef, Proposal};
use serde::{Deserialize, Serialize};

/// A question that a person may or must answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interaction {
    /// The question's id, unique within the session.
    pub id: InteractionId,
    /// The question.
    #[serde(flatten)]
    pub kind: InteractionKind,
    /// How long the question stays open before the default applies. None: until it is answered or no longer needed.
    pub countdown: Option<Millis>,
}

/// The kinds of question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum InteractionKind {
    /// The votes have been counted: confirm the winner as presenter, or choose another agent.
    WinnerOverride {
        /// The winner of the vote, who presents unless overridden.
        winner: AgentId,
        /// The agents that may present, including the winner.
        candidates: Vec<Candidate>,
    },
    /// The chat agent wants to launch a run.
    RunApproval {
        /// The run, exactly as it would be started.
        proposal: Box<Proposal>,
    },
    /// A plan is ready to be executed.
    PlanApproval {
        /// The stored plan.
        plan: PlanRef,
        /// The plan's tasks as text, in order.
        preview: Vec<String>,
    },
    /// The chat agent wants to change files. Answered with `Approve` (once), `Reject`, or `Choose` with the option
    /// [`crate::ALWAYS_IN_PROJECT`].
    EditApproval {
        /// The model's id for the tool call.
        call: String,
        /// The changes.
        preview: EditPreview,
    },
    /// The conversation's budget is spent, or the next model call or run would probably exceed it.
    Budget {
        /// The cost so far, in millionths of a US dollar.
        spent_micro_usd: u64,
        /// The budget, including earlier raises, in millionths of a US dollar.
        budget_micro_usd: u64,
        /// The budget if the user approves, in millionths of a US dollar; None in logs of 0.1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raised_micro_usd: Option<u64>,
    },
    /// A program waits for a person.
    Program(Ask),
    /// A program was interrupted: should its task be started again?
    Interrupted,
}

/// An agent that may present the final answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The agent.
    pub agent: AgentId,
    /// The label of the agent's newest answer.
    pub label: AnswerLabel,
    /// The number of first choices for the agent.
    pub votes: u32,
    /// The beginning of the answer.
    pub preview: String,
}

/// How an interaction was closed: a person's answer, the default, or `MovedOn`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// Accept the default: the winner of the vote presents.
    Continue,
    /// Choose the presenter.
    Presenter {
        /// The agent that should present.
        agent: AgentId,
    },
    /// Approve what was asked: a run, a plan, a change of files, further spending, or starting a task again.
    Approve {
        /// For a run: the digest of the approved proposal, which is required. For a plan: the plan's id, or None. For a
        /// change of files: the digest of its preview, or None.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
        /// For a run: changed arguments, which replace the arguments that were shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited: Option<Box<LaunchRun>>,
        /// For a run or a plan: additional instructions from the person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
    },
    /// Reject what was asked.
    Reject {
        /// Why the person rejected what was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Request changes to the proposed run or plan instead of approving or rejecting it.
    Change {
        /// What should change.
        text: String,
    },
    /// Choose one of the options that a program's question offers, or `always` for a proposed change of files.
    Choose {
        /// The id of the option.
        option: String,
    },
    /// Nobody answered before the program continued, asked something else or ended, or before the run ended.
    MovedOn,
}
