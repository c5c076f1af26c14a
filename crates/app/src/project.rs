//! The project workspace of a session: found by directory or by name, kept by one session at a time, and what its runs
//! know of it.

use crate::context::AppContext;
use crate::environment::{Environment, SystemClock};
use crate::failure::Failure;
use althing_protocol::{Clock, ContextPath};
use althing_workspace::{ProjectError, ProjectLock, ProjectRegistry, ProjectWorkspace};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A project that this process keeps.
pub struct Project {
    /// The project's directory.
    pub workspace: ProjectWorkspace,
    /// Held as long as anyone works in it; behind a mutex only so that it can be shared.
    _lock: Mutex<ProjectLock>,
}

impl From<ProjectError> for Failure {
    fn from(error: ProjectError) -> Self {
        Self::usage(error.to_string()).maybe_hint(error.hint())
    }
}

/// The project that the options name; made where it is not there yet.
pub fn named(app: &AppContext) -> Result<Option<Arc<Project>>, Failure> {
    let Some(which) = &app.settings.project else { return Ok(None) };
    let dir = find(which, &app.environment)?;
    let state = app.state_dir();
    let closed = |dir: &Path| dir.starts_with(state.canonicalize().as_deref().unwrap_or(&state));
    if closed(&dir) || dir.canonicalize().is_ok_and(|dir| closed(&dir)) {
        return Err(Failure::usage(format!("{} is in Althing's own state, which is closed", dir.display()))
            .hint("keep the project somewhere else"));
    }
    if !dir.exists() {
        app.notify(&format!("a new project is made in {}", dir.display()));
    }
    open(&dir, app).map(Some)
}

/// The project of a session that is gone on with.
pub fn again(dir: Option<&str>, app: &AppContext) -> Result<Option<Arc<Project>>, Failure> {
    dir.map(|dir| open(Path::new(dir), app)).transpose()
}

/// The projects that this user has worked in; None where there is no place for such a list.
pub fn registry(environment: &Environment) -> Option<ProjectRegistry> {
    environment.user_state_dir().map(|dir| ProjectRegistry::of(&dir))
}

/// Where the project of this name or in this directory is.
pub fn find(which: &Path, environment: &Environment) -> Result<PathBuf, Failure> {
    let dir = environment.cwd.join(which);
    let is_name = which.components().count() == 1 && which.is_relative();
    if dir.exists() || !is_name {
        return Ok(dir);
    }
    let name = which.to_string_lossy();
    let known = match registry(environment) {
        Some(registry) => registry.find(&name)?.filter(althing_workspace::ProjectEntry::exists),
        None => None,
    };
    Ok(known.map_or(dir, |entry| entry.path))
}

fn open(dir: &Path, app: &AppContext) -> Result<Arc<Project>, Failure> {
    let workspace = ProjectWorkspace::open(dir)?;
    let lock = workspace.lock()?;
    // A list that cannot be written is no reason not to work.
    let noted = registry(&app.environment).map(|registry| registry.note(&workspace, SystemClock.now()));
    if let Some(Err(error)) = noted {
        app.notify(&format!("the project is not listed by `althing projects`: {error}"));
    }
    Ok(Arc::new(Project { workspace, _lock: Mutex::new(lock) }))
}

impl Project {
    /// Where it is.
    pub fn dir(&self) -> String {
        self.workspace.dir().display().to_string()
    }

    /// What every run of it is about: what is known, and what came of earlier ones.
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

/// A run's paths, with those of its project.
pub fn with_project(mut paths: Vec<ContextPath>, project: Option<&Project>) -> Vec<ContextPath> {
    for path in project.into_iter().flat_map(Project::context_paths) {
        if !paths.iter().any(|known| known.path == path.path) {
            paths.push(path);
        }
    }
    paths
}
