//! The settings: what the user asked for, independent of the front end.

use althing_text::shell_word;
use std::path::PathBuf;

/// What the user asked for. [`crate::prepare`] turns it into a team and a request to launch; `LocalSessions::launch`
/// itself reads only some of the fields, such as the limits, `state_dir` and `unconfined`.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The config file that the user named.
    pub config: Option<PathBuf>,
    /// Whether to use only the built-in offline model. With `config`, the config is simulated.
    pub offline: bool,
    /// Models to make agents of, as `TYPE:NAME`, instead of a config.
    pub model: Vec<String>,
    /// The agent that works alone, if one does.
    pub single_agent: Option<SingleAgent>,
    /// Whether refinement is off.
    pub quick: bool,
    /// Whether agents plan and change nothing.
    pub plan: bool,
    /// Whether agents plan and then the plan is executed.
    pub plan_and_execute: bool,
    /// The stored plan to execute: its directory, its id, or `latest`.
    pub execute_plan: Option<String>,
    /// The agents that take part; all if empty.
    pub agents: Vec<String>,
    /// The time limit of a whole run, in seconds.
    pub orchestrator_timeout: Option<u64>,
    /// The cost limit of a run, in US dollars.
    pub max_cost: Option<f64>,
    /// The state directory that the user named.
    pub state_dir: Option<PathBuf>,
    /// Context paths in addition to the config's, as `PATH[:ro|:rw]`.
    pub context_path: Vec<String>,
    /// The project workspace: a directory or a known name.
    pub project: Option<PathBuf>,
    /// The conversation or run to continue.
    pub session: Option<String>,
    /// Whether to continue the newest conversation or run that no process uses.
    pub continue_newest: bool,
    /// Whether to run commands and CLI agents with all rights of the user if no sandbox works. Otherwise, commands
    /// are then refused and CLI agents restricted by their own rules.
    pub unconfined: bool,
    /// The OpenTelemetry collector to send spans to.
    pub otlp: Option<String>,
    /// Whether to accept what was found in the working directory: a config, session or plan.
    pub trust: bool,
}

impl Settings {
    /// Whether the config is simulated: nothing that it or a workflow names is started, and no telemetry is sent.
    pub fn is_simulated(&self) -> bool {
        self.offline && self.config.is_some()
    }

    /// ` --state-dir DIR`, for a command that is shown to the user; empty if no state directory is named.
    pub fn state_dir_option(&self) -> String {
        let option = |dir: &PathBuf| format!(" --state-dir {}", shell_word(&dir.to_string_lossy()));
        self.state_dir.as_ref().map(option).unwrap_or_default()
    }
}

/// Which agent works alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SingleAgent {
    /// The first of the agents that take part.
    First,
    /// The agent with this id.
    Named(String),
}
