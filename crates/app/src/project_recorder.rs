//! Records what outlives a session: a project's runs, their deliverables, and the progress of plans. Facts on disk
//! may be observed again after a crash, so every update is idempotent.

use crate::agent_env::DeliveryWatch;
use crate::context::Notify;
use crate::project::Project;
use althing_journal::{session_dir, task_dir};
use althing_protocol::{
    Event, Fact, FileChange, FileWrite, Item, PlanProgress, PlanRef, PlanRun, PlanStatus, PlanTask,
    RunResult, RunSpec, RunStatus, SessionId, TaskId, TaskSpec, Timestamp, Verdict,
};
use althing_workspace::{DeliveryReport, PlanLock, PlanStore, PlanStoreError, ProjectError, StoredPlan};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Updates the records of a project and of plans.
pub struct ProjectRecorder {
    session: SessionId,
    state_dir: PathBuf,
    project: Option<(Arc<Project>, DeliveryWatch)>,
    notify: Notify,
    plans: HashMap<TaskId, ExecutingPlan>,
    /// Subagents' files and results belong to the runs that started them, so the project records neither.
    subagents: HashSet<TaskId>,
}

struct ExecutingPlan {
    plan: PlanRef,
    /// The lock is held until the run ends; `None` if it could not be taken (the run continues nevertheless).
    _lock: Option<PlanLock>,
}

impl ProjectRecorder {
    /// Creates the recorder, and brings the records up to date with the session's history.
    pub fn new(
        session: SessionId,
        state_dir: PathBuf,
        project: Option<(Arc<Project>, DeliveryWatch)>,
        notify: Notify,
        history: &[Arc<Event>],
    ) -> Self {
        let mut recorder =
            Self { session, state_dir, project, notify, plans: HashMap::new(), subagents: HashSet::new() };
        let mut last: BTreeMap<(TaskId, String), &Event> = BTreeMap::new();
        for event in history {
            match (&event.fact, &event.task) {
                (Fact::ItemAdded { item: Item::PlanProgress(progress), .. }, Some(task)) => {
                    last.insert((task.clone(), progress.task.clone()), event);
                }
                (Fact::Decided(Verdict::Finished { .. }), _) => {
                    recorder.observe_all(std::mem::take(&mut last).into_values());
                    recorder.observe(event);
                }
                _ => recorder.observe(event),
            }
        }
        recorder.observe_all(last.into_values());
        recorder
    }

    fn observe_all<'a>(&mut self, events: impl Iterator<Item = &'a Event>) {
        let mut events: Vec<&Event> = events.collect();
        events.sort_by_key(|event| event.seq);
        for event in events {
            self.observe(event);
        }
    }

    /// Updates the records with a fact that is on disk.
    pub fn observe(&mut self, event: &Event) {
        match &event.fact {
            Fact::TaskCreated { id, spec: TaskSpec::Run(spec), .. } => {
                if spec.subagent_of.is_some() {
                    self.subagents.insert(id.clone());
                } else {
                    self.run_started(id, spec, event.at);
                }
            }
            Fact::ItemAdded { item: Item::PlanProgress(progress), .. } => {
                let Some(task) = &event.task else { return };
                let executed = self.plans.iter().find(|(run, _)| run.covers(task));
                if let Some(Err(error)) = executed.map(|(_, plan)| self.store_progress(&plan.plan, progress))
                {
                    (self.notify)(&format!("the plan's progress could not be saved: {error}"));
                }
            }
            Fact::Decided(Verdict::Finished { result, .. }) => {
                let Some(task) = &event.task else { return };
                self.plans.remove(task);
                if self.subagents.remove(task) {
                    return;
                }
                let is_ours = result.run_id == format!("{}.{task}", self.session);
                if let Some((project, watch)) = self.project.clone().filter(|_| is_ours) {
                    let dir = self.run_dir(task);
                    match finish_run(&project, result, (&watch, &dir)) {
                        Ok(delivered) => self.report_delivery(&delivered, &project),
                        Err(error) => (self.notify)(&format!("the project could not be updated: {error}")),
                    }
                }
            }
            _ => {}
        }
    }

    fn run_started(&mut self, run: &TaskId, spec: &RunSpec, at: Timestamp) {
        if let Some(plan) = &spec.plan {
            let lock = PlanStore::of(&self.state_dir).load(&plan.plan.path).and_then(|plan| plan.lock());
            if let Err(error @ PlanStoreError::Locked { .. }) = &lock {
                (self.notify)(&error.to_string());
            }
            self.plans.insert(run.clone(), ExecutingPlan { plan: plan.plan.clone(), _lock: lock.ok() });
        }
        let Some((project, _)) = &self.project else { return };
        let id = format!("{}.{run}", self.session);
        let log_dir = self.run_dir(run);
        let started = match project.workspace.description(&id) {
            Ok(Some(_)) => Ok(()),
            Err(error) => Err(error),
            Ok(None) => {
                project.workspace.begin_run(&id, &spec.task, spec.modes, &log_dir.display().to_string(), at)
            }
        };
        if let Err(error) = started {
            (self.notify)(&format!("the project could not be updated: {error}"));
        }
    }

    fn run_dir(&self, run: &TaskId) -> PathBuf {
        task_dir(&session_dir(&self.state_dir, &self.session), run)
    }

    fn store_progress(&self, plan: &PlanRef, progress: &PlanProgress) -> Result<(), PlanStoreError> {
        let mut plan = PlanStore::of(&self.state_dir).load(&plan.path)?;
        let known = plan.progress(&progress.task);
        if known.status == progress.status && known.note == progress.note {
            return Ok(());
        }
        plan.set(&progress.task, progress.status, progress.note.clone())
    }

    fn report_delivery(&self, delivered: &DeliveryReport, project: &Project) {
        let dir = project.workspace.deliverables_dir();
        if !delivered.copied.is_empty() {
            // For a file that runs code later, the text includes a note.
            let write =
                |name: &String| FileWrite::new(name.clone(), FileChange::New, Path::new(name)).to_string();
            let copied: Vec<String> = delivered.copied.iter().map(write).collect();
            (self.notify)(&format!("delivered to {}: {}", dir.display(), copied.join(", ")));
        }
        for (name, beside) in &delivered.beside {
            (self.notify)(&format!(
                "{name} was edited by hand and is kept; the run's version is saved as {beside}"
            ));
        }
        for (name, why) in &delivered.left_out {
            (self.notify)(&format!("{name} was not delivered: {why}"));
        }
    }
}

/// Does nothing if the end is already recorded, because later runs may have delivered the same files again.
fn finish_run(
    project: &Project,
    result: &RunResult,
    (watch, run_dir): (&DeliveryWatch, &Path),
) -> Result<DeliveryReport, ProjectError> {
    let workspace = &project.workspace;
    let known = workspace.description(&result.run_id)?;
    if known.is_some_and(|known| known.get("status").is_none_or(|status| status != "running")) {
        return Ok(DeliveryReport::default());
    }
    let delivers =
        matches!(result.status, RunStatus::Completed | RunStatus::Partial) && !result.modes.planning;
    let from = result.workspace_path.as_ref().filter(|_| delivers);
    let delivered = match from {
        Some(from) => {
            let deliver = || workspace.deliver(Path::new(from), &result.run_id);
            let delivered = watch.deliver(run_dir, &workspace.deliverables_dir(), deliver);
            delivered.map_err(ProjectError::Refused)??
        }
        None => DeliveryReport::default(),
    };
    workspace.end_run(result)?;
    Ok(delivered)
}

/// A stored plan in the form that a run executes.
pub fn plan_run(plan: &StoredPlan) -> PlanRun {
    let progress = |task: &PlanTask| {
        let known = plan.progress(&task.id);
        let started = known.status != PlanStatus::Pending;
        started.then(|| PlanProgress { task: task.id.clone(), status: known.status, note: known.note })
    };
    let tasks = &plan.plan().tasks;
    PlanRun {
        plan: plan.reference(),
        tasks: tasks.clone(),
        progress: tasks.iter().filter_map(progress).collect(),
        additions: plan.additions().map(str::to_owned),
    }
}
