//! The environment of the process: variables, `.env` files, directories, terminals. Read once, at start.

use crate::failure::Failure;
use althing_config::{
    Variables, dotenv_assignments, may_be_found_secret, parse_dotenv, secrets_in_found_variable,
    secrets_in_variable,
};
use althing_protocol::{Clock, Secret, Timestamp};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{DirBuilder, Permissions};
use std::io::IsTerminal;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const MAX_NAMED: usize = 10;
const APP_DIR: &str = "althing";

/// Environment variables, directories and terminals.
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
    /// The variables from `.env` in the working directory. Another person may have written that file, so it is used
    /// only for secrets.
    found: BTreeMap<String, String>,
    /// What is only masked: values that do not count because their variable is set elsewhere, and those of names that
    /// Althing does not use but that other programs may accept.
    masked: Vec<(String, String)>,
    /// Like `masked`, from `.env` in the working directory.
    masked_found: Vec<(String, String)>,
}

impl Environment {
    /// The absolute path of a file that the user named, with each leading `..` resolved textually.
    pub fn named_path(&self, named: &Path) -> PathBuf {
        let (mut dir, mut rest) = (self.cwd.as_path(), named);
        loop {
            if let Ok(below) = rest.strip_prefix("..") {
                (dir, rest) = (dir.parent().unwrap_or(dir), below);
            } else if let Ok(below) = rest.strip_prefix(".") {
                rest = below;
            } else {
                return dir.join(rest);
            }
        }
    }

    /// Reads the environment, then `.env` in the user's config directory, then `.env` in the working directory. The
    /// first value of a variable counts; values from the working directory are used only for secrets.
    pub fn read() -> Result<Self, Failure> {
        let cwd = std::env::current_dir().map_err(|error| {
            Failure::usage(format!("the current directory cannot be used: {error}"))
                .hint("change to a directory that exists")
        })?;
        let (mut variables, mut masked) = (BTreeMap::new(), Vec::new());
        for (name, value) in std::env::vars_os() {
            match (name.into_string(), value.into_string()) {
                (Ok(name), Ok(value)) => {
                    variables.insert(name, value);
                }
                // A variable that is not UTF-8 is not used, only masked. Outputs of programs are converted to text in
                // the same way, so the value is found in them.
                (name, value) => {
                    let lossy = |text: Result<String, OsString>| {
                        text.unwrap_or_else(|text| text.to_string_lossy().into_owned())
                    };
                    masked.push((lossy(name), lossy(value)));
                }
            }
        }
        let mut found = Self {
            cwd,
            variables,
            found: BTreeMap::new(),
            masked,
            masked_found: Vec::new(),
            stdin_is_terminal: std::io::stdin().is_terminal(),
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stderr_is_terminal: std::io::stderr().is_terminal(),
        };
        if let Some(dir) = found.config_dir() {
            let text = read_dotenv(&dir.join(".env"), MAX_DOTENV_BYTES)?;
            for (name, value) in parse_dotenv(&text) {
                found.variables.entry(name).or_insert(value);
            }
            found.masked.extend(dotenv_assignments(&text));
        }
        let text = read_found_dotenv(&found.cwd.join(".env"))?;
        for (name, value) in parse_dotenv(&text) {
            found.found.entry(name).or_insert(value);
        }
        found.masked_found = dotenv_assignments(&text);
        Ok(found)
    }

    /// A variable's value for a place that is meant for a secret. `.env` in the working directory counts only if the
    /// user has not set the variable: with a stranger's API key in place of the user's, the stranger could read what
    /// the user sends.
    pub fn secret(&self, name: &str) -> Option<String> {
        let found = || self.found.get(name).filter(|value| may_be_found_secret(value)).cloned();
        self.variable(name).or_else(found)
    }

    /// The variables that only `.env` in the working directory sets, and that may be secrets.
    pub(crate) fn only_found(&self) -> impl Iterator<Item = (&str, &str)> {
        let usable =
            |(name, value): &(&String, &String)| self.is_only_found(name) && may_be_found_secret(value);
        self.found.iter().filter(usable).map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// What `.env` in the working directory sets, as it was read.
    pub(crate) fn found_text(&self) -> String {
        self.found.iter().flat_map(|(name, value)| [name.as_str(), "=", value, "\n"]).collect()
    }

    pub(crate) fn is_only_found(&self, name: &str) -> bool {
        self.variable(name).is_none() && self.found.get(name).is_some_and(|value| !value.is_empty())
    }

    /// Calls `read` with the variables. Also returns a notice about variables that `read` asked for and did not get
    /// although `.env` in the working directory sets them.
    pub fn with_variables<T>(&self, read: impl FnOnce(Variables<'_>) -> T) -> (T, Option<String>) {
        let (unused, used) = (RefCell::new(BTreeSet::new()), RefCell::new(BTreeSet::new()));
        let or_note = |name: &str, value: Option<String>| {
            if value.is_none() && self.is_only_found(name) {
                unused.borrow_mut().insert(name.to_owned());
            }
            if value.is_some() {
                used.borrow_mut().insert(name.to_owned());
            }
            value
        };
        let own = |name: &str| or_note(name, self.variable(name));
        let for_secrets = |name: &str| or_note(name, self.secret(name));
        let done = read(Variables { own: &own, for_secrets: &for_secrets });
        let used = used.into_inner();
        let names = unused
            .into_inner()
            .into_iter()
            .filter(|name| !used.contains(name))
            .take(MAX_NAMED)
            .collect::<Vec<_>>()
            .join(", ");
        let notice = format!(
            "{} sets {names}, which Althing does not use: from a .env file in the working directory, it uses only API keys and \
             other secrets without spaces (set other variables in the environment or in ~/.config/althing/.env)",
            self.cwd.join(".env").display()
        );
        (done, Some(notice).filter(|_| !names.is_empty()))
    }

    /// Whether the user chose the state directory. A relative `ALTHING_STATE_DIR` is no choice, because a shell
    /// profile may set it for every working directory, also for one that somebody else made.
    pub fn state_dir_is_named(&self, asked: Option<&Path>) -> bool {
        let set = self.variable("ALTHING_STATE_DIR");
        asked.is_some() || set.is_some_and(|dir| Path::new(&dir).is_absolute())
    }

    /// One of the user's own variables; None if unset or empty.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// Whether an executable of this name is on the `PATH`.
    pub fn has_program(&self, name: &str) -> bool {
        althing_runner::adapter::find_program(name, &self.path()).is_some()
    }

    /// The value of `PATH`; empty if not set.
    pub fn path(&self) -> String {
        self.variable("PATH").unwrap_or_default()
    }

    /// The user's own variables, without those that only `.env` in the working directory sets.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        self.variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// The secrets in the user's own variables.
    pub fn own_secrets(&self) -> Vec<Secret> {
        let masked = self.masked.iter().map(|(name, value)| (name, value));
        let own = self.variables.iter().chain(masked);
        own.flat_map(|(name, value)| secrets_in_variable(name, value)).collect()
    }

    /// The secrets that only `.env` in the working directory contains.
    pub fn found_secrets(&self) -> Vec<Secret> {
        let own: BTreeSet<String> =
            self.own_secrets().iter().map(|secret| secret.reveal().to_owned()).collect();
        let masked = self.masked_found.iter().map(|(name, value)| (name, value));
        let found = self.found.iter().chain(masked);
        let found = found.flat_map(|(name, value)| secrets_in_found_variable(name, value));
        found.filter(|secret| !own.contains(secret.reveal())).collect()
    }

    /// Whether `.env` in the working directory gives this value, and the user's own variables do not.
    pub(crate) fn is_value_of_found(&self, secret: &Secret) -> bool {
        let gives = |value: &String| value.trim() == secret.reveal();
        let has_part = |(name, value): (&String, &String)| {
            secrets_in_variable(name, value).iter().any(|part| part == secret)
        };
        let is_found = self.found.values().any(gives) || self.found.iter().any(has_part);
        is_found && !self.variables.values().any(gives) && !self.own_secrets().contains(secret)
    }

    #[cfg(test)]
    pub(crate) fn set_for_test(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// The directory of the user's configs; None if neither `XDG_CONFIG_HOME` nor `HOME` gives one.
    pub fn config_dir(&self) -> Option<PathBuf> {
        self.user_dir("XDG_CONFIG_HOME", ".config")
    }

    /// The directory of the user's trust decisions, projects and message history; None if neither `XDG_STATE_HOME`
    /// nor `HOME` gives one.
    pub fn user_state_dir(&self) -> Option<PathBuf> {
        self.user_dir("XDG_STATE_HOME", ".local/state")
    }

    /// The directories of the user's configs and of the user's state.
    pub fn own_dirs(&self) -> Vec<PathBuf> {
        self.config_dir().into_iter().chain(self.user_state_dir()).collect()
    }

    fn user_dir(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let named = self.variable(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = named.or_else(|| Some(PathBuf::from(self.variable("HOME")?).join(below_home)))?;
        Some(base.join(APP_DIR))
    }

    /// The directory of sessions and other state: `asked`, else `ALTHING_STATE_DIR`, else `.althing`; relative to the
    /// working directory.
    pub fn state_dir(&self, asked: Option<&Path>) -> PathBuf {
        let named =
            asked.map(Path::to_owned).or_else(|| self.variable("ALTHING_STATE_DIR").map(PathBuf::from));
        self.cwd.join(named.unwrap_or_else(|| PathBuf::from(".althing")))
    }
}

/// Reads a text file of at most `limit` bytes that the user named or wrote. Anything but a regular file is an error.
pub fn read_text(path: &Path, limit: u64) -> std::io::Result<String> {
    let bytes = althing_disk::read_regular(path, limit)?;
    String::from_utf8(bytes).map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
}

const PRIVATE: u32 = 0o700;

/// Creates a directory and its missing parents for this user alone. An existing directory called `althing` is made
/// private, too.
pub fn create_private_dir(dir: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE).create(dir)?;
    let mode = dir.metadata()?.permissions().mode() & 0o777;
    if dir.file_name().is_some_and(|name| name == APP_DIR) && mode != PRIVATE {
        // A failure is ignored: the directory belongs to another user, or the file system is read-only.
        let _ = std::fs::set_permissions(dir, Permissions::from_mode(PRIVATE));
    }
    Ok(())
}

const MAX_DOTENV_BYTES: u64 = 1_000_000;
const MAX_FOUND_DOTENV_BYTES: u64 = 64 * 1024;
/// To mask secrets, Althing builds one search for all of them in all their encodings. For thousands of secrets, this
/// would take minutes.
pub(crate) const MAX_FOUND_SECRETS: usize = 200;

fn read_found_dotenv(file: &Path) -> Result<String, Failure> {
    let too_many = |what: String| {
        Failure::usage(format!("{} {what}", file.display())).hint(
            "keep in it only what Althing needs, or move it and set the variables in the environment or in \
             ~/.config/althing/.env",
        )
    };
    if file.metadata().is_ok_and(|data| data.is_file() && data.len() > MAX_FOUND_DOTENV_BYTES) {
        return Err(too_many(format!("is larger than {} KiB", MAX_FOUND_DOTENV_BYTES / 1024)));
    }
    let text = read_dotenv(file, MAX_FOUND_DOTENV_BYTES)?;
    let variables = dotenv_assignments(&text);
    let secrets = variables.iter().flat_map(|(name, value)| secrets_in_found_variable(name, value)).count();
    if secrets > MAX_FOUND_SECRETS {
        return Err(too_many(format!(
            "has {secrets} secrets; a .env file in the working directory may have at most {MAX_FOUND_SECRETS}"
        )));
    }
    Ok(text)
}

fn read_dotenv(file: &Path, limit: u64) -> Result<String, Failure> {
    match althing_disk::read_regular(file, limit) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        // A directory called `.env` is not a `.env` file (Python virtual environments use that name).
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::IsADirectory) =>
        {
            Ok(String::new())
        }
        Err(error) => Err(Failure::usage(format!("{} cannot be read: {error}", file.display()))
            .hint("make it readable, or move it")),
    }
}

/// The system's wall clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}
