//! Entries of the conversation, queued messages, and open questions.

use althing_protocol::{FileDiff, Interaction, NoticeLevel, Seq, TaskId, Timestamp};

#[derive(Clone, Debug, PartialEq)]
pub struct ConversationEntry {
    /// The number of the event that added the entry; 0 for a note that is not in the log, and for what was said in the
    /// session that this one continues.
    pub seq: Seq,
    pub at: Timestamp,
    pub body: EntryBody,
    /// Whether the user pinned the entry, so that compaction keeps it verbatim.
    pub pinned: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum EntryBody {
    User {
        /// The message as it was typed, with `@path` for each path that it grants.
        text: String,
        /// What agents get, with absolute paths; None if this is the same text.
        sent: Option<String>,
        /// Whether the message was sent in plan mode.
        planning: bool,
    },
    Agent {
        text: String,
    },
    /// A tool call of the chat agent itself.
    Tool {
        /// The model's id for the call.
        call: String,
        name: String,
        arguments: String,
        /// The result, and whether it is an error; None while the call runs.
        result: Option<(String, bool)>,
        /// What the call changes in files; empty if it changes none, or if that is not known yet.
        edits: Vec<FileDiff>,
        /// Whether the user did not allow the call.
        rejected: bool,
        /// Whether the user has undone the changes since. The log does not say this: the front end sets it.
        is_undone: bool,
    },
    /// The card of a run that is not a subagent run.
    Run(TaskId),
    Program(TaskId),
    /// The final answer of a run. If a chat agent summarizes the run, only a run with an answer has this entry.
    Final(TaskId),
    /// A run that was proposed and rejected.
    Rejected {
        task: String,
        reason: Option<String>,
    },
    /// The user stopped the chat agent's turn.
    Stopped {
        /// The text that had streamed by then; empty in a replayed log, which contains no streamed text.
        partial: String,
    },
    Notice {
        level: NoticeLevel,
        text: String,
    },
    /// A compaction replaced the older part of the conversation with a summary.
    Compacted {
        summary: String,
        /// What was replaced and how the size changed, for people.
        what: String,
    },
}

impl EntryBody {
    /// A tool call that has no result yet.
    pub(super) fn tool(call: String, name: String, arguments: String) -> Self {
        Self::Tool {
            call,
            name,
            arguments,
            result: None,
            edits: Vec::new(),
            rejected: false,
            is_undone: false,
        }
    }
}

/// A message of the user whose turn has not started.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuedMessage {
    /// The number of the event that contains the message.
    pub seq: Seq,
    pub at: Timestamp,
    /// The message as it was typed, with `@path` for each path that it grants.
    pub text: String,
    /// What agents get, with absolute paths; None if this is the same text.
    pub sent: Option<String>,
    /// Whether the message was sent in plan mode.
    pub planning: bool,
    pub pinned: bool,
}

impl QueuedMessage {
    pub fn into_entry(self) -> ConversationEntry {
        let body = EntryBody::User { text: self.text, sent: self.sent, planning: self.planning };
        ConversationEntry { seq: self.seq, at: self.at, body, pinned: self.pinned }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub interaction: Interaction,
    /// The task that asks.
    pub task: Option<TaskId>,
    /// When the question was opened, adjusted for pauses and restarts of its countdown.
    pub since: Timestamp,
    pub opened: Seq,
    /// Since when the countdown is paused; None while it runs.
    pub paused: Option<Timestamp>,
}

impl Question {
    pub(super) fn pause(&mut self, pauses: bool, at: Timestamp) {
        if let Some(paused) = self.paused.take() {
            self.since.0 += at.since(paused).0;
        }
        self.paused = pauses.then_some(at);
    }

    pub(super) fn restart_countdown(&mut self, at: Timestamp) {
        if self.interaction.countdown.is_some() {
            (self.since, self.paused) = (at, None);
        }
    }

    /// The seconds left of the countdown, rounded up; None without a countdown.
    pub fn seconds_left(&self, now: Timestamp) -> Option<u64> {
        let countdown = self.interaction.countdown?;
        Some(countdown.minus(self.paused.unwrap_or(now).since(self.since)).0.div_ceil(1000))
    }
}
