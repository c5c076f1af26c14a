//! Rows of the tasks panel: the conversation, workflows, programs and runs.

use super::member::{MemberView, TimelineEntry};
use crate::labels;
use althing_protocol::{
    AttemptOutcome, ExecutionMode, Fact, Member, ProgramSpec, StageBody, StageSpec, StageTask, TaskId,
    TaskStatus, Timestamp, WorkflowSpec,
};

/// The maximum size of a program's output in memory, in bytes; the full output is in the session's files.
const MOST_OUTPUT: usize = 256 * 1024;

impl super::SessionView {
    /// Adds the row of a later try of a workflow's run, after the rows of the earlier tries.
    pub(super) fn add_later_try(&mut self, mut task: TaskView) {
        let first = task.id.without_retry();
        let is_try = |task: &TaskView| task.id.without_retry() == first;
        if let Some(earlier) = self.tasks.iter().find(|task| is_try(task)) {
            (task.stage, task.name) = (earlier.stage.clone(), format!("{} (again)", earlier.name));
        }
        let at = self.tasks.iter().rposition(is_try).map_or(self.tasks.len(), |at| at + 1);
        self.tasks.insert(at, task);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskKind {
    Run,
    Chat,
    /// A workflow, with the names of its stages.
    Workflow(Vec<String>),
    Program {
        adapter: String,
        /// Whether a user can attach to the program's terminal.
        interactive: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct TaskView {
    pub id: TaskId,
    pub parent: Option<TaskId>,
    pub kind: TaskKind,
    pub name: String,
    pub stage: Option<String>,
    pub status: TaskStatus,
    /// The reason for the status, or what the task waits for.
    pub why: Option<String>,
    pub started: Timestamp,
    pub ended: Option<Timestamp>,
    /// Whether the program has finished its turn, and waits for the next prompt or for its end.
    pub turn_is_over: bool,
    /// What a program said and did; stays empty for other tasks.
    pub work: MemberView,
    /// The program's newest output, without escape sequences; if the program wrote none, its final message.
    pub output: String,
}

impl TaskView {
    pub fn new(id: TaskId, parent: Option<TaskId>, kind: TaskKind, name: String, at: Timestamp) -> Self {
        let backend = match &kind {
            TaskKind::Program { adapter, .. } => adapter.clone(),
            TaskKind::Run | TaskKind::Chat | TaskKind::Workflow(_) => String::new(),
        };
        let member = Member {
            id: name.as_str().into(),
            backend,
            model: String::new(),
            offline: false,
            system_message: None,
            has_tools: false,
            voting_sensitivity: None,
        };
        Self {
            id,
            parent,
            kind,
            name,
            stage: None,
            status: TaskStatus::Pending,
            why: None,
            started: at,
            ended: None,
            turn_is_over: false,
            work: MemberView::new(member),
            output: String::new(),
        }
    }

    pub fn program_kind(spec: &ProgramSpec) -> TaskKind {
        TaskKind::Program {
            adapter: spec.adapter.clone(),
            interactive: spec.mode == ExecutionMode::Interactive,
        }
    }

    pub fn from_workflow(workflow: &TaskId, spec: &WorkflowSpec, at: Timestamp) -> Vec<Self> {
        let task = |stage: &StageSpec, task: &StageTask| {
            let kind = match &task.body {
                StageBody::Program(program) => Self::program_kind(program),
                StageBody::Run(_) => TaskKind::Run,
            };
            let id = workflow.stage_task(&task.id);
            let mut planned = Self::new(id, Some(workflow.clone()), kind, task.id.clone(), at);
            planned.stage = Some(stage.name.clone());
            planned
        };
        let mut planned = Vec::new();
        for stage in &spec.stages {
            planned.extend(stage.tasks.iter().map(|one| task(stage, one)));
        }
        planned
    }

    /// Whether the task is a program that runs in a terminal. A user can attach only while it runs.
    pub fn has_terminal(&self) -> bool {
        matches!(self.kind, TaskKind::Program { interactive: true, .. })
    }

    pub fn is_running_program(&self) -> bool {
        self.status == TaskStatus::Running && matches!(self.kind, TaskKind::Program { .. })
    }

    pub fn status_label(&self) -> &'static str {
        if self.turn_is_over { labels::YOUR_TURN } else { labels::task_status(self.status) }
    }

    pub fn timeline(&self) -> &[TimelineEntry] {
        &self.work.timeline
    }

    pub fn apply(&mut self, at: Timestamp, fact: &Fact) {
        match fact {
            Fact::StatusChanged { status, why } => {
                // Only a retry changes the status of a task that has ended.
                if self.status == TaskStatus::Pending || self.status.is_final() {
                    self.started = at;
                }
                self.status = *status;
                // If the end of the attempt already gave this reason with a hint, it is not replaced by the reason
                // without the hint.
                let is_known = |why: &String| self.why.as_ref().is_some_and(|known| known.starts_with(why));
                if !why.as_ref().is_some_and(is_known) {
                    self.why.clone_from(why);
                }
                self.ended = status.is_final().then_some(at);
            }
            Fact::AttemptStarted { .. } if self.status == TaskStatus::Pending => {
                self.started = at;
                self.status = TaskStatus::Running;
            }
            Fact::AttemptEnded { outcome: AttemptOutcome::Exited { output, error, hint, .. }, .. } => {
                if let Some(error) = error {
                    self.why = Some(labels::with_hint(error.clone(), hint.as_deref()));
                }
                if self.output.trim().is_empty() {
                    self.append_output(output);
                }
            }
            _ => {}
        }
        if matches!(self.kind, TaskKind::Program { .. }) {
            self.work.apply(at, fact);
            match fact {
                Fact::StatusChanged { status: TaskStatus::Failed, why: Some(why) } => {
                    self.work.activity = format!("failed: {why}");
                }
                Fact::StatusChanged { status: TaskStatus::Cancelled, .. } => {
                    self.work.activity = labels::task_status(TaskStatus::Cancelled).into();
                }
                _ => {}
            }
        }
    }

    /// Appends output. If the output then exceeds `MOST_OUTPUT`, only its last part, at most half of that size, is
    /// kept.
    pub fn append_output(&mut self, clean: &str) {
        self.output.push_str(clean);
        if self.output.len() > MOST_OUTPUT {
            let least = self.output.len() - MOST_OUTPUT / 2;
            let cut =
                self.output.get(least..).and_then(|rest| rest.find('\n')).map_or(least, |at| least + at + 1);
            let cut = (cut..=self.output.len()).find(|at| self.output.is_char_boundary(*at)).unwrap_or(0);
            self.output.drain(..cut);
        }
    }
}
