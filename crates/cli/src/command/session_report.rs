//! `althing sessions show`: the report of a session or of one of its runs.

use super::sessions::{SessionName, find};
use crate::exit::Exit;
use crate::show::{self, print, print_json};
use althing_app::{AppContext, Failure, reports};
use althing_protocol::{Seq, SessionStore, StoredSession};
use althing_view::report::{self, Block, SessionReport, run_blocks, session_blocks};
use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    Markdown,
    Json,
}

pub fn run(name: &str, form: Form, store: &dyn SessionStore, app: &AppContext) -> Result<Exit, Failure> {
    let SessionName { session, task } = find(name, store)?;
    let StoredSession { events, damage, .. } = store.read(&session, Seq(0)).map_err(Failure::stored)?;
    let report = reports::session_report(&session, &events, app);
    match (&report, task, form) {
        (Some(report), Some(task), form) => show_run(report, &task, form)?,
        (_, None, Form::Json) => {
            let checkpoint = althing_journal::rebuild_checkpoint(&events);
            let mut whole = serde_json::to_value(&checkpoint).map_err(|error| unshown(&error))?;
            if let Value::Object(fields) = &mut whole {
                fields.insert("damage".into(), json!(damage));
                fields
                    .insert("report".into(), serde_json::to_value(&report).map_err(|error| unshown(&error))?);
            }
            print_json(&whole.to_string());
        }
        (Some(report), None, form) => print_blocks(&session_blocks(report), form),
        (None, ..) => {
            return Err(Failure::usage(format!("the log of session {session} has no readable beginning")));
        }
    }
    if let Some(damage) = damage {
        show::notice(&format!("the log is damaged: {damage}"));
    }
    Ok(Exit::Answered)
}

fn show_run(report: &SessionReport, task: &str, form: Form) -> Result<(), Failure> {
    let run = report.run(task).ok_or_else(|| no_run(report, task))?;
    if form == Form::Json {
        print_json(&serde_json::to_string(run).map_err(|error| unshown(&error))?);
    } else {
        print_blocks(&run_blocks(run), form);
    }
    Ok(())
}

pub fn no_run(report: &SessionReport, task: &str) -> Failure {
    let runs: Vec<&str> = report.runs.iter().map(|run| run.run_id.as_str()).collect();
    let failure = Failure::usage(format!("session {} has no run {task}", report.session));
    if runs.is_empty() { failure } else { failure.hint(format!("its runs: {}", runs.join(", "))) }
}

fn print_blocks(blocks: &[Block], form: Form) {
    let text = if form == Form::Markdown { report::markdown(blocks) } else { report::plain(blocks) };
    print(text.strip_suffix('\n').unwrap_or(&text));
}

fn unshown(error: &serde_json::Error) -> Failure {
    Failure::no_answer(format!("the session cannot be shown: {error}"))
}
