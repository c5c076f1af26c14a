//! Asks a person about a config, session or plan that was found in the working directory and needs trust.

use crate::context::AppContext;
use crate::failure::Failure;
use crate::team;
use althing_config::LoadPurpose;
use althing_protocol::{ContextPath, Fact, Op, Seq, SessionId, SessionOpened, StageBody, WorkflowSpec};
use std::path::Path;
use std::sync::Arc;

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustQuestion {
    /// What was found, and where.
    pub what: String,
    /// What the found thing would do, one line each.
    pub would: Vec<String>,
}

/// A person's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustAnswer {
    /// Use what was found in this command.
    Once,
    /// Use what was found in this command and, as long as it does not change, in later ones.
    Always,
    /// Do not use what was found.
    No,
}

/// Asks the person at the terminal, and blocks until there is an answer.
pub type AskTrust = Arc<dyn Fn(&TrustQuestion) -> TrustAnswer + Send + Sync>;

pub(crate) fn declined(question: &TrustQuestion) -> Failure {
    Failure::usage(format!("{}, and you did not accept it.\nNothing was started or sent.", question.what))
}

pub(crate) fn session_question(dir: &Path, shown: &str, app: &AppContext) -> TrustQuestion {
    let what = format!(
        "The session in {shown} was found here and not started by you, or it has changed since you accepted it"
    );
    let id = SessionId::new(dir.file_name().unwrap_or_default().to_string_lossy());
    let read = app.existing_store().ok().flatten().and_then(|store| store.read(&id, Seq(0)).ok());
    let opened = read.and_then(|stored| match stored.events.first().map(|event| &event.fact) {
        Some(Fact::SessionOpened(opened)) => Some(opened.clone()),
        _ => None,
    });
    let would = match opened {
        Some(opened) => session_lines(&opened, app),
        None => vec!["its log cannot be read".to_owned()],
    };
    TrustQuestion { what, would }
}

fn session_lines(opened: &SessionOpened, app: &AppContext) -> Vec<String> {
    let mut lines = vec![format!("goal: {}", opened.goal), format!("works in {}", opened.cwd)];
    let (report, _) =
        team::check(&opened.config_source, &opened.config_text, &app.environment, LoadPurpose::Check);
    if let Some(config) = &report.config {
        lines.extend(config.needs_trust().iter().map(|need| format!("{}: {}", need.location, need.what)));
    } else {
        lines.push(format!("its recorded config ({}) has errors", opened.config_source));
    }
    match &opened.op {
        Some(Op::StartWorkflow { spec }) => lines.extend(workflow_lines(spec)),
        Some(Op::StartRun { spec }) => lines.extend(spec.context_paths.iter().map(path_line)),
        Some(Op::StartChat { spec }) => {
            lines.extend(spec.team.context_paths.iter().map(path_line));
            if spec.agent.is_some() {
                lines.push("its chat agent has file tools and can propose runs".to_owned());
            }
        }
        _ => {}
    }
    lines.push("its undo restores and deletes files".to_owned());
    lines
}

fn path_line(path: &ContextPath) -> String {
    format!("would {} {}", if path.writable { "read and write" } else { "read" }, path.path)
}

fn workflow_lines(spec: &WorkflowSpec) -> Vec<String> {
    let tasks = spec.stages.iter().flat_map(|stage| &stage.tasks);
    let mut lines = Vec::new();
    for task in tasks {
        match &task.body {
            StageBody::Program(program) => {
                let command = if program.command.is_empty() {
                    program.adapter.clone()
                } else {
                    format!("`{}`", program.command.join(" "))
                };
                lines.push(format!("task {}: would start {command} in {}", task.id, program.cwd));
            }
            StageBody::Run(run) => {
                lines.push(format!("task {}: would start a run: {}", task.id, run.task));
                lines.extend(run.context_paths.iter().map(path_line));
            }
        }
    }
    lines
}

pub(crate) fn plan_question(dir: &Path) -> TrustQuestion {
    let what = format!("The plan in {} was found here and not made by you", dir.display());
    let read = althing_disk::read_regular(&dir.join("plan.md"), 1 << 20).ok();
    let text = read.and_then(|bytes| String::from_utf8(bytes).ok());
    let would = match text {
        Some(text) => {
            let lines = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned);
            std::iter::once("agents would execute this plan:".to_owned()).chain(lines).collect()
        }
        None => vec!["agents would execute it; its plan.md cannot be read".to_owned()],
    };
    TrustQuestion { what, would }
}
