//! `althing resume [ID]`: goes on with an interrupted session where it stopped.

use crate::args::{Approve, Options};
use crate::conversation;
use crate::exit::{Exit, Failure};
use crate::follow::Follower;
use crate::programs;
use crate::project;
use crate::session::{self, Begun, Cast, Staff};
use crate::show;
use crate::surroundings::Surroundings;
use crate::team;
use crate::trust;
use althing_protocol::{
    Event, Fact, Op, Origin, Seq, SessionId, SessionKind, SessionOpened, SessionState, StageBody,
    WorkflowSpec,
};
use althing_storage::{Opened, SessionManager};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A session that is opened again, and what had happened in it.
pub struct Reopened {
    pub begun: Begun,
    pub events: Vec<Arc<Event>>,
}

pub fn run(options: &Options, id: Option<&str>, surroundings: &Surroundings) -> Result<Exit, Failure> {
    let dir = surroundings.state_dir(options.state_dir.as_deref());
    let nothing = || {
        Failure::usage(format!("there is nothing to resume in {}", dir.display()))
            .hint("`althing sessions` lists the sessions; --state-dir names another place")
    };
    let state = althing_storage::open_existing_state(&dir)?.ok_or_else(nothing)?;
    let id = match id {
        Some(id) => SessionId::new(id),
        None => newest_open(&state)?.ok_or_else(nothing)?,
    };
    let summary = state.list()?.into_iter().find(|session| session.id == id);
    let kind = summary.and_then(|session| session.checkpoint).map(|checkpoint| checkpoint.kind);
    let on_screen = super::tui::is_meant(options, surroundings);
    if kind == Some(SessionKind::Chat) {
        let options = Options { session: Some(id.to_string()), ..options.clone() };
        if on_screen {
            return super::tui::run(&options, None, surroundings);
        }
        show::say(&format!("going on with the conversation {id}: messages are lines on stdin"));
        return super::chat::run(&options, Approve::Ask, surroundings);
    }
    let runtime = session::runtime()?;
    let mut signals = session::signals(&runtime)?;
    let mut follower = Follower::new(id.clone(), options, surroundings, &mut signals);
    let opened = open(&state, &id)?;
    if is_closed(&opened.events) {
        show::say(&format!("session {id} is complete; this is its result"));
        for event in &opened.events {
            follower.fold(event);
        }
        return follower.print_end();
    }
    if on_screen && kind == Some(SessionKind::Workflow) {
        let hold = show::hold();
        let Reopened { begun, .. } = go_on(&state, opened, options, surroundings, &runtime)?;
        return super::tui::watch(begun, hold, follower, options, surroundings, &runtime);
    }
    // Replayed from the start, so that the progress shown is whole.
    let Reopened { begun, .. } = go_on(&state, opened, options, surroundings, &runtime)?;
    let ended = follower.run(begun.orchestrator, Seq(0), &runtime);
    session::close(&begun.places, &runtime);
    Ok(ended?.exit)
}

/// Opens a session of this state directory again, and lets it go on.
pub fn reopen(
    id: &SessionId,
    options: &Options,
    surroundings: &Surroundings,
    runtime: &Runtime,
) -> Result<Reopened, Failure> {
    let dir = surroundings.state_dir(options.state_dir.as_deref());
    let state = althing_storage::open_existing_state(&dir)?
        .ok_or_else(|| Failure::usage(format!("there are no sessions in {}", dir.display())))?;
    let opened = open(&state, id)?;
    go_on(&state, opened, options, surroundings, runtime)
}

fn open(state: &SessionManager, id: &SessionId) -> Result<Opened, Failure> {
    let opened = state.open(id)?;
    for notice in &opened.notices {
        let hint = notice.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        show::say(&format!("{}{hint}", notice.text));
    }
    Ok(opened)
}

fn go_on(
    state: &SessionManager,
    Opened { writer, events, .. }: Opened,
    options: &Options,
    surroundings: &Surroundings,
    runtime: &Runtime,
) -> Result<Reopened, Failure> {
    trust::require_own_session(writer.dir(), options, surroundings)?;
    let opened = opening(&events)?;
    let team = team::recorded(&opened, surroundings)?;
    team.tell();
    let (cast, programs) = match &opened.op {
        Some(Op::StartWorkflow { spec }) => {
            let runs = spec.stages.iter().flat_map(|stage| &stage.tasks);
            let any = runs.into_iter().any(|task| matches!(task.body, StageBody::Run(_)));
            let cast = if any { session::cast(&team, None, options, surroundings)? } else { Cast::default() };
            (cast, Some(programs::assemble(spec.adapters.clone(), options, surroundings)))
        }
        Some(Op::StartChat { spec }) => (conversation::recast(spec, &team, options, surroundings)?, None),
        _ => (session::cast(&team, None, options, surroundings)?, None),
    };
    if let Some(Op::StartWorkflow { spec }) = &opened.op {
        warn_of_changes(spec);
    }
    let id = opened.session;
    let project = project::again(opened.project.as_deref(), surroundings)?;
    // Whoever is talked to works where the conversation began.
    let mut there = surroundings.clone();
    there.cwd = PathBuf::from(&opened.cwd);
    let places = session::places(&id, cast.hands, project.clone(), state.state_dir(), options, &there);
    let places = runtime.block_on(places);
    let staff = Staff { backends: cast.backends, places: places.clone(), programs, project };
    let history = events.clone();
    let orchestrator = session::open(id.clone(), writer, events, staff, None, runtime.handle())?;
    let _ = orchestrator.submitter().submit(Op::Resume, Origin::User);
    Ok(Reopened { begun: Begun { id, orchestrator, places }, events: history })
}

/// A session goes on with the workflow as it was recorded.
fn warn_of_changes(spec: &WorkflowSpec) {
    let now = std::fs::read_to_string(&spec.source).map(|text| team::digest(&text));
    let what = match now {
        Ok(digest) if digest == spec.digest => return,
        Ok(_) => "has changed",
        Err(_) => "is not there any more",
    };
    show::say(&format!("{} {what}; the session goes on with the workflow it was started with", spec.source));
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

fn is_closed(events: &[Arc<Event>]) -> bool {
    events.iter().any(|event| matches!(event.fact, Fact::SessionClosed {}))
}
