//! What one agent may read, write and reach: the single policy from which every sandbox and the file tools are derived.

use crate::{ContextAccess, ContextPath};
use std::path::{Path, PathBuf};

/// Everything that one agent may access. The default grants nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The agent's private directory, readable and writable. Nothing in it is protected.
    pub workspace: Option<PathBuf>,
    /// The directory that relative paths are resolved against, if it is not the workspace; one of the roots.
    pub start: Option<PathBuf>,
    /// The other files and directories that the agent may read or write.
    pub roots: Vec<GrantRoot>,
    /// Whether the agent only plans. A planning agent writes nothing, not even in its workspace.
    pub planning: bool,
    /// The network access that the config gives the agent's commands; see [`Self::command_network`]. CLI agents and MCP
    /// servers always have the host's network, but MCP servers are not called while their agent plans.
    pub network: NetworkGrant,
    /// Althing's state directory: inaccessible, except for `workspace`, `output_dir` and the roots of kind `View`
    /// inside it.
    pub state_dir: Option<PathBuf>,
    /// The directory where long tool outputs are stored; readable.
    pub output_dir: Option<PathBuf>,
    /// Those of the roots' protected paths that can only be files. Where such a file is missing, a sandbox mounts an
    /// empty file; for other missing protected paths, it mounts an empty directory.
    pub protected_files: Vec<PathBuf>,
    /// Other directories in which the user works. The grant gives no access to them, but code inside a root that git
    /// runs for them is protected or reported.
    pub other_dirs: Vec<PathBuf>,
    /// Directories to which agents of the session may write. Programs that run with the user's rights are not searched
    /// for there, because an agent could have put them there.
    pub agents_write: Vec<PathBuf>,
}

/// A file, or a directory with everything below it, that a grant covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRoot {
    /// The path of the file or directory.
    pub path: PathBuf,
    /// Why the agent has access.
    pub kind: RootKind,
    /// Whether the agent may write to the path.
    pub writable: bool,
    /// Paths inside `path` that the agent must not write to, absolute or relative to `path`.
    pub protected: Vec<PathBuf>,
}

/// Why an agent has access to a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootKind {
    /// A read-only directory, such as other members' snapshots, skills and stored outputs.
    View,
    /// The user's files: a context path or the project. Files in it that run code later may be protected; see
    /// [`crate::RunsCode`].
    Context,
}

/// The network access of an agent's commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkGrant {
    /// No network access.
    #[default]
    Closed,
    /// The host's network.
    Open,
    /// The network that the config gives the agent's container.
    Container,
}

impl Grant {
    /// The grant of a CLI agent that works alone and may write to `path`, a directory of the user.
    pub fn project(path: PathBuf) -> Self {
        let root = GrantRoot { path, kind: RootKind::Context, writable: true, protected: Vec::new() };
        Self { roots: vec![root], ..Self::default() }
    }

    /// Protects more paths. `project` is the directory of [`Grant::project`]; all paths are canonical. If `project` is
    /// inside a protected path, it is not writable at all.
    #[must_use]
    pub fn with_protected(mut self, protected: &[PathBuf], project: &Path) -> Self {
        for root in self.roots.iter_mut().filter(|root| root.kind == RootKind::Context) {
            root.writable &= !protected.iter().any(|path| project.starts_with(path));
            root.protected.extend(protected.iter().filter(|path| path.starts_with(project)).cloned());
        }
        self
    }

    /// The grant for one call: no root is writable with `ReadOnly` access, or if `planning` is set.
    #[must_use]
    pub fn with_access(mut self, access: ContextAccess) -> Self {
        let closed = self.planning || access == ContextAccess::ReadOnly;
        for root in self.roots.iter_mut().filter(|_| closed) {
            root.writable = false;
        }
        self
    }

    /// The network access of the agent's commands: none while the agent plans.
    pub fn command_network(&self) -> NetworkGrant {
        if self.planning { NetworkGrant::Closed } else { self.network }
    }

    /// Iterates over the roots of one kind.
    pub fn roots(&self, kind: RootKind) -> impl Iterator<Item = &GrantRoot> {
        self.roots.iter().filter(move |root| root.kind == kind)
    }

    /// The roots of kind `Context`, as context paths.
    pub fn context_paths(&self) -> Vec<ContextPath> {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let context = |root: &GrantRoot| ContextPath {
            path: text(&root.path),
            writable: root.writable,
            protected: root.protected.iter().map(text).collect(),
        };
        self.roots(RootKind::Context).map(context).collect()
    }
}

impl GrantRoot {
    /// A read-only root of kind `View`.
    pub fn view(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), kind: RootKind::View, writable: false, protected: Vec::new() }
    }
}

impl From<&ContextPath> for GrantRoot {
    fn from(context: &ContextPath) -> Self {
        Self {
            path: PathBuf::from(&context.path),
            kind: RootKind::Context,
            writable: context.writable,
            protected: context.protected.iter().map(PathBuf::from).collect(),
        }
    }
}

/// Names in a context path that the file tools never write to, compared case-insensitively, because some file systems
/// ignore case. A context path that has such a name itself is not written to either.
pub const EXCLUDED_NAMES: &[&str] = &[
    ".althing",
    ".massgen",
    ".gemini",
    ".env",
    ".git",
    "node_modules",
    "__pycache__",
    ".venv",
    "venv",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".DS_Store",
    "massgen_logs",
];

/// Those of [`EXCLUDED_NAMES`] that sandboxes make read-only wherever they exist in a writable context path. Commands
/// may write to the other excluded names (packages and caches), except where those run code later
/// ([`crate::RunsCode`]).
pub const SEALED_NAMES: &[&str] = &[".althing", ".massgen", ".env", "massgen_logs"];

/// Directories with installed packages and caches, which tools generate and which can be very large.
pub const PACKAGE_DIRS: &[&str] = &[
    "node_modules",
    "__pycache__",
    ".venv",
    "venv",
    ".tox",
    ".cache",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
];

/// The shortest prefix of `path` that ends with a name of [`PACKAGE_DIRS`].
pub fn package_dir(path: &Path) -> Option<&Path> {
    // One pass over the components: paths can have thousands of them.
    let mut parts = path.components();
    parts.by_ref().find(|part| PACKAGE_DIRS.iter().any(|known| part.as_os_str() == *known))?;
    let below = parts.as_path().components().count();
    path.ancestors().nth(below)
}

/// The first component of `path` whose name suggests secrets, such as `.env`, `.git` or Althing's state. `launch_run`
/// can add such a path only with a person's approval.
pub fn private_name(path: &Path) -> Option<String> {
    let is_private = |name: &str| {
        let name = name.to_ascii_lowercase();
        [GIT_DIR, ".althing", ".massgen"].contains(&name.as_str()) || name.starts_with(".env")
    };
    path.iter().map(|name| name.to_string_lossy().into_owned()).find(|name| is_private(name))
}

/// The name of a git repository's directory (in a worktree: of a file). Agents must not write to it.
pub const GIT_DIR: &str = ".git";

/// The mode of the empty directories that stand for missing protected paths while sandboxes mount over them. Ordinary
/// directories do not have it (sticky, but not writable), so lists of changes can leave them out.
pub const PLACEHOLDER_MODE: u32 = 0o1555;
/// The same for empty files.
pub const PLACEHOLDER_FILE_MODE: u32 = 0o1444;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_package_directory_is_found() {
        let found = |path: &'static str| package_dir(Path::new(path)).and_then(Path::to_str);
        assert_eq!(found("web/node_modules/a/node_modules/b.js"), Some("web/node_modules"));
        assert_eq!(found(".venv"), Some(".venv"));
        assert_eq!(found("a/.venv/lib/python3/x.py"), Some("a/.venv"));
        assert_eq!([found(""), found("src/main.rs"), found("my_node_modules/x")], [None; 3]);
    }

    #[test]
    fn no_root_is_writable_while_the_agent_plans_or_its_access_is_read_only() {
        let grant = Grant::project("/p".into());
        let open = |grant: Grant, access| grant.with_access(access).roots.iter().any(|root| root.writable);
        assert!(open(grant.clone(), ContextAccess::Writable));
        assert!(!open(grant.clone(), ContextAccess::ReadOnly));
        assert!(!open(Grant { planning: true, ..grant }, ContextAccess::Writable));
    }

    #[test]
    fn commands_have_no_network_while_the_agent_plans() {
        let grant = Grant { network: NetworkGrant::Open, ..Grant::default() };
        assert_eq!(grant.command_network(), NetworkGrant::Open);
        assert_eq!(Grant { planning: true, ..grant }.command_network(), NetworkGrant::Closed);
    }

    #[test]
    fn a_project_keeps_its_protected_parts_and_is_closed_inside_one() {
        let paths = ["/p/locked", "/p/sub", "/other"].map(PathBuf::from);
        let at =
            |project: &str| Grant::project(project.into()).with_protected(&paths, Path::new(project)).roots;
        assert_eq!(at("/p")[0].protected, ["/p/locked", "/p/sub"].map(PathBuf::from));
        assert!(at("/p")[0].writable && at("/pp")[0].writable);
        assert!(!at("/p/sub/below")[0].writable);
    }
}
