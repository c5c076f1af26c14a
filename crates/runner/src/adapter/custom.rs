//! Programs that a user describes: data instead of code.

use super::command::PlainTextParser;
use super::{
    AgentAdapter, Conversations, LaunchConfig, LaunchRequest, OutputParser, OwnPath, TerminalTraits,
};

/// A program as a user describes it.
///
/// In arguments `{session}`, `{model}` and `{cwd}` stand for what the task says; an argument that would need one which
/// the task does not have is left out. There is no word for the prompt on purpose: it goes to standard input, or is
/// typed.
#[derive(Clone, Debug, Default)]
pub struct CustomAdapter {
    /// What workflows call it.
    pub name: String,
    /// What is executed.
    pub program: String,
    /// Its arguments in a terminal.
    pub args: Vec<String>,
    /// Its arguments on pipes; None: it works only in a terminal.
    pub headless_args: Option<Vec<String>>,
    /// Arguments that make it go on with the conversation `{session}`; None: it keeps none.
    pub resume_args: Option<Vec<String>>,
    /// More environment.
    pub env: Vec<(String, String)>,
    /// Variables that are passed on to it; a `*` at the end stands for any rest.
    pub variables: Vec<String>,
    /// What it keeps for itself below the home directory.
    pub own_paths: Vec<String>,
    /// What reads its headless output; None reads it as text: all of it is the answer, and the exit code decides.
    pub output: Option<fn() -> Box<dyn OutputParser>>,
    /// How it behaves in a terminal.
    pub terminal: TerminalTraits,
}

impl CustomAdapter {
    fn filled(&self, args: &[String], task: &LaunchRequest<'_>) -> LaunchConfig {
        let resume = self.resume_args.as_deref().filter(|_| task.resume.is_some()).unwrap_or_default();
        let args = args.iter().chain(resume).filter_map(|arg| fill(arg, task)).collect();
        LaunchConfig { program: self.program.clone(), args, env: self.env.clone(), files: Vec::new() }
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

impl AgentAdapter for CustomAdapter {
    fn name(&self) -> &str {
        &self.name
    }

    fn executable(&self) -> Option<&str> {
        Some(&self.program)
    }

    fn launch_config(&self, task: &LaunchRequest<'_>) -> LaunchConfig {
        self.filled(&self.args, task)
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

    fn is_user_defined(&self) -> bool {
        true
    }

    fn own_paths(&self) -> Vec<OwnPath> {
        self.own_paths
            .iter()
            .map(|place| OwnPath { in_home: place.clone(), override_variable: None, set_in_sandbox: false })
            .collect()
    }

    fn own_variables(&self) -> Vec<String> {
        self.variables.clone()
    }

    fn terminal(&self) -> TerminalTraits {
        self.terminal.clone()
    }
}
