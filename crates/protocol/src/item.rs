//! Finished pieces of content: what an agent said, what it was told, what it answered and voted.
//!
//! New content is a new `Item`, not a new event.

use crate::{AgentId, FileWrite, PlanProgress, PlanRef, PlanRun, Reply, TaskId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// How many answers a run had stored at some moment. An agent that "knows revision 3" was shown the newest
/// answer of every agent among the run's first three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u32);

/// `agent2.3`: the third answer of the agent with anonymous number 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnswerLabel {
    /// The agent's anonymous number: its place in the config, counted from 1.
    pub agent: u32,
    /// Which of its answers, counted from 1.
    pub nth: u32,
}

impl fmt::Display for AnswerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent{}.{}", self.agent, self.nth)
    }
}

/// A text that is not a label such as `agent2.3`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an answer label such as agent1.1")]
pub struct LabelParseError(String);

impl FromStr for AnswerLabel {
    type Err = LabelParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.strip_prefix("agent").and_then(|rest| rest.split_once('.'));
        let label =
            parts.and_then(|(agent, nth)| Some(Self { agent: agent.parse().ok()?, nth: nth.parse().ok()? }));
        label.ok_or_else(|| LabelParseError(text.to_owned()))
    }
}

impl Serialize for AnswerLabel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AnswerLabel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// An answer an agent gave to the run's task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Who answered.
    pub agent: AgentId,
    /// Its anonymous name in the run.
    pub label: AnswerLabel,
    /// The run's revision with this answer in it.
    pub revision: Revision,
    /// The answer itself.
    pub content: String,
}

/// A vote that was counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ballot {
    /// Who voted.
    pub voter: AgentId,
    /// For whom.
    pub target: AgentId,
    /// Why, in the voter's words.
    pub reason: String,
}

/// A finished piece of content of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Item {
    /// One whole reply of a model, written before anything is done about it: on resume it is acted on, not asked for again.
    Reply(Reply),
    /// What a tool call gave back to the model.
    ToolResult {
        /// The call this answers, by the model's own id for it.
        call: String,
        /// What the model is told.
        content: String,
        /// Whether the call was refused or failed.
        is_error: bool,
    },
    /// What the agent was told because its reply did not end its turn as it must.
    Reminder {
        /// The tool call this answers, where the agent made one.
        call: Option<String>,
        /// The words it was given.
        text: String,
    },
    /// The agent was told of the answers up to this revision while it worked.
    Update {
        /// What it knows from now on.
        revision: Revision,
    },
    /// The agent was told that its time is nearly up.
    TimeWarning,
    /// The workspace was kept as it was when its agent gave the answer in its last reply, or why it was not.
    WorkspaceKept {
        /// Why not.
        error: Option<String>,
    },
    /// The writable context paths were opened to the agent, or why they were not.
    ContextOpened {
        /// Why not.
        error: Option<String>,
    },
    /// They were closed again; what was changed in them meanwhile.
    ContextClosed {
        /// The files.
        writes: Vec<FileWrite>,
        /// Why that is not known.
        error: Option<String>,
    },
    /// What a subagent left in its workspace was put into the workspace of the agent that asked for it, or why not.
    FilesTaken {
        /// The subagent's run.
        from: TaskId,
        /// Why not.
        error: Option<String>,
    },
    /// A task of the plan that the run carries out is further than it was.
    PlanProgress(PlanProgress),
    /// The plan in a planning run's answer was stored, or why it was not.
    PlanStored {
        /// Where it is.
        plan: Option<PlanRef>,
        /// Why not.
        error: Option<String>,
    },
    /// The plan that a run carries out was read from where it is stored, or why it was not: people may have changed it, and
    /// some of it may be done.
    PlanOpened {
        /// The plan as it is now.
        plan: Option<PlanRun>,
        /// Why not.
        error: Option<String>,
    },
    /// A program's own conversation, by its own id.
    Conversation {
        /// The id.
        id: String,
    },
    /// The prompt that a program was sent, or why it was not.
    PromptSent {
        /// What.
        text: String,
        /// Why not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Something a program said.
    Said {
        /// What.
        text: String,
    },
    /// Something a program did by itself: a tool of its own.
    Did {
        /// The tool.
        tool: String,
        /// What it was used on, in a line.
        detail: String,
        /// What it gave, cut short.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
        /// Whether it failed.
        #[serde(default)]
        is_error: bool,
    },
    /// An answer was stored.
    Answer(Answer),
    /// A vote was counted.
    Vote(Ballot),
    /// A vote was not counted, because newer answers had arrived than the voter knew.
    StaleVote(Ballot),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_read_back_and_other_texts_are_refused() {
        let label = AnswerLabel { agent: 2, nth: 13 };
        assert_eq!(label.to_string(), "agent2.13");
        assert_eq!("agent2.13".parse(), Ok(label));
        for bad in ["agent", "agent1", "agentx.1", "gem.1", "agent1.", "agent-1.1"] {
            assert!(bad.parse::<AnswerLabel>().is_err(), "{bad}");
        }
    }
}
