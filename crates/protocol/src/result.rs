//! What a run gives back: to the command line, to `launch_run`, to MCP clients, to `run_description.json`.

use crate::{AgentId, Ballot, FinalAnswerStrategy, Millis, Modes, Usage, runs_code};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// With a final answer.
    Completed,
    /// Before its end, with the best answer there was.
    Partial,
    /// Stopped on request.
    Cancelled,
    /// Without an answer.
    Failed,
}

impl RunStatus {
    /// The word for it, as it stands in the log.
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
    /// `<session>.<task>`: unique wherever sessions are kept.
    pub run_id: String,
    /// The task as given.
    pub task: String,
    /// How it ended.
    pub status: RunStatus,
    /// The modes it ran in.
    pub modes: Modes,
    /// The final answer, or the best there was.
    pub final_answer: Option<String>,
    /// The presenter's workspace, where agents have one.
    pub workspace_path: Option<String>,
    /// Who did what.
    pub coordination_summary: CoordinationSummary,
    /// Files changed in context paths.
    pub context_path_writes: Vec<FileWrite>,
    /// The plan, for a planning run.
    pub plan: Option<PlanRef>,
    /// The run that executes the plan.
    pub follow_up: Option<String>,
    /// What it cost.
    pub usage: Usage,
    /// Active time.
    #[serde(rename = "duration_ms")]
    pub duration: Millis,
    /// Where its files are.
    pub log_dir: String,
    /// Why there is no (complete) answer.
    pub error: Option<String>,
}

/// Who did what in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinationSummary {
    /// Who won the vote.
    pub winner: Option<AgentId>,
    /// Who wrote the final answer.
    pub presenter: Option<AgentId>,
    /// How it was made.
    pub strategy: FinalAnswerStrategy,
    /// Whether a person chose the presenter.
    pub overridden: bool,
    /// The most attempts that any agent made before the presentation.
    pub rounds: u32,
    /// How often the run started over after its final answer was found wanting.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restarts: u32,
    /// Votes counted, by agent.
    pub votes: BTreeMap<AgentId, u32>,
    /// The votes themselves.
    pub ballots: Vec<Ballot>,
    /// How each agent fared.
    pub agents: Vec<AgentSummary>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// How an agent fared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSummary {
    /// Who.
    pub id: AgentId,
    /// Where it ended.
    pub status: AgentOutcome,
    /// How many answers it gave.
    pub answers: u32,
    /// Why it dropped out.
    pub error: Option<String>,
}

/// Where an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentOutcome {
    /// It answered.
    Answered,
    /// It voted.
    Voted,
    /// It dropped out.
    Failed,
    /// Its time was up.
    TimedOut,
    /// The run ended before it did anything.
    Cancelled,
}

/// A file that a run changed in a context path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileWrite {
    /// Which.
    pub path: String,
    /// How.
    pub change: FileChange,
    /// What a person should know of it: that it runs code later, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl FileWrite {
    /// The change of the file that is `below` a context path, with its note.
    pub fn new(path: String, change: FileChange, below: &Path) -> Self {
        let row = runs_code(below).filter(|_| change != FileChange::Deleted);
        Self { path, change, note: row.map(|row| format!("runs code when {}", row.when)) }
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
    /// It was not there before.
    New,
    /// It was there, and is different now.
    Modified,
    /// It is gone.
    Deleted,
}

/// A plan on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRef {
    /// Its id.
    pub id: String,
    /// Where it is.
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
