//! What a user asked for, independent of the front end.

use althing_text::shell_word;
use std::path::PathBuf;

/// What a user asked for. The defaults ask for nothing special.
///
/// [`crate::prepare`] turns settings into the team and the request to launch. `LocalSessions::launch` itself reads
/// only the limits, `state_dir` and `unconfined`; for a conversation also `context_path`, `quick` and `plan`; for a
/// workflow also `context_path` and `offline`; and to resume a session also `offline` and `trust`. A request that a
/// front end builds by hand contains the rest.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The config file, if one is named.
    pub config: Option<PathBuf>,
    /// Use only the built-in offline model. With `config`, the config is only simulated.
    pub offline: bool,
    /// Models to make agents of, as `TYPE:NAME`, instead of a config.
    pub model: Vec<String>,
    /// One agent works alone.
    pub single_agent: Option<SingleAgent>,
    /// Refinement is off.
    pub quick: bool,
    /// Agents plan, and change nothing.
    pub plan: bool,
    /// Agents plan, then the plan is executed.
    pub plan_and_execute: bool,
    /// The stored plan to execute: its directory, its id, or `latest`.
    pub execute_plan: Option<String>,
    /// Only these agents take part; all if empty.
    pub agents: Vec<String>,
    /// The time limit of a whole run, in seconds.
    pub orchestrator_timeout: Option<u64>,
    /// The cost limit of a run, in US dollars.
    pub max_cost: Option<f64>,
    /// The state directory, if one is named.
    pub state_dir: Option<PathBuf>,
    /// Context paths in addition to the config's, as `PATH[:ro|:rw]`.
    pub context_path: Vec<String>,
    /// The project workspace: a directory or a known name.
    pub project: Option<PathBuf>,
    /// The conversation or run to continue.
    pub session: Option<String>,
    /// Continue the newest conversation or run that no process uses.
    pub continue_newest: bool,
    /// If no sandbox works, run commands, which are otherwise refused, and CLI agents, which are otherwise restricted by
    /// their own rules, with all rights of the user.
    pub unconfined: bool,
    /// The OpenTelemetry collector to send spans to.
    pub otlp: Option<String>,
    /// Accept a config, session or plan that was found in the working directory.
    pub trust: bool,
}

impl Settings {
    /// Whether a config is only simulated: nothing that it names is started, no program of a workflow is started, and no
    /// telemetry is sent.
    pub fn is_simulated(&self) -> bool {
        self.offline && self.config.is_some()
    }

    /// ` --state-dir DIR`, for the end of a command that is shown to the user; empty if no state directory is named.
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
