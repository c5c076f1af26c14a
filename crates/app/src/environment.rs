//! What is around the program: environment, `.env` files, directories, terminals. Read once, at the start.

use crate::failure::Failure;
use althing_config::{is_secret_name, secrets_in_variable};
use althing_protocol::{Clock, Secret, Timestamp};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of Althing's directories below the user's own.
const OURS: &str = "althing";

/// What is around the program.
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
    /// What `.env` here says besides keys. Whoever wrote it may not be the user: it is put where a config asks for it, and
    /// decides nothing about what is started, trusted or called.
    found: BTreeMap<String, String>,
}

impl Environment {
    /// Looks around: the environment first, then `.env` here, then `.env` in the user's config directory.
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
            found: BTreeMap::new(),
            stdin_is_terminal: std::io::stdin().is_terminal(),
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stderr_is_terminal: std::io::stderr().is_terminal(),
        };
        // Variables that are set already stay as they are.
        for (name, value) in read_dotenv(&found.cwd.join(".env"))? {
            if !is_secret_name(&name) || name.to_uppercase().starts_with("ALTHING_") {
                found.found.entry(name).or_insert(value);
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

    /// What a config means by a variable: set and not empty, also where only `.env` here sets it.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.variable(name).or_else(|| {
            // A file that was found names no endpoint, whatever key comes with it.
            let is_endpoint =
                althing_config::BACKENDS.iter().any(|backend| backend.url_variable == Some(name));
            self.found.get(name).filter(|value| !value.is_empty() && !is_endpoint).cloned()
        })
    }

    /// Whether the user named the state directory; else it is the one that is found here.
    pub fn state_dir_is_named(&self, asked: Option<&Path>) -> bool {
        asked.is_some() || self.variable("ALTHING_STATE_DIR").is_some()
    }

    /// A variable that is set and not empty.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// Whether a program of this name is on the `PATH`.
    pub fn has_program(&self, name: &str) -> bool {
        althing_runner::adapter::find_program(name, &self.path()).is_some()
    }

    /// The `PATH`.
    pub fn path(&self) -> String {
        self.variable("PATH").unwrap_or_default()
    }

    /// Everything in it, for those who pass an allow-list of it on.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        self.variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// What is secret in the variables, those of `.env` here included.
    pub fn secrets(&self) -> Vec<Secret> {
        let all = self.variables.iter().chain(&self.found);
        all.flat_map(|(name, value)| secrets_in_variable(name, value)).collect()
    }

    /// Where the user's own configs are.
    pub fn config_dir(&self) -> Option<PathBuf> {
        self.user_dir("XDG_CONFIG_HOME", ".config")
    }

    /// Where what Althing remembers about the user is.
    pub fn user_state_dir(&self) -> Option<PathBuf> {
        self.user_dir("XDG_STATE_HOME", ".local/state")
    }

    fn user_dir(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let named = self.variable(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = named.or_else(|| Some(PathBuf::from(self.variable("HOME")?).join(below_home)))?;
        Some(base.join(OURS))
    }

    /// Where sessions are kept.
    pub fn state_dir(&self, asked: Option<&Path>) -> PathBuf {
        let named =
            asked.map(Path::to_owned).or_else(|| self.variable("ALTHING_STATE_DIR").map(PathBuf::from));
        self.cwd.join(named.unwrap_or_else(|| PathBuf::from(".althing")))
    }
}

/// The variables in a file, if it is there.
fn read_dotenv(file: &Path) -> Result<Vec<(String, String)>, Failure> {
    match std::fs::read(file) {
        Ok(bytes) => Ok(althing_config::parse_dotenv(&String::from_utf8_lossy(&bytes))),
        // A directory of that name is somebody else's.
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::IsADirectory) =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(Failure::usage(format!("{} cannot be read: {error}", file.display()))
            .hint("make it readable, or move it away")),
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
