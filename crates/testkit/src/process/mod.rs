//! Runs a built binary as a user would, with its own directories and a clean environment, and collects its output.
//! Every wait has a deadline, after which it panics and shows the output so far.

mod events;
mod running;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;

use crate::machine::Machine;

pub use events::{newest_session, read_events, wait_for_event};
pub use running::{Output, RunningProcess};
pub use rustix::process::Signal;

/// A command line of the binary. It can be started many times; all starts and clones share the directories.
#[derive(Debug, Clone)]
pub struct Althing {
    binary: PathBuf,
    /// Contains `work`, `state` and `home`. Deleted with the last clone and the last running process.
    root: Arc<TempDir>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    stdin: Input,
    machine: Machine,
}

#[derive(Debug, Clone)]
enum Input {
    Nothing,
    Text(Vec<u8>),
    /// A pipe that stays open until the test closes it.
    Open,
}

impl Althing {
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let root = Arc::new(TempDir::new().expect("a temporary directory"));
        for name in ["work", "state", "home"] {
            std::fs::create_dir_all(root.path().join(name)).expect("a directory of the sandbox");
        }
        Self {
            binary: binary.into(),
            root,
            arguments: Vec::new(),
            environment: Vec::new(),
            stdin: Input::Nothing,
            machine: Machine::from_environment(),
        }
    }

    pub fn on(mut self, machine: Machine) -> Self {
        self.machine = machine;
        self
    }

    /// A command with the same binary, directories and environment, but without arguments and stdin.
    pub fn new_command(&self) -> Self {
        Self { arguments: Vec::new(), stdin: Input::Nothing, ..self.clone() }
    }

    pub fn program(&self, binary: impl Into<PathBuf>) -> Self {
        Self { binary: binary.into(), ..self.new_command() }
    }

    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    pub fn args<S: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = S>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Sets a variable. The environment otherwise contains only `PATH`, `HOME`, `ALTHING_STATE_DIR` and
    /// `ALTHING_LOCAL_SERVERS`.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the content of stdin. Without it, stdin is `/dev/null`.
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = Input::Text(text.into());
        self
    }

    /// Keeps stdin open until `RunningProcess::close_stdin`.
    pub fn open_stdin(mut self) -> Self {
        self.stdin = Input::Open;
        self
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work_dir().join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).expect("a directory for the file");
        }
        std::fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    pub fn work_dir(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub fn state_dir(&self) -> PathBuf {
        self.root.path().join("state")
    }

    pub fn home_dir(&self) -> PathBuf {
        self.root.path().join("home")
    }

    pub fn events(&self) -> Vec<serde_json::Value> {
        read_events(&self.state_dir())
    }

    /// The program and the arguments that start the binary as its user. Gives the directories to that user.
    pub(crate) fn command_line(&self) -> Vec<OsString> {
        self.machine.hand_over(self.root.path());
        self.machine.command_line(&self.binary, &self.arguments)
    }

    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        let own = [
            ("PATH".into(), self.machine.search_path()),
            ("HOME".into(), self.home_dir().into()),
            ("ALTHING_STATE_DIR".into(), self.state_dir().into()),
            // No model server of this machine is found by accident.
            ("ALTHING_LOCAL_SERVERS".into(), "none".into()),
        ];
        own.into_iter().chain(self.environment.iter().cloned()).collect()
    }

    pub(crate) fn root(&self) -> Arc<TempDir> {
        Arc::clone(&self.root)
    }

    pub fn spawn(&self) -> RunningProcess {
        let words = self.command_line();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(self.work_dir()).env_clear().envs(self.variables()).stdin(
            match self.stdin {
                Input::Nothing => Stdio::null(),
                Input::Text(_) | Input::Open => Stdio::piped(),
            },
        );
        let running = RunningProcess::start(command, &self.describe(), Arc::clone(&self.root));
        if let Input::Text(text) = &self.stdin {
            running.feed_stdin(text.clone());
        }
        running
    }

    fn describe(&self) -> String {
        let name = self.binary.file_name().unwrap_or_default();
        let words: Vec<_> = std::iter::once(name)
            .chain(self.arguments.iter().map(OsString::as_os_str))
            .map(|word| Path::new(word).display().to_string())
            .collect();
        words.join(" ")
    }
}
