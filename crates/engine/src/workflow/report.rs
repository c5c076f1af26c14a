//! The report of a workflow: the content of its `result.json`, which `--json` also prints.

use super::WorkflowExecutor;
use althing_protocol::{Millis, TaskStatus};
use serde::Serialize;

/// The report of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkflowReport {
    /// The status of the workflow.
    pub status: TaskStatus,
    /// The goal in the user's words.
    pub goal: String,
    /// The stages in order.
    pub stages: Vec<StageReport>,
    /// The active time, without downtime before a resume.
    #[serde(rename = "duration_ms")]
    pub duration: Millis,
    /// The first failed task in the order of the workflow file, and why it failed; else the cost limit, if it ended the
    /// workflow.
    pub error: Option<String>,
}

/// The report of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageReport {
    /// The stage's name.
    pub name: String,
    /// The stage's tasks.
    pub tasks: Vec<TaskReport>,
}

/// The report of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskReport {
    /// The task's id in the workflow file.
    pub id: String,
    /// The status of the task.
    pub status: TaskStatus,
    /// The exit code of the task's program; None if there is no program, if it has not exited, or if a signal ended it.
    pub exit_code: Option<i32>,
    /// The run's final answer, or the program's final message or output; None until the task has ended.
    pub output: Option<String>,
    /// The error of the task's program or run. A run with a partial result names the limit that it reached.
    pub error: Option<String>,
}

impl WorkflowExecutor {
    /// The report of the current state.
    pub fn report(&self) -> WorkflowReport {
        let mut error = None;
        let mut stages = Vec::new();
        for stage in &self.session.spec.stages {
            let mut tasks = Vec::new();
            for task in &stage.tasks {
                let state = self.session.tasks.get(&self.session.current_task(&task.id));
                let end = self.session.end_of(&task.id);
                let status = state.map_or(TaskStatus::Pending, |state| state.status);
                let failure = end.and_then(|end| end.error.clone());
                if status == TaskStatus::Failed && error.is_none() {
                    let why = failure.as_deref().unwrap_or("it did not succeed");
                    error = Some(format!("task {}: {why}", task.id));
                }
                tasks.push(TaskReport {
                    id: task.id.clone(),
                    status,
                    exit_code: end.and_then(|end| end.exit_code),
                    output: end.map(|end| end.output.clone()),
                    error: failure,
                });
            }
            stages.push(StageReport { name: stage.name.clone(), tasks });
        }
        if self.session.status == TaskStatus::Failed {
            error = error.or_else(|| self.session.cost_problem());
        }
        WorkflowReport {
            status: self.session.status,
            goal: self.session.goal().to_owned(),
            stages,
            duration: self.session.active,
            error,
        }
    }
}
