//! `althing undo RUN`: restores the files that a run changed in context paths, or that the chat agent changed in its
//! project; with `--diff`, only shows the changes.

use crate::exit::Exit;
use crate::show::{self, diff};
use althing_app::AppContext;
use althing_app::Failure;
use althing_app::{resume, trust};
use althing_protocol::{Seq, SessionId, TaskId};
use althing_text::count;
use althing_text::sanitize;
use std::io::Write;
use std::path::Path;

pub fn run(run: &str, only_show: bool, app: &AppContext) -> Result<Exit, Failure> {
    let store = resume::existing_store(app)?;
    let (session, task) = run.split_once('.').map_or((run, None), |(session, task)| (session, Some(task)));
    let session = SessionId::new(session);
    // Fails with a message if there is no such session.
    store.read(&session, Seq(0)).map_err(Failure::stored)?;
    // Undoing writes to the paths that the session recorded, so the session must be trusted.
    trust::require_own_session(&app.session_dir(&session), app)?;
    let task = task
        .map(TaskId::from)
        .or_else(|| althing_workspace::last_task_with_changes(&app.session_dir(&session)));
    let task = task.ok_or_else(|| Failure::usage(format!("nothing in session {session} changed a file")))?;
    let run_dir = app.task_dir(&session, &task);
    if only_show {
        return review(&run_dir);
    }
    let report = althing_workspace::undo(&run_dir)
        .map_err(|error| Failure::usage(error.to_string()).hint("`althing sessions` lists the sessions"))?;
    let mut out = std::io::stdout().lock();
    let mut say = |text: String| {
        // Ignore a closed pipe.
        let _ = writeln!(out, "{text}");
    };
    for path in &report.restored {
        say(format!("restored {}", sanitize::line(path)));
    }
    for path in &report.removed {
        say(format!("removed  {}", sanitize::line(path)));
    }
    for path in &report.not_covered {
        say(format!("kept     {} as it is now (its earlier content was not stored)", sanitize::line(path)));
    }
    say(format!(
        "changes to {} undone",
        count((report.restored.len() + report.removed.len()) as u64, "file")
    ));
    Ok(Exit::Answered)
}

/// Prints what a run changed as a diff.
fn review(run_dir: &Path) -> Result<Exit, Failure> {
    let changed = althing_workspace::review(run_dir)?;
    let mut out = std::io::stdout().lock();
    for one in &changed {
        // Ignore a closed pipe.
        let _ = out.write_all(diff(one).as_bytes());
    }
    if changed.is_empty() {
        show::notice("the run changed no file in context paths");
    }
    Ok(Exit::Answered)
}
