//! The port through which the MCP server starts and reads runs. `app` fills it.

use althing_protocol::{
    BoxFuture, Decision, Interaction, InteractionId, LaunchRun, RunResult, RunStatus, ToolSpec,
};
use serde::{Deserialize, Serialize};

/// Starts and finds runs. A run is identified by the id in its `RunResult`.
pub trait RunService: Send + Sync {
    /// The definition of `launch_run`, the same as the chat agent's.
    fn launch_tool(&self) -> ToolSpec;

    /// The launch with the symbolic links in its paths resolved: what a person is asked about, and what is then
    /// started.
    fn resolve_links(&self, launch: LaunchRun) -> BoxFuture<'_, LaunchRun> {
        Box::pin(async { launch })
    }

    /// Why a run may be started only if a person approves it, because it needs more access than runs have without
    /// approval; None if the run needs no approval, or if an approval would not help.
    fn needs_approval<'a>(&'a self, launch: &'a LaunchRun) -> BoxFuture<'a, Option<String>> {
        let _ = launch;
        Box::pin(async { None })
    }

    /// The question whether a run may be started, with everything that the person who approves it must know, as in
    /// every other front end. An error names what to change.
    fn approval_question(&self, launch: &LaunchRun) -> Result<String, String>;

    /// Starts a run and returns its id as soon as it has one. `approved`: whether a person approved exactly this run.
    /// An error names what to change.
    fn launch(&self, launch: LaunchRun, approved: bool) -> BoxFuture<'_, Result<String, String>>;

    /// The current state of a run; None if there is no run with that id.
    fn view<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunSummary>>;

    /// The newest runs, at most `most`, newest first.
    fn list(&self, most: usize) -> BoxFuture<'_, Vec<RunSummary>>;

    /// The updates of a run from now on; for an ended run, its end. None if there is no run with that id.
    fn follow<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<Box<dyn RunFeed>>>;

    /// The outcome of an ended run, including the run that executed its plan; None if the run has not ended or does
    /// not exist.
    fn result<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunOutcome>>;

    /// An outcome as the result of a tool call, which a model reads: a long answer is replaced by a summary with the
    /// path of the whole text.
    fn for_tool_result(&self, outcome: &RunOutcome) -> RunOutcome {
        outcome.clone()
    }

    /// Requests that a run stop. As for any run, `follow` and `result` report its end.
    fn cancel<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Result<(), String>>;

    /// Answers an open question of a run.
    fn answer<'a>(
        &'a self,
        run: &'a str,
        interaction: InteractionId,
        decision: Decision,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// A file of a run, by its path within one of the run's directories; the empty path is the directory itself.
    /// Implementations must ensure that no path or link leads out of the directory.
    fn file<'a>(
        &'a self,
        run: &'a str,
        place: RunDir,
        path: &'a str,
    ) -> BoxFuture<'a, Result<RunFile, String>>;
}

/// The updates of a run.
pub trait RunFeed: Send {
    /// The next update; after the run has ended, always `Ended`. Cancel-safe.
    fn next(&mut self) -> BoxFuture<'_, RunUpdate>;
}

/// An update of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunUpdate {
    /// A line of progress, for people.
    Line(String),
    /// The run asks a person.
    Question(Box<Interaction>),
    /// The run has ended, and so has the run that executes its plan, if any.
    Ended(Box<RunOutcome>),
}

/// The outcome of a run: its result and, if its plan was executed, the result of the execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    #[serde(flatten)]
    pub result: RunResult,
    /// The result of the run that executed the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Box<RunResult>>,
}

impl RunOutcome {
    /// The status of the execution if there is one, else of the run.
    pub fn status(&self) -> RunStatus {
        self.execution.as_ref().map_or(self.result.status, |execution| execution.status)
    }
}

/// The state of a run in brief.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    pub run_id: String,
    pub task: String,
    /// The status of the run; None while it is live.
    pub status: Option<RunStatus>,
    /// The newest line of the run's progress.
    pub progress: Option<String>,
    /// Open questions.
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

/// The content at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunFile {
    Text(String),
    /// A directory, with the paths of its entries.
    Directory(Vec<String>),
}
