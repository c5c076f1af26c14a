//! What the conversation is made of, and the questions that are open.

use althing_protocol::{Interaction, NoticeLevel, Seq, TaskId, Timestamp};

/// One entry of the conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The fact that brought it.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// What it is.
    pub body: Body,
    /// Whether it is kept word for word.
    pub pinned: bool,
}

/// What an entry of the conversation is.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// The user's words.
    User {
        /// What.
        text: String,
        /// Whether they wait for their turn.
        queued: bool,
        /// Whether they were sent in plan mode.
        planning: bool,
    },
    /// The agent's words.
    Agent {
        /// What.
        text: String,
    },
    /// A tool that the agent used itself.
    Tool {
        /// Its own id for the call.
        call: String,
        /// Which.
        name: String,
        /// With what.
        arguments: String,
        /// What came back, and whether it failed.
        result: Option<(String, bool)>,
    },
    /// A run's card.
    Run(TaskId),
    /// A program's card.
    Program(TaskId),
    /// A run's final answer, where nobody sums it up.
    Final(TaskId),
    /// Something people should know.
    Notice {
        /// How serious.
        level: NoticeLevel,
        /// What.
        text: String,
    },
    /// The older part was summed up.
    Compacted {
        /// The summary.
        summary: String,
        /// The size before and after.
        tokens: (u64, u64),
    },
}

/// A question that is open to the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// What is asked.
    pub interaction: Interaction,
    /// By which task.
    pub task: Option<TaskId>,
    /// Since when.
    pub since: Timestamp,
    /// The fact that opened it.
    pub opened: Seq,
}

impl Question {
    /// The whole seconds left before the default is taken.
    pub fn seconds_left(&self, now: Timestamp) -> Option<u64> {
        let countdown = self.interaction.countdown?;
        Some(countdown.minus(now.since(self.since)).0.div_ceil(1000))
    }
}
