//! Opens a stored session and resumes it where it stopped, for example after a crash: the log is read and repaired by
//! `SessionManager::open` of `althing_journal`, the state is rebuilt from it by `Orchestrator::open` of
//! `althing_engine`, and each decider continues its own interrupted attempts.

use crate::context::AppContext;
use crate::conversation;
use crate::failure::Failure;
use crate::programs;
use crate::project;
use crate::reports;
use crate::secrets;
use crate::service;
use crate::session::{self, Dependencies, StartedSession, TeamBackends};
use crate::team;
use crate::trust;
use crate::trust_question;
use crate::work_dirs::SessionDirs;
use althing_disk::refuse_replaced;
use althing_engine::{REPORT, ResultFile};
use althing_journal::MAX_LISTED_LOG;
use althing_protocol::{
    Event, Fact, JournalError, Op, Origin, OwnedSession, Seq, SessionId, SessionKind, SessionOpened,
    SessionState, SessionStore, SessionSummary, StageBody, Submission, TaskId, WorkflowSpec,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The sessions of the state directory. Fails if there are none.
pub fn existing_store(app: &AppContext) -> Result<Arc<dyn SessionStore>, Failure> {
    app.existing_store()?.ok_or_else(|| {
        Failure::usage(format!("there are no sessions in {}", app.state_dir().display()))
            .hint("--state-dir chooses another state directory")
    })
}

/// Fails if the log of a session that this user did not start is so large that reading it could fill the memory. Such a
/// session could not be accepted either.
pub fn refuse_huge_log(id: &SessionId, store: &dyn SessionStore, app: &AppContext) -> Result<(), Failure> {
    if trust::is_own_session(&app.session_dir(id), app) {
        return Ok(());
    }
    let summary = store.summary(id).map_err(Failure::stored)?;
    if summary.is_none_or(|session| session.size <= MAX_LISTED_LOG) {
        return Ok(());
    }
    let megabytes = MAX_LISTED_LOG / 1_000_000;
    let message =
        format!("the log of session {id} is larger than {megabytes} MB, and you did not start this session");
    Err(Failure::usage(message).hint("such a large session of somebody else is not used"))
}

/// The session to resume, and its kind if that is known: the named one, else the newest that is neither over nor in
/// use, else the newest of all.
pub fn to_resume(id: Option<&str>, app: &AppContext) -> Result<(SessionId, Option<SessionKind>), Failure> {
    let nothing = || {
        Failure::usage(format!("there is nothing to resume in {}", app.state_dir().display()))
            .hint("--state-dir chooses another state directory")
    };
    let store = app.existing_store()?.ok_or_else(nothing)?;
    let (id, summary) = if let Some(id) = id {
        (SessionId::new(id), store.summary(&SessionId::new(id)).map_err(Failure::stored)?)
    } else {
        let newest = newest_open(&*store, app).map_err(Failure::stored)?.ok_or_else(nothing)?;
        (newest.id.clone(), Some(newest))
    };
    let kind = summary.and_then(|session| session.checkpoint).map(|checkpoint| checkpoint.kind);
    Ok((id, kind))
}

/// Resumes a session with the recorded team, workspaces and workflow. `op` is `Resume`, or `Retry` for a workflow
/// that is over. `can_ask`: whether a person can be asked now before the chat agent changes files.
pub(crate) async fn resume(
    id: &SessionId,
    op: Op,
    can_ask: bool,
    app: &AppContext,
) -> Result<StartedSession, Failure> {
    let owned = open_own(id, app).await?;
    let opened = opening(&owned.events)?;
    refuse_replaced(Path::new(&opened.cwd)).map_err(|replaced| {
        Failure::usage(format!("session {id} was started in a directory that has changed: {replaced}"))
            .hint("put the directory back, or start a new session")
    })?;
    if let Some(place) = althing_journal::masked_place(&owned.events) {
        let message = format!(
            "session {id} cannot be resumed: `{place}` contained a secret, which is masked in its log, and Althing does not act \
             on a command, variable or path with a mask in it"
        );
        return Err(Failure::usage(message).hint(format!(
            "start a new session; `althing sessions show {id}` shows what this one has done"
        )));
    }
    let is_own = trust::is_own_session(&app.session_dir(id), app);
    let team = team::from_record(&opened, is_own, &app.environment)?;
    // With other variables than at the start, more may be a secret.
    let place = opened.op.as_ref().and_then(|op| secrets::session_mask().secret_place(op));
    if let Some(place) = place {
        return Err(session::secret_in_op(&place));
    }
    if app.settings.offline && !team.is_offline() {
        let why = "its agents are models or programs, and --offline sends and starts nothing";
        return Err(Failure::usage(format!("session {id} cannot be continued offline: {why}"))
            .hint("leave out --offline, or start a new session"));
    }
    team.announce(app);
    let project = project::reopen(opened.project.as_deref(), app)?;
    let cwd = Path::new(&opened.cwd);
    let dirs = SessionDirs::new(opened.op.as_ref(), cwd, project.as_deref(), &app.environment);
    let (mut backends, programs) = match &opened.op {
        Some(Op::StartWorkflow { spec }) => {
            warn_of_changes(spec, app);
            let mut tasks = spec.stages.iter().flat_map(|stage| &stage.tasks);
            let has_runs = tasks.any(|task| matches!(task.body, StageBody::Run(_)));
            let mut backends =
                if has_runs { session::team_backends(&team, None, app)? } else { TeamBackends::default() };
            backends.tools.code_in_use.files.push(PathBuf::from(&spec.source));
            let adapters: Vec<_> = spec.adapters.iter().chain(&team.config.adapters).cloned().collect();
            let source = Path::new(&spec.source);
            backends.tools.code_in_use.extend(conversation::adapter_code(&adapters, cwd, app));
            let protected = conversation::protected_paths(&team, (source, &adapters), cwd, app);
            let list = Arc::clone(&backends.planted);
            let programs = programs::assemble(adapters, protected, (dirs.clone(), list), &team, app);
            (backends, Some(programs))
        }
        Some(Op::StartChat { spec }) => (conversation::resumed_backends(spec, &team, app)?, None),
        _ => (session::team_backends(&team, None, app)?, None),
    };
    backends.tools.can_ask_now = can_ask;
    // The chat agent works in the directory where the conversation was started.
    let mut there = app.clone();
    there.environment.cwd = PathBuf::from(&opened.cwd);
    let envs = session::session_envs(
        id,
        backends.tools,
        project.clone(),
        &app.state_dir(),
        (dirs, backends.planted),
        &there,
    )
    .await;
    let dependencies = Dependencies { backends: backends.backends, envs: envs.clone(), programs, project };
    let recorded = owned.events.clone();
    let orchestrator = session::start_orchestrator(id.clone(), owned, dependencies, None, app)?;
    // Fails only if the session has already ended, and then its events say so.
    let _ = orchestrator.submitter().submit(Submission::new(op, Origin::User));
    Ok(StartedSession { id: id.clone(), orchestrator, envs, recorded })
}

/// Opens a session that the user has started or accepted, which also repairs its log. A stranger's session must be
/// accepted before that.
async fn open_own(id: &SessionId, app: &AppContext) -> Result<OwnedSession, Failure> {
    let (wanted, store) = (id.clone(), existing_store(app)?);
    refuse_huge_log(id, &*store, app)?;
    let dir = app.session_dir(id);
    let accepted = if trust::is_own_session(&dir, app) {
        None
    } else {
        let (wanted, store) = (id.clone(), Arc::clone(&store));
        let read = service::blocking(move || store.read(&wanted, Seq(0)).map_err(Failure::stored)).await?;
        Some(read.events)
    };
    trust::require_own_session(&dir, app)?;
    let owned = service::blocking(move || store.open(&wanted).map_err(Failure::stored)).await?;
    for notice in &owned.notices {
        let hint = notice.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        app.notify(&format!("{}{hint}", notice.text));
    }
    if accepted.is_some_and(|accepted| accepted != owned.events) {
        return Err(trust_question::changed(&dir));
    }
    Ok(owned)
}

/// Writes result files that are missing, for example because the disk was full when the session ended. Does nothing for
/// a session that the user neither started nor accepted.
pub fn write_missing_files(id: &SessionId, recorded: &[Arc<Event>], app: &AppContext) -> Result<(), Failure> {
    let task_dir = |task: &TaskId| app.task_dir(id, task).display().to_string();
    let mut files = althing_engine::result_files(id, recorded, &task_dir)
        .map_err(|error| Failure::no_answer(format!("the result cannot be written as JSON: {error}")))?;
    let mut ended: Vec<TaskId> = files.iter().map(|(task, ..)| task.clone()).collect();
    ended.dedup();
    ended.retain(|task| !app.task_dir(id, task).join(REPORT).is_file());
    let missing_reports = reports::task_reports(&app.session_dir(id), recorded, &ended).into_iter();
    files.extend(missing_reports.map(|(task, text)| (task, REPORT, text)));
    let is_missing = |file: &ResultFile| !app.task_dir(id, &file.0).join(file.1).is_file();
    if !files.iter().any(is_missing) || trust::require_known_session(&app.session_dir(id), app).is_err() {
        return Ok(());
    }
    let failed = |error: JournalError| {
        let hint = format!("once that is solved, `althing resume {id}` writes the missing files");
        let message = format!("the files of session {id} could not be written: {error}");
        Failure::no_answer(message).maybe_hint(error.hint).hint(hint)
    };
    let mut owned = existing_store(app)?.open(id).map_err(failed)?;
    for (task, name, text) in files.iter().filter(|file| is_missing(file)) {
        owned.journal.write_file(task, name, text).map_err(failed)?;
        app.notify(&format!("{name} was missing and is written now, in {}", task_dir(task)));
    }
    Ok(())
}

/// Whether a session with these events is over.
pub fn is_closed(events: &[Arc<Event>]) -> bool {
    // A retry of a workflow's task opens a session that was over.
    let last = events.iter().rev().find_map(|event| match event.fact {
        Fact::SessionClosed {} => Some(true),
        Fact::OpAccepted { op: Op::Retry { .. }, .. } => Some(false),
        _ => None,
    });
    last == Some(true)
}

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

/// The newest session that is neither over nor in use, else the newest of all. Sessions that cannot be read are
/// skipped, unless there are no others.
fn newest_open(store: &dyn SessionStore, app: &AppContext) -> Result<Option<SessionSummary>, JournalError> {
    let (mut newest, mut unreadable) = (None, None);
    for id in store.ids()? {
        let Some(session) = store.summary(&id)? else { continue };
        let Some(checkpoint) = &session.checkpoint else {
            if !session.is_owned {
                unreadable.get_or_insert(session);
            }
            continue;
        };
        let is_over =
            matches!(checkpoint.state, SessionState::Done | SessionState::Failed | SessionState::Cancelled);
        if !is_over && !session.is_owned {
            newest = Some(session);
            break;
        }
        newest.get_or_insert(session);
    }
    if let (Some(_), Some(skipped)) = (&newest, &unreadable) {
        let why = skipped.damage.as_deref().unwrap_or("nothing was recorded");
        app.notify(&format!("session {} cannot be read and is skipped ({why})", skipped.id));
    }
    Ok(newest.or(unreadable))
}

pub(crate) fn opening(events: &[Arc<Event>]) -> Result<SessionOpened, Failure> {
    let first = events.first().map(|event| &event.fact);
    match first {
        Some(Fact::SessionOpened(opened)) => Ok((**opened).clone()),
        _ => Err(Failure::usage("the session's log does not start with a session_opened event")),
    }
}
