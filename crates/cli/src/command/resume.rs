//! `althing resume [ID]`: goes on with an interrupted session where it stopped.

use crate::args::Options;
use crate::exit::{Exit, Failure};
use crate::follow::Follower;
use crate::session::{self, Cast, Staff};
use crate::show;
use crate::surroundings::Surroundings;
use crate::team;
use althing_protocol::{
    Event, Fact, Op, Origin, RunEnd, RunResult, Seq, SessionId, SessionKind, SessionOpened, SessionState,
    Verdict,
};
use althing_storage::{Opened, SessionManager};
use std::sync::Arc;

pub fn run(options: &Options, id: Option<&str>, surroundings: &Surroundings) -> Result<Exit, Failure> {
    let runtime = session::runtime()?;
    let signals = session::signals(&runtime)?;
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
    let Opened { writer, events, notices } = state.open(&id)?;
    let opened = opening(&events)?;
    for notice in &notices {
        show::say(&format!(
            "{}{}",
            notice.text,
            notice.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default()
        ));
    }
    let mut follower = Follower::new(id.clone(), options, surroundings, signals);
    if opened.kind == SessionKind::Workflow && is_closed(&events) {
        show::say(&format!("session {id} is complete; this is its result"));
        for event in &events {
            follower.fold(event);
        }
        return follower.print_workflow();
    }
    if let (Some((end, result)), true) = (finished(&events), is_closed(&events)) {
        show::say(&format!("session {id} is complete; this is its result"));
        follower.print(end, &result)?;
        return Ok(end.into());
    }
    let team = team::recorded(&opened, surroundings)?;
    for note in &team.notes {
        show::say(note);
    }
    let Cast { backends, hands, .. } = session::cast(&team, None, surroundings)?;
    let places = session::places(&id, hands, state.state_dir(), options, surroundings, &runtime);
    // Replayed from the start, so that the progress shown is whole.
    let staff = Staff { backends, places: places.clone(), programs: None };
    let orchestrator = session::open(id, writer, events, staff, None, &runtime)?;
    let _ = orchestrator.submitter().submit(Op::Resume, Origin::User);
    let ended = follower.run(orchestrator, Seq(0), &runtime);
    session::close(&places, &runtime);
    ended
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

fn finished(events: &[Arc<Event>]) -> Option<(RunEnd, RunResult)> {
    events.iter().rev().find_map(|event| match &event.fact {
        Fact::Decided(Verdict::Finished { end, result }) => Some((*end, (**result).clone())),
        _ => None,
    })
}

fn is_closed(events: &[Arc<Event>]) -> bool {
    events.iter().any(|event| matches!(event.fact, Fact::SessionClosed {}))
}
