//! Turns a workflow without errors into its stages.

use std::path::Path;

use althing_protocol::{ExecutionMode, OnInterrupt, ProgramSpec};

use super::{COMMAND, Document, TaskAgent, TaskBody, TaskNode, WorkflowFile, WorkflowStage, WorkflowTask};
use super::{adapters, runs, tasks};
use crate::TrustRequirement;
use crate::resolve::{flag, seconds, text};
use crate::shown_values::quoted_command;
use crate::tools::texts;

pub(super) fn file(document: &Document<'_>) -> WorkflowFile {
    let root = document.root;
    let names = root.get("stages").map(crate::tree::Node::items).unwrap_or_default().iter().enumerate();
    let name = |(number, stage): (usize, _)| {
        text(stage, "name").filter(|name| !name.trim().is_empty()).unwrap_or(format!("stage {}", number + 1))
    };
    let mut stages: Vec<WorkflowStage> =
        names.map(|at| WorkflowStage { name: name(at), tasks: Vec::new() }).collect();
    // The same tasks in the same order, but without the values of variables.
    for (at, written) in document.tasks().iter().zip(tasks(document.written)) {
        if let (Some(stage), Some(task)) = (stages.get_mut(at.stage), task(document, at, &written)) {
            stage.tasks.push(task);
        }
    }
    WorkflowFile {
        name: text(root, "name")
            .filter(|name| !name.trim().is_empty())
            .unwrap_or_else(|| file_stem(document)),
        goal: text(root, "goal").unwrap_or_default(),
        processes: processes(&stages),
        stages,
        adapters: adapters::resolve(document.written),
    }
}

fn file_stem(document: &Document<'_>) -> String {
    let name =
        Path::new(document.source.name).file_stem().map(|file_stem| file_stem.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "workflow".to_owned())
}

fn task(document: &Document<'_>, at: &TaskNode<'_>, written: &TaskNode<'_>) -> Option<WorkflowTask> {
    let body = match at.node.get("run") {
        Some(run) => TaskBody::Run(Box::new(runs::resolve(run)?)),
        None => body(document, at, written)?,
    };
    Some(WorkflowTask {
        id: at.id()?.to_owned(),
        body,
        timeout: seconds(at.node, "timeout_seconds"),
        continue_on_failure: flag(at.node, "continue_on_failure").unwrap_or(false),
    })
}

fn body(document: &Document<'_>, at: &TaskNode<'_>, written: &TaskNode<'_>) -> Option<TaskBody> {
    let prompt = text(at.node, "prompt").unwrap_or_default();
    let (adapter, agent, own_model, options) = match document.find_agent(at.agent()?)? {
        TaskAgent::Model(id) => return Some(TaskBody::Agent { id: id.clone(), prompt }),
        TaskAgent::BuiltIn(name) => (name, None, None, None),
        TaskAgent::Custom(adapter) => (adapter.name.as_str(), None, None, None),
        TaskAgent::Program { id, adapter, model, options } => {
            (adapter, Some(id.clone()), model, Some(options))
        }
    };
    let cwd = at.node.get("cwd").and_then(crate::tree::Node::as_text);
    let command = at.node.get("command").filter(|_| adapter == COMMAND);
    Some(TaskBody::Program(Box::new(ProgramSpec {
        adapter: adapter.to_owned(),
        command: command.map(texts).unwrap_or_default(),
        mode: if at.is_interactive() { ExecutionMode::Interactive } else { ExecutionMode::Headless },
        prompt,
        cwd: cwd.unwrap_or(document.surroundings.cwd).to_owned(),
        env: adapters::environment(written.node),
        model: text(at.node, "model").or_else(|| own_model.map(str::to_owned)),
        on_interrupt: at.node.get("on_interrupt").and_then(crate::tree::Node::as_text).and_then(on_interrupt),
        sandbox: flag(at.node, "sandbox"),
        idle_timeout: seconds(at.node, "idle_timeout_seconds"),
        approvals: flag(at.node, "approvals").unwrap_or(false),
        agent,
        options: options.cloned().unwrap_or_default(),
    })))
}

fn on_interrupt(word: &str) -> Option<OnInterrupt> {
    match word {
        "restart" => Some(OnInterrupt::Restart),
        "ask" => Some(OnInterrupt::Ask),
        "fail" => Some(OnInterrupt::Fail),
        _ => None,
    }
}

fn processes(stages: &[WorkflowStage]) -> Vec<TrustRequirement> {
    let mut found = Vec::new();
    for (number, stage) in stages.iter().enumerate() {
        for (index, task) in stage.tasks.iter().enumerate() {
            let TaskBody::Program(spec) = &task.body else { continue };
            let what = if spec.adapter == COMMAND {
                format!("the command {}", quoted_command(&spec.command))
            } else {
                format!("the agent `{}`", spec.adapter)
            };
            let location = format!("stages[{number}].tasks[{index}]");
            found.push(TrustRequirement { location, what });
        }
    }
    found
}
