//! Opens a session again, and lets it continue where it stopped.

use crate::context::AppContext;
use crate::conversation;
use crate::failure::Failure;
use crate::programs;
use crate::project;
use crate::session::{self, Begun, Cast, Staff};
use crate::team;
use crate::trust;
use althing_journal::{Opened, SessionManager};
use althing_protocol::{
    Event, Fact, Op, Origin, SessionId, SessionKind, SessionOpened, SessionState, StageBody, WorkflowSpec,
};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A session that is opened again, and what had happened in it.
pub struct Reopened {
    /// The session under way.
    pub begun: Begun,
    /// What had happened in it.
    pub events: Vec<Arc<Event>>,
}

/// The state directory, which must exist already.
pub fn existing_state(app: &AppContext) -> Result<SessionManager, Failure> {
    let dir = app.state_dir();
    althing_journal::open_existing_state(&dir)?.ok_or_else(|| {
        Failure::usage(format!("there are no sessions in {}", dir.display()))
            .hint("--state-dir names another place")
    })
}

/// The session to resume: the named one, else the newest that is not over, else the newest. With its kind, if it is
/// known.
pub fn to_resume(
    id: Option<&str>,
    app: &AppContext,
) -> Result<(SessionManager, SessionId, Option<SessionKind>), Failure> {
    let dir = app.state_dir();
    let nothing = || {
        Failure::usage(format!("there is nothing to resume in {}", dir.display()))
            .hint("`althing sessions` lists the sessions; --state-dir names another place")
    };
    let state = althing_journal::open_existing_state(&dir)?.ok_or_else(nothing)?;
    let id = match id {
        Some(id) => SessionId::new(id),
        None => newest_open(&state)?.ok_or_else(nothing)?,
    };
    let summary = state.list()?.into_iter().find(|session| session.id == id);
    let kind = summary.and_then(|session| session.checkpoint).map(|checkpoint| checkpoint.kind);
    Ok((state, id, kind))
}

/// Opens a session of this state directory again, and lets it continue.
pub fn reopen(id: &SessionId, app: &AppContext, runtime: &Runtime) -> Result<Reopened, Failure> {
    let state = existing_state(app)?;
    let opened = open(&state, id, app)?;
    resume(&state, opened, app, runtime)
}

/// Opens a session's log for writing, and tells the user what was repaired.
pub fn open(state: &SessionManager, id: &SessionId, app: &AppContext) -> Result<Opened, Failure> {
    let opened = state.open(id)?;
    for notice in &opened.notices {
        let hint = notice.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        app.notify(&format!("{}{hint}", notice.text));
    }
    Ok(opened)
}

/// Lets an opened session continue, with the team, the workspaces and the workflow that it recorded.
pub fn resume(
    state: &SessionManager,
    Opened { writer, events, .. }: Opened,
    app: &AppContext,
    runtime: &Runtime,
) -> Result<Reopened, Failure> {
    trust::require_own_session(writer.dir(), app)?;
    let opened = opening(&events)?;
    let team = team::recorded(&opened, &app.environment)?;
    team.announce(app);
    let (cast, programs) = match &opened.op {
        Some(Op::StartWorkflow { spec }) => {
            warn_of_changes(spec, app);
            let mut tasks = spec.stages.iter().flat_map(|stage| &stage.tasks);
            let has_runs = tasks.any(|task| matches!(task.body, StageBody::Run(_)));
            let cast = if has_runs { session::cast(&team, None, app)? } else { Cast::default() };
            (cast, Some(programs::assemble(spec.adapters.clone(), app)))
        }
        Some(Op::StartChat { spec }) => (conversation::recast(spec, &team, app)?, None),
        _ => (session::cast(&team, None, app)?, None),
    };
    let id = opened.session;
    let project = project::again(opened.project.as_deref(), app)?;
    // The chat agent works where the conversation began.
    let mut there = app.clone();
    there.environment.cwd = PathBuf::from(&opened.cwd);
    let places = session::places(&id, cast.hands, project.clone(), state.state_dir(), &there);
    let places = runtime.block_on(places);
    let staff = Staff { backends: cast.backends, places: places.clone(), programs, project };
    let history = events.clone();
    let orchestrator = session::open(id.clone(), writer, events, staff, None, runtime.handle(), app)?;
    let _ = orchestrator.submitter().submit(Op::Resume, Origin::User);
    Ok(Reopened { begun: Begun { id, orchestrator, places }, events: history })
}

/// Whether a session is over.
pub fn is_closed(events: &[Arc<Event>]) -> bool {
    events.iter().any(|event| matches!(event.fact, Fact::SessionClosed {}))
}

/// A session continues with the workflow as it was recorded.
fn warn_of_changes(spec: &WorkflowSpec, app: &AppContext) {
    let now = std::fs::read_to_string(&spec.source).map(|text| team::digest(&text));
    let what = match now {
        Ok(digest) if digest == spec.digest => return,
        Ok(_) => "has changed",
        Err(_) => "is not there any more",
    };
    app.notify(&format!("{} {what}; the session goes on with the workflow it was started with", spec.source));
}

/// The newest session that is not over; else simply the newest.
fn newest_open(state: &SessionManager) -> Result<Option<SessionId>, Failure> {
    let sessions = state.list()?;
    let open = sessions.iter().find(|session| {
        let over = |state: SessionState| {
            matches!(state, SessionState::Done | SessionState::Failed | SessionState::Cancelled)
        };
        !session.locked_by_live_process
            && session.checkpoint.as_ref().is_none_or(|checkpoint| !over(checkpoint.state))
    });
    Ok(open.or(sessions.first()).map(|session| session.id.clone()))
}

fn opening(events: &[Arc<Event>]) -> Result<SessionOpened, Failure> {
    let first = events.first().map(|event| &event.fact);
    match first {
        Some(Fact::SessionOpened(opened)) => Ok((**opened).clone()),
        _ => Err(Failure::usage("the session's log does not begin with its opening")),
    }
}
