//! Entries of the conversation, and open questions.

use althing_protocol::{Interaction, NoticeLevel, Seq, TaskId, Timestamp};

#[derive(Clone, Debug, PartialEq)]
pub struct ConversationEntry {
    /// The number of the event that added the entry; 0 for a note that is not in the log.
    pub seq: Seq,
    pub at: Timestamp,
    pub body: EntryBody,
    /// Whether the user pinned the entry, so that compaction keeps it verbatim.
    pub pinned: bool,
}

/// The content of a conversation entry.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryBody {
    /// A message of the user.
    User {
        text: String,
        /// Whether the message waits until the current turn ends.
        queued: bool,
        /// Whether the message was sent in plan mode.
        planning: bool,
    },
    /// Text of the chat agent.
    Agent { text: String },
    /// A tool call of the chat agent itself.
    Tool {
        /// The call id that the model chose.
        call: String,
        /// The tool's name.
        name: String,
        /// The arguments as JSON.
        arguments: String,
        /// The result, and whether it is an error; None while the call runs.
        result: Option<(String, bool)>,
    },
    /// The card of a run that is not a subagent run.
    Run(TaskId),
    /// The card of a program task.
    Program(TaskId),
    /// The final answer of a run, if no chat agent summarizes the run.
    Final(TaskId),
    /// A notice for the user.
    Notice { level: NoticeLevel, text: String },
    /// A compaction replaced the older part of the conversation with a summary.
    Compacted {
        summary: String,
        /// What was replaced and how the size changed, for people.
        what: String,
    },
}

/// An open question to the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub interaction: Interaction,
    /// The task that asks.
    pub task: Option<TaskId>,
    /// When the question was opened.
    pub since: Timestamp,
    /// The event that opened the question.
    pub opened: Seq,
}

impl Question {
    /// Seconds, rounded up, until the question's countdown ends; None without a countdown.
    pub fn seconds_left(&self, now: Timestamp) -> Option<u64> {
        let countdown = self.interaction.countdown?;
        Some(countdown.minus(now.since(self.since)).0.div_ceil(1000))
    }
}
