//! What a user asked for, however they asked: the command line today, other front ends later.

use std::path::PathBuf;

/// What a user asked for. The defaults ask for nothing special.
///
/// [`crate::prepare`] turns settings into the team and the request that are launched. `LocalSessions::launch` itself only
/// applies the limits, the state directory and the sandbox: a request that a front end makes by hand says the rest itself.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The config file, if one is named.
    pub config: Option<PathBuf>,
    /// Only the built-in offline model is used.
    pub offline: bool,
    /// Models to make agents of, as `TYPE:NAME`, without a config.
    pub model: Vec<String>,
    /// One agent works alone.
    pub single_agent: Option<Single>,
    /// Refinement is off.
    pub quick: bool,
    /// Agents plan and change nothing.
    pub plan: bool,
    /// Agents plan first, and the plan is executed at once.
    pub plan_and_execute: bool,
    /// The stored plan to execute: its directory, its id, or `latest`.
    pub execute_plan: Option<String>,
    /// Only these agents take part; all if empty.
    pub agents: Vec<String>,
    /// Time limit of a whole run, in seconds.
    pub orchestrator_timeout: Option<u64>,
    /// The most that a run may cost, in US dollars.
    pub max_cost: Option<f64>,
    /// Where state is kept, if it is named.
    pub state_dir: Option<PathBuf>,
    /// Context paths besides the config's, as `PATH[:ro|:rw]`.
    pub context_path: Vec<String>,
    /// The project workspace: a directory or a known name.
    pub project: Option<PathBuf>,
    /// The conversation to continue.
    pub session: Option<String>,
    /// Continue the newest conversation.
    pub go_on: bool,
    /// Commands may run without a sandbox where there is none.
    pub unconfined: bool,
    /// The OpenTelemetry collector to send spans to.
    pub otlp: Option<String>,
    /// A config or session that was found in the working directory is accepted.
    pub trust: bool,
}

/// Which agent works alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Single {
    /// The first of the config.
    First,
    /// This one.
    Named(String),
}
