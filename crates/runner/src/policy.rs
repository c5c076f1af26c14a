//! The sandbox policy of one agent's commands: what they may access and how they run.
//!
//! Granted paths were resolved when they were granted: they have no symlinks and no `..`, and a symlink in the place
//! of one is an error.

use crate::command_lists::CommandLists;
use crate::sandbox::Sandbox;
use althing_disk::{ReplacedPath, create_real_dir, refuse_replaced, with_real_base};
use althing_protocol::{COMMAND_VARIABLES, ContextAccess, Grant, OutputMasking, RootKind, variable_matches};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How one agent's commands run.
#[derive(Clone, Debug)]
pub struct CommandPolicy {
    /// The files that commands can access.
    pub sandbox_paths: SandboxPaths,
    /// Whether commands may use the network. Ignored in containers, which have their own network mode.
    pub network: bool,
    /// The environment of each command.
    pub env: ChildEnvironment,
    /// Time and output limits of each command.
    pub limits: CommandLimits,
    /// The config's allow and block lists.
    pub lists: CommandLists,
    /// The sandbox in which commands run.
    pub sandbox: Sandbox,
    /// Masks secrets in the output, both for the model and in the stored file.
    pub output_masking: Option<Arc<dyn OutputMasking>>,
}

/// The paths of a [`Grant`] as sandboxes need them. A path is the same inside and outside the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxPaths {
    /// The agent's own directory: writable (unless `planning`), the value of `HOME` and the default working
    /// directory.
    pub workspace: PathBuf,
    /// Other readable paths, such as snapshots of other agents and toolchains.
    pub readable: Vec<PathBuf>,
    /// The context paths of the run.
    pub context: Vec<ContextMount>,
    /// Althing's own state directory. Hidden, except for other paths of this struct inside it.
    pub state_dir: Option<PathBuf>,
    /// Where long outputs are stored: readable for the agent's commands, but not writable.
    pub output_dir: PathBuf,
    /// Whether nothing may be written, not even in the workspace, because the agent only plans.
    pub planning: bool,
    /// Those of the protected paths that can only be files.
    pub protected_files: Vec<PathBuf>,
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
            protected_files: grant.protected_files.clone(),
        }
    }
}

/// A context path as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextMount {
    /// The path of a file or a directory.
    pub path: PathBuf,
    /// Whether the run may write there at all. A call may write only if its [`ContextAccess`] allows it as well.
    pub writable: bool,
    /// Paths inside that are always read-only, absolute or relative to `path`, in addition to files that run code
    /// later.
    pub protected: Vec<PathBuf>,
}

/// The environment of a child process: the variables in `pass` and `set`, and defaults for `PATH`, `HOME` and
/// `TMPDIR` if neither sets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildEnvironment {
    /// Names of variables that are passed on from our own environment; a trailing `*` matches any suffix.
    pub pass: Vec<String>,
    /// Variables that are set explicitly; they override `pass`.
    pub set: Vec<(String, String)>,
}

impl Default for ChildEnvironment {
    fn default() -> Self {
        Self { pass: COMMAND_VARIABLES.map(str::to_owned).to_vec(), set: Vec::new() }
    }
}

impl ChildEnvironment {
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

/// Time and output limits of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandLimits {
    /// The timeout that is used when the model gives none.
    pub default_timeout: Duration,
    /// The longest timeout that a model may ask for.
    pub max_timeout: Duration,
    /// The time between TERM and KILL.
    pub grace: Duration,
    /// How long to wait for more output after a command's end, while another process holds the pipe open.
    pub drain: Duration,
    /// How many bytes of output the model is shown.
    pub shown: usize,
    /// The maximum number of bytes of output that are written to a file if the model is not shown everything.
    pub kept: u64,
}

impl Default for CommandLimits {
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
    /// A path of the policy does not exist or cannot be accessed.
    #[error("{what} {path} cannot be used: {source}")]
    Unusable {
        /// The part of the policy that contains the path.
        what: &'static str,
        /// The path as configured.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// A symlink is in the place of a granted path.
    #[error(transparent)]
    Replaced(#[from] ReplacedPath),
    /// The path is a system directory such as `/` or `/etc`, which is never granted as a whole.
    #[error("commands cannot be given access to {path}: it is a system directory")]
    TooWide {
        /// The system directory.
        path: PathBuf,
    },
    /// The agent could modify the outputs that are stored in this directory.
    #[error("the output directory {path} lies inside a directory that commands can write to")]
    OutputWritable {
        /// The output directory.
        path: PathBuf,
    },
    #[error(
        "{path} contains more than {limit} files and directories, too many to search for files that must stay protected"
    )]
    /// The context path cannot be searched completely for protected files.
    TooLarge {
        /// The context path.
        path: PathBuf,
        /// The most entries that are searched.
        limit: usize,
    },
    /// The context path has too many protected files to mount each of them.
    #[error("{path} contains more than {limit} `.git` directories and other paths that must stay protected")]
    TooManyProtected {
        /// The context path.
        path: PathBuf,
        /// The most protected paths that can be mounted.
        limit: usize,
    },
    /// The path is not UTF-8, which arguments and messages need.
    #[error("{path} is not valid UTF-8")]
    NotText {
        /// The path, which is shown lossily.
        path: PathBuf,
    },
    /// A command pattern is not a valid regular expression, or is too large when compiled.
    #[error("`{pattern}` is not a valid command pattern: {why}")]
    Pattern {
        /// The pattern as configured.
        pattern: String,
        /// The error of the regular expression compiler.
        why: String,
    },
}

impl PolicyError {
    /// What the user can do about the problem.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unusable { .. } => "create it, or correct the path",
            Self::Replaced(_) => "put the file or directory back, or grant access to the other path",
            Self::TooWide { .. } => "name only the directories that are needed",
            Self::OutputWritable { .. } => {
                "choose a directory outside the workspace and all writable context paths, for example in the session's directory"
            }
            Self::TooLarge { .. } | Self::TooManyProtected { .. } => {
                "replace this context path by the smaller directories in it that must be writable, or make it read-only"
            }
            Self::NotText { .. } => "rename the directory",
            Self::Pattern { .. } => "correct the regular expression in the config",
        }
    }
}

/// Directories that are never granted as a whole, because they hold the system rather than user data.
const TOO_BROAD: [&str; 6] = ["/", "/proc", "/dev", "/sys", "/run", "/etc"];

impl CommandPolicy {
    /// A policy without network access, with the default environment and limits.
    pub fn new(sandbox_paths: SandboxPaths, sandbox: Sandbox) -> Self {
        Self {
            sandbox_paths,
            network: false,
            env: ChildEnvironment::default(),
            limits: CommandLimits::default(),
            lists: CommandLists::default(),
            sandbox,
            output_masking: None,
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
            protected_files: Vec::new(),
        }
    }

    /// Creates the output directory, drops context paths, readable paths and a state directory that cannot be
    /// accessed, and refuses unsafe paths. Symlinks are resolved in protected paths and in the path of the state
    /// directory, which the user may name by one; a symlink anywhere else is an error.
    pub(crate) fn checked(mut self) -> Result<Self, PolicyError> {
        let state_dir = self.state_dir.take();
        let real = |path: &Path| with_real_base(path, state_dir.as_deref());
        self.workspace = existing("the workspace", real(&self.workspace))?;
        self.output_dir = real(&self.output_dir);
        create_real_dir(&self.output_dir, 0o700).map_err(|source| PolicyError::Unusable {
            what: "the output directory",
            path: self.output_dir.clone(),
            source,
        })?;
        let readable = std::mem::take(&mut self.readable);
        for path in readable {
            self.readable.extend(optional(existing("a readable path", real(&path)))?);
        }
        for mount in std::mem::take(&mut self.context) {
            let Some(path) = optional(existing("a context path", real(&mount.path)))? else { continue };
            let protected = mount.protected_paths(&path);
            self.context.push(ContextMount { path, protected, ..mount });
        }
        self.state_dir = state_dir.and_then(|path| path.canonicalize().ok());
        self.refuse_unsafe()?;
        Ok(self)
    }

    pub(crate) fn refuse_replaced(&self) -> Result<(), ReplacedPath> {
        let context = self.context.iter().map(|mount| &mount.path);
        context.chain(&self.readable).chain([&self.workspace]).try_for_each(|path| refuse_replaced(path))
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
        // The hidden state directory protects an output directory inside it, even if a writable context path contains
        // both.
        let shielded = self.state_dir.as_ref().is_some_and(|state| self.output_dir.starts_with(state));
        let exposed = |root: &PathBuf| self.output_dir.starts_with(root) && !shielded;
        if self.output_dir.starts_with(&self.workspace) || writable.clone().any(exposed) {
            return Err(PolicyError::OutputWritable { path: self.output_dir.clone() });
        }
        Ok(())
    }
}

impl ContextMount {
    pub(crate) fn open(&self, access: ContextAccess) -> bool {
        self.writable && access == ContextAccess::Writable
    }

    /// The configured protected paths inside `path` (the mount's real path) and, if `path` is a directory, its
    /// `.git`. The paths need not exist.
    fn protected_paths(&self, path: &Path) -> Vec<PathBuf> {
        let given = self.protected.iter().flat_map(|inside| {
            let absolute = without_dots(&self.path.join(inside));
            let named = absolute
                .strip_prefix(without_dots(&self.path))
                .map(|rest| path.join(rest))
                .unwrap_or(absolute);
            // Both a symlink and its target are protected, if they are inside the context path: a command could
            // replace the symlink, or write to the target.
            let links: Vec<PathBuf> =
                named.ancestors().filter(|at| at.is_symlink()).map(Path::to_owned).collect();
            links.into_iter().chain([named.canonicalize().unwrap_or(named)])
        });
        let history = path.is_dir().then(|| path.join(".git"));
        let mut paths: Vec<PathBuf> = given.chain(history).filter(|at| at.starts_with(path)).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

/// Fails if the path does not exist, or if a symlink has taken its place.
fn existing(what: &'static str, path: PathBuf) -> Result<PathBuf, PolicyError> {
    refuse_replaced(&path)?;
    match std::fs::symlink_metadata(&path) {
        Ok(_) => Ok(path),
        Err(source) => Err(PolicyError::Unusable { what, path, source }),
    }
}

/// A path that cannot be used gives `None`; only a replaced path is an error.
fn optional(path: Result<PathBuf, PolicyError>) -> Result<Option<PathBuf>, PolicyError> {
    match path {
        Ok(path) => Ok(Some(path)),
        Err(replaced @ PolicyError::Replaced(_)) => Err(replaced),
        Err(_) => Ok(None),
    }
}

/// Resolves `.` and `..` lexically, without looking at the file system.
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
