//! The project workspace of a session: found by directory or name, locked by one session at a time, and its context
//! paths.

use crate::context::AppContext;
use crate::environment::{Environment, SystemClock};
use crate::failure::Failure;
use althing_protocol::{Clock, ContextPath};
use althing_workspace::{ProjectError, ProjectLock, ProjectRegistry, ProjectWorkspace};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A project that this process has locked.
pub struct Project {
    /// The project's directory.
    pub workspace: ProjectWorkspace,
    /// The project's lock, held while the session works in the project. The mutex only makes the lock `Sync`.
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

/// Opens and locks the project in `dir`, for a session that is resumed; None if the session has no project.
pub fn reopen(dir: Option<&str>, app: &AppContext) -> Result<Option<Arc<Project>>, Failure> {
    dir.map(|dir| open(Path::new(dir), app)).transpose()
}

/// The list of projects that this user has worked in; None if the user has no state directory.
pub fn registry(environment: &Environment) -> Option<ProjectRegistry> {
    environment.user_state_dir().map(|dir| ProjectRegistry::of(&dir))
}

/// The directory of a project given by name or directory: an existing directory, else a known project of this name,
/// else a directory that does not exist yet.
pub fn find(which: &Path, environment: &Environment) -> Result<PathBuf, Failure> {
    let dir = environment.cwd.join(which);
    let is_name = which.components().count() == 1 && which.is_relative();
    if dir.exists() || !is_name {
        return Ok(dir);
    }
    let name = which.to_string_lossy();
    let known = match registry(environment) {
        Some(registry) => registry.find(&name)?.filter(althing_workspace::RegisteredProject::exists),
        None => None,
    };
    Ok(known.map_or(dir, |entry| entry.path))
}

fn open(dir: &Path, app: &AppContext) -> Result<Arc<Project>, Failure> {
    let workspace = ProjectWorkspace::open(dir)?;
    let lock = workspace.lock()?;
    // Failing to list the project must not stop the session.
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

    /// The context paths of every run in the project, all read-only: its context file and its deliverables.
    pub fn context_paths(&self) -> Vec<ContextPath> {
        let context = self.workspace.dir().join("CONTEXT.md");
        let path = |path: PathBuf| ContextPath {
            path: path.display().to_string(),
            writable: false,
            protected: Vec::new(),
        };
        vec![path(context), path(self.workspace.deliverables_dir())]
    }
}

/// Adds the project's context paths to those of a run.
pub fn with_project(mut paths: Vec<ContextPath>, project: Option<&Project>) -> Vec<ContextPath> {
    for path in project.into_iter().flat_map(Project::context_paths) {
        if !paths.iter().any(|known| known.path == path.path) {
            paths.push(path);
        }
    }
    paths
}
