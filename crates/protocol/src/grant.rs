//! What one agent may read, write and reach: the single policy from which every sandbox is derived.
//!
//! Plain data. The app builds an agent's grant; the file tools (`workspace`) and the sandboxes of commands,
//! containers, CLI agents and MCP servers (`runner`) enforce it.

use crate::{AGENT_KINDS, AgentKind, ContextAccess, ContextPath};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Everything that one agent may access. The default grants nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The agent's private directory, readable and writable. Nothing in it is protected.
    pub workspace: Option<PathBuf>,
    /// The directory that relative paths are resolved against, if it is not the workspace. This directory is one of
    /// the roots.
    pub start: Option<PathBuf>,
    /// The other files and directories that the agent may read or write.
    pub roots: Vec<GrantRoot>,
    /// Whether the agent only plans. A planning agent writes nothing, not even in its workspace.
    pub planning: bool,
    /// The network access that the config gives the agent's commands; see [`Self::command_network`]. A CLI agent
    /// always has the host's network, because it must reach its model. MCP servers have the host's network too, but
    /// are not called while their agent plans.
    pub network: NetworkGrant,
    /// Althing's state directory: inaccessible, except for `workspace`, `output_dir` and the roots of kind `View`
    /// inside it.
    pub state_dir: Option<PathBuf>,
    /// The directory where long tool outputs are stored; readable.
    pub output_dir: Option<PathBuf>,
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
    /// A read-only directory: other members' snapshots, skills, stored outputs, for a subagent the workspace of the
    /// agent that started it, and for the chat agent the files of the conversation's runs.
    View,
    /// The user's files: a context path or the project. Some files in it that run code later are protected; see
    /// [`RunsCode`].
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
    /// The grant of a CLI agent that works alone. The agent may write to `path`, a directory of the user, except for
    /// its protected parts.
    pub fn project(path: PathBuf) -> Self {
        let root = GrantRoot { path, kind: RootKind::Context, writable: true, protected: Vec::new() };
        Self { roots: vec![root], ..Self::default() }
    }

    /// Protects more paths. `project` is the canonical path of the directory of [`Grant::project`]; the paths in
    /// `protected` are canonical, too. If `project` is inside a protected path, `project` is not writable at all.
    #[must_use]
    pub fn with_protected(mut self, protected: &[PathBuf], project: &Path) -> Self {
        for root in self.roots.iter_mut().filter(|root| root.kind == RootKind::Context) {
            root.writable &= !protected.iter().any(|path| project.starts_with(path));
            root.protected.extend(protected.iter().filter(|path| path.starts_with(project)).cloned());
        }
        self
    }

    /// Narrows the grant to one call: with `ReadOnly` access, or if `planning` is set, no root is writable.
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

/// Names of files and directories in a context path that the file tools never write to, regardless of configuration:
/// MassGen's list and Althing's state directory. A context path that has such a name itself is not written to either.
/// The names are compared case-insensitively, because some file systems ignore case.
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

/// The first component of `path` whose name suggests secrets: `.env`, a name such as `.env.local`, a git directory,
/// Althing's state. Agents get no read access to a path with such a component unless a person names the path.
pub fn private_name(path: &Path) -> Option<String> {
    let is_private = |name: &str| {
        let name = name.to_ascii_lowercase();
        [GIT_DIR, ".althing", ".massgen"].contains(&name.as_str()) || name.starts_with(".env")
    };
    path.iter().map(|name| name.to_string_lossy().into_owned()).find(|name| is_private(name))
}

/// The name of a git repository's directory (in a worktree: of a file). Agents must not write to it anywhere in a
/// context path, nor to a context path that has this name itself.
pub const GIT_DIR: &str = ".git";

/// A kind of file whose code runs later, when a person or a program uses the directory that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunsCode {
    /// Consecutive path components, compared case-insensitively. Everything below a matching directory matches too.
    pub names: &'static [&'static str],
    /// Whether agents must not write to such a file in a context path. The names must be below the context path: names
    /// in the context path itself do not count. Writing unprotected files is ordinary work, and is only reported to
    /// the user.
    pub protected: bool,
    /// When the code in such a file runs; completes the sentence "runs code when …".
    pub when: &'static str,
}

const fn protected(names: &'static [&'static str], when: &'static str) -> RunsCode {
    RunsCode { names, protected: true, when }
}

const fn reported(names: &'static [&'static str], when: &'static str) -> RunsCode {
    RunsCode { names, protected: false, when }
}

/// The table of files that run code later: settings of the CLI agents in [`AGENT_KINDS`], and files of other programs.
/// The first matching row applies.
pub static RUNS_CODE: LazyLock<Vec<RunsCode>> = LazyLock::new(|| rows(AGENT_KINDS));

fn rows(kinds: &'static [AgentKind]) -> Vec<RunsCode> {
    let of_kind = |kind: &'static AgentKind| {
        // The text is leaked once, because the table lives as long as the process.
        let when: &'static str = format!("{} starts here", kind.title).leak();
        kind.project_dirs.iter().map(move |name| protected(std::slice::from_ref(name), when))
    };
    kinds.iter().flat_map(of_kind).chain(OTHERS.iter().copied()).collect()
}

/// The rows of [`RUNS_CODE`] for files of programs other than the CLI agents.
const OTHERS: &[RunsCode] = &[
    protected(&[GIT_DIR], "git works in this repository"),
    protected(&[".githooks"], "git runs its hooks"),
    protected(&[".husky"], "git runs its hooks"),
    protected(&[".envrc"], "a shell enters the directory (direnv)"),
    protected(&[".mcp.json"], "an agent starts its MCP servers"),
    protected(&[".cursor"], "Cursor opens the directory"),
    protected(&[".vscode", "tasks.json"], "VS Code opens the directory"),
    protected(&[".vscode", "settings.json"], "VS Code opens the directory"),
    protected(&[".vscode", "launch.json"], "VS Code starts a program"),
    protected(&[".idea", "runConfigurations"], "a JetBrains IDE starts a program"),
    protected(&[".idea", "workspace.xml"], "a JetBrains IDE starts a program"),
    reported(&[".pre-commit-config.yaml"], "pre-commit runs its hooks"),
    reported(&[".devcontainer"], "a development container starts"),
    reported(&[".github", "workflows"], "GitHub Actions runs"),
    reported(&["pyvenv.cfg"], "Python starts in this virtual environment"),
    reported(&["bin", "activate"], "a shell activates this virtual environment"),
    reported(&["node_modules", ".bin"], "npm runs a script"),
    reported(&["package.json"], "npm installs, or runs a script"),
    reported(&["Makefile"], "make runs"),
    reported(&["build.rs"], "cargo builds"),
    reported(&[".cargo", "config.toml"], "cargo runs"),
    reported(&["conftest.py"], "pytest runs"),
    reported(&["setup.py"], "pip installs"),
];

/// The first row of [`RUNS_CODE`] that matches a path, if any. The path must be relative to its context path, so that
/// the context path's own components do not match.
pub fn runs_code(path: &Path) -> Option<&'static RunsCode> {
    let names: Vec<&std::ffi::OsStr> = path.iter().collect();
    let matches = |row: &&RunsCode| {
        names
            .windows(row.names.len())
            .any(|part| part.iter().zip(row.names).all(|(name, known)| name.eq_ignore_ascii_case(known)))
    };
    RUNS_CODE.iter().find(matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path for every protected row of [`RUNS_CODE`].
    const PROTECTED: &[&str] = &[
        "x/.claude/settings.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".opencode/plugin/x.js",
        "opencode.json",
        "opencode.jsonc",
        "sub/.git/hooks/pre-commit",
        ".githooks/pre-commit",
        ".husky/pre-commit",
        "a/.ENVRC",
        ".mcp.json",
        ".cursor/mcp.json",
        ".vscode/tasks.json",
        ".vscode/settings.json",
        ".vscode/launch.json",
        ".idea/runConfigurations/app.xml",
        ".idea/workspace.xml",
    ];

    /// A path for every row of [`RUNS_CODE`] that is not protected but only reported to the user.
    const POINTED_OUT: &[&str] = &[
        ".pre-commit-config.yaml",
        ".devcontainer/devcontainer.json",
        ".github/workflows/ci.yml",
        "venv/pyvenv.cfg",
        "venv/bin/activate",
        "web/node_modules/.bin/tsc",
        "package.json",
        "a/Makefile",
        "build.rs",
        ".cargo/config.toml",
        "tests/conftest.py",
        "setup.py",
    ];

    #[test]
    fn a_file_that_runs_code_later_is_known_by_the_names_in_its_path() {
        let class = |path: &str| runs_code(Path::new(path)).map(|row| row.protected);
        for path in PROTECTED {
            assert_eq!(class(path), Some(true), "{path}");
        }
        for path in POINTED_OUT {
            assert_eq!(class(path), Some(false), "{path}");
        }
        for row in RUNS_CODE.iter() {
            let named =
                PROTECTED.iter().chain(POINTED_OUT).any(|path| runs_code(Path::new(path)) == Some(row));
            assert!(named, "this test has no file for {:?}", row.names);
        }
        for path in ["", "src/main.rs", ".vscode/extensions.json", "tasks.json", ".gitignore", "my.envrc.md"]
        {
            assert_eq!(class(path), None, "{path}");
        }
    }

    #[test]
    fn the_project_dirs_of_every_agent_kind_are_protected() {
        static NEW: [AgentKind; 1] =
            [AgentKind { title: "Parrot", project_dirs: &[".parrot", "parrot.toml"], ..AGENT_KINDS[0] }];
        let made = rows(&NEW);
        for name in NEW[0].project_dirs {
            let row = made.iter().find(|row| row.names == [*name]).unwrap();
            assert_eq!((row.protected, row.when), (true, "Parrot starts here"));
        }
        for kind in AGENT_KINDS {
            for name in kind.project_dirs {
                let row = runs_code(&Path::new("sub").join(name).join("package.json")).unwrap();
                assert!(row.protected && row.when.contains(kind.title), "{name}: {row:?}");
            }
        }
        for name in [".claude", ".codex", ".gemini", ".opencode", "opencode.json", "opencode.jsonc"] {
            assert!(runs_code(Path::new(name)).is_some_and(|row| row.protected), "{name}");
        }
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
