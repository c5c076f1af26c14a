//! The environment of the process: variables, `.env` files, directories, terminals. Read once, at start.

use crate::failure::Failure;
use althing_config::{is_secret_name, secrets_in_variable};
use althing_protocol::{Clock, Secret, Timestamp};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of Althing's directory in the user's config and state directories.
const APP_DIR: &str = "althing";

/// The environment of the process.
#[derive(Clone)]
pub struct Environment {
    /// The working directory.
    pub cwd: PathBuf,
    /// Whether stdin is a terminal.
    pub stdin_is_terminal: bool,
    /// Whether stdout is a terminal.
    pub stdout_is_terminal: bool,
    /// Whether stderr is a terminal.
    pub stderr_is_terminal: bool,
    variables: BTreeMap<String, String>,
    /// The variables in `.env` in the working directory, without API keys and other secrets, which are in `variables`
    /// (but secrets whose names begin with `ALTHING_` are here). Another person may have written that file: a config
    /// can refer to these variables, but they never decide what is started, trusted or called.
    dotenv: BTreeMap<String, String>,
}

impl Environment {
    /// Reads the environment, then `.env` in the working directory, then `.env` in the user's config directory.
    pub fn read() -> Result<Self, Failure> {
        let cwd = std::env::current_dir().map_err(|error| {
            Failure::usage(format!("the current directory cannot be used: {error}"))
                .hint("change to a directory that exists")
        })?;
        let text = |name: OsString| name.into_string().ok();
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect();
        let mut found = Self {
            cwd,
            variables,
            dotenv: BTreeMap::new(),
            stdin_is_terminal: std::io::stdin().is_terminal(),
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stderr_is_terminal: std::io::stderr().is_terminal(),
        };
        // A variable that is already set keeps its value.
        for (name, value) in read_dotenv(&found.cwd.join(".env"))? {
            if !is_secret_name(&name) || name.to_uppercase().starts_with("ALTHING_") {
                found.dotenv.entry(name).or_insert(value);
            } else {
                found.variables.entry(name).or_insert(value);
            }
        }
        if let Some(dir) = found.config_dir() {
            for (name, value) in read_dotenv(&dir.join(".env"))? {
                found.variables.entry(name).or_insert(value);
            }
        }
        Ok(found)
    }

    /// The value that a config gets for a variable; None if it is unset or empty. In addition to what `variable`
    /// finds, `.env` in the working directory counts, except for the address of an endpoint.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.variable(name).or_else(|| {
            // The `.env` in the working directory must not choose an endpoint, even if it also contains a key.
            let is_endpoint =
                althing_config::BACKENDS.iter().any(|backend| backend.url_variable == Some(name));
            self.dotenv.get(name).filter(|value| !value.is_empty() && !is_endpoint).cloned()
        })
    }

    /// Whether the user chose the state directory; otherwise the default in the working directory is used.
    pub fn state_dir_is_named(&self, asked: Option<&Path>) -> bool {
        asked.is_some() || self.variable("ALTHING_STATE_DIR").is_some()
    }

    /// The value of a variable; None if it is unset or empty.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// Whether an executable of this name is on the `PATH`.
    pub fn has_program(&self, name: &str) -> bool {
        althing_runner::adapter::find_program(name, &self.path()).is_some()
    }

    /// The `PATH`; empty if it is not set.
    pub fn path(&self) -> String {
        self.variable("PATH").unwrap_or_default()
    }

    /// All variables except those that are only in `dotenv`, for callers that pass on a selection of them.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        self.variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// The secrets in all variables, including those from `.env` in the working directory.
    pub fn secrets(&self) -> Vec<Secret> {
        let all = self.variables.iter().chain(&self.dotenv);
        all.flat_map(|(name, value)| secrets_in_variable(name, value)).collect()
    }

    /// The directory of the user's own configs; None if neither `XDG_CONFIG_HOME` nor `HOME` is set.
    pub fn config_dir(&self) -> Option<PathBuf> {
        self.user_dir("XDG_CONFIG_HOME", ".config")
    }

    /// The directory of what Althing remembers about the user: trust, projects, message history. None if neither
    /// `XDG_STATE_HOME` nor `HOME` is set.
    pub fn user_state_dir(&self) -> Option<PathBuf> {
        self.user_dir("XDG_STATE_HOME", ".local/state")
    }

    fn user_dir(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let named = self.variable(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = named.or_else(|| Some(PathBuf::from(self.variable("HOME")?).join(below_home)))?;
        Some(base.join(APP_DIR))
    }

    /// The directory of sessions, plans and other state: `asked`, else `ALTHING_STATE_DIR`, else `.althing` in the
    /// working directory.
    pub fn state_dir(&self, asked: Option<&Path>) -> PathBuf {
        let named =
            asked.map(Path::to_owned).or_else(|| self.variable("ALTHING_STATE_DIR").map(PathBuf::from));
        self.cwd.join(named.unwrap_or_else(|| PathBuf::from(".althing")))
    }
}

/// The maximum size of a `.env` file, in bytes.
const MAX_DOTENV_BYTES: u64 = 1_000_000;

/// The variables in a `.env` file; empty if there is no such file.
fn read_dotenv(file: &Path) -> Result<Vec<(String, String)>, Failure> {
    match althing_disk::read_regular(file, MAX_DOTENV_BYTES) {
        Ok(bytes) => Ok(althing_config::parse_dotenv(&String::from_utf8_lossy(&bytes))),
        // A directory called `.env` is not a `.env` file (Python virtual environments use that name).
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::IsADirectory) =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(Failure::usage(format!("{} cannot be read: {error}", file.display()))
            .hint("make it readable, or move it")),
    }
}

/// The wall clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}
