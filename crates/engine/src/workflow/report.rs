//! A workflow summed up: what `--json` prints.

use super::WorkflowExecutor;
use althing_protocol::{Millis, TaskStatus};
use serde::Serialize;

/// How a workflow stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkflowReport {
    /// Where it stands.
    pub status: TaskStatus,
    /// What it is for.
    pub goal: String,
    /// Its stages.
    pub stages: Vec<StageReport>,
    /// Active time.
    #[serde(rename = "duration_ms")]
    pub duration: Millis,
    /// Why it failed.
    pub error: Option<String>,
}

/// How a stage stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// Its tasks.
    pub tasks: Vec<TaskReport>,
}

/// How a task stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskReport {
    /// The user's name for it.
    pub id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// How its program exited.
    pub exit_code: Option<i32>,
    /// Its final message or output.
    pub output: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
}

impl WorkflowExecutor {
    /// How it stands now.
    pub fn report(&self) -> WorkflowReport {
        let mut error = None;
        let mut stages = Vec::new();
        for stage in &self.spec.stages {
            let mut tasks = Vec::new();
            for task in &stage.tasks {
                let state = self.tasks.get(&self.task.stage_task(&task.id));
                let end = self.end_of(&task.id);
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
        WorkflowReport {
            status: self.status,
            goal: self.spec.goal.clone(),
            stages,
            duration: self.active,
            error,
        }
    }
}
