//! `althing workflow run FILE` and `workflow check FILE…`.

use crate::args::{Options, WorkflowAction};
use crate::exit::Exit;
use crate::follow::Follower;
use crate::output_file;
use crate::show;
use althing_app::agent_selection::AgentSelection;
use althing_app::workflow::{self, Workflow};
use althing_app::{AppContext, Failure, LocalSessions, SessionRequest, SessionService};
use althing_app::{project, session, team};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn run(options: &Options, action: WorkflowAction, app: &AppContext) -> Result<Exit, Failure> {
    match action {
        WorkflowAction::Run { file } => start(options, &file, app),
        WorkflowAction::Check { files, strict } => check(options, &files, strict, app),
    }
}

fn start(options: &Options, file: &Path, app: &AppContext) -> Result<Exit, Failure> {
    let runtime = session::runtime()?;
    let mut signals = crate::stop::signals(&runtime)?;
    let output_file = output_file::resolve(options, app)?;
    let mut team = team::assemble(app)?;
    AgentSelection::without_task(app, &team)?.narrow_to_run(&mut team);
    let (workflow, report) = Workflow::read(file, &team, app)?;
    show::problems(&report);
    let Some(workflow) = workflow else {
        return Err(Failure::usage(format!("{} has errors; nothing was started", file.display())));
    };
    if workflow.has_runs() {
        team.announce(app);
    }
    let plain = team.plain;
    let sessions = LocalSessions::with_team(app.clone(), Arc::new(team), project::from_settings(app)?);
    let held = (super::tui::is_wanted(options, app) && !plain).then(show::hold_notices);
    let id = runtime.block_on(sessions.launch(SessionRequest::Workflow(Box::new(workflow))))?;
    let follower = Follower::new(id.clone(), options, app, output_file, (&runtime, &mut signals));
    if let Some(held) = held {
        return super::tui::watch(&sessions, &id, held, follower, app, &runtime);
    }
    let follower = if plain { follower.plain() } else { follower };
    Ok(follower.run(&sessions, &runtime)?.exit)
}

fn check(options: &Options, files: &[PathBuf], strict: bool, app: &AppContext) -> Result<Exit, Failure> {
    let team = team::assemble(app)?;
    let check_text = |name: &str, text: &str| workflow::check(name, text, &team, app);
    Ok(super::config::check(files, options.json, strict, app, &check_text))
}
