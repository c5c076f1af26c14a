//! The result of a run, for the command line, `launch_run`, MCP clients and `run_description.json`.

use crate::{
    AgentId, Ballot, DecisionReport, FinalAnswerStrategy, Millis, Modes, RunsCode, Usage, git_dir_row,
    runs_code_in,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The status of an ended run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The run produced its final answer.
    Completed,
    /// A limit ended the run early; the run's best answer so far is the result.
    Partial,
    /// The run was cancelled.
    Cancelled,
    /// The run produced no answer.
    Failed,
}

impl RunStatus {
    /// The status as it is written in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Partial => "partial",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The id of the run, `<session>.<task>`, which is unique across sessions.
    pub run_id: String,
    /// The run's task.
    pub task: String,
    /// The status of the run.
    pub status: RunStatus,
    /// The modes of the run.
    pub modes: Modes,
    /// The final answer or, if the run ended early, the best answer so far.
    pub final_answer: Option<String>,
    /// The workspace of the agent whose answer is the final answer. None if there is no answer, or if that agent has no
    /// tools.
    pub workspace_path: Option<String>,
    /// How the agents answered and voted.
    pub coordination_summary: CoordinationSummary,
    /// The files that the run changed in context paths.
    pub context_path_writes: Vec<FileWrite>,
    /// The writable context paths, if the run has an answer and is known to have changed nothing in any of them. Always
    /// empty for a planning run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchanged_paths: Vec<String>,
    /// The stored plan of a planning run.
    pub plan: Option<PlanRef>,
    /// The id of the run that executes the plan.
    pub follow_up: Option<String>,
    /// Tokens and cost of the run.
    pub usage: Usage,
    /// The active time of the run, without downtime and without waiting for a person.
    #[serde(rename = "duration_ms")]
    pub duration: Millis,
    /// The directory with the run's files.
    pub log_dir: String,
    /// Why there is no answer or only a partial one, or that the run was cancelled.
    pub error: Option<String>,
}

/// How the agents of a run answered and voted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinationSummary {
    /// The winner; None if the run ended before one was determined.
    pub winner: Option<AgentId>,
    /// The agent that presented or, if nobody did, whose answer is the final answer.
    pub presenter: Option<AgentId>,
    /// How the final answer is produced according to the rules, even if the run ended before that.
    pub strategy: FinalAnswerStrategy,
    /// Whether a person chose a presenter other than the winner.
    pub overridden: bool,
    /// The number of attempts to answer or judge of the agent that made the most of them.
    pub rounds: u32,
    /// How often the run started over after its final answer was rejected.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restarts: u32,
    /// The number of first choices per agent.
    pub votes: BTreeMap<AgentId, u32>,
    /// The votes that were counted.
    pub ballots: Vec<Ballot>,
    /// How the winner was chosen; None if the run ended before that, and in results of 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionReport>,
    /// The outcome of each agent.
    pub agents: Vec<AgentSummary>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The outcome of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSummary {
    /// The agent.
    pub id: AgentId,
    /// The agent's outcome.
    pub status: AgentOutcome,
    /// The number of answers that the agent gave.
    pub answers: u32,
    /// Why the agent dropped out; None if it did not.
    pub error: Option<String>,
}

/// How an agent's part in a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentOutcome {
    /// The agent answered and has no valid vote.
    Answered,
    /// The agent has a valid vote.
    Voted,
    /// The agent dropped out because of an error.
    Failed,
    /// The agent dropped out because a time limit passed, or because it sent nothing while all others were done.
    TimedOut,
    /// The run ended before the agent contributed.
    Cancelled,
}

/// The file in a run's directory that lists all changed files in context paths, if they are too many to be named with
/// the answer.
pub const WRITES_FILE: &str = "context_path_writes.txt";

/// Up to this many written and this many deleted files are named with the answer of a run.
pub const MAX_NAMED_FILES: usize = 5;

/// A file that a run changed in a context path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileWrite {
    /// The path of the file. If many files changed in a directory of installed packages, one entry stands for all: the
    /// path of the directory, with `/` at the end.
    pub path: String,
    /// How the file was changed.
    pub change: FileChange,
    /// A warning if the file runs code later, which names the event that runs the code. For an entry that stands for
    /// many files, the number of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl FileWrite {
    /// A change of the file at `path`, which is `below` its context path. The change gets a note if the file runs code
    /// later and was not deleted.
    pub fn new(path: String, change: FileChange, below: &Path) -> Self {
        let root = Path::new(&path).ancestors().nth(below.components().count()).unwrap_or(Path::new(""));
        let row = runs_code_in(root, below).filter(|_| change != FileChange::Deleted);
        Self { path, change, note: row.map(RunsCode::note) }
    }

    /// Adds the note of a file in a git directory, whatever its name, unless the file was deleted.
    #[must_use]
    pub fn in_git_dir(mut self) -> Self {
        if self.change != FileChange::Deleted {
            self.note = git_dir_row().map(RunsCode::note);
        }
        self
    }
}

impl fmt::Display for FileWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        self.note.as_ref().map_or(Ok(()), |note| write!(f, " ({note})"))
    }
}

/// How a file was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// The file was created.
    New,
    /// The file existed and its contents changed.
    Modified,
    /// The file was deleted.
    Deleted,
}

/// A stored plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRef {
    /// The plan's id.
    pub id: String,
    /// The directory of the plan.
    pub path: String,
}

#[cfg(test)]
mod tests {
    use super::RunStatus;

    #[test]
    fn the_word_for_a_status_is_the_one_in_the_log() {
        for status in [RunStatus::Completed, RunStatus::Partial, RunStatus::Cancelled, RunStatus::Failed] {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }
}
