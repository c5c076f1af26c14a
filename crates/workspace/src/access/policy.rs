//! The file access policy of one agent: its roots, and the exclusions inside them. It enforces a [`Grant`]; which paths
//! an agent may read and write is decided in `agent_env/grant.rs` of `althing_app`. File tools cannot ask a person, so
//! what would need an approval is denied; if a check cannot be completed, access is denied. Access is granted only
//! through an open handle, never by name.

use super::refusal::{ReadOnlyReason, Refusal};
use crate::confine::ConfinedDir;
use althing_disk::{DiskError, refuse_replaced, with_real_base};
use althing_protocol::{
    ContextAccess, ContextPath, EXCLUDED_NAMES, Grant, RootKind, is_git_dir, runs_code_in,
};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

/// A [`Grant`] in the form that the file tools use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePolicy {
    /// The agent's own directory, readable and writable. Relative paths start here unless `start` is set.
    pub workspace: PathBuf,
    /// Where relative paths start, if not at the workspace.
    pub start: Option<PathBuf>,
    /// Directories that the agent may only read.
    pub views: Vec<PathBuf>,
    /// The run's context paths: readable, and writable if the config and the access of the call allow it.
    pub context: Vec<ContextPath>,
    /// Absolute paths that may not be written to, in addition to the `protected` paths of `context`.
    pub protected: Vec<PathBuf>,
    /// Althing's state directory: no access, except to the workspace and the views in it.
    pub state_dir: Option<PathBuf>,
    /// Whether the agent only plans: nothing may be written, not even in the workspace.
    pub planning: bool,
}

impl From<&Grant> for FilePolicy {
    fn from(grant: &Grant) -> Self {
        Self {
            workspace: grant.workspace.clone().unwrap_or_default(),
            start: grant.start.clone(),
            views: grant.roots(RootKind::View).map(|root| root.path.clone()).collect(),
            context: grant.context_paths(),
            // The context paths contain their protected paths, too, but as text, which is not exact for a path that is
            // not UTF-8. So the exact paths are added here.
            protected: grant.roots(RootKind::Context).flat_map(|root| root.protected.clone()).collect(),
            state_dir: grant.state_dir.clone(),
            planning: grant.planning,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootRole {
    Workspace,
    View,
    /// The number is the path's index among the run's context paths.
    Context(usize),
}

#[derive(Debug)]
pub(crate) struct Root {
    pub role: RootRole,
    /// The root's path as shown to the agent.
    pub shown: PathBuf,
    /// The root's path without links.
    pub real: PathBuf,
    pub dir: ConfinedDir,
    /// Set if the root is a context path that is a single file. `dir` is then the parent directory of that file, in
    /// which nothing else is accessible.
    pub single_file: Option<OsString>,
}

#[derive(Debug)]
pub(crate) struct RootSet {
    pub roots: Vec<Root>,
    pub start: PathBuf,
    pub context: Vec<ContextPath>,
    protected: Vec<PathBuf>,
    state: Vec<PathBuf>,
    /// Context paths that could not be opened, usually because they do not exist.
    pub missing: Vec<String>,
    planning: bool,
}

pub(crate) fn normalize_lexically(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            part @ (Component::Normal(_) | Component::RootDir | Component::Prefix(_)) => out.push(part),
        }
    }
    out
}

fn both_forms(path: &Path) -> Vec<PathBuf> {
    let mut names = vec![normalize_lexically(path)];
    if let Ok(real) = std::fs::canonicalize(path)
        && !names.contains(&real)
    {
        names.push(real);
    }
    names
}

impl RootSet {
    /// Follows no links: the paths were resolved when they were granted. Only the path of the state directory may
    /// contain links. A context path that cannot be opened is listed in `missing`; a workspace or view that cannot be
    /// opened, and a link in the place of any root, is an error.
    pub(crate) fn open(policy: &FilePolicy) -> Result<Self, DiskError> {
        let state_dir = policy.state_dir.as_deref();
        let mut roots = vec![open_dir_root(RootRole::Workspace, &policy.workspace, state_dir)?];
        for view in &policy.views {
            roots.push(open_dir_root(RootRole::View, view, state_dir)?);
        }
        let absolute = policy.protected.iter().filter(|path| path.is_absolute());
        let mut protected: Vec<PathBuf> = absolute.flat_map(|path| both_forms(path)).collect();
        let mut missing = Vec::new();
        for (n, context) in policy.context.iter().enumerate() {
            let path = Path::new(&context.path);
            let real = with_real_base(path, state_dir);
            refuse_replaced(&real)?;
            match open_context_root(n, path, real) {
                Ok(root) => roots.push(root),
                Err(_) => missing.push(context.path.clone()),
            }
            // A protected path is absolute or relative. A relative one starts at the context path or, if the context
            // path is a file, at the directory of that file.
            let base = if path.is_file() { path.parent().unwrap_or(path) } else { path };
            for part in &context.protected {
                protected.extend(both_forms(&base.join(part)));
            }
        }
        let state = policy.state_dir.as_deref().map(both_forms).unwrap_or_default();
        let start = normalize_lexically(policy.start.as_deref().unwrap_or(&policy.workspace));
        Ok(Self {
            roots,
            start,
            context: policy.context.clone(),
            protected,
            state,
            missing,
            planning: policy.planning,
        })
    }

    pub(crate) fn allowed(&self) -> String {
        let name = |root: &Root| match root.role {
            RootRole::Workspace => format!("{} (your workspace)", root.shown.display()),
            RootRole::View => format!("{} (read)", root.shown.display()),
            RootRole::Context(_) => format!("{} (context path)", root.shown.display()),
        };
        self.roots.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// A single file takes precedence over directories, a deeper directory over a higher one.
    pub(crate) fn deciding_root(&self, real: &Path) -> Option<&Root> {
        let holds = |root: &&Root| {
            if root.single_file.is_some() { root.real == real } else { real.starts_with(&root.real) }
        };
        let rank = |root: &&Root| (root.single_file.is_some(), root.real.components().count());
        self.roots.iter().filter(holds).max_by_key(rank)
    }

    /// Althing's state is inaccessible, except for the agent's own workspace and views in it.
    pub(crate) fn is_state(&self, real: &Path) -> bool {
        let own = self.deciding_root(real).is_some_and(|root| !matches!(root.role, RootRole::Context(_)));
        !own && self.state.iter().any(|state| real.starts_with(state))
    }

    pub(crate) fn may_write(
        &self,
        root: &Root,
        real: &Path,
        shown: &str,
        access: ContextAccess,
    ) -> Result<(), Refusal> {
        let read_only = |why| Err(Refusal::ReadOnly { path: shown.to_owned(), why });
        if self.planning {
            return read_only(ReadOnlyReason::Planning);
        }
        let context = match root.role {
            RootRole::Workspace => return Ok(()),
            RootRole::View => return read_only(ReadOnlyReason::View),
            RootRole::Context(n) => self.context.get(n),
        };
        let below = real.strip_prefix(&root.real).unwrap_or(real);
        let names = root.real.file_name().into_iter().chain(below.components().map(Component::as_os_str));
        if let Some(name) = names.into_iter().find_map(excluded) {
            return read_only(ReadOnlyReason::Excluded(name.to_owned()));
        }
        if let Some(row) = runs_code_in(&root.real, below).filter(|row| row.protected) {
            return read_only(ReadOnlyReason::RunsCode(row.when));
        }
        if is_in_git_dir(root, below) {
            return read_only(ReadOnlyReason::Repository);
        }
        if self.protected.iter().any(|protected| real.starts_with(protected)) {
            return read_only(ReadOnlyReason::Protected);
        }
        match (context, access) {
            (Some(context), ContextAccess::Writable) if context.writable => Ok(()),
            (Some(context), ContextAccess::ReadOnly) if context.writable => read_only(ReadOnlyReason::NotNow),
            (Some(_) | None, _) => read_only(ReadOnlyReason::Context),
        }
    }
}

pub(crate) fn excluded(name: &OsStr) -> Option<&'static str> {
    EXCLUDED_NAMES.iter().copied().find(|excluded| name.eq_ignore_ascii_case(excluded))
}

/// Whether the path is in a git directory that is not called `.git`, such as that of a bare repository, or a write to
/// it would complete one.
fn is_in_git_dir(root: &Root, below: &Path) -> bool {
    if root.single_file.is_some() {
        return false;
    }
    let Ok(mut dir) = root.dir.try_clone() else { return false };
    for part in below {
        let has = |name: &str| dir.stat(OsStr::new(name)).is_ok_and(|found| found.is_some());
        if makes_git_dir(has, |name| part == name) {
            return true;
        }
        let Ok(next) = dir.open_dir(part) else { return false };
        dir = next;
    }
    false
}

/// Whether a directory that `has` these entries is a git directory, or becomes one together with the `added` entries.
/// Also true if git configuration or `hooks` are added to a directory with at least two of `HEAD`, `objects` and
/// `refs`.
pub(crate) fn makes_git_dir(has: impl Fn(&str) -> bool, added: impl Fn(&str) -> bool) -> bool {
    let will_have = |name: &str| has(name) || added(name);
    let parts = ["HEAD", "objects", "refs"].into_iter().filter(|name| will_have(name)).count();
    let is_code = ["config", "config.worktree", "hooks"].into_iter().any(&added);
    is_git_dir(will_have) || (is_code && parts >= 2)
}

fn open_dir_root(role: RootRole, path: &Path, state_dir: Option<&Path>) -> Result<Root, DiskError> {
    let real = with_real_base(path, state_dir);
    refuse_replaced(&real)?;
    let dir = ConfinedDir::open_real(&real).map_err(DiskError::io("open the directory", path))?;
    Ok(Root { role, shown: normalize_lexically(path), real, dir, single_file: None })
}

fn open_context_root(n: usize, path: &Path, real: PathBuf) -> Result<Root, DiskError> {
    let (role, shown) = (RootRole::Context(n), normalize_lexically(path));
    let kind = std::fs::symlink_metadata(&real).map_err(DiskError::io("access", path))?;
    if kind.is_dir() {
        let dir = ConfinedDir::open_real(&real).map_err(DiskError::io("open the directory", path))?;
        return Ok(Root { role, shown, real, dir, single_file: None });
    }
    let (above, name) = (real.parent().unwrap_or(&real), real.file_name().unwrap_or_default().to_owned());
    let dir = ConfinedDir::open_real(above).map_err(DiskError::io("open the directory", above))?;
    Ok(Root { role, shown, real, dir, single_file: Some(name) })
}
