//! What is known of each program that can do a task: how it is started, what its output means, how it shows that it is
//! ready or waits.
//!
//! An adapter is knowledge, not work: it starts nothing and touches no file. It gives argument vectors, never a line for
//! a shell, and a headless prompt goes to standard input, never among the arguments, so that no prompt is ever read as a
//! flag.

mod claude;
mod codex;
mod command;
mod custom;
mod events;
mod find;
mod gemini;
mod opencode;
mod registry;
mod terminal;

pub use claude::Claude;
pub use codex::Codex;
pub use command::{Command, PlainTextParser};
pub use custom::CustomAdapter;
pub(crate) use events::Diagnostics;
pub use find::{AgentInstallation, find_agents, find_program};
pub use gemini::Gemini;
pub use opencode::Opencode;
pub use registry::Adapters;
pub use terminal::{AskPattern, Pattern, PatternTarget, TerminalTraits};

use crate::structured::StructuredProtocol;
use althing_protocol::{AgentKind, Item, ProgramSpec, Secret, Usage};
use std::fmt;
use std::path::{Path, PathBuf};

/// One start of a program, as an adapter sees it.
#[derive(Clone, Copy, Debug)]
pub struct LaunchRequest<'a> {
    /// What is to be run.
    pub spec: &'a ProgramSpec,
    /// The program's own conversation to go on with.
    pub resume: Option<&'a str>,
    /// The id for a new conversation, for programs that let us choose it: a UUID.
    pub new_conversation_id: &'a str,
    /// How much it may do without asking.
    pub permissions: PermissionLevel,
    /// Whether it runs inside our sandbox, in which it can make no sandbox of its own.
    pub sandboxed: bool,
    /// What it may read besides the directory it works in.
    pub readable: &'a [PathBuf],
    /// Where files that are made for it go.
    pub dir: &'a Path,
    /// Our own tools, where it is given any.
    pub tools: Option<&'a ToolEndpoint>,
    /// Whether it runs as root; some refuse their bypass flag then unless they are told that it is meant.
    pub as_root: bool,
    /// Whether its person has been through its first start.
    pub onboarding: Onboarding,
}

/// Whether a program's person has been through its first start, with its questions about themes, folders and accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Onboarding {
    /// They have, or it is not known, or they must: the program asks what it likes.
    #[default]
    LeaveToAgent,
    /// They have not, and need not: this variable holds what signs it in.
    SkipWithKey(&'static str),
}

/// How it is seen whether a program's person has been through its first start. Its settings are only looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnboardingCheck {
    /// Its own settings, in JSON.
    pub settings: OwnPath,
    /// Places in them of which one is filled afterwards (JSON pointers).
    pub completed_pointers: &'static [&'static str],
    /// Variables that can sign it in, the one that counts most first.
    pub key_variables: &'static [&'static str],
}

/// How much a program may do without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionLevel {
    /// All that the walls around it leave: its bypass flag. Only inside our sandbox, or where the user accepted it.
    Full,
    /// By its own rules it may write in its directory, and run nothing that could write elsewhere.
    Workspace,
    /// By its own rules it may only read.
    ReadOnly,
    /// It asks a person.
    Ask,
}

/// Tools that are offered to a program over MCP.
#[derive(Clone, Debug)]
pub struct ToolEndpoint {
    /// Streamable HTTP on the loopback.
    pub url: String,
    /// The bearer token, passed in the environment as [`TOKEN_VARIABLE`].
    pub token: Secret,
    /// The tools' names.
    pub names: Vec<String>,
    /// The agent that they are offered to.
    pub kind: &'static AgentKind,
}

impl ToolEndpoint {
    /// The tools' names as the agent's model sees them.
    pub(crate) fn tool_names(&self) -> impl Iterator<Item = String> {
        self.names.iter().map(|name| self.kind.tool_name(SERVER, name))
    }
}

/// The name under which programs know our MCP server.
pub const SERVER: &str = "althing";
/// The variable that holds the endpoint's token.
pub const TOKEN_VARIABLE: &str = "ALTHING_TOKEN";

/// How a program is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchConfig {
    /// The program: a name to be found in `PATH`, or a path.
    pub program: String,
    /// Its arguments. Never a prompt, for headless ones.
    pub args: Vec<String>,
    /// What it needs in its environment beside what it is passed anyway.
    pub env: Vec<(String, String)>,
    /// Files that must be there first.
    pub files: Vec<GeneratedFile>,
}

/// A file that is made for one start of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedFile {
    /// Where: inside the assignment's directory.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
}

/// A file or directory that a program keeps for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPath {
    /// Where it is, relative to the home directory.
    pub in_home: String,
    /// The variable that names another place for it, and what is below that.
    pub override_variable: Option<(String, String)>,
    /// Whether the program must be told by that variable inside a sandbox, because it would else also write beside it.
    pub set_in_sandbox: bool,
}

impl OwnPath {
    /// Where it is, by this environment.
    pub(crate) fn path(&self, home: &Path, env: &dyn Fn(&str) -> Option<PathBuf>) -> PathBuf {
        let named = self.override_variable.as_ref().and_then(|(name, below)| Some(env(name)?.join(below)));
        named.unwrap_or_else(|| home.join(&self.in_home))
    }

    fn new(in_home: &str, variable: &str, below: &str) -> Self {
        let override_variable = Some((variable.to_owned(), below.to_owned()));
        Self { in_home: in_home.to_owned(), override_variable, set_in_sandbox: false }
    }
}

/// Whether a program keeps conversations, and who names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversations {
    /// It keeps none.
    None,
    /// We choose the id before it starts.
    IdChosen,
    /// It tells the id.
    IdReported,
}

/// One program that Althing knows how to drive.
pub trait AgentAdapter: Send + Sync + fmt::Debug {
    /// The name by which workflows and configs call it.
    fn name(&self) -> &str;

    /// What is executed; None where each task says it itself.
    fn executable(&self) -> Option<&str>;

    /// How it is started in a terminal. The prompt is typed once it is ready, unless the arguments carry it already.
    fn launch_config(&self, task: &LaunchRequest<'_>) -> LaunchConfig;

    /// How it is started on pipes, its prompt on standard input; None where it cannot be.
    fn headless_launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig>;

    /// How it is started to be spoken to over its structured protocol, so that it asks a person before it acts; None
    /// where it has none.
    fn structured_protocol(
        &self,
        _task: &LaunchRequest<'_>,
    ) -> Option<(LaunchConfig, Box<dyn StructuredProtocol>)> {
        None
    }

    /// How it is seen whether its person has been through its first start, where that can be spared them.
    fn onboarding_check(&self) -> Option<OnboardingCheck> {
        None
    }

    /// What its headless output means.
    fn parser(&self) -> Box<dyn OutputParser>;

    /// Whether it keeps conversations that can be gone on with.
    fn conversations(&self) -> Conversations {
        Conversations::None
    }

    /// Whether it decides by itself what to do, so that its freedom matters; not so for the user's own command.
    fn is_agent(&self) -> bool {
        true
    }

    /// Whether a user described it in a config or a workflow.
    fn is_user_defined(&self) -> bool {
        false
    }

    /// Its own settings and conversations: writable inside a sandbox.
    fn own_paths(&self) -> Vec<OwnPath> {
        Vec::new()
    }

    /// Names, or beginnings of names that end in `*`, of variables that it is passed from our environment.
    fn own_variables(&self) -> Vec<String> {
        Vec::new()
    }

    /// How it behaves in a terminal.
    fn terminal(&self) -> TerminalTraits {
        TerminalTraits::default()
    }
}

/// Which pipe something came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// What an output means.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputEvent {
    /// A finished piece of content.
    Item(Item),
    /// A piece of a message that is still being said.
    TextDelta(String),
}

/// Turns one run's output into what it means. Gets every piece of output as it came and as clean text, cut anywhere.
pub trait OutputParser: Send {
    /// Takes in a piece.
    fn output(&mut self, stream: Stream, raw: &[u8], clean: &str, emit: &mut dyn FnMut(OutputEvent));

    /// Judges the run once it ended: by its terminal event and by how the process ended.
    fn end(&mut self, exit: Exit, emit: &mut dyn FnMut(OutputEvent)) -> ProgramOutcome;
}

/// How a process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl Exit {
    /// Whether it ended by itself and without complaint.
    pub fn is_success(self) -> bool {
        self.code == Some(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "it ended with exit code {code}"),
            (None, Some(signal)) => write!(f, "it was ended by signal {signal}"),
            (None, None) => f.write_str("it ended, how is not known"),
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramOutcome {
    /// Whether it did what it was to do.
    pub ok: bool,
    /// Its final message; None where that is its whole output.
    pub message: Option<String>,
    /// Why it failed; where None, how the process ended and what it wrote to standard error say it.
    pub error: Option<String>,
    /// What a person can do about it.
    pub hint: Option<String>,
    /// What it cost. For an agent of a run, at least one model call is counted.
    pub usage: ReportedUsage,
}

/// What a program says it spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReportedUsage {
    /// In this run alone.
    pub this_run: Usage,
    /// In its whole conversation so far, by those that count so; what is counted here is not counted in `now`.
    pub conversation_total: Usage,
}
