//! What one agent may read, write and reach: the one statement from which every confinement is derived.
//!
//! Plain data. The app builds the grant of an agent; file tools (`workspace`), commands, containers, CLI agents and MCP
//! servers (`runner`) each turn it into their own means.

use crate::{AGENT_KINDS, AgentKind, ContextAccess, ContextPath};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Everything that one agent may touch. The default grants nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The agent's own directory: readable and writable, and nobody else's. Nothing in it is protected.
    pub workspace: Option<PathBuf>,
    /// Where relative paths start, if that is not the workspace; one of the roots.
    pub start: Option<PathBuf>,
    /// Everything else that the agent may read or write.
    pub roots: Vec<GrantRoot>,
    /// Whether the agent only plans: it reads, and writes nothing, its workspace included.
    pub planning: bool,
    /// Which network the agent's commands have. A CLI agent always reaches its model.
    pub network: NetworkGrant,
    /// Althing's own state: closed, except for the workspace and the roots inside it.
    pub state_dir: Option<PathBuf>,
    /// Where long outputs are kept: readable.
    pub output_dir: Option<PathBuf>,
}

/// One file or directory of a grant, with everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRoot {
    /// Where it is.
    pub path: PathBuf,
    /// Why the agent has it.
    pub kind: RootKind,
    /// Whether it may be written to.
    pub writable: bool,
    /// Parts that are never written to, absolute or relative to `path`.
    pub protected: Vec<PathBuf>,
}

/// Why an agent has a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootKind {
    /// It shows something that is not the agent's: others' work, skills, kept outputs. Never writable.
    View,
    /// It is the user's: a context path, or the project. What runs code later is protected inside.
    Context,
}

/// Which network an agent's commands have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkGrant {
    /// None.
    #[default]
    Closed,
    /// The machine's own.
    Open,
    /// The one that the config gives the agent's container.
    Container,
}

impl Grant {
    /// The user's directory for a CLI agent that works there alone: writable, its protected parts excepted.
    pub fn project(path: PathBuf) -> Self {
        let root = GrantRoot { path, kind: RootKind::Context, writable: true, protected: Vec::new() };
        Self { roots: vec![root], ..Self::default() }
    }

    /// The grant during one call: context paths are writable only if the call's access says so, and nothing is writable
    /// while the agent plans.
    #[must_use]
    pub fn with_access(mut self, access: ContextAccess) -> Self {
        let closed = self.planning || access == ContextAccess::ReadOnly;
        for root in self.roots.iter_mut().filter(|_| closed) {
            root.writable = false;
        }
        self
    }

    /// The roots of one kind.
    pub fn roots(&self, kind: RootKind) -> impl Iterator<Item = &GrantRoot> {
        self.roots.iter().filter(move |root| root.kind == kind)
    }

    /// The context paths, as a config writes them.
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
    /// A directory that may only be read.
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

/// Names that file tools never write in a context path, whatever is configured: MassGen's list, and Althing's state.
/// Compared without regard to case, as some file systems do.
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

/// The directory or file of a git repository. It is protected wherever it is in a context path, also as a context path of
/// its own.
pub const GIT_DIR: &str = ".git";

/// A kind of file that runs code later, when a person or a program uses the directory it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunsCode {
    /// Consecutive names in a path, compared without regard to case. Everything below a matching directory counts.
    pub names: &'static [&'static str],
    /// Whether agents may not write it in a context path unless that path names it. Otherwise it is ordinary work, and
    /// only pointed out.
    pub protected: bool,
    /// When its code runs; completes "runs code when …".
    pub when: &'static str,
}

const fn protected(names: &'static [&'static str], when: &'static str) -> RunsCode {
    RunsCode { names, protected: true, when }
}

const fn pointed_out(names: &'static [&'static str], when: &'static str) -> RunsCode {
    RunsCode { names, protected: false, when }
}

/// The files that run code later: settings of CLI agents, by the table of agent kinds, and those of other programs. The first
/// match counts.
pub static RUNS_CODE: LazyLock<Vec<RunsCode>> = LazyLock::new(|| rows(AGENT_KINDS));

fn rows(kinds: &'static [AgentKind]) -> Vec<RunsCode> {
    let of_kind = |kind: &'static AgentKind| {
        // The table is made once and lives as long as the process.
        let when: &'static str = format!("{} starts here", kind.title).leak();
        kind.project_dirs.iter().map(move |name| protected(std::slice::from_ref(name), when))
    };
    kinds.iter().flat_map(of_kind).chain(OTHERS.iter().copied()).collect()
}

/// The rows that are not settings of one CLI agent.
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
    pointed_out(&[".pre-commit-config.yaml"], "pre-commit runs its hooks"),
    pointed_out(&[".devcontainer"], "a development container starts"),
    pointed_out(&[".github", "workflows"], "GitHub Actions runs"),
    pointed_out(&["pyvenv.cfg"], "Python starts in this virtual environment"),
    pointed_out(&["bin", "activate"], "a shell activates this virtual environment"),
    pointed_out(&["node_modules", ".bin"], "npm runs a script"),
    pointed_out(&["package.json"], "npm installs, or runs a script"),
    pointed_out(&["Makefile"], "make runs"),
    pointed_out(&["build.rs"], "cargo builds"),
    pointed_out(&[".cargo", "config.toml"], "cargo runs"),
    pointed_out(&["conftest.py"], "pytest runs"),
    pointed_out(&["setup.py"], "pip installs"),
];

/// What of [`RUNS_CODE`] a path is or lies in, if anything. Give it a path below a context path: names above do not count.
pub fn runs_code(path: &Path) -> Option<&'static RunsCode> {
    let names: Vec<&std::ffi::OsStr> = path.iter().collect();
    let is = |row: &&RunsCode| {
        names
            .windows(row.names.len())
            .any(|part| part.iter().zip(row.names).all(|(name, known)| name.eq_ignore_ascii_case(known)))
    };
    RUNS_CODE.iter().find(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_runs_code_later_is_known_by_the_names_in_its_path() {
        let class = |path: &str| runs_code(Path::new(path)).map(|row| row.protected);
        for path in [
            ".envrc",
            "a/.ENVRC",
            "sub/.git/hooks/pre-commit",
            ".vscode/tasks.json",
            "x/.claude/settings.json",
        ] {
            assert_eq!(class(path), Some(true), "{path}");
        }
        for path in ["package.json", "a/Makefile", "venv/bin/activate", "web/node_modules/.bin/tsc"] {
            assert_eq!(class(path), Some(false), "{path}");
        }
        for path in ["", "src/main.rs", ".vscode/extensions.json", "tasks.json", ".gitignore", "my.envrc.md"]
        {
            assert_eq!(class(path), None, "{path}");
        }
    }

    #[test]
    fn what_the_program_of_a_cli_agent_reads_settings_from_is_protected_by_its_row() {
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
    fn nothing_of_a_grant_is_writable_while_the_agent_plans_or_its_context_paths_are_closed() {
        let grant = Grant::project("/p".into());
        let open = |grant: Grant, access| grant.with_access(access).roots.iter().any(|root| root.writable);
        assert!(open(grant.clone(), ContextAccess::Writable));
        assert!(!open(grant.clone(), ContextAccess::ReadOnly));
        assert!(!open(Grant { planning: true, ..grant }, ContextAccess::Writable));
    }
}
