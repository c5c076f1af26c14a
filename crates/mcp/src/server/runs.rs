//! The port through which the MCP server starts and reads runs.

use althing_protocol::{
    BoxFuture, Decision, Interaction, InteractionId, LaunchRun, RunResult, RunStatus, ToolSpec,
};
use serde::{Deserialize, Serialize};

/// A run is identified by the id in its `RunResult`.
pub trait RunService: Send + Sync {
    /// The tool, which is the same as the chat agent's `launch_run`.
    fn launch_tool(&self) -> ToolSpec;

    /// Resolves the symbolic links in a launch's paths: what a person is asked about is what is then started.
    fn resolve_links(&self, launch: LaunchRun) -> BoxFuture<'_, LaunchRun> {
        Box::pin(async { launch })
    }

    /// The reason why the run needs a person's approval: it would get more access than a run may have without one.
    /// `None` if no approval is needed, or if the run would be refused even with one.
    fn needs_approval<'a>(&'a self, launch: &'a LaunchRun) -> BoxFuture<'a, Option<String>> {
        let _ = launch;
        Box::pin(async { None })
    }

    /// The question shows everything that the person who approves the run must know. An error names what to change.
    fn approval_question(&self, launch: &LaunchRun) -> Result<String, String>;

    /// Returns the run's id as soon as it has one. `approved` says whether a person approved exactly this run. An
    /// error names what to change.
    fn launch(&self, launch: LaunchRun, approved: bool) -> BoxFuture<'_, Result<String, String>>;

    fn view<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunSummary>>;

    /// The newest runs, at most `most`, newest first.
    fn list(&self, most: usize) -> BoxFuture<'_, Vec<RunSummary>>;

    /// The updates from now on; for an ended run, its end. `None` if there is no run with that id.
    fn follow<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<Box<dyn RunFeed>>>;

    /// The result includes the run that executed the plan; `None` if the run has not ended or does not exist.
    fn result<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunOutcome>>;

    /// The outcome for a model: a long answer is replaced by a summary with the path of the whole text.
    fn for_tool_result(&self, outcome: &RunOutcome) -> RunOutcome {
        outcome.clone()
    }

    /// Requests that a run stop. `follow` and `result` report its end.
    fn cancel<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Result<(), String>>;

    fn answer<'a>(
        &'a self,
        run: &'a str,
        interaction: InteractionId,
        decision: Decision,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// The empty path is the directory itself. Implementations must ensure that no path or link leads out of the
    /// directory.
    fn file<'a>(
        &'a self,
        run: &'a str,
        place: RunDir,
        path: &'a str,
    ) -> BoxFuture<'a, Result<RunFile, String>>;
}

pub trait RunFeed: Send {
    /// After the run has ended, always `Ended`. Cancel-safe.
    fn next(&mut self) -> BoxFuture<'_, RunUpdate>;
}

#[derive(Clone, Debug, PartialEq)]
pub enum RunUpdate {
    /// A line of progress for people.
    Line(String),
    Question(Box<Interaction>),
    /// The run has ended, and so has the run that executes its plan, if there is one.
    Ended(Box<RunOutcome>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    #[serde(flatten)]
    pub result: RunResult,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Box<RunResult>>,
}

impl RunOutcome {
    /// The status of the execution if there is one, else of the run.
    pub fn status(&self) -> RunStatus {
        self.execution.as_ref().map_or(self.result.status, |execution| execution.status)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    pub run_id: String,
    pub task: String,
    /// `None` while the run is live.
    pub status: Option<RunStatus>,
    pub progress: Option<String>,
    pub interactions: Vec<Interaction>,
    /// Whether the run has ended and has a workspace, which can be read.
    pub has_workspace: bool,
}

/// A directory of a run that clients may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunDir {
    /// The run's log and results.
    Log,
    /// The workspace of the agent whose answer is the final answer.
    Workspace,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunFile {
    Text(String),
    Directory(Vec<String>),
}
