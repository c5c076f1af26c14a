//! Undoes what a run, or the chat agent, changed in the user's files, for every front end.

use crate::context::AppContext;
use crate::failure::Failure;
use althing_journal::SessionError;
use althing_protocol::{SessionId, TaskId};
use althing_workspace::{UndoError, UndoReport};

/// Who uses the session whose changes are undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionUser {
    /// Nobody, or another process.
    Unknown,
    /// This process, which may hold the session's lock already: the session is on its screen.
    ThisProcess,
}

/// Undoes the changes of `task`, and stops before the next file once `is_stopped` returns true. Holds the session's lock
/// and the locks of the run's context paths from before the first file is compared until the end. Fails if another
/// process holds one of them. The caller has checked that the user trusts the session.
pub fn undo_changes(
    (session, task): (&SessionId, &TaskId),
    user: SessionUser,
    is_stopped: &dyn Fn() -> bool,
    app: &AppContext,
) -> Result<Result<UndoReport, UndoError>, Failure> {
    let held = app.existing_sessions()?.map(|sessions| sessions.hold(session));
    // The lock file names no process if the disk was full.
    let is_own = |pid: Option<u32>| pid.is_none_or(|pid| pid == std::process::id());
    let _lock = match held {
        Some(Err(SessionError::Locked { pid, .. })) if user == SessionUser::ThisProcess && is_own(pid) => {
            None
        }
        Some(lock) => Some(lock?),
        None => None,
    };
    Ok(althing_workspace::undo_unless_stopped(&app.task_dir(session, task), is_stopped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::settings::Settings;

    #[test]
    fn an_undo_is_refused_while_another_owner_uses_the_session_but_not_on_the_screen_of_the_owner() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { state_dir: Some(dir.path().join("state")), ..Settings::default() };
        let app = AppContext::new(settings, Environment::read().unwrap(), std::sync::Arc::new(|_: &str| {}));
        let (session, task) = (SessionId::new("s"), TaskId::from("r1"));
        let owner = app.store().unwrap().create(&session).unwrap();
        let undo = |user| undo_changes((&session, &task), user, &|| false, &app);
        let nothing_to_undo = |done: Result<Result<UndoReport, UndoError>, Failure>| {
            matches!(done, Ok(Err(UndoError::Nothing { .. })))
        };
        let refused = undo(SessionUser::Unknown).unwrap_err();
        assert!(refused.message.starts_with("session `s` is in use by another process"), "{refused:?}");
        assert!(nothing_to_undo(undo(SessionUser::ThisProcess)), "the lock is held by this process");
        std::fs::write(app.session_dir(&session).join(althing_journal::SESSION_LOCK), "1\n").unwrap();
        let refused = undo(SessionUser::ThisProcess).unwrap_err();
        assert!(refused.message.ends_with("(pid 1)"), "another process has opened the session: {refused:?}");
        drop(owner);
        assert!(nothing_to_undo(undo(SessionUser::Unknown)));
    }
}
