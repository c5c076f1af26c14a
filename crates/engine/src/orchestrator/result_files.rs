//! The result files of a session's tasks (`final_answer.md`, `result.json`, …), derived from the facts and written
//! before the facts are published. A missing file can be written again from the log.

use super::session::Session;
use super::{Input, SessionDeps};
use crate::coordination::Coordination;
use crate::decider::Decider;
use crate::interactive::InteractiveSession;
use crate::workflow::WorkflowExecutor;
use althing_protocol::{Event, Fact, JournalError, Notice, NoticeLevel, SessionId, TaskId, TaskSpec};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// The name of the report of a run or workflow, which is rendered from the log.
pub const REPORT: &str = "report.md";

/// A result file: its task, its name and its text.
pub type ResultFile = (TaskId, &'static str, String);

/// The result files of all tasks that ended in these events of a session.
pub fn result_files(
    session: &SessionId,
    events: &[Arc<Event>],
    task_dir: &dyn Fn(&TaskId) -> String,
) -> Result<Vec<ResultFile>, serde_json::Error> {
    let mut deciders: BTreeMap<TaskId, Box<dyn Decider>> = BTreeMap::new();
    for event in events {
        if let Fact::TaskCreated { id, spec, .. } = &event.fact
            && let Some(decider) = new_decider(session, id, spec, task_dir)
        {
            deciders.insert(id.clone(), decider);
        }
        for decider in deciders.values_mut() {
            decider.apply(event);
        }
    }
    let mut files = Vec::new();
    for (task, decider) in &deciders {
        files.extend(decider.files()?.into_iter().map(|(name, text)| (task.clone(), name, text)));
    }
    Ok(files)
}

/// Creates the decider of a task. None for a program and for the work of a member: the decider of their workflow or run
/// decides about them.
pub(super) fn new_decider(
    session: &SessionId,
    id: &TaskId,
    spec: &TaskSpec,
    task_dir: &dyn Fn(&TaskId) -> String,
) -> Option<Box<dyn Decider>> {
    let (session, task) = (session.clone(), id.clone());
    Some(match spec {
        TaskSpec::Run(spec) => Box::new(Coordination::new(session, task, (**spec).clone(), task_dir(id))),
        TaskSpec::Workflow(spec) => Box::new(WorkflowExecutor::new(task, (**spec).clone())),
        TaskSpec::Chat(spec) => Box::new(InteractiveSession::new(session, task, (**spec).clone())),
        TaskSpec::Program(_) | TaskSpec::Work { .. } => return None,
    })
}

impl Session {
    /// Writes each task's result files once. A lasting failure is recorded as a warning; a failure that may pass is
    /// returned, and the next call tries again.
    pub(super) fn write_result_files(&mut self) -> Option<JournalError> {
        let (mut passing, mut lasting, mut ended) = (None, Vec::new(), Vec::new());
        for (task, decider) in &self.deciders {
            if self.files_written.contains(task) {
                continue;
            }
            match decider.files() {
                Ok(files) if files.is_empty() => continue,
                Ok(files) => {
                    let SessionDeps { journal, .. } = &mut self.deps;
                    let mut written = files.iter().map(|(name, text)| journal.write_file(task, name, text));
                    match written.find_map(Result::err) {
                        Some(error) if error.is_retryable() => {
                            passing = Some(error);
                            continue;
                        }
                        error => lasting.extend(error.map(|error| (error.to_string(), error.hint))),
                    }
                }
                Err(error) => lasting.push((error.to_string(), None)),
            }
            self.files_written.insert(task.clone());
            ended.push(task.clone());
        }
        lasting.extend(self.write_reports(&ended));
        for (error, hint) in lasting {
            let text = format!("the result files could not be written: {error}");
            let notice = Notice { level: NoticeLevel::Warning, text, hint };
            self.record(None, None, Fact::Notice(notice));
        }
        passing
    }

    /// A report that cannot be written can be rendered again from the log.
    fn write_reports(&mut self, ended: &[TaskId]) -> Option<(String, Option<String>)> {
        let SessionDeps { journal, reporter, .. } = &mut self.deps;
        let reports = reporter.as_mut().filter(|_| !ended.is_empty()).map(|render| render(ended));
        let written = reports.unwrap_or_default().into_iter();
        let mut written = written.map(|(task, text)| journal.write_file(&task, REPORT, &text));
        written.find_map(Result::err).map(|error| (error.to_string(), error.hint))
    }

    /// Retries while the failure may pass, until `journal_retry_timeout` is over or the session must stop. No fact is
    /// published meanwhile. Input that arrives is added to `late`.
    pub(super) fn write_result_files_or_wait(&mut self, inbox: &Receiver<Input>, late: &mut Vec<Input>) {
        let began = self.deps.clock.now();
        while let Some(error) = self.write_result_files() {
            let waited = self.deps.clock.now().since(began).duration();
            if self.gave_up_files || self.halting || waited >= self.deps.journal_retry_timeout {
                // The facts are durable, so the files can be written when the session is resumed.
                self.gave_up_files = true;
                return;
            }
            self.wait_for_disk(error, inbox, late);
        }
    }
}
