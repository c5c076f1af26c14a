//! What front ends ask of the engine. An op is plain data: it can be logged, sent and replayed.

use crate::{Decision, InteractionId, RunSpec, TaskId};
use serde::{Deserialize, Serialize};

/// A request to the engine; the answer to it is an event that names it in `cause`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Start a coordination run.
    StartRun {
        /// Everything the run needs, resolved.
        spec: Box<RunSpec>,
    },
    /// Answer an open interaction.
    Answer {
        /// Which.
        interaction: InteractionId,
        /// The answer.
        decision: Decision,
    },
    /// Stop a task and everything below it; partial results are kept.
    Cancel {
        /// Which.
        task: TaskId,
    },
    /// Go on with an interrupted session.
    Resume,
    /// Stop everything, keep everything, so that it can be resumed.
    Shutdown,
}

/// Who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person at the terminal, or their script.
    User,
    /// A signal from the operating system.
    Signal,
    /// Althing itself.
    System,
}
