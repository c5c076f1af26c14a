//! A workflow file: read, checked, and resolved into the workflow that starts.

use crate::context::AppContext;
use crate::failure::Failure;
use crate::secrets;
use crate::session_launch;
use crate::team::{self, Team};
use althing_config::{ConfigReport, LoadPurpose, Source, TaskBody, WorkflowContext, WorkflowFile};
use althing_engine::Consent;
use althing_protocol::{AGENT_KINDS, LaunchRun, TeamSpec, WorkflowSpec};
use std::path::{Path, PathBuf};

/// A workflow file without errors.
pub struct Workflow {
    file: WorkflowFile,
    path: PathBuf,
    text: String,
}

impl Workflow {
    /// Reads a workflow file, to run it with this team. If no workflow is returned, the report says what is wrong with
    /// the file.
    pub fn read(file: &Path, team: &Team, app: &AppContext) -> Result<(Option<Self>, ConfigReport), Failure> {
        let path = app.environment.cwd.join(file);
        let text = team::read_config(&path)?;
        let (workflow, report) = load(&file.display().to_string(), &text, team, LoadPurpose::Run, app);
        Ok((workflow.map(|file| Self { file, path, text }), report))
    }

    /// Whether any task is a run, so that the team is needed.
    pub fn has_runs(&self) -> bool {
        let mut tasks = self.file.stages.iter().flat_map(|stage| &stage.tasks);
        tasks.any(|task| !matches!(task.body, TaskBody::Program(_)))
    }

    /// Resolves the workflow: each of its runs gets members and rules from the team.
    pub(crate) fn resolve(self, team: &TeamSpec) -> Result<WorkflowSpec, Failure> {
        let Self { file, path, text } = self;
        let run = |launch: LaunchRun| {
            // The person who wrote the file consents to its runs.
            session_launch::resolve(team, &launch, Consent::Person)
                .map_err(|why| Failure::usage(format!("{}: {why}", path.display())))
        };
        file.into_spec(&path.display().to_string(), &team::digest(&text), run)
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
    let agents = althing_config::workflow_agents(&team.config, AGENT_KINDS);
    let around = WorkflowContext {
        purpose,
        cwd: &app.environment.cwd.display().to_string(),
        env: &|name| app.environment.setting(name),
        kinds: AGENT_KINDS,
        custom: &team.config.adapters,
        agents: &agents,
    };
    let (workflow, report) = althing_config::load_workflow(Source { name, text }, &around);
    secrets::register_secrets(report.secrets.clone());
    (workflow, report)
}
