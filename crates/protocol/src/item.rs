//! Items: finished pieces of content, such as replies, tool results, answers and votes. A new kind of content is a new
//! `Item`, not a new kind of event.

use crate::{AgentId, Briefing, EditPreview, FileWrite, PlanProgress, PlanRef, PlanRun, Reply, TaskId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The number of answers that a run had stored at some moment. An agent that knows revision 3 was shown the newest
/// answer of each agent among the first three answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u32);

/// `agent2.3`: the third answer of the agent with anonymous number 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnswerLabel {
    /// The agent's anonymous number: its position among the run's members, counted from 1.
    pub agent: u32,
    /// The number of the answer among the agent's answers, counted from 1.
    pub nth: u32,
}

impl fmt::Display for AnswerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent{}.{}", self.agent, self.nth)
    }
}

/// The error for a text that is not a label such as `agent2.3`.
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

/// An agent's answer to the run's task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The agent that answered.
    pub agent: AgentId,
    /// The answer's anonymous label.
    pub label: AnswerLabel,
    /// The run's revision that includes this answer.
    pub revision: Revision,
    /// The text of the answer.
    pub content: String,
    /// The answer's conclusion in a few words, if its author gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<String>,
}

/// A vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ballot {
    /// The agent that voted.
    pub voter: AgentId,
    /// The agent that the vote is for: the voter's first choice.
    pub target: AgentId,
    /// The voter's reason.
    pub reason: String,
    /// All agents that the voter ranked, best first, if it ranked several; the first is `target`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranking: Vec<AgentId>,
}

/// A finished piece of content of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Item {
    /// A complete reply of a model, recorded before anything follows from it; after a resume it is not requested again.
    Reply(Reply),
    /// What the agent's environment adds to the task's requests until the next briefing. Recorded before the reply
    /// (or failure) of the first request to which it was added.
    Briefed(Briefing),
    /// The result of a tool call.
    ToolResult {
        /// The model's id for the call.
        call: String,
        /// The text for the model.
        content: String,
        /// Whether the call was refused or failed.
        is_error: bool,
    },
    /// What a tool call of the chat agent would change in files; recorded before the call is executed.
    EditProposed {
        /// The model's id for the call.
        call: String,
        /// The changes, and whether a person must allow them.
        preview: EditPreview,
    },
    /// A correction sent to the agent because its reply did not end its turn as required.
    Reminder {
        /// The id of the tool call that the reminder answers; None if the reply had no tool call.
        call: Option<String>,
        /// The text for the agent.
        text: String,
        /// Whether the agent is shown the task (in a conversation: the user's message) again. False in logs of 0.1.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        restates_task: bool,
    },
    /// The agent was shown newer answers, up to this revision, while it worked.
    Update {
        /// The revision that the agent knows from now on.
        revision: Revision,
    },
    /// The agent was warned that its time limit is near.
    TimeWarning,
    /// A snapshot of the agent's workspace was taken for the answer in the agent's last reply, or could not be taken.
    WorkspaceKept {
        /// The error, if the snapshot failed.
        error: Option<String>,
    },
    /// The writable context paths were opened for the agent, or could not be opened.
    ContextOpened {
        /// The error, if opening failed.
        error: Option<String>,
    },
    /// The context paths are read-only again.
    ContextClosed {
        /// The files that the agent changed.
        writes: Vec<FileWrite>,
        /// The error, if the changes could not be determined.
        error: Option<String>,
    },
    /// A subagent's files were copied into the workspace of the agent that started it, or could not be copied.
    FilesTaken {
        /// The subagent run.
        from: TaskId,
        /// The error, if copying failed.
        error: Option<String>,
    },
    /// A task of the plan that the run executes made progress.
    PlanProgress(PlanProgress),
    /// The plan in a planning run's answer was stored, or could not be stored.
    PlanStored {
        /// The stored plan; None if storing failed.
        plan: Option<PlanRef>,
        /// The error, if storing failed.
        error: Option<String>,
    },
    /// The stored plan that a run executes was read before the run began, or could not be read.
    PlanOpened {
        /// The plan as it is stored now; None if reading failed.
        plan: Option<PlanRun>,
        /// The error, if reading failed.
        error: Option<String>,
    },
    /// A program reported the id of its own conversation.
    Conversation {
        /// The program's id for the conversation.
        id: String,
    },
    /// A prompt was sent to a program, or could not be sent.
    PromptSent {
        /// The prompt.
        text: String,
        /// The error, if sending failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A message of a program.
    Said {
        /// The text.
        text: String,
    },
    /// A program used one of its own tools.
    Did {
        /// The name of the tool.
        tool: String,
        /// What the tool was used on, in one line.
        detail: String,
        /// The tool's result, truncated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
        /// Whether the tool failed.
        #[serde(default)]
        is_error: bool,
    },
    /// An answer was stored.
    Answer(Answer),
    /// A vote was accepted. It counts unless a newer answer invalidates it.
    Vote(Ballot),
    /// A vote that does not count, because the voter did not know a newer answer.
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
