//! Adapters that a user defines in a config or workflow.

use super::command::PlainTextParser;
use super::registry::built_in;
use super::{
    AgentAdapter, Conversations, LaunchConfig, LaunchRequest, OutputParser, OwnPath, TerminalTraits,
};

/// A program as a user describes it.
///
/// In arguments `{session}`, `{model}` and `{cwd}` are replaced by the task's values; an argument that contains
/// `{model}` is left out if the task names no model. There is no placeholder for the prompt, which goes to stdin or
/// is typed.
#[derive(Clone, Debug, Default)]
pub struct UserDefinedAdapter {
    /// The name by which configs and workflows refer to the adapter.
    pub name: String,
    /// The executable: a name to be found in `PATH`, or a path.
    pub program: String,
    /// Arguments for a run in a terminal.
    pub args: Vec<String>,
    /// Arguments for a headless run; `None` if the program works only in a terminal.
    pub headless_args: Option<Vec<String>>,
    /// Additional arguments that resume the conversation `{session}`; `None` if conversations cannot be resumed.
    pub resume_args: Option<Vec<String>>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// Names of variables that are passed on from our environment; a trailing `*` matches any suffix.
    pub variables: Vec<String>,
    /// Paths below the home directory where the program stores its own data.
    pub own_paths: Vec<String>,
    /// Creates the parser of headless output; `None` means plain text (see [`PlainTextParser`]).
    pub output: Option<fn() -> Box<dyn OutputParser>>,
    /// How to read the program's screen and when to type the prompt.
    pub terminal: TerminalTraits,
}

impl UserDefinedAdapter {
    fn filled(&self, args: &[String], task: &LaunchRequest<'_>) -> LaunchConfig {
        let resume = self.resume_args.as_deref().filter(|_| task.resume.is_some()).unwrap_or_default();
        let args = args.iter().chain(resume).filter_map(|arg| fill(arg, task)).collect();
        LaunchConfig { program: self.program.clone(), args, env: self.env.clone(), ..LaunchConfig::default() }
    }
}

fn fill(arg: &str, task: &LaunchRequest<'_>) -> Option<String> {
    let session = Some(task.resume.unwrap_or(task.new_conversation_id));
    let words =
        [("{session}", session), ("{model}", task.spec.model.as_deref()), ("{cwd}", Some(&task.spec.cwd))];
    let mut filled = arg.to_owned();
    for (word, value) in words {
        if arg.contains(word) {
            filled = filled.replace(word, value?);
        }
    }
    Some(filled)
}

impl AgentAdapter for UserDefinedAdapter {
    fn name(&self) -> &str {
        &self.name
    }

    fn executable(&self) -> Option<&str> {
        Some(&self.program)
    }

    fn launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        Some(self.filled(&self.args, task))
    }

    fn headless_launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        Some(self.filled(self.headless_args.as_deref()?, task))
    }

    fn parser(&self) -> Box<dyn OutputParser> {
        self.output.map_or_else(|| Box::new(PlainTextParser) as Box<dyn OutputParser>, |parser| parser())
    }

    fn conversations(&self) -> Conversations {
        let chooses = |args: &[String]| args.iter().any(|arg| arg.contains("{session}"));
        match &self.resume_args {
            None => Conversations::None,
            Some(_) if self.headless_args.as_deref().is_some_and(chooses) || chooses(&self.args) => {
                Conversations::IdChosen
            }
            Some(_) => Conversations::IdReported,
        }
    }

    fn is_lost_conversation(&self, error: &str) -> bool {
        built_in().iter().any(|adapter| adapter.is_lost_conversation(error))
    }

    fn is_user_defined(&self) -> bool {
        true
    }

    fn own_paths(&self) -> Vec<OwnPath> {
        self.own_paths.iter().map(|path| OwnPath::new(path)).collect()
    }

    fn own_variables(&self) -> Vec<String> {
        self.variables.clone()
    }

    fn terminal(&self) -> TerminalTraits {
        self.terminal.clone()
    }
}
