//! Follows a session to its end: shows progress, streams events, handles signals, and prints the result.

use crate::args::{Options, StreamEvents};
use crate::exit::Exit;
use crate::ops;
use crate::output_file::OutputFile;
use crate::show::{self, Display};
use crate::stop::{StopRequest, StopSignals};
use althing_app::{AppContext, Failure, FailureKind, LocalSessions, SessionEnd, SessionService, SystemClock};
use althing_engine::WorkflowExecutor;
use althing_protocol::{
    Clock, EventStream, Fact, FeedItem, Interest, Op, Origin, PlanRef, RunEnd, RunResult, Seq, SessionId,
    Submission, TaskId, TaskSpec, TaskStatus, Verdict,
};
use althing_view::{ChangedFiles, labels};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;

const REDRAW: Duration = Duration::from_millis(125);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Answer,
    Json,
    Facts,
    Everything,
}

pub struct Followed {
    pub exit: Exit,
    /// The result of the newest run that ended, if there is one.
    pub result: Option<RunResult>,
}

pub struct Follower<'a> {
    session: SessionId,
    output: Output,
    output_file: Option<OutputFile>,
    display: Display,
    /// Whether the plan is executed in the same session; then the answer of the execution is the result.
    executes_plan: bool,
    workflow: Option<WorkflowExecutor>,
    log_dir: PathBuf,
    runtime: &'a Runtime,
    signals: RefCell<&'a mut StopSignals>,
    /// Lines of stdin, with `--take-ops`: each is an op as JSON.
    ops: Option<UnboundedReceiver<String>>,
    /// The first error of writing events to stdout. A closed pipe is no error.
    write_error: Option<std::io::Error>,
    resume_command: String,
    /// Whether this process ran the session. If not, nothing is written to the session's directory, because it may
    /// belong to somebody else.
    ran_here: bool,
}

impl<'a> Follower<'a> {
    pub fn new(
        session: SessionId,
        options: &Options,
        app: &AppContext,
        output_file: Option<OutputFile>,
        (runtime, signals): (&'a Runtime, &'a mut StopSignals),
    ) -> Self {
        let output = match options.stream_events {
            Some(StreamEvents::All) => Output::Everything,
            Some(StreamEvents::Facts) => Output::Facts,
            None if options.json => Output::Json,
            None => Output::Answer,
        };
        let live =
            app.environment.stderr_is_terminal && !matches!(output, Output::Facts | Output::Everything);
        let display = if live { Display::Live(Box::default()) } else { Display::Plain(Box::default()) };
        let resume_command = format!("althing resume {session}{}", app.settings.state_dir_option());
        let log_dir = app.session_dir(&session);
        Self {
            session,
            output,
            output_file,
            display,
            executes_plan: false,
            workflow: None,
            log_dir,
            runtime,
            signals: RefCell::new(signals),
            ops: options.take_ops.then(ops::lines),
            write_error: None,
            resume_command,
            ran_here: true,
        }
    }

    pub fn plain(mut self) -> Self {
        self.display = Display::Plain(Box::default());
        self
    }

    pub fn run(mut self, sessions: &LocalSessions, runtime: &Runtime) -> Result<Followed, Failure> {
        let all_events = matches!(self.display, Display::Live(_)) || self.output == Output::Everything;
        let interest = if all_events { Interest::Everything } else { Interest::Facts };
        let followed = runtime.block_on(async {
            let mut events = sessions.follow(&self.session, Seq(0), interest).await?;
            self.follow(&mut *events, sessions).await
        });
        let Ok(signalled) = followed else {
            runtime.block_on(sessions.abandon());
            return followed.map(|_| Followed { exit: Exit::NoAnswer, result: None });
        };
        let stopped = runtime.block_on(sessions.ended(&self.session)).map_err(|failure| {
            failure.hint(format!("all recorded events are saved; resume with `{}`", self.resume_command))
        })?;
        if let Display::Live(live) = &mut self.display {
            live.finish(SystemClock.now());
        }
        let result = self.result().map(|(_, result)| result.clone());
        let exit = self.finish(stopped, signalled);
        runtime.block_on(sessions.close());
        Ok(Followed { exit: exit?, result })
    }

    pub fn report_end(
        mut self,
        mut facts: Box<dyn EventStream>,
        stopped: SessionEnd,
        runtime: &Runtime,
    ) -> Result<Exit, Failure> {
        runtime.block_on(async {
            while let Some(item) = facts.next().await {
                if let Ok(item) = item {
                    self.fold(&item);
                }
            }
        });
        if let Some(workflow) = &self.workflow {
            let tasks = workflow.report().stages.into_iter().flat_map(|stage| stage.tasks);
            for task in tasks {
                let over = task.status.is_final() || task.status == TaskStatus::Pending;
                let status = if over { task.status } else { TaskStatus::Interrupted };
                show::notice(&format!("{:24}  {}", task.id, labels::task_status(status)));
            }
        }
        self.finish(stopped, false)
    }

    /// Returns whether a signal asked to stop.
    async fn follow(
        &mut self,
        events: &mut dyn EventStream,
        sessions: &LocalSessions,
    ) -> Result<bool, Failure> {
        show::notice(&format!("session: {}", self.log_dir.display()));
        let session = self.session.clone();
        let mut redraw = tokio::time::interval(REDRAW);
        let live = matches!(self.display, Display::Live(_));
        let mut signalled = false;
        loop {
            tokio::select! {
                item = events.next() => match item {
                    None => return Ok(signalled),
                    Some(Ok(item)) => self.take(&item),
                    Some(Err(error)) => return Err(error.into()),
                },
                asked = self.signals.get_mut().next_request() => match asked {
                    StopRequest::Stop(name) => {
                        signalled = true;
                        show::notice(&format!("{name}: stopping …"));
                        // Fails only if the session has already ended, and then its events say so.
                        let shutdown = Submission::new(Op::Shutdown, Origin::Signal);
                        let _ = sessions.submit(&session, shutdown);
                    }
                    StopRequest::End(why) => return Err(self.interrupted(why)),
                },
                line = next(&mut self.ops) => match line {
                    None => self.ops = None,
                    Some(line) if line.trim().is_empty() => {}
                    Some(line) => match ops::read(&line) {
                        Ok(submission) => drop(sessions.submit(&session, submission)),
                        Err(why) => show::notice(&why),
                    },
                },
                _ = redraw.tick(), if live => {
                    if let Display::Live(live) = &mut self.display {
                        live.tick(SystemClock.now());
                    }
                }
            }
        }
    }

    fn interrupted(&self, why: &str) -> Failure {
        let hint = format!("all recorded events are saved; resume with `{}`", self.resume_command);
        Failure::usage(why).hint(hint).kind(Exit::Interrupted.into())
    }

    fn take(&mut self, item: &FeedItem) {
        let line = match item {
            FeedItem::Event(event) if matches!(self.output, Output::Facts | Output::Everything) => {
                Some(serde_json::to_string(&**event))
            }
            FeedItem::Progress(progress) if self.output == Output::Everything => {
                Some(serde_json::to_string(&**progress))
            }
            _ => None,
        };
        if let Some(line) = line {
            // A closed pipe does not stop the run: the run's result is on disk.
            let print = |line: String| show::write_json_line(&line);
            if let Err(error) = line.map_err(std::io::Error::from).and_then(print) {
                self.write_error.get_or_insert(error);
            }
        }
        self.display.take(item);
        self.note(item);
    }

    pub fn fold(&mut self, item: &FeedItem) {
        self.display.follow(item);
        self.note(item);
    }

    fn note(&mut self, item: &FeedItem) {
        let FeedItem::Event(event) = item else { return };
        match &event.fact {
            // Prints where the plan is stored if its execution follows. For a run that is part of another task, nothing
            // is printed.
            Fact::Decided(Verdict::Finished { result, .. })
                if event.task.as_ref().is_some_and(|task| !task.is_subtask()) =>
            {
                if let Some(plan) = result.plan.as_ref().filter(|_| result.follow_up.is_some()) {
                    self.display.note(&format!("plan stored in {}", plan.path));
                }
            }
            Fact::TaskCreated { id, spec: TaskSpec::Run(spec), .. } if !id.is_subtask() => {
                self.executes_plan |= spec.execution.is_some();
            }
            Fact::TaskCreated { id, spec: TaskSpec::Workflow(spec), .. } => {
                self.workflow = Some(WorkflowExecutor::new(id.clone(), (**spec).clone()));
            }
            _ => {}
        }
        if let Some(workflow) = &mut self.workflow {
            workflow.apply(event);
        }
    }

    /// The newest finished run that is not part of another task: how it ended, and its result.
    fn result(&self) -> Option<(RunEnd, &RunResult)> {
        let run = self.display.session().finished_run()?;
        Some((run.end?, run.result.as_deref()?))
    }

    fn finish(self, stopped: SessionEnd, signalled: bool) -> Result<Exit, Failure> {
        match stopped {
            SessionEnd::Disk(error) => {
                Err(Failure::no_answer(format!("nothing more can be saved: {}", error.message))
                    .maybe_hint(error.hint)
                    .hint(format!("once that is solved, resume with `{}`", self.resume_command))
                    .kind(if signalled { FailureKind::Interrupted } else { FailureKind::NoAnswer }))
            }
            SessionEnd::Halted(results) => {
                if self.workflow.is_some() && self.output == Output::Json {
                    self.print_workflow()?;
                }
                let runs = self.output == Output::Json && self.workflow.is_none();
                for result in results.into_iter().filter(|_| runs) {
                    self.print(RunEnd::Cancelled, &result)?;
                }
                show::notice(&format!("interrupted; resume with `{}`", self.resume_command));
                Ok(Exit::Interrupted)
            }
            SessionEnd::Finished => self.print_end(),
        }
    }

    pub fn print_again(mut self) -> Result<Exit, Failure> {
        self.ran_here = false;
        self.print_end()
    }

    fn print_end(self) -> Result<Exit, Failure> {
        let exit = if self.workflow.is_some() {
            self.print_workflow()?
        } else if let Some((end, result)) = self.result() {
            if self.executes_plan && result.modes.planning {
                return Err(not_executed(end, result.plan.as_ref(), result.error.as_deref()));
            }
            let unsaved = self.unsaved(result).filter(|_| self.ran_here);
            let mut result = result.clone();
            if let Some(unsaved) = &unsaved {
                result.error.get_or_insert_with(|| unsaved.message.clone());
            }
            self.print(end, &result)?;
            if let Some(unsaved) = unsaved {
                return Err(unsaved);
            }
            end.into()
        } else {
            return Err(Failure::no_answer("the session ended without a result"));
        };
        match &self.write_error {
            Some(error) => Err(self.write_failure("stdout", error, &self.log_dir)),
            None => Ok(exit),
        }
    }

    fn print_workflow(&self) -> Result<Exit, Failure> {
        let Some(workflow) = &self.workflow else { return Ok(Exit::NoAnswer) };
        let report = workflow.report();
        let exit = match report.status {
            TaskStatus::Done => Exit::Answered,
            TaskStatus::Cancelled => Exit::Interrupted,
            TaskStatus::Failed => Exit::NoAnswer,
            _ => Exit::Interrupted,
        };
        if let Some(error) = report.error.as_ref().filter(|_| exit != Exit::Answered) {
            show::notice(&format!("althing: {error}"));
        }
        // The output of the last stage is the workflow's answer.
        let last = report.stages.last().map(|stage| stage.tasks.as_slice()).unwrap_or_default();
        let outputs: Vec<String> = last
            .iter()
            .filter_map(|task| task.output.as_ref().filter(|output| !output.trim().is_empty()))
            .map(|output| output.trim_end().to_owned())
            .collect();
        let answer = outputs.join("\n\n");
        let unwritten =
            self.write_output_file(Some(&answer).filter(|_| exit == Exit::Answered), &self.log_dir);
        let printed = match self.output {
            Output::Json => {
                let mut json = serde_json::json!({ "session_id": self.session });
                if let (Some(json), Ok(serde_json::Value::Object(report))) =
                    (json.as_object_mut(), serde_json::to_value(&report))
                {
                    json.extend(report);
                    json.insert("log_dir".into(), self.log_dir.display().to_string().into());
                }
                show::write_json_line(&json.to_string())
            }
            Output::Answer if !answer.is_empty() => show::write_answer(&answer),
            Output::Answer | Output::Facts | Output::Everything => Ok(()),
        };
        printed.map_err(|error| self.write_failure("stdout", &error, &self.log_dir))?;
        unwritten.map_or(Ok(exit), Err)
    }

    /// Writes the answer to the file of `--output-file`. The failure is returned as a value, so that the answer is
    /// still printed.
    fn write_output_file(&self, answer: Option<&String>, stored: &Path) -> Option<Failure> {
        let (file, answer) = self.output_file.as_ref().zip(answer)?;
        let (target, job) = (file.path.display().to_string(), (file.clone(), answer.clone()));
        // Opening a pipe waits until somebody reads it.
        let mut signals = self.signals.borrow_mut();
        let writing = signals.run_unless_stopped(move || job.0.write(&job.1));
        match self.runtime.block_on(writing) {
            Ok(written) => Some(self.write_failure(&target, &written.err()?, stored)),
            Err(stopped) => {
                let failure = self.write_failure(&target, &std::io::Error::other(stopped), stored);
                Some(failure.kind(FailureKind::Interrupted))
            }
        }
    }

    /// This is no usage error, because the work is done: a script may repeat the command after a usage error.
    fn write_failure(&self, target: &str, error: &std::io::Error, stored: &Path) -> Failure {
        let message = format!("the result could not be written to {target}: {error}");
        Failure::no_answer(message).hint(format!(
            "the result is saved in {} (session {})",
            stored.display(),
            self.session
        ))
    }

    /// The directory of the run's files. Not `result.log_dir`: a log that an old version wrote may name another
    /// directory there, the one where the session was started.
    fn run_dir(&self, result: &RunResult) -> PathBuf {
        match result.run_id.split_once('.') {
            Some((_, task)) => althing_journal::task_dir(&self.log_dir, &TaskId::from(task)),
            None => PathBuf::from(&result.log_dir),
        }
    }

    /// A failure if the log has an answer of the run, but the file `final_answer.md` is missing.
    fn unsaved(&self, result: &RunResult) -> Option<Failure> {
        let dir = self.run_dir(result);
        let is_missing = result.final_answer.is_some() && !dir.join("final_answer.md").is_file();
        is_missing.then(|| {
            Failure::no_answer(format!("the result could not be saved in {}", dir.display()))
                .hint(format!("the session's log has the result; `{}` writes the files", self.resume_command))
        })
    }

    fn print(&self, end: RunEnd, result: &RunResult) -> Result<(), Failure> {
        if let Some(error) = result.error.as_ref().filter(|_| end != RunEnd::Answered) {
            show::notice(&format!("althing: {error}"));
        }
        let (answer, stored) = (result.final_answer.as_ref(), self.run_dir(result).join("final_answer.md"));
        let unwritten = self.write_output_file(answer, &stored);
        let footer = self.footer(result);
        let printed = match (self.output, answer) {
            (Output::Json, _) => serde_json::to_string(result)
                .map_err(std::io::Error::from)
                .and_then(|json| show::write_json_line(&json)),
            (Output::Answer, Some(answer)) if footer.is_empty() => {
                show::write_answer(answer.trim_end_matches('\n'))
            }
            (Output::Answer, Some(answer)) => {
                show::write_answer(format!("{}{footer}", answer.trim_end()).trim_end_matches('\n'))
            }
            (Output::Answer, None) | (Output::Facts | Output::Everything, _) => Ok(()),
        };
        printed.map_err(|error| self.write_failure("stdout", &error, &stored))?;
        unwritten.map_or(Ok(()), Err)
    }

    /// The list of files written to context paths, printed below the answer. If this process ran the session, a long
    /// list is also stored in the log directory of the run.
    fn footer(&self, result: &RunResult) -> String {
        if self.ran_here
            && let Err(error) =
                althing_workspace::write_change_list(&result.context_path_writes, &self.run_dir(result))
        {
            show::notice(&format!("the list of written files could not be saved: {error}"));
        }
        let files = ChangedFiles::of(result);
        if let (Output::Answer, Some(note)) = (self.output, files.note()) {
            show::notice(&format!("note: {note}"));
        }
        files.footer().map(|footer| format!("\n\n{footer}")).unwrap_or_default()
    }
}

fn not_executed(end: RunEnd, plan: Option<&PlanRef>, error: Option<&str>) -> Failure {
    // After a planning run that was answered, the execution follows unless it is cancelled.
    let end = if end == RunEnd::Answered { RunEnd::Cancelled } else { end };
    let failure = match (plan, error) {
        (None, _) => Failure::usage("there is no plan to execute"),
        (Some(_), Some(error)) if end != RunEnd::Cancelled => {
            Failure::usage(format!("the plan was not executed: {error}"))
        }
        (Some(_), _) => Failure::usage("the execution of the plan was cancelled"),
    };
    let stored = plan.map(|plan| {
        format!("the plan is stored in {}; execute it with --execute-plan {}", plan.path, plan.id)
    });
    failure.maybe_hint(stored).kind(Exit::from(end).into())
}

/// Waits forever if `lines` is `None`, so that the other branches of the `select!` decide.
async fn next(lines: &mut Option<UnboundedReceiver<String>>) -> Option<String> {
    match lines {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_was_not_executed_is_named_with_the_reason() {
        let plan = PlanRef { id: "plan-1".into(), path: "/state/plans/plan-1".into() };
        for end in [RunEnd::Answered, RunEnd::Cancelled] {
            let failure = not_executed(end, Some(&plan), Some("it was cancelled"));
            assert_eq!(failure.message, "the execution of the plan was cancelled");
            assert_eq!(failure.kind, FailureKind::Interrupted);
            let hint = "the plan is stored in /state/plans/plan-1; execute it with --execute-plan plan-1";
            assert_eq!(failure.hints, [hint]);
        }
        let limit = not_executed(RunEnd::Limit, Some(&plan), Some("the time limit passed"));
        assert_eq!(limit.message, "the plan was not executed: the time limit passed");
        assert_eq!(limit.kind, FailureKind::Limit);
        let none = not_executed(RunEnd::NoAnswer, None, None);
        assert_eq!(none.message, "there is no plan to execute");
    }
}
