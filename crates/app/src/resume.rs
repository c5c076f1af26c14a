//! Opens a stored session and continues it where it stopped.

use crate::context::AppContext;
use crate::conversation;
use crate::failure::Failure;
use crate::programs;
use crate::project;
use crate::service;
use crate::session::{self, Dependencies, StartedSession, TeamBackends};
use crate::team;
use crate::trust;
use althing_protocol::{
    Event, Fact, Op, Origin, SessionId, SessionKind, SessionOpened, SessionState, SessionStore,
    SessionSummary, StageBody, Submission, WorkflowSpec,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The sessions of the state directory, which must already exist.
pub fn existing_store(app: &AppContext) -> Result<Arc<dyn SessionStore>, Failure> {
    app.existing_store()?.ok_or_else(|| {
        Failure::usage(format!("there are no sessions in {}", app.state_dir().display()))
            .hint("--state-dir chooses another state directory")
    })
}

/// The session to resume, and its kind if that is known. It is the named session; if none is named, the newest that is
/// neither over nor in use; if every session is over or in use, the newest of all.
pub fn to_resume(id: Option<&str>, app: &AppContext) -> Result<(SessionId, Option<SessionKind>), Failure> {
    let nothing = || {
        Failure::usage(format!("there is nothing to resume in {}", app.state_dir().display()))
            .hint("`althing sessions` lists the sessions; --state-dir chooses another state directory")
    };
    let sessions = app.existing_store()?.ok_or_else(nothing)?.list().map_err(Failure::stored)?;
    let id = match id {
        Some(id) => SessionId::new(id),
        None => newest_open(&sessions).ok_or_else(nothing)?,
    };
    let summary = sessions.into_iter().find(|session| session.id == id);
    let kind = summary.and_then(|session| session.checkpoint).map(|checkpoint| checkpoint.kind);
    Ok((id, kind))
}

/// Resumes a session where it stopped, for example after a crash, with the recorded team, workspaces and workflow.
pub(crate) async fn resume(id: &SessionId, app: &AppContext) -> Result<StartedSession, Failure> {
    let (wanted, store) = (id.clone(), existing_store(app)?);
    let owned = service::blocking(move || store.open(&wanted).map_err(Failure::stored)).await?;
    for notice in &owned.notices {
        let hint = notice.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        app.notify(&format!("{}{hint}", notice.text));
    }
    trust::require_own_session(&app.session_dir(id), app)?;
    let opened = opening(&owned.events)?;
    let team = team::from_record(&opened, &app.environment)?;
    team.announce(app);
    let (backends, programs) = match &opened.op {
        Some(Op::StartWorkflow { spec }) => {
            warn_of_changes(spec, app);
            let mut tasks = spec.stages.iter().flat_map(|stage| &stage.tasks);
            let has_runs = tasks.any(|task| matches!(task.body, StageBody::Run(_)));
            let backends =
                if has_runs { session::team_backends(&team, None, app)? } else { TeamBackends::default() };
            let adapters = spec.adapters.iter().chain(&team.config.adapters).cloned().collect();
            let protected = conversation::protected_paths(&team, Path::new(&opened.cwd), app);
            (backends, Some(programs::assemble(adapters, protected, app)))
        }
        Some(Op::StartChat { spec }) => (conversation::resumed_backends(spec, &team, app)?, None),
        _ => (session::team_backends(&team, None, app)?, None),
    };
    let project = project::reopen(opened.project.as_deref(), app)?;
    // The chat agent works in the directory where the conversation was started.
    let mut there = app.clone();
    there.environment.cwd = PathBuf::from(&opened.cwd);
    let envs = session::session_envs(id, backends.tools, project.clone(), &app.state_dir(), &there).await;
    let dependencies = Dependencies { backends: backends.backends, envs: envs.clone(), programs, project };
    let recorded = owned.events.clone();
    let orchestrator = session::start_orchestrator(id.clone(), owned, dependencies, None, app)?;
    // Fails only if the session has already ended, and then its events say so.
    let _ = orchestrator.submitter().submit(Submission::new(Op::Resume, Origin::User));
    Ok(StartedSession { id: id.clone(), orchestrator, envs, recorded })
}

/// Whether a session with these events is over.
pub fn is_closed(events: &[Arc<Event>]) -> bool {
    events.iter().any(|event| matches!(event.fact, Fact::SessionClosed {}))
}

/// If the workflow file has changed or cannot be read, warns that the session continues with the recorded workflow.
fn warn_of_changes(spec: &WorkflowSpec, app: &AppContext) {
    let now = team::read_text(Path::new(&spec.source)).map(|text| team::digest(&text));
    if now.as_ref().is_ok_and(|digest| *digest == spec.digest) {
        return;
    }
    let what = team::describe_change(now.as_ref().map(|_| ()));
    app.notify(&format!(
        "{} {what}; the session continues with the workflow it was started with",
        spec.source
    ));
}

/// The newest session that is neither over nor in use by a process; if all are over or in use, the newest of all.
fn newest_open(sessions: &[SessionSummary]) -> Option<SessionId> {
    let open = sessions.iter().find(|session| {
        let over = |state: SessionState| {
            matches!(state, SessionState::Done | SessionState::Failed | SessionState::Cancelled)
        };
        !session.is_owned && session.checkpoint.as_ref().is_none_or(|checkpoint| !over(checkpoint.state))
    });
    open.or(sessions.first()).map(|session| session.id.clone())
}

fn opening(events: &[Arc<Event>]) -> Result<SessionOpened, Failure> {
    let first = events.first().map(|event| &event.fact);
    match first {
        Some(Fact::SessionOpened(opened)) => Ok((**opened).clone()),
        _ => Err(Failure::usage("the session's log does not start with a session_opened event")),
    }
}
