//! `althing workflow run FILE` and `workflow check FILE…`: stages of programs and runs.

use crate::args::{Options, WorkflowAction};
use crate::exit::Exit;
use crate::follow::Follower;
use crate::show;
use althing_app::AppContext;
use althing_app::Failure;
use althing_app::choice::Choice;
use althing_app::conversation;
use althing_app::project;
use althing_app::session::{self, Cast, NewSession};
use althing_app::team::{self, Team};
use althing_app::{programs, secrets};
use althing_config::{Purpose, Report, Source, WorkflowFile, WorkflowSurroundings};
use althing_engine::{Consent, resolve_launch};
use althing_protocol::{LaunchRun, ModeChoice, Op, Seq, SessionKind, TeamSpec, WorkflowSpec};
use std::path::{Path, PathBuf};

pub fn run(options: &Options, action: WorkflowAction, app: &AppContext) -> Result<Exit, Failure> {
    match action {
        WorkflowAction::Run { file } => start(options, &file, app),
        WorkflowAction::Check { files } => check(options, &files, app),
    }
}

fn start(options: &Options, file: &Path, app: &AppContext) -> Result<Exit, Failure> {
    let runtime = session::runtime()?;
    let mut signals = crate::stop::signals(&runtime)?;
    let mut team = team::assemble(app)?;
    Choice::without_task(app, &team)?.narrow_to_run(&mut team);
    let path = app.environment.cwd.join(file);
    let text = team::read_config(&path)?;
    let (workflow, report) = load(file, &text, &team, Purpose::Run, app);
    let Some(workflow) = workflow else {
        show::problems(&report);
        return Err(Failure::usage(format!("{} cannot be run; nothing was started", file.display())));
    };
    show::problems(&report);
    let adapters = workflow.adapters.iter().chain(&team.config.adapters).cloned().collect();
    let project = project::named(app)?;
    let about = conversation::about(&team, project.as_deref(), app)?;
    let cast = if has_runs(&workflow) {
        team.announce(app);
        session::cast(&team, Some(&about), app)?
    } else {
        Cast::default()
    };
    // Nobody is there to override a winner.
    let team_spec = conversation::team_spec(&team, &cast, about, false, app);
    let spec = resolve(workflow, &path, &text, &team_spec)?;
    let goal = if spec.goal.is_empty() { spec.name.clone() } else { spec.goal.clone() };
    let op = Op::StartWorkflow { spec: Box::new(spec) };
    let new = NewSession { kind: SessionKind::Workflow, goal, op, project };
    let on_screen = super::tui::is_meant(options, app) && !team.plain;
    let hold = on_screen.then(show::hold);
    let programs = programs::assemble(adapters, app);
    let begun = runtime.block_on(session::begin(new, &team, cast, Some(programs), app))?;
    let follower = Follower::new(begun.id.clone(), options, app, &mut signals);
    if let Some(hold) = hold {
        return super::tui::watch(begun, hold, follower, app, &runtime);
    }
    let follower = if team.plain { follower.plain() } else { follower };
    let ended = follower.run(begun.orchestrator, Seq(0), &runtime);
    session::close(&begun.places, &runtime, app);
    Ok(ended?.exit)
}

fn has_runs(workflow: &WorkflowFile) -> bool {
    let is_run =
        |task: &althing_config::WorkflowTask| !matches!(task.body, althing_config::TaskBody::Program(_));
    workflow.stages.iter().flat_map(|stage| &stage.tasks).any(is_run)
}

/// Gives a workflow's runs their members and rules.
fn resolve(
    workflow: WorkflowFile,
    path: &Path,
    text: &str,
    team: &TeamSpec,
) -> Result<WorkflowSpec, Failure> {
    let run = |launch: LaunchRun| {
        // Whoever wrote the file stands for what it asks for.
        resolve_launch(team, &launch, &ModeChoice::default(), Consent::Person, fastrand::u64(..))
            .map(|launch| launch.spec)
            .map_err(|why| Failure::usage(format!("{}: {why}", path.display())))
    };
    workflow.into_spec(&path.display().to_string(), &team::digest(text), run)
}

fn load(
    file: &Path,
    text: &str,
    team: &Team,
    purpose: Purpose,
    app: &AppContext,
) -> (Option<WorkflowFile>, Report) {
    let name = file.display().to_string();
    let agents = althing_config::workflow_agents(&team.config);
    let around = WorkflowSurroundings {
        purpose,
        cwd: &app.environment.cwd.display().to_string(),
        env: &|name| app.environment.setting(name),
        adapters: &programs::BUILT_IN,
        custom: &team.config.adapters,
        agents: &agents,
    };
    let (workflow, report) = althing_config::load_workflow(Source { name: &name, text }, &around);
    secrets::remember(report.secrets.clone());
    (workflow, report)
}

fn check(options: &Options, files: &[PathBuf], app: &AppContext) -> Result<Exit, Failure> {
    let team = team::assemble(app)?;
    let judge = |name: &str, text: &str| load(Path::new(name), text, &team, Purpose::Check, app).1;
    Ok(super::config::check(files, options.json, app, &judge))
}
