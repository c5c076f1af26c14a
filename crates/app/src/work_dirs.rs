//! The directories in which the user and the tasks of a session work, and the settings directories of CLI agents.
//!
//! For a repository in one working directory, git may run code that is in another working directory. So an agent that
//! can write to one of these directories must not change what git runs for the others.

use crate::environment::Environment;
use crate::project::Project;
use althing_protocol::{Op, StageBody, WorkflowSpec};
use althing_runner::own_places;
use std::path::{Path, PathBuf};

/// The directories in which a session works; `op` started the session in `cwd`.
pub(crate) fn work_dirs(op: Option<&Op>, cwd: &Path, project: Option<&Project>) -> Vec<PathBuf> {
    let mut dirs = vec![cwd.to_owned()];
    dirs.extend(project.map(|project| project.workspace.dir().to_owned()));
    if let Some(Op::StartWorkflow { spec }) = op {
        dirs.extend(task_dirs(spec));
    }
    dirs.sort();
    dirs.dedup();
    dirs
}

/// The existing directories in which CLI agents store their settings, and the targets of those that are links. No agent
/// may write there, unless the user names such a directory.
pub(crate) fn agent_dirs(environment: &Environment) -> Vec<PathBuf> {
    let Some(home) = environment.variable("HOME").map(PathBuf::from) else { return Vec::new() };
    let lookup = |name: &str| environment.variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let dirs = althing_runner::adapter::agent_dirs(&home, &lookup);
    dirs.iter().filter(|dir| dir.is_dir()).flat_map(|dir| own_places(dir)).collect()
}

/// The working directories of a workflow's programs and the context paths of its runs.
fn task_dirs(spec: &WorkflowSpec) -> impl Iterator<Item = PathBuf> {
    let tasks = spec.stages.iter().flat_map(|stage| &stage.tasks);
    tasks.flat_map(|task| match &task.body {
        StageBody::Program(program) => vec![PathBuf::from(&program.cwd)],
        StageBody::Run(run) => run.context_paths.iter().map(|path| PathBuf::from(&path.path)).collect(),
    })
}
