//! Adapters: how each CLI agent is started, what its output means, and how its screen shows that it is ready or
//! waiting. An adapter starts no process and changes no file. A headless prompt goes to stdin and never into the
//! arguments, so it cannot be read as a flag.

mod claude;
mod claude_events;
pub(crate) mod codex;
mod command;
mod custom;
mod events;
mod find;
pub(crate) mod gemini;
mod gemini_screen;
mod login;
mod open_calls;
mod opencode;
pub(crate) mod opencode_events;
mod opencode_log;
mod own_dir;
mod project_settings;
mod registry;
mod terminal;
mod version_cache;

pub use claude::ClaudeCode;
pub use codex::Codex;
pub use command::{CommandAdapter, PlainTextParser};
pub use custom::UserDefinedAdapter;
pub(crate) use events::{Diagnostics, reported_cost};
pub use find::{AgentInstallation, SearchPath, find_agents, find_program, program_version};
pub use gemini::GeminiCli;
pub use login::LoginSigns;
pub(crate) use open_calls::{OpenCalls, push_piece};
pub use opencode::Opencode;
pub use own_dir::{OwnDir, OwnFiles, Treatment};
pub(crate) use project_settings::{
    Keys, SettingsFile, find_project_settings, ignore_project_settings, settings_files,
    start_nothing_of_the_project,
};
pub use registry::{Adapters, agent_dirs};
pub use terminal::{AskPattern, Pattern, PatternTarget, TerminalTraits};

use crate::structured::StructuredProtocol;
use althing_protocol::{AgentKind, Item, ProgramSpec, Secret, Usage};
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};

/// The request to start a program, as the adapter sees it.
#[derive(Clone, Copy, Debug)]
pub struct LaunchRequest<'a> {
    /// The task: prompt, working directory, model and options.
    pub spec: &'a ProgramSpec,
    /// The id of the program's own conversation to resume; `None` begins a new conversation.
    pub resume: Option<&'a str>,
    /// A UUID for a new conversation, for programs that accept one.
    pub new_conversation_id: &'a str,
    /// What the program may do without asking a person.
    pub permissions: PermissionLevel,
    /// Whether the program runs inside our sandbox, in which it cannot create a sandbox of its own.
    pub sandboxed: bool,
    /// Paths that the program may read in addition to its working directory.
    pub readable: &'a [PathBuf],
    /// The directory for generated files.
    pub dir: &'a Path,
    /// Our MCP tools, if the program gets any.
    pub tools: Option<&'a ToolEndpoint>,
    /// Whether the program runs as root. Some CLI agents then refuse the flag that skips their permission checks,
    /// unless a variable says that they run in a sandbox.
    pub as_root: bool,
    /// Whether to skip the first-start dialogs.
    pub onboarding: Onboarding,
}

/// Whether to skip a CLI agent's first-start dialogs about themes, trusted folders and accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Onboarding {
    /// The dialogs are not skipped.
    #[default]
    LeaveToAgent,
    /// The dialogs were not completed and can be skipped, because this variable holds a key.
    SkipWithKey(&'static str),
}

/// How to find out whether the user completed the first-start dialogs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnboardingCheck {
    /// The program's own settings file, in JSON.
    pub settings: OwnPath,
    /// JSON pointers into the settings. The dialogs were completed if one of them finds a value other than `null` and
    /// `false`.
    pub completed_pointers: &'static [&'static str],
    /// Variables that can hold a key, in order of precedence.
    pub key_variables: &'static [&'static str],
}

/// What a program may do without asking a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionLevel {
    /// The program may do everything that the sandbox and the config's tool lists allow.
    Full,
    /// The program may write in the working directory, and may run nothing that could write elsewhere. Its own rules
    /// enforce this (for Codex inside our sandbox: our sandbox).
    Workspace,
    /// The program may only read. Its own rules enforce this (for Codex inside our sandbox: our sandbox).
    ReadOnly,
    /// The program asks a person before it acts, in a terminal or over its structured protocol.
    Ask,
}

/// Our tools, offered to a program as an MCP server.
#[derive(Clone, Debug)]
pub struct ToolEndpoint {
    /// A streamable HTTP endpoint on the loopback interface.
    pub url: String,
    /// The bearer token, passed in the environment as [`TOKEN_VARIABLE`].
    pub token: Secret,
    /// The plain names of the tools, without a server prefix.
    pub names: Vec<String>,
    /// The CLI agent that uses the tools.
    pub kind: &'static AgentKind,
}

impl ToolEndpoint {
    pub(crate) fn tool_names(&self) -> impl Iterator<Item = String> {
        self.names.iter().filter_map(|name| self.kind.tool_name(SERVER, name))
    }
}

/// The name of Althing's MCP server in the settings of CLI agents. It must be a name that no user gives to a server,
/// because a CLI agent merges two servers of the same name or keeps only one. Users give the name `althing` to the
/// server that `althing mcp` runs.
pub const SERVER: &str = "althingtools";
/// The variable that holds the bearer token.
pub const TOKEN_VARIABLE: &str = "ALTHING_TOKEN";

/// How a program is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchConfig {
    /// The executable: a name to be found in `PATH`, or a path.
    pub program: String,
    /// The arguments, which never contain the prompt of a headless run.
    pub args: Vec<String>,
    /// Variables in addition to those that are passed on from our environment.
    pub env: Vec<(String, String)>,
    /// Files to create before the start.
    pub files: Vec<GeneratedFile>,
    /// Where the process starts if not in the task's directory, which the program then gets in another way.
    pub process_dir: Option<PathBuf>,
}

/// A file that is created for one start of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedFile {
    /// The absolute path, usually inside [`LaunchRequest::dir`].
    pub path: PathBuf,
    /// The file's content. It is merged into an existing JSON file; any other existing file is replaced. The existing
    /// file is restored after the program's end.
    pub text: String,
}

/// A file or directory where a program stores its own data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPath {
    /// The path, relative to the home directory.
    pub in_home: String,
    /// A variable that overrides the location, and the path below the variable's value.
    pub override_variable: Option<(String, String)>,
}

impl OwnPath {
    pub(crate) fn path(&self, home: &Path, env: &dyn Fn(&str) -> Option<PathBuf>) -> PathBuf {
        let named = self.override_variable.as_ref().and_then(|(name, below)| Some(env(name)?.join(below)));
        named.unwrap_or_else(|| home.join(&self.in_home))
    }

    /// A path below the home directory, without a variable that overrides it.
    pub fn new(in_home: &str) -> Self {
        Self { in_home: in_home.to_owned(), override_variable: None }
    }

    /// The same path, replaced by `below` in the directory that this variable names, if the variable is set.
    #[must_use]
    pub fn overridden_by(self, variable: &str, below: &str) -> Self {
        Self { override_variable: Some((variable.to_owned(), below.to_owned())), ..self }
    }
}

/// Whether a program stores conversations, and who chooses their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversations {
    /// The program stores no conversations.
    None,
    /// We choose the id before the program starts.
    IdChosen,
    /// The program reports the id.
    IdReported,
}

/// A program that Althing can run as an agent or task.
pub trait AgentAdapter: Send + Sync + fmt::Debug {
    /// The name that workflows and configs use.
    fn name(&self) -> &str;

    /// The executable; `None` if each task names its own.
    fn executable(&self) -> Option<&str>;

    /// How to start the program in a terminal; `None` if it cannot run in one.
    fn launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig>;

    /// How to start the program headless, with the prompt on stdin; `None` if it cannot run headless.
    fn headless_launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig>;

    /// How to start the program with its structured protocol, over which it asks a person before it acts;
    /// `None` if the program has no structured protocol.
    fn structured_protocol(
        &self,
        _task: &LaunchRequest<'_>,
    ) -> Option<(LaunchConfig, Box<dyn StructuredProtocol>)> {
        None
    }

    /// How to detect that the user completed the first-start dialogs; `None` if the dialogs cannot be skipped.
    fn onboarding_check(&self) -> Option<OnboardingCheck> {
        None
    }

    /// The parser of the program's headless output.
    fn parser(&self) -> Box<dyn OutputParser>;

    /// Whether the program stores conversations that can be resumed, and who chooses their ids.
    fn conversations(&self) -> Conversations {
        Conversations::None
    }

    /// The conversation id of a program that is running in a terminal and chose the id itself; `None` if it is not
    /// known.
    fn running_conversation(&self, _program: &RunningProgram<'_>) -> Option<String> {
        None
    }

    /// How to find the last message of a conversation after a program in a terminal has ended; `None` if that is not
    /// known. `env` looks up a variable of the program's environment.
    fn last_message(
        &self,
        _conversation: &str,
        _env: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Option<LastMessage> {
        None
    }

    /// The directory and the end of the names of the files that store this conversation, if the program may overwrite
    /// them when it loads the conversation over its structured protocol. They are renamed before that; the end of the
    /// names stays.
    fn overwritten_when_loaded(
        &self,
        _conversation: &str,
        _env: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Option<(PathBuf, String)> {
        None
    }

    /// Whether this error says that the conversation to resume does not exist. A headless run that has not done
    /// anything is then repeated in a new conversation.
    fn is_lost_conversation(&self, _error: &str) -> bool {
        false
    }

    /// Whether the program may start without our tools if it cannot connect to them at once. A program that ended its
    /// turn without having listed the tools is then asked again, once.
    fn may_miss_tools(&self) -> bool {
        false
    }

    /// Why the program does not run in the Landlock sandbox; `None` if it does.
    fn landlock_problem(&self) -> Option<&'static str> {
        None
    }

    /// What shows that the user has signed in; `None` if the program needs no account, or if Althing cannot tell.
    fn login_signs(&self) -> Option<LoginSigns> {
        None
    }

    /// Where in a prompt the program treats `@path` as a file and sends the file's content to its model.
    fn mentions(&self) -> Mentions {
        Mentions::None
    }

    /// Whether the program decides by itself what to do, so that permissions apply to it. False for the user's own
    /// commands.
    fn is_agent(&self) -> bool {
        true
    }

    /// Whether a user defined the adapter in a config or a workflow.
    fn is_user_defined(&self) -> bool {
        false
    }

    /// Where the program stores its settings, credentials and conversations. In a sandbox it gets private copies.
    fn own_dirs(&self) -> &'static [OwnDir] {
        &[]
    }

    /// Paths of a user-defined program that the user lets it write to inside a sandbox.
    fn own_paths(&self) -> Vec<OwnPath> {
        Vec::new()
    }

    /// Names of variables that are passed on from our environment; a trailing `*` matches any suffix.
    fn own_variables(&self) -> Vec<String> {
        Vec::new()
    }

    /// How to read the program's screen and when to type the prompt.
    fn terminal(&self) -> TerminalTraits {
        TerminalTraits::default()
    }
}

/// A program that is running in a terminal.
pub struct RunningProgram<'a> {
    /// The files that the program and the processes below it hold open.
    pub open_files: &'a dyn Fn() -> Vec<PathBuf>,
    /// Looks up a variable of the program's environment.
    pub env: &'a dyn Fn(&str) -> Option<PathBuf>,
}

/// Where the last message of a conversation is.
#[derive(Debug)]
pub enum LastMessage {
    /// In a file of JSON lines.
    Stored {
        /// The directory of the file, which may be up to four levels deeper.
        dir: PathBuf,
        /// The end of the file's name.
        name_end: String,
        /// The message in a line; `None` if the line contains no message of the agent.
        message: fn(&Value) -> Option<String>,
    },
    /// The program prints the message as `[{"text": …}]` if it is started with these arguments.
    Printed(Vec<String>),
}

/// Where in a prompt a program treats `@path` as a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mentions {
    /// The program never treats `@path` as a file.
    None,
    /// At the beginning of the prompt, and after white space.
    AfterSpace,
    /// Everywhere in the prompt, except after a backslash.
    Anywhere,
}

/// One of a program's two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// The meaning of a piece of output.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputEvent {
    /// A complete item: a message, a tool call, a conversation id.
    Item(Item),
    /// A piece of a message that is still being streamed.
    TextDelta(String),
    /// The model has begun to reply, with reasoning, text or a tool call. May be emitted repeatedly.
    ModelReplies,
    /// A tool call of the model did not succeed; the program itself may have refused it.
    FailedCall {
        /// The tool, as the program's model names it.
        tool: String,
        /// The arguments, in JSON.
        arguments: String,
    },
    /// The program cannot reach its model, and tries again.
    Trouble(Trouble),
}

/// Why a program cannot reach its model. A repeated problem has the same text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What the program said, without counters; for Claude Code, a sentence of ours with the reported error.
    pub text: String,
    /// Whether retrying cannot help, so that the program is ended.
    pub is_final: bool,
}

impl Trouble {
    const MAX_BYTES: usize = 500;

    pub(crate) fn passing(text: &str) -> OutputEvent {
        let text = althing_text::truncate_bytes(crate::clean(text).trim(), Self::MAX_BYTES);
        OutputEvent::Trouble(Self { text, is_final: false })
    }
}

/// Interprets the output of one execution of a program, split at arbitrary positions.
pub trait OutputParser: Send {
    /// Interprets a piece of output, given raw and as clean text.
    fn output(&mut self, stream: Stream, raw: &[u8], clean: &str, emit: &mut dyn FnMut(OutputEvent));

    /// Determines the outcome once the process has ended, from the output and the exit status.
    fn end(&mut self, exit: Exit, emit: &mut dyn FnMut(OutputEvent)) -> ProgramOutcome;

    /// Whether the output so far shows that the program has finished its turn.
    fn has_ended_turn(&self) -> bool {
        false
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; `None` if a signal ended the process.
    pub code: Option<i32>,
    /// The signal that ended the process, if one did.
    pub signal: Option<i32>,
}

impl Exit {
    /// Whether the exit code is 0.
    pub fn is_success(self) -> bool {
        self.code == Some(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "it ended with exit code {code}"),
            (None, Some(signal)) => write!(f, "it was ended by signal {signal}"),
            (None, None) => f.write_str("it ended for an unknown reason"),
        }
    }
}

/// The outcome of one execution of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramOutcome {
    /// Whether the task was completed.
    pub ok: bool,
    /// The final message; `None` if the whole output is the message.
    pub message: Option<String>,
    /// Why the program failed. If it is `None` although the program failed, the exit status and the last error line
    /// of stderr are reported instead.
    pub error: Option<String>,
    /// What the user can do about the problem.
    pub hint: Option<String>,
    /// The usage that the program reported.
    pub usage: ReportedUsage,
}

/// The usage that a program reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportedUsage {
    /// The usage of this execution alone.
    pub this_run: Usage,
    /// The tokens of this execution by model, if the program reports its models.
    pub by_model: Vec<ModelUsage>,
    /// Usage that the program reports only as a total of the whole conversation; not included in `this_run`.
    pub conversation_total: Usage,
}

/// The tokens of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelUsage {
    /// The name of the model.
    pub model: String,
    /// The tokens of the model.
    pub usage: Usage,
}

#[cfg(test)]
mod tests {
    use super::OwnPath;
    use std::path::{Path, PathBuf};

    #[test]
    fn an_own_path_is_in_the_home_directory_unless_its_variable_is_set() {
        let located = |path: &OwnPath, value: Option<&str>| {
            path.path(Path::new("/home/u"), &|name| value.filter(|_| name == "TOY_HOME").map(PathBuf::from))
        };
        let plain = OwnPath::new(".toy");
        assert_eq!(located(&plain, Some("/elsewhere")), Path::new("/home/u/.toy"));
        let moved = plain.overridden_by("TOY_HOME", "data");
        assert_eq!(located(&moved, None), Path::new("/home/u/.toy"));
        assert_eq!(located(&moved, Some("/elsewhere")), Path::new("/elsewhere/data"));
    }
}
