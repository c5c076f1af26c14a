//! The command line: options and commands, without what they do.

use crate::command::session_cost::{Age, parse_age};
use althing_app::eval::NamedRule;
use althing_app::{Failure, Settings, SingleAgent};
use althing_view::report::CostGroup;
use clap::{Args as ClapArgs, CommandFactory, Parser, Subcommand, ValueEnum};
use std::{ffi::OsStr, path::PathBuf};
use tracing::level_filters::LevelFilter;

/// The version, followed by what this program was built from (build.rs).
const LONG_VERSION: &str = include_str!(concat!(env!("OUT_DIR"), "/version.txt"));

/// A parliament of AI agents: several agents answer a task, see each other's answers, refine, vote, and a winner
/// presents the final answer.
#[derive(Debug, Parser)]
#[command(name = "althing", version, long_version = LONG_VERSION, max_term_width = 100, args_conflicts_with_subcommands = false)]
#[command(
    after_help = "Try it without any key:  althing --offline \"Compare three ways to cache HTTP responses\"\n\
    Exit status: 0 an answer; 1 bad usage, config or input; 2 no answer; 3 a limit passed; 4 interrupted."
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,

    /// What to do; `-` reads it from stdin
    #[arg(value_name = "TASK")]
    pub task: Option<String>,

    #[command(flatten)]
    pub options: Options,
}

/// Options work before or after a command.
#[derive(Clone, Debug, ClapArgs)]
pub struct Options {
    /// YAML config; else ./althing.yaml, ./.althing/config.yaml, the user's config directory; else agents are made
    /// from the API keys, CLI agents and local model servers found here; else the offline model
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Three agents of the built-in offline model (not an AI), regardless of any config; with --config, that config is
    /// simulated: its agents on the offline model, and nothing is sent or started
    #[arg(long, global = true, conflicts_with = "model")]
    pub offline: bool,

    /// Without a config: one agent on this model; repeatable
    #[arg(long, global = true, value_name = "TYPE:NAME", conflicts_with = "config")]
    pub model: Vec<String>,

    /// No terminal UI: final answer on stdout, progress on stderr
    #[arg(long, global = true)]
    pub automation: bool,

    /// Print each event of the session's log as a JSON line on stdout (`all`: streamed progress too)
    #[arg(long, global = true, value_name = "all", num_args = 0..=1, require_equals = true, default_missing_value = "facts")]
    pub stream_events: Option<StreamEvents>,

    /// Read ops as JSON lines from stdin, as `chat --json` does: answers to questions of CLI agents, keys for their
    /// terminals
    #[arg(long, global = true)]
    pub take_ops: bool,

    /// One result object on stdout at the end
    #[arg(long, global = true, conflicts_with = "stream_events")]
    pub json: bool,

    /// Also write the final answer to this file
    #[arg(long, global = true, value_name = "FILE")]
    pub output_file: Option<PathBuf>,

    /// Use one agent only: the named one, or the first
    #[arg(long, global = true, value_name = "ID", num_args = 0..=1, default_missing_value = "", value_parser = parse_single_agent)]
    pub single_agent: Option<SingleAgent>,

    /// Turn refinement off: every agent answers once
    #[arg(long, global = true)]
    pub quick: bool,

    /// Only make a plan and store it; agents change nothing else
    #[arg(long, global = true)]
    pub plan: bool,

    /// Plan first, then execute the plan
    #[arg(long, global = true, conflicts_with_all = ["plan", "execute_plan"])]
    pub plan_and_execute: bool,

    /// Execute a stored plan
    #[arg(long, global = true, value_name = "DIR|ID|latest", conflicts_with = "plan")]
    pub execute_plan: Option<String>,

    /// Use only these agents
    #[arg(long, global = true, value_name = "A,B", value_delimiter = ',')]
    pub agents: Vec<String>,

    /// Time limit of the whole run; when it is reached, the run ends with what it has (exit 3)
    #[arg(long, global = true, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub orchestrator_timeout: Option<u64>,

    /// Cost limit of the run, which then ends with what it has (exit 3); of a whole workflow, which then fails (exit 2); or of all runs of `althing mcp` or `althing eval` together
    #[arg(long, global = true, value_name = "USD", value_parser = parse_dollars)]
    pub max_cost: Option<f64>,

    /// Directory of sessions and other state [default: ./.althing, or `ALTHING_STATE_DIR`]
    #[arg(long, global = true, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,

    /// An additional context path, repeatable; `:rw` lets the agent that writes the final answer change it
    #[arg(long, global = true, value_name = "PATH[:ro|:rw]")]
    pub context_path: Vec<String>,

    /// The project workspace: a directory (created if it does not exist), or the name of a project that you worked in
    #[arg(long, global = true, value_name = "DIR|NAME")]
    pub project: Option<PathBuf>,

    /// Continue this conversation or run
    #[arg(long, global = true, value_name = "ID", conflicts_with = "continue_newest")]
    pub session: Option<String>,

    /// Continue the newest conversation or run of this directory, with its history
    #[arg(long = "continue", global = true)]
    pub continue_newest: bool,

    /// If no sandbox works, run commands (otherwise refused) and CLI agents (otherwise restricted) with all your rights
    #[arg(long, global = true)]
    pub unconfined: bool,

    /// Send traces to an OpenTelemetry collector over OTLP/HTTP (usually port 4318); without this option nothing is
    /// sent
    #[arg(long, global = true, value_name = "URL")]
    pub otlp: Option<String>,

    /// Write diagnostics of Althing itself to this file, as JSON lines: requests, processes, warnings
    #[arg(long, global = true, value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// How much to write to --log [default: info]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,

    /// Trust a config, plan or session that was found in this directory, and remember the trust
    #[arg(long, global = true)]
    pub trust: bool,
}

/// Rejects a first word that is almost a command: it is more likely a typo than a task, and a run would cost money.
pub fn mistyped_command(first: &OsStr) -> Option<Failure> {
    let is_word = |first: &&str| (4..=20).contains(&first.len()) && !first.starts_with('-');
    let first = first.to_str().filter(is_word)?;
    let command = <Args as CommandFactory>::command();
    let mut names = command.get_subcommands().map(clap::Command::get_name);
    let name = names.find(|name| althing_text::edit_distance(first, name) == 1)?;
    let hint = format!(
        "did you mean `althing {name}`? A task of one word can be read from stdin: echo {first} | althing -"
    );
    Some(Failure::usage(format!("there is no command `{first}`")).hint(hint))
}

fn parse_dollars(text: &str) -> Result<f64, String> {
    let amount: f64 =
        text.parse().map_err(|_| "it must be an amount in US dollars, such as 0.50".to_owned())?;
    if amount.is_finite() && amount > 0.0 && amount <= 1e9 {
        Ok(amount)
    } else {
        Err("it must be more than 0 and at most 1000000000".to_owned())
    }
}

fn parse_jobs(text: &str) -> Result<usize, String> {
    let jobs = text.parse().ok().filter(|jobs| (1..=256).contains(jobs));
    jobs.ok_or_else(|| "it must be a number from 1 to 256".to_owned())
}

// clap's value parsers return a Result.
#[expect(clippy::unnecessary_wraps)]
fn parse_single_agent(text: &str) -> Result<SingleAgent, std::convert::Infallible> {
    Ok(if text.is_empty() { SingleAgent::First } else { SingleAgent::Named(text.to_owned()) })
}

impl Options {
    /// What the user asked for, without the options that only affect this front end's output.
    pub fn settings(&self) -> Settings {
        Settings {
            config: self.config.clone(),
            offline: self.offline,
            model: self.model.clone(),
            single_agent: self.single_agent.clone(),
            quick: self.quick,
            plan: self.plan,
            plan_and_execute: self.plan_and_execute,
            execute_plan: self.execute_plan.clone(),
            agents: self.agents.clone(),
            orchestrator_timeout: self.orchestrator_timeout,
            max_cost: self.max_cost,
            state_dir: self.state_dir.clone(),
            context_path: self.context_path.clone(),
            project: self.project.clone(),
            session: self.session.clone(),
            continue_newest: self.continue_newest,
            unconfined: self.unconfined,
            otlp: self.otlp.clone(),
            trust: self.trust,
        }
    }
}

/// How questions for approval are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Approve {
    /// Every question is answered with yes.
    Always,
    /// Every question is answered with no.
    Never,
    /// The user is asked; a question that is still open when stdin ends is answered with no.
    Ask,
}

/// How much of the log is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StreamEvents {
    /// Every fact.
    Facts,
    /// Every fact, and streamed progress.
    All,
}

/// How costs are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CostBy {
    /// By model.
    Model,
    /// By agent.
    Agent,
    /// By project; sessions without one by their directory.
    Project,
    /// By day (UTC).
    Day,
}

impl From<CostBy> for CostGroup {
    fn from(by: CostBy) -> Self {
        match by {
            CostBy::Model => Self::Model,
            CostBy::Agent => Self::Agent,
            CostBy::Project => Self::Project,
            CostBy::Day => Self::Day,
        }
    }
}

/// How much is written to `--log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Failures.
    Error,
    /// Failures, and problems that were handled.
    Warn,
    /// Failures, problems that were handled, and what Althing does.
    Info,
    /// Every detail.
    Debug,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Resume an interrupted session; by default the newest
    Resume {
        /// The session
        #[arg(value_name = "ID")]
        id: Option<String>,
    },
    /// The conversation without a screen: messages as lines on stdin, replies on stdout (--json: ops and events)
    Chat {
        /// How to answer when approval is needed: for a run that the agent proposes, a plan, a change of files, or exceeding the budget
        #[arg(long, value_enum, default_value_t = Approve::Ask)]
        approve: Approve,
    },
    /// Serve `launch_run` to MCP clients: over stdio, or with --http over HTTP on this machine
    Mcp {
        /// Listen on this address for streamable HTTP, such as 127.0.0.1:7465; the token is `ALTHING_MCP_TOKEN`, or a
        /// new one that is printed
        #[arg(long, value_name = "ADDR")]
        http: Option<std::net::SocketAddr>,
        /// How long a call waits for its run to end before it returns the run's id instead
        #[arg(long, value_name = "SECONDS", default_value_t = 45)]
        wait: u64,
    },
    /// Run or check a workflow file: stages of CLI agents, commands and runs
    Workflow {
        #[command(subcommand)]
        action: WorkflowAction,
    },
    /// Let teams answer tasks with known solutions; compare teams, and rules for counting votes
    Eval {
        /// A file with one task per line: {"id": …, "task": …, "check": {"exact"|"number"|"choice"|"regex"|"command": …}}
        #[arg(value_name = "TASKS")]
        tasks: PathBuf,
        /// The configs of the teams; without this option, the team that a run would have
        #[arg(long, value_name = "FILE,…", value_delimiter = ',')]
        teams: Vec<PathBuf>,
        /// The rules under which the recorded votes are counted: borda, plurality, borda-unmerged, plurality-merged
        #[arg(long, value_name = "RULE,…", value_delimiter = ',', default_value = "borda,plurality")]
        rules: Vec<NamedRule>,
        /// How often each team answers each task
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        repeat: u32,
        /// How many runs are in progress at the same time
        #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_jobs)]
        jobs: usize,
        /// Run everything again, instead of continuing an earlier evaluation with the same tasks and teams
        #[arg(long)]
        fresh: bool,
        /// Print one line per run and rule as CSV
        #[arg(long, conflicts_with = "json")]
        csv: bool,
    },
    /// Count the recorded votes of runs again, under other rules
    Recount {
        /// The runs: `<session>.<run>`, `<session>` or `latest`
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<String>,
        /// The rules: borda, plurality, borda-unmerged, plurality-merged
        #[arg(long, value_name = "RULE,…", value_delimiter = ',', default_value = "borda,plurality")]
        rules: Vec<NamedRule>,
    },
    /// Restore the files that a run changed in context paths, or that the chat agent changed in its project
    Undo {
        /// The run: `<session>.<run>`, `<session>.c1` (the chat agent) or `<session>` (its last task that changed files)
        #[arg(value_name = "RUN")]
        run: String,
        /// Show the changes as a diff, and change nothing
        #[arg(long)]
        diff: bool,
    },
    /// Which backends are usable here, and what is missing for the others
    Agents,
    /// List, inspect and delete sessions
    Sessions {
        /// List at most this many sessions, the newest ones; 0 lists all. Default: 50, or all with --json
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        #[command(subcommand)]
        action: Option<SessionsAction>,
    },
    /// List and show the projects that you worked in
    Projects {
        #[command(subcommand)]
        action: Option<ProjectsAction>,
    },
    /// Show a recorded event log in the terminal UI
    Replay {
        /// A log (`events.jsonl`), or the directory of a session
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Playback speed as a factor; 0 shows everything at once
        #[arg(long, default_value_t = 1.0)]
        speed: f64,
    },
    /// Print the manual page
    Man,
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Check, write and describe configs
    Config {
        #[command(subcommand)]
        action: ConfigAction,
    },
}

#[derive(Debug, Subcommand)]
pub enum SessionsAction {
    /// The report of a session: task, answers, votes, decision, costs, files
    Show {
        /// The session; `<session>.<run>` shows one run, `latest` the session that changed last
        #[arg(default_value = "latest")]
        id: String,
        /// Print the report as Markdown, like `report.md` beside the files of a run
        #[arg(long, conflicts_with = "json")]
        markdown: bool,
    },
    /// What an agent was sent, rebuilt from the log, and what it replied
    Prompt {
        /// The run: `<session>.<run>`, `<session>` or `latest`; `<session>.c1` for the chat agent
        run: String,
        /// The agent; for a program of a workflow, the id of its task
        agent: String,
        /// Only the model call with this number, counted from 1
        #[arg(value_name = "STEP")]
        step: Option<usize>,
    },
    /// What the sessions cost, as a table with a chart
    Cost {
        /// Only the last minutes, hours, days or weeks, such as 90m, 24h, 7d or 4w
        #[arg(long, value_name = "TIME", value_parser = parse_age)]
        since: Option<Age>,
        /// How the costs are grouped
        #[arg(long, value_enum, default_value_t = CostBy::Model)]
        by: CostBy,
    },
    /// Give a session a title for lists of sessions
    Rename {
        /// The session; `latest` is the session that changed last
        id: String,
        /// The title; an empty one restores the title that is made from the first messages
        title: String,
    },
    /// Delete sessions
    Remove {
        /// The sessions
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Cut a damaged log off before the damage, so that the session can be resumed; the rest is saved next to the log
    Repair {
        /// The session
        id: String,
    },
    /// Delete sessions that have not changed for a while
    Prune {
        /// Age in days since the last change
        #[arg(long, value_name = "DAYS", default_value_t = 30)]
        older_than: u64,
    },
}

#[derive(Debug, Subcommand)]
pub enum ProjectsAction {
    /// Show a project: its context, paths, deliverables and runs
    Show {
        /// The project's name or directory
        #[arg(value_name = "DIR|NAME")]
        project: PathBuf,
    },
    /// Remove a project from the list; its files stay
    Forget {
        /// The project's name or directory
        #[arg(value_name = "DIR|NAME")]
        project: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub enum WorkflowAction {
    /// Run a workflow to its end
    Run {
        /// The workflow file
        file: PathBuf,
    },
    /// Report all problems of workflow files
    Check {
        /// The workflow files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Fail if there are warnings, too (exit 1)
        #[arg(long)]
        strict: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Report all problems of config files
    Check {
        /// The config files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Fail if there are warnings, too (exit 1)
        #[arg(long)]
        strict: bool,
    },
    /// Write a starter config
    Init {
        /// The file to write
        #[arg(default_value = "althing.yaml", value_name = "FILE")]
        file: PathBuf,
        /// Replace an existing file
        #[arg(long)]
        force: bool,
    },
    /// Print the JSON Schema of configs, for editors
    Schema {
        /// The schema of workflow files instead
        #[arg(long)]
        workflow: bool,
    },
}
