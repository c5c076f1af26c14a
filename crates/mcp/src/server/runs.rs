//! The port that the composition root fills: runs, as clients of the MCP server see them.

use althing_protocol::{
    BoxFuture, Decision, Interaction, InteractionId, LaunchRun, RunResult, RunStatus, ToolSpec,
};
use serde::{Deserialize, Serialize};

/// Starts runs and knows them. A run is named by its id as `RunResult` gives it.
pub trait RunService: Send + Sync {
    /// The definition of `launch_run`: the one that the interactive agent has, too.
    fn launch_tool(&self) -> ToolSpec;

    /// Starts a run that was approved; gives its id as soon as it has one. An error names what to change.
    fn launch(&self, launch: LaunchRun) -> BoxFuture<'_, Result<String, String>>;

    /// A run as it is now; None where there is none of that id.
    fn view<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunSummary>>;

    /// The newest runs, newest first.
    fn list(&self, most: usize) -> BoxFuture<'_, Vec<RunSummary>>;

    /// What a run does from now on; for one that has ended, its end. None where there is none of that id.
    fn follow<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<Box<dyn RunFeed>>>;

    /// What came of a run that has ended, and of the run that carried out its plan.
    fn result<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunOutcome>>;

    /// Asks a run to stop. Its end comes as its result.
    fn cancel<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Result<(), String>>;

    /// Answers a question that a run has open.
    fn answer<'a>(
        &'a self,
        run: &'a str,
        interaction: InteractionId,
        decision: Decision,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// A file of a run, by its path within one of the run's places; the empty path is the place itself. Whoever fills
    /// this makes sure that nothing leads out of the place.
    fn file<'a>(
        &'a self,
        run: &'a str,
        place: RunDir,
        path: &'a str,
    ) -> BoxFuture<'a, Result<RunFile, String>>;
}

/// A run's news, as they come.
pub trait RunFeed: Send {
    /// The next; after the run's end, its end again. Dropping the future loses nothing.
    fn next(&mut self) -> BoxFuture<'_, RunUpdate>;
}

/// What there is to say of a run that is under way.
#[derive(Clone, Debug, PartialEq)]
pub enum RunUpdate {
    /// It came a step further: a short line for people.
    Line(String),
    /// It asks a person something.
    Question(Box<Interaction>),
    /// It has ended, and so has the run that carried out its plan.
    Ended(Box<RunOutcome>),
}

/// What came of a run: its result, and with a plan that was carried out the result of that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The run's own result.
    #[serde(flatten)]
    pub result: RunResult,
    /// The result of the run that carried out its plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Box<RunResult>>,
}

impl RunOutcome {
    /// How the whole ended.
    pub fn status(&self) -> RunStatus {
        self.execution.as_ref().map_or(self.result.status, |execution| execution.status)
    }
}

/// A run in brief.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// Its id.
    pub run_id: String,
    /// Its task.
    pub task: String,
    /// How it ended; None while it is under way.
    pub status: Option<RunStatus>,
    /// The newest line of its progress.
    pub progress: Option<String>,
    /// What it asks just now.
    pub interactions: Vec<Interaction>,
}

/// Where a run keeps files that clients may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunDir {
    /// Its log and results.
    Log,
    /// Its presenter's workspace.
    Workspace,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunFile {
    /// A file of text.
    Text(String),
    /// A directory: the paths of what is in it.
    Directory(Vec<String>),
}
