//! `althing undo RUN`: restores the files that a run changed in context paths, or that the chat agent changed in its
//! project; with `--diff`, only shows the changes.

use crate::exit::Exit;
use crate::show::{self, diff, print};
use crate::stop;
use althing_app::AppContext;
use althing_app::Failure;
use althing_app::undo::{SessionUser, undo_changes};
use althing_app::{resume, trust};
use althing_protocol::{Seq, SessionId, TaskId};
use althing_text::count;
use althing_text::sanitize;
use althing_workspace::{UndoError, UndoReport, is_unlisted};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub fn run(run: &str, only_show: bool, app: &AppContext) -> Result<Exit, Failure> {
    // After a failure, the trust in the changed session is not recorded.
    let exit = undo(run, only_show, app)?;
    let session = run.split_once('.').map_or(run, |(session, _)| session);
    trust::remember_again(&app.session_dir(&SessionId::new(session)), app);
    Ok(exit)
}

fn undo(run: &str, only_show: bool, app: &AppContext) -> Result<Exit, Failure> {
    let store = resume::existing_store(app)?;
    let (session, task) = run.split_once('.').map_or((run, None), |(session, task)| (session, Some(task)));
    let session = SessionId::new(session);
    resume::refuse_huge_log(&session, &*store, app)?;
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
    let again = format!("`althing undo {session}.{task}` continues: what is already restored stays restored");
    let report = undo_until_signal((session.clone(), task), &again, app.clone())?.map_err(|error| {
        let hint = match &error {
            UndoError::Nothing { .. } => Some(format!(
                "`althing undo {session}`, without the id of a run, undoes the last changes of the session"
            )),
            UndoError::Changed { .. } => Some(format!(
                "`althing undo {run} --diff` shows what the run changed; correct these files by hand"
            )),
            UndoError::NotClosed { .. } => {
                Some(format!("`althing resume {session}` continues the run, which then lists its changes"))
            }
            UndoError::Done { .. } | UndoError::Stopped | UndoError::Busy(_) => None,
            UndoError::Disk(_) => Some("solve this, then run the same command again".into()),
            UndoError::Unfinished { report, .. } => {
                print_report(report);
                Some(again)
            }
        };
        let stopped = matches!(&error, UndoError::Stopped | UndoError::Unfinished { why: None, .. });
        let failure = Failure::usage(summary(&error)).maybe_hint(hint);
        if stopped { failure.kind(Exit::Interrupted.into()) } else { failure }
    })?;
    print_report(&report);
    let files = report.restored.len() + report.removed.len() + report.earlier.len();
    let earlier = if report.earlier.is_empty() {
        String::new()
    } else {
        format!(", {} of them by an earlier undo that was interrupted", report.earlier.len())
    };
    print(&format!("changes to {} undone{earlier}", count(files as u64, "file")));
    Ok(Exit::Answered)
}

/// The first signal stops the undo before its next file; the second stops it at once.
fn undo_until_signal(
    (session, task): (SessionId, TaskId),
    again: &str,
    app: AppContext,
) -> Result<Result<UndoReport, UndoError>, Failure> {
    let runtime = stop::small_runtime()?;
    let mut signals = stop::signals(&runtime)?;
    let is_stopped = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_stopped);
    runtime.block_on(async move {
        let work = move || {
            let is_stopped = || asked.load(Ordering::Relaxed);
            undo_changes((&session, &task), SessionUser::Unknown, &is_stopped, &app)
        };
        let mut working = stop::start_thread(work)?;
        loop {
            tokio::select! {
                done = &mut working => {
                    return done.map_err(|_| Failure::no_answer("the undo failed because of a bug in Althing").hint(again))?;
                }
                name = signals.next() => {
                    if is_stopped.swap(true, Ordering::Relaxed) {
                        let message = "a second signal arrived, so the undo was stopped in the middle";
                        return Err(Failure::usage(message).hint(again).kind(Exit::Interrupted.into()));
                    }
                    show::notice(&format!("{name}: stopping after the current file …"));
                }
            }
        }
    })
}

fn print_report(report: &UndoReport) {
    for path in &report.restored {
        print(&format!("restored {}", sanitize::line(path)));
    }
    for path in &report.removed {
        print(&format!("removed  {}", sanitize::line(path)));
    }
    for path in &report.left {
        print(&format!("not undone {} (still as the run left it)", sanitize::line(path)));
    }
    for path in &report.not_covered {
        print(&format!(
            "kept     {} as it is now (its earlier content was not stored)",
            sanitize::line(path)
        ));
    }
}

fn summary(error: &UndoError) -> String {
    match error {
        UndoError::Unfinished { report, .. } => {
            let done = report.restored.len() + report.removed.len() + report.earlier.len();
            let all = done + report.left.len();
            format!("{error}: changes to {done} of {} are undone", count(all as u64, "file"))
        }
        error => error.to_string(),
    }
}

fn review(run_dir: &Path) -> Result<Exit, Failure> {
    let changed = althing_workspace::review(run_dir)?;
    for one in &changed {
        let text = diff(one);
        print(text.strip_suffix('\n').unwrap_or(&text));
    }
    if is_unlisted(run_dir) {
        show::notice("what the run changed is not listed yet: let it end, or resume it");
    } else if changed.is_empty() {
        show::notice("the run changed no file in context paths");
    }
    Ok(Exit::Answered)
}
