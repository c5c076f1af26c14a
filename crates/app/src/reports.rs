//! Renders the reports of sessions: `report.md` when a run or workflow ends, and on request.

use crate::context::AppContext;
use althing_engine::Reporter;
use althing_protocol::{Event, Seq, SessionId, SessionStore, TaskId};
use althing_view::report::{Places, SessionReport, markdown, run_blocks, session_blocks};
use std::path::Path;
use std::sync::Arc;

/// The report of a session; `None` if the log does not begin with the opening of the session.
pub fn session_report(id: &SessionId, events: &[Arc<Event>], app: &AppContext) -> Option<SessionReport> {
    report_in(&app.session_dir(id), events)
}

fn report_in(dir: &Path, events: &[Arc<Event>]) -> Option<SessionReport> {
    let task = |task: &TaskId| althing_journal::task_dir(dir, task).display().to_string();
    SessionReport::of(events, &Places { session: dir.display().to_string(), task: &task })
}

pub(crate) fn reporter(id: SessionId, store: Arc<dyn SessionStore>, app: &AppContext) -> Reporter {
    let dir = app.session_dir(&id);
    Box::new(move |tasks| {
        // If the log cannot be read, there is no report; it can be rendered later.
        let events = store.read(&id, Seq(0)).map(|stored| stored.events).unwrap_or_default();
        task_reports(&dir, &events, tasks)
    })
}

/// The reports of those of the tasks that are runs or the workflow.
pub(crate) fn task_reports(dir: &Path, events: &[Arc<Event>], tasks: &[TaskId]) -> Vec<(TaskId, String)> {
    let Some(report) = report_in(dir, events) else { return Vec::new() };
    let text = |task: &TaskId| match report.run(task.as_str()) {
        Some(run) => Some(markdown(&run_blocks(run))),
        None => (*task == TaskId::workflow()).then(|| markdown(&session_blocks(&report))),
    };
    tasks.iter().filter_map(|task| Some((task.clone(), text(task)?))).collect()
}
