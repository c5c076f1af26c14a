//! The directories in which a session works, those to which its agents may write, and those to which no agent may
//! write. Git may run code for one working directory that is in another one, so an agent must not change what git
//! runs for any of them.

use crate::environment::Environment;
use crate::project::Project;
use althing_disk::real_path;
use althing_protocol::{ContextPath, ExecutionMode, Op, ProgramSpec, StageBody, WorkflowSpec};
use althing_runner::adapter::SearchPath;
use althing_runner::own_places;
use std::path::{Path, PathBuf};

/// The adapter of the user's own commands in workflows.
const COMMAND: &str = "command";

#[derive(Clone, Default)]
pub(crate) struct SessionDirs {
    pub(crate) work: Vec<PathBuf>,
    /// The real paths of the directories where agents may write.
    pub(crate) agents_write: Vec<PathBuf>,
    pub(crate) has_unconfined_agents: bool,
}

impl SessionDirs {
    pub(crate) fn new(
        op: Option<&Op>,
        cwd: &Path,
        project: Option<&Project>,
        environment: &Environment,
    ) -> Self {
        let mut agents_write = agents_write(cwd, project, environment);
        let mut has_unconfined_agents = false;
        let writable = |paths: &[ContextPath]| {
            let paths = paths.iter().filter(|path| path.writable);
            paths.map(|path| PathBuf::from(&path.path)).collect::<Vec<_>>()
        };
        match op {
            Some(Op::StartRun { spec }) => agents_write.extend(writable(&spec.context_paths)),
            Some(Op::StartChat { spec }) => agents_write.extend(writable(&spec.team.context_paths)),
            Some(Op::StartWorkflow { spec }) => {
                for task in spec.stages.iter().flat_map(|stage| &stage.tasks) {
                    match &task.body {
                        StageBody::Run(run) => agents_write.extend(writable(&run.context_paths)),
                        StageBody::Program(program) if may_be_confined(program) => {
                            agents_write.push(PathBuf::from(&program.cwd));
                        }
                        StageBody::Program(program) => {
                            has_unconfined_agents |= program.adapter != COMMAND;
                            agents_write.extend(project_dir(Path::new(&program.cwd), environment));
                        }
                    }
                }
            }
            _ => {}
        }
        let agents_write = agents_write.iter().map(|dir| real_path(dir)).collect();
        Self { work: work_dirs(op, cwd, project), agents_write, has_unconfined_agents }
    }
}

/// The directory to which the chat agent may write. What it writes there in one session must not run in the next one.
pub(crate) fn agents_write(cwd: &Path, project: Option<&Project>, environment: &Environment) -> Vec<PathBuf> {
    let dir = project.map_or(cwd, |project| project.workspace.dir());
    project_dir(dir, environment).into_iter().collect()
}

/// Starting Althing in `/` or in a directory that contains the home directory does not let agents write there.
fn project_dir(dir: &Path, environment: &Environment) -> Option<PathBuf> {
    let home = environment.variable("HOME").map(|home| real_path(Path::new(&home)));
    let dir = real_path(dir);
    (dir.parent().is_some() && !home.is_some_and(|home| home.starts_with(&dir))).then_some(dir)
}

fn may_be_confined(program: &ProgramSpec) -> bool {
    let asks = program.mode == ExecutionMode::Interactive || program.approvals;
    let is_command = program.adapter == COMMAND;
    program.sandbox.unwrap_or(!asks && !is_command)
}

fn work_dirs(op: Option<&Op>, cwd: &Path, project: Option<&Project>) -> Vec<PathBuf> {
    let mut dirs = vec![cwd.to_owned()];
    dirs.extend(project.map(|project| project.workspace.dir().to_owned()));
    if let Some(Op::StartWorkflow { spec }) = op {
        dirs.extend(task_dirs(spec));
    }
    dirs.sort();
    dirs.dedup();
    dirs
}

/// The directories to which no agent may write, unless the user lets it work there: the settings of CLI agents, and
/// the directories of `PATH`, because the user or a task may later call a program there by its name.
pub(crate) fn unwritable_dirs(environment: &Environment) -> Vec<PathBuf> {
    let mut dirs = agent_dirs(environment);
    dirs.extend(SearchPath::places(&environment.path()));
    dirs
}

fn agent_dirs(environment: &Environment) -> Vec<PathBuf> {
    let Some(home) = environment.variable("HOME").map(PathBuf::from) else { return Vec::new() };
    let lookup = |name: &str| environment.variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let dirs = althing_runner::adapter::agent_dirs(&home, &lookup);
    dirs.iter().filter(|dir| dir.is_dir()).flat_map(|dir| own_places(dir)).collect()
}

fn task_dirs(spec: &WorkflowSpec) -> impl Iterator<Item = PathBuf> {
    let tasks = spec.stages.iter().flat_map(|stage| &stage.tasks);
    tasks.flat_map(|task| match &task.body {
        StageBody::Program(program) => vec![PathBuf::from(&program.cwd)],
        StageBody::Run(run) => run.context_paths.iter().map(|path| PathBuf::from(&path.path)).collect(),
    })
}
