//! `--continue` and `--session`: the session that a new run or conversation continues. The screen and `althing chat`
//! resume a conversation in its own log; everything else is a new session with the history, team and project of the
//! earlier one, unless the user names others.

use crate::context::AppContext;
use crate::failure::Failure;
use crate::project::{self, Project};
use crate::resume;
use crate::team::{self, Team};
use crate::trust;
use althing_engine::{NothingToContinue, history_before, session_history};
use althing_protocol::{
    Checkpoint, Exchange, Seq, SessionId, SessionKind, SessionOpened, SessionSummary, StoredSession,
};
use std::sync::Arc;

/// What a new session continues.
pub struct Continuation {
    opened: SessionOpened,
    /// Whether this user started the continued session.
    is_own: bool,
    /// What was said in the continued session.
    pub history: Vec<Exchange>,
}

/// The conversation that the settings ask to resume; None if they ask for none, or for a run (see [`of`]). Also
/// returns a session that is no conversation or that cannot be read; resuming it fails with the reason.
pub fn conversation_to_resume(app: &AppContext) -> Result<Option<SessionId>, Failure> {
    let session = session_to_continue(app)?;
    Ok(session.filter(|(_, kind)| *kind != Some(SessionKind::Run)).map(|(id, _)| id))
}

/// What a new session continues; None if the settings ask for nothing.
pub fn of(app: &AppContext) -> Result<Option<Continuation>, Failure> {
    let Some((id, _)) = session_to_continue(app)? else { return Ok(None) };
    let stored = read(&id, app)?;
    if stored.is_owned {
        return Err(Failure::usage(format!("session {id} is still running"))
            .hint("wait until it has ended, or name another session with --session"));
    }
    // The log decides what is sent to models and, with its config, what is started.
    trust::require_own_session(&app.session_dir(&id), app)?;
    let opened = resume::opening(&stored.events)?;
    let history = session_history(&stored.events).map_err(|why| refusal(&id, why))?;
    app.notify(&format!("continuing session {id}: {}", althing_text::truncate_chars(&opened.goal, 80)));
    let is_own = trust::is_own_session(&app.session_dir(&id), app);
    Ok(Some(Continuation { opened, is_own, history }))
}

fn read(id: &SessionId, app: &AppContext) -> Result<StoredSession, Failure> {
    let store = resume::existing_store(app)?;
    resume::refuse_huge_log(id, &*store, app)?;
    store.read(id, Seq(0)).map_err(Failure::stored)
}

/// What a branch of a conversation continues: everything before one of its messages.
pub(crate) fn before_message(
    id: &SessionId,
    message: Seq,
    app: &AppContext,
) -> Result<Continuation, Failure> {
    let stored = read(id, app)?;
    if stored.is_owned {
        return Err(Failure::usage(format!("session {id} is still running")));
    }
    trust::require_own_session(&app.session_dir(id), app)?;
    let opened = resume::opening(&stored.events)?;
    let history = history_before(&stored.events, message)
        .ok_or_else(|| Failure::usage(format!("session {id} has no such message")))?;
    let is_own = trust::is_own_session(&app.session_dir(id), app);
    Ok(Continuation { opened, is_own, history })
}

fn refusal(id: &SessionId, why: NothingToContinue) -> Failure {
    let another = "start without --continue and --session, or name another session with --session; `althing sessions` lists them";
    match why {
        NothingToContinue::Interrupted => Failure::usage(format!("session {id} has not ended"))
            .hint(format!("`althing resume {id}` finishes it; then it can be continued")),
        NothingToContinue::NoAnswer => {
            Failure::usage(format!("session {id} ended without an answer, so there is nothing to continue"))
                .hint(another)
        }
        NothingToContinue::Empty => {
            Failure::usage(format!("nothing has been said in conversation {id} yet")).hint(another)
        }
        NothingToContinue::NotAConversation => Failure::usage(format!(
            "session {id} is neither a run nor a conversation, so it cannot be continued with a message"
        ))
        .hint(another),
    }
}

/// The session that the settings name, or the newest run or conversation that no process uses. The kind is None if
/// the session cannot be read.
fn session_to_continue(app: &AppContext) -> Result<Option<(SessionId, Option<SessionKind>)>, Failure> {
    let kind = |session: &SessionSummary| session.checkpoint.as_ref().map(|checkpoint| checkpoint.kind);
    let store = app.existing_store()?;
    if let Some(id) = &app.settings.session {
        let id = SessionId::new(id.as_str());
        let summary = match store {
            Some(store) => store.summary(&id).map_err(Failure::stored)?,
            None => None,
        };
        return Ok(Some((id, summary.as_ref().and_then(kind))));
    }
    if !app.settings.continue_newest {
        return Ok(None);
    }
    let is_wanted = |session: &SessionSummary| {
        let is_kind = |checkpoint: &Checkpoint| checkpoint.kind != SessionKind::Workflow;
        session.checkpoint.as_ref().is_some_and(is_kind) && !session.is_owned
    };
    let newest = match store {
        Some(store) => store.newest(1, &is_wanted).map_err(Failure::stored)?,
        None => Vec::new(),
    };
    let found = newest.first().map(|session| (session.id.clone(), kind(session)));
    found.map(Some).ok_or_else(|| {
        let dir = app.state_dir();
        Failure::usage(format!("there is no run or conversation to continue in {}", dir.display()))
            .hint("`althing sessions` lists all sessions; --state-dir chooses another state directory")
    })
}

pub(crate) fn team(continued: Option<&Continuation>, app: &AppContext) -> Result<Team, Failure> {
    let settings = &app.settings;
    let is_named = settings.config.is_some() || settings.offline || !settings.model.is_empty();
    match continued.filter(|_| !is_named) {
        Some(continued) => team::from_record(&continued.opened, continued.is_own, &app.environment),
        None => team::assemble(app),
    }
}

pub(crate) fn project(
    continued: Option<&Continuation>,
    app: &AppContext,
) -> Result<Option<Arc<Project>>, Failure> {
    match continued.filter(|_| app.settings.project.is_none()) {
        Some(continued) => project::reopen(continued.opened.project.as_deref(), app),
        None => project::from_settings(app),
    }
}
