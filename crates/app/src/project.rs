//! The project workspace of a session: found by directory or name, and locked by one session at a time.

use crate::base_dirs::BaseDirs;
use crate::context::AppContext;
use crate::environment::{Environment, SystemClock};
use crate::failure::Failure;
use althing_disk::refuse_replaced;
use althing_journal::MASK;
use althing_protocol::{Clock, ContextPath};
use althing_workspace::{ProjectError, ProjectLock, ProjectRegistry, ProjectWorkspace};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A project that this process has locked.
pub struct Project {
    /// The project's directory and files.
    pub workspace: ProjectWorkspace,
    /// Held while the session works in the project. The mutex only makes the lock `Sync`.
    _lock: Mutex<ProjectLock>,
}

impl From<ProjectError> for Failure {
    fn from(error: ProjectError) -> Self {
        Self::usage(error.to_string()).maybe_hint(error.hint())
    }
}

/// Opens and locks the project that the settings name, and creates it if it does not exist; None if they name none.
pub fn from_settings(app: &AppContext) -> Result<Option<Arc<Project>>, Failure> {
    let Some(which) = &app.settings.project else { return Ok(None) };
    let dir = find(which, &app.environment)?;
    let state = app.state_dir();
    let closed = |dir: &Path| dir.starts_with(state.canonicalize().as_deref().unwrap_or(&state));
    if closed(&dir) || dir.canonicalize().is_ok_and(|dir| closed(&dir)) {
        return Err(Failure::usage(format!("{} is inside Althing's state directory", dir.display()))
            .hint("choose another directory for the project"));
    }
    if !dir.exists() {
        app.notify(&format!("creating a new project in {}", dir.display()));
    }
    open(&dir, app).map(Some)
}

/// Opens the project of a session that is resumed; `None` if it has no project. Fails if the directory was replaced
/// by a link.
pub fn reopen(dir: Option<&str>, app: &AppContext) -> Result<Option<Arc<Project>>, Failure> {
    let reopen = |dir: &str| {
        if dir.contains(MASK) {
            let message =
                format!("the session's project cannot be opened: a secret in its path is masked ({dir})");
            return Err(
                Failure::usage(message).hint("name the project with --project, or start a new session")
            );
        }
        refuse_replaced(Path::new(dir)).map_err(|replaced| Failure::usage(replaced.to_string()))?;
        open(Path::new(dir), app)
    };
    dir.map(reopen).transpose()
}

/// The projects that this user has worked in; None if the user has no state directory.
pub fn registry(environment: &Environment) -> Option<ProjectRegistry> {
    environment.user_state_dir().map(|dir| ProjectRegistry::of(&dir))
}

/// The directory of a project. A plain name means a known project in the working directory, else a known project of
/// this name (an unknown directory here may be somebody else's), else the directory itself, which may not exist yet.
/// Fails if that directory leads out of the working directory through a link.
pub fn find(which: &Path, environment: &Environment) -> Result<PathBuf, Failure> {
    let is_name = matches!(which.components().collect::<Vec<_>>().as_slice(), [Component::Normal(_)])
        && !which.as_os_str().as_bytes().contains(&b'/');
    let dir = BaseDirs::of(environment).real_path(&format!("the project {}", which.display()), which);
    let Some(registry) = registry(environment).filter(|_| is_name) else { return dir };
    let known_here = dir.as_ref().ok().and_then(|dir| dir.to_str());
    if let Some(here) = known_here
        && registry.find(here)?.is_some()
    {
        return dir;
    }
    match registry.find(&which.to_string_lossy())? {
        Some(known) if known.exists() => Ok(known.path),
        _ => dir,
    }
}

fn open(dir: &Path, app: &AppContext) -> Result<Arc<Project>, Failure> {
    let workspace = ProjectWorkspace::open(dir)?;
    let lock = workspace.lock()?;
    let noted = registry(&app.environment).map(|registry| registry.note(&workspace, SystemClock.now()));
    if let Some(Err(error)) = noted {
        app.notify(&format!("the project could not be added to the list of `althing projects`: {error}"));
    }
    Ok(Arc::new(Project { workspace, _lock: Mutex::new(lock) }))
}

impl Project {
    /// The project's directory.
    pub fn dir(&self) -> String {
        self.workspace.dir().display().to_string()
    }

    /// The read-only context paths of every run in the project: `CONTEXT.md`, unless it is a symbolic link, and the
    /// deliverables.
    pub fn context_paths(&self) -> Vec<ContextPath> {
        let context = self.workspace.dir().join("CONTEXT.md");
        let path = |path: PathBuf| ContextPath {
            path: path.display().to_string(),
            writable: false,
            protected: Vec::new(),
        };
        let context = Some(context).filter(|context| !context.is_symlink());
        context.into_iter().chain([self.workspace.deliverables_dir()]).map(path).collect()
    }
}

/// Adds the project's context paths to `paths`.
pub fn with_project(mut paths: Vec<ContextPath>, project: Option<&Project>) -> Vec<ContextPath> {
    for path in project.into_iter().flat_map(Project::context_paths) {
        if !paths.iter().any(|known| known.path == path.path) {
            paths.push(path);
        }
    }
    paths
}
