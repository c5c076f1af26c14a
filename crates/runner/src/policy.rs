//! What one agent's commands may touch, as the caller states it, checked once before the first command.
//!
//! Never touches a process. Paths are made real here (no links, no `..`), so that every later comparison of paths is a
//! comparison of places.

use crate::command_lists::CommandLists;
use crate::confinement::Confinement;
use althing_protocol::{COMMAND_VARIABLES, ContextAccess, Grant, Masks, RootKind, variable_matches};
use std::ffi::OsStr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How one agent's commands run. One policy serves one agent.
#[derive(Clone, Debug)]
pub struct CommandPolicy {
    /// The files they can reach.
    pub sandbox_paths: SandboxPaths,
    /// Whether they may use the network; a container's own network mode decides for itself.
    pub network: bool,
    /// The environment they see.
    pub env: Environment,
    /// Times and sizes.
    pub limits: Limits,
    /// Which of them run at all.
    pub lists: CommandLists,
    /// Inside what they run.
    pub confinement: Confinement,
    /// Keeps secrets out of what is kept of their output.
    pub masks: Option<Arc<dyn Masks>>,
}

/// A grant as sandboxes take it: the files that a process can reach. Inside and outside paths are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxPaths {
    /// The agent's own directory: writable, its `HOME` and where commands start.
    pub workspace: PathBuf,
    /// What else it may read: the others' snapshots, tool chains.
    pub readable: Vec<PathBuf>,
    /// The run's context paths.
    pub context: Vec<ContextMount>,
    /// Our own state directory. Never visible, except for what is named here inside it.
    pub state_dir: Option<PathBuf>,
    /// Where long outputs are kept. Outside of everything that the agent can write; readable for its commands.
    pub output_dir: PathBuf,
    /// Whether nothing is written, the workspace included: the agent plans.
    pub planning: bool,
}

impl From<&Grant> for SandboxPaths {
    fn from(grant: &Grant) -> Self {
        let mount = |root: &althing_protocol::GrantRoot| ContextMount {
            path: root.path.clone(),
            writable: root.writable && !grant.planning,
            protected: root.protected.clone(),
        };
        Self {
            workspace: grant.workspace.clone().unwrap_or_default(),
            readable: grant.roots(RootKind::View).map(|root| root.path.clone()).collect(),
            context: grant.roots(RootKind::Context).map(mount).collect(),
            state_dir: grant.state_dir.clone(),
            output_dir: grant.output_dir.clone().unwrap_or_default(),
            planning: grant.planning,
        }
    }
}

/// A context path as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextMount {
    /// The file or directory.
    pub path: PathBuf,
    /// Whether the run may write there at all. It then may when the call's [`ContextAccess`] says so, too.
    pub writable: bool,
    /// Places inside that stay read-only always, absolute or relative to `path`. Repositories and what else runs code later
    /// are protected besides.
    pub protected: Vec<PathBuf>,
}

/// A child's environment: nothing but this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Names that are passed on from our own environment; a `*` at the end stands for any rest.
    pub pass: Vec<String>,
    /// Set as given; wins over `pass`.
    pub set: Vec<(String, String)>,
}

impl Default for Environment {
    fn default() -> Self {
        Self { pass: COMMAND_VARIABLES.map(str::to_owned).to_vec(), set: Vec::new() }
    }
}

impl Environment {
    /// The pairs for a child whose home is `home`.
    pub(crate) fn pairs(&self, home: &str, tmp: &str) -> Vec<(String, String)> {
        let mut pairs = vec![
            ("PATH".to_owned(), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
            ("HOME".to_owned(), home.to_owned()),
            ("TMPDIR".to_owned(), tmp.to_owned()),
        ];
        let ours = std::env::vars_os();
        let ours =
            ours.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let passed = ours.filter(|(name, _)| self.pass.iter().any(|pattern| variable_matches(pattern, name)));
        for (name, value) in passed.chain(self.set.iter().cloned()) {
            pairs.retain(|(known, _)| *known != name);
            pairs.push((name, value));
        }
        pairs
    }
}

/// Times and sizes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a command may run when the model does not say.
    pub default_timeout: Duration,
    /// The longest a model may ask for.
    pub max_timeout: Duration,
    /// From TERM to KILL.
    pub grace: Duration,
    /// After a command ended, how long its output is still waited for when someone holds the pipe.
    pub drain: Duration,
    /// How much output the model is shown.
    pub shown: usize,
    /// How much output is kept in a file when the model is not shown all.
    pub kept: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            default_timeout: Duration::from_secs(120),
            max_timeout: Duration::from_secs(3600),
            grace: Duration::from_secs(2),
            drain: Duration::from_millis(500),
            shown: 64 * 1024,
            kept: 16 * 1024 * 1024,
        }
    }
}

/// Why a policy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A directory that must exist does not.
    #[error("{what} {path} cannot be used: {source}")]
    Unusable {
        /// Which part of the policy it is.
        what: &'static str,
        /// The path as given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Giving this path would give everything.
    #[error("{path} cannot be given to a command: it is a system directory")]
    TooWide {
        /// The path.
        path: PathBuf,
    },
    /// The outputs would lie where the agent can change them.
    #[error("the output directory {path} lies inside a directory that commands can write to")]
    OutputWritable {
        /// The path.
        path: PathBuf,
    },
    /// Protected places cannot be looked for in all of it.
    #[error(
        "{path} holds more than {limit} files and directories, too many to find what must stay protected in it"
    )]
    TooLarge {
        /// The context path.
        path: PathBuf,
        /// How many there may be.
        limit: usize,
    },
    /// There are too many protected places to cover each of them.
    #[error("{path} holds more than {limit} repositories and other places that must stay protected")]
    TooManyProtected {
        /// The context path.
        path: PathBuf,
        /// How many there may be.
        limit: usize,
    },
    /// Arguments and messages are text.
    #[error("{path} is not valid UTF-8")]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// A pattern for commands is not one.
    #[error("`{pattern}` is not a pattern for commands: {why}")]
    Pattern {
        /// As it was given.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
}

impl PolicyError {
    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unusable { .. } => "create it, or correct the path",
            Self::TooWide { .. } => "name the directories that are really needed",
            Self::OutputWritable { .. } => {
                "choose one beside the workspaces, for instance in the session's directory"
            }
            Self::TooLarge { .. } | Self::TooManyProtected { .. } => {
                "name the directories that are really written to as context paths, or give this one for reading"
            }
            Self::NotText { .. } => "rename the directory",
            Self::Pattern { .. } => "correct the regular expression in the config",
        }
    }
}

/// Never given as a whole: what lies there is not the user's data but the machine.
const TOO_BROAD: [&str; 6] = ["/", "/proc", "/dev", "/sys", "/run", "/etc"];

impl CommandPolicy {
    /// Without network, with the usual environment and limits.
    pub fn new(sandbox_paths: SandboxPaths, confinement: Confinement) -> Self {
        Self {
            sandbox_paths,
            network: false,
            env: Environment::default(),
            limits: Limits::default(),
            lists: CommandLists::default(),
            confinement,
            masks: None,
        }
    }
}

impl SandboxPaths {
    /// A private workspace and nothing else.
    pub fn new(workspace: PathBuf, output_dir: PathBuf) -> Self {
        Self {
            workspace,
            readable: Vec::new(),
            context: Vec::new(),
            state_dir: None,
            output_dir,
            planning: false,
        }
    }

    /// Makes every path real, drops what does not exist (context paths and readable ones may), refuses what is unsafe.
    pub(crate) fn checked(mut self) -> Result<Self, PolicyError> {
        self.workspace = canonical("the workspace", &self.workspace)?;
        let private = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.output_dir);
        private.map_err(|source| PolicyError::Unusable {
            what: "the output directory",
            path: self.output_dir.clone(),
            source,
        })?;
        self.output_dir = canonical("the output directory", &self.output_dir)?;
        self.readable =
            self.readable.iter().filter_map(|path| canonical("a readable path", path).ok()).collect();
        self.context.retain_mut(|mount| match canonical("a context path", &mount.path) {
            Ok(path) => {
                mount.protected = mount.protected_paths(&path);
                mount.path = path;
                true
            }
            Err(_) => false,
        });
        self.state_dir = self.state_dir.and_then(|path| canonical("the state directory", &path).ok());
        self.refuse_unsafe()?;
        Ok(self)
    }

    fn refuse_unsafe(&self) -> Result<(), PolicyError> {
        let given =
            self.context.iter().map(|mount| &mount.path).chain(&self.readable).chain([&self.workspace]);
        for path in given.clone().chain([&self.output_dir]) {
            if path.to_str().is_none() {
                return Err(PolicyError::NotText { path: path.clone() });
            }
        }
        for path in given {
            if TOO_BROAD.iter().any(|wide| path == Path::new(wide)) {
                return Err(PolicyError::TooWide { path: path.clone() });
            }
        }
        let writable = self.context.iter().filter(|mount| mount.writable).map(|mount| &mount.path);
        // The state directory may lie inside a writable context path: it is never shown there.
        let shielded = self.state_dir.as_ref().is_some_and(|state| self.output_dir.starts_with(state));
        let exposed = |root: &PathBuf| self.output_dir.starts_with(root) && !shielded;
        if self.output_dir.starts_with(&self.workspace) || writable.clone().any(exposed) {
            return Err(PolicyError::OutputWritable { path: self.output_dir.clone() });
        }
        Ok(())
    }
}

impl ContextMount {
    /// Whether it may be written under this access.
    pub(crate) fn open(&self, access: ContextAccess) -> bool {
        self.writable && access == ContextAccess::Writable
    }

    /// The places inside `path` that stay read-only, made absolute and without `..`.
    fn protected_paths(&self, path: &Path) -> Vec<PathBuf> {
        let given = self.protected.iter().map(|inside| {
            let absolute = without_dots(&self.path.join(inside));
            // What exists is found by its real place; what does not, by the place it would have.
            let named = absolute
                .strip_prefix(without_dots(&self.path))
                .map(|rest| path.join(rest))
                .unwrap_or(absolute);
            named.canonicalize().unwrap_or(named)
        });
        // A context path that is a single file has no history of its own.
        let history = path.is_dir().then(|| path.join(".git"));
        let mut paths: Vec<PathBuf> = given.chain(history).filter(|at| at.starts_with(path)).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

fn canonical(what: &'static str, path: &Path) -> Result<PathBuf, PolicyError> {
    path.canonicalize().map_err(|source| PolicyError::Unusable { what, path: path.to_owned(), source })
}

/// Without `.` and `..`, by name alone.
pub(crate) fn without_dots(path: &Path) -> PathBuf {
    let mut parts: Vec<&OsStr> = Vec::new();
    for component in path.components() {
        match component {
            Component::ParentDir if parts.len() > 1 => {
                parts.pop();
            }
            Component::ParentDir | Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                parts.push(component.as_os_str())
            }
        }
    }
    parts.iter().collect()
}
