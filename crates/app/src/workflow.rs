//! A workflow file: read, checked, and resolved into the workflow that starts.

use crate::base_dirs::BaseDirs;
use crate::context::AppContext;
use crate::context_paths;
use crate::failure::Failure;
use crate::secrets;
use crate::session_launch;
use crate::team::{self, Team};
use althing_config::{ConfigReport, LoadPurpose, Source, TaskBody, WorkflowContext, WorkflowFile};
use althing_engine::Consent;
use althing_protocol::{AGENT_KINDS, LaunchRun, StageBody, TeamSpec, WorkflowSpec};
use std::path::{Path, PathBuf};

/// A workflow file without errors.
pub struct Workflow {
    file: WorkflowFile,
    path: PathBuf,
    text: String,
}

impl Workflow {
    /// Reads a workflow file, to run it with this team. Without a workflow, the report says what is wrong.
    pub fn read(file: &Path, team: &Team, app: &AppContext) -> Result<(Option<Self>, ConfigReport), Failure> {
        let path = app.environment.named_path(file);
        let text = team::read_config(&path)?;
        let purpose = if team.is_simulated() { LoadPurpose::Offline } else { LoadPurpose::Run };
        let (workflow, report) = load(&file.display().to_string(), &text, team, purpose, app);
        Ok((workflow.map(|file| Self { file, path, text }), report))
    }

    /// Whether any task is a run of the team or of one of its agents.
    pub fn has_runs(&self) -> bool {
        let mut tasks = self.file.stages.iter().flat_map(|stage| &stage.tasks);
        tasks.any(|task| !matches!(task.body, TaskBody::Program(_)))
    }

    /// Gives each run members and rules from the team. Paths of all tasks are resolved before any task begins,
    /// because a task could replace a path of a later one with a symbolic link.
    pub(crate) fn resolve(self, team: &TeamSpec, app: &AppContext) -> Result<WorkflowSpec, Failure> {
        let Self { file, path, text } = self;
        let run = |launch: LaunchRun| {
            // The user named the file, and thereby consents to its runs.
            session_launch::resolve(team, &context_paths::with_real_paths(launch), Consent::Person)
                .map_err(|why| Failure::usage(format!("{}: {why}", path.display())))
        };
        let mut spec = file.into_spec(&path.display().to_string(), &team::digest(&text), run)?;
        spec.cost_micro_usd = team::max_cost(app);
        let from = BaseDirs::of(&app.environment);
        for task in spec.stages.iter_mut().flat_map(|stage| &mut stage.tasks) {
            if let StageBody::Program(program) = &mut task.body {
                let cwd = Path::new(&program.cwd);
                let what = format!("{}: the `cwd` {} of task {}", path.display(), cwd.display(), task.id);
                program.cwd = from.real_path(&what, cwd)?.to_string_lossy().into_owned();
            }
        }
        Ok(spec)
    }
}

/// Checks the text of a workflow file.
pub fn check(name: &str, text: &str, team: &Team, app: &AppContext) -> ConfigReport {
    load(name, text, team, LoadPurpose::Check, app).1
}

fn load(
    name: &str,
    text: &str,
    team: &Team,
    purpose: LoadPurpose,
    app: &AppContext,
) -> (Option<WorkflowFile>, ConfigReport) {
    let agents = team.workflow_agents();
    let cwd = app.environment.cwd.display().to_string();
    let ((workflow, report), notice) = app.environment.with_variables(|env| {
        let custom = &team.config.adapters;
        let around = WorkflowContext { purpose, cwd: &cwd, env, kinds: AGENT_KINDS, custom, agents: &agents };
        althing_config::load_workflow(Source { name, text }, &around)
    });
    if let Some(notice) = notice {
        app.notify(&notice);
    }
    secrets::register_secrets_of_file(report.secrets.clone(), &app.environment);
    (workflow, report)
}
