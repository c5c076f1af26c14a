//! Stores the plans of a state directory in `<state>/plans/<id>/`. A user may edit `plan.json` by hand, so it is
//! validated whenever it is read.

use super::progress::{self, ProgressByTask, TaskProgress};
use super::{PlanStoreError, markdown};
use althing_disk::files::{Durability, create_dirs, remove_tree, replace, sync_dir};
use althing_disk::names::{is_plain_name, new_session_id};
use althing_disk::{Disk, DiskError, DiskLock, EntryKind, Lock, RealDisk};
use althing_plan::{Plan, plan_from_json};
use althing_protocol::{PlanRef, PlanStatus, PlanTask, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};

const DISK: RealDisk = RealDisk;

/// The plans in a state directory.
#[derive(Clone, Debug)]
pub struct PlanStore {
    dir: PathBuf,
}

/// A plan on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPlan {
    id: String,
    dir: PathBuf,
    header: PlanHeader,
    plan: Plan,
    progress_by_task: ProgressByTask,
}

enum Placed {
    New(String),
    Earlier(Box<StoredPlan>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PlanHeader {
    goal: String,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    additions: Option<String>,
    #[serde(default)]
    approved: bool,
}

/// The lock of a plan, held while the plan is executed.
pub struct PlanLock {
    _lock: Box<dyn DiskLock>,
}

impl PlanStore {
    /// The plans of a state directory, which need not exist yet.
    pub fn of(state_dir: &Path) -> Self {
        Self { dir: state_dir.join("plans") }
    }

    /// Stores the plan of a run that began at `began`. A repeated call for the same run and time, as after a crash,
    /// returns the stored plan unchanged.
    pub fn create(
        &self,
        goal: &str,
        plan: Plan,
        run: &str,
        began: Timestamp,
    ) -> Result<StoredPlan, PlanStoreError> {
        let plan = plan.checked()?;
        create_dirs(&DISK, &self.dir, Durability::Synced)?;
        let header = PlanHeader {
            goal: goal.to_owned(),
            created_at: began,
            run: Some(run.to_owned()),
            additions: None,
            approved: false,
        };
        // The files are written in a hidden directory that is then renamed, so that a listed plan is complete.
        let unfinished = self.dir.join(format!(".new-{:016x}", althing_text::fnv1a(run)));
        remove_tree(&DISK, &unfinished)?;
        DISK.create_dir(&unfinished).map_err(DiskError::io("create the directory", &unfinished))?;
        let mut stored = StoredPlan {
            id: String::new(),
            dir: unfinished,
            header,
            plan,
            progress_by_task: ProgressByTask::new(),
        };
        let written = stored.write_plan().and_then(|()| stored.write_progress());
        let placed = written.and_then(|()| self.place(&stored, began, run));
        let _ = remove_tree(&DISK, &stored.dir);
        (stored.id, stored.dir) = match placed? {
            Placed::New(id) => (id.clone(), self.dir.join(id)),
            Placed::Earlier(there) => return Ok(*there),
        };
        Ok(stored)
    }

    fn place(&self, new: &StoredPlan, began: Timestamp, run: &str) -> Result<Placed, PlanStoreError> {
        let first = althing_text::fnv1a(run) & 0xffff;
        let mut refused = None;
        // Another run of the same second may have the same tag; then the next tag is tried.
        for tag in (0..=0xffff).map(|n| (first + n) & 0xffff) {
            let id = format!("plan-{}", new_session_id(began, tag));
            let dir = self.dir.join(&id);
            // A rename fails if the target directory contains anything; an empty one is replaced.
            match DISK.rename(&new.dir, &dir) {
                Ok(()) => {
                    sync_dir(&DISK, &self.dir)?;
                    return Ok(Placed::New(id));
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::AlreadyExists
                            | io::ErrorKind::DirectoryNotEmpty
                            | io::ErrorKind::NotADirectory
                    ) =>
                {
                    let there = is_plan(&dir).then(|| StoredPlan::read(&dir).ok()).flatten();
                    if let Some(there) = there.filter(|there| there.header.run.as_deref() == Some(run)) {
                        return Ok(Placed::Earlier(Box::new(there)));
                    }
                    refused = Some(DiskError::io("create the directory", &dir)(error));
                }
                Err(error) => return Err(DiskError::io("create the directory", &dir)(error).into()),
            }
        }
        let missing = || PlanStoreError::NotFound { which: run.to_owned(), dir: self.dir.clone() };
        Err(refused.map_or_else(missing, PlanStoreError::from))
    }

    /// Loads a plan by its id or its directory; `latest` means the newest plan.
    pub fn load(&self, which: &str) -> Result<StoredPlan, PlanStoreError> {
        let missing = || PlanStoreError::NotFound { which: which.to_owned(), dir: self.dir.clone() };
        if which == "latest" {
            let newest = self.ids()?.pop().ok_or_else(missing)?;
            return StoredPlan::read(&self.dir.join(newest));
        }
        let named = self.dir.join(which);
        let dir = if is_plain_name(which) && is_plan(&named) { named } else { PathBuf::from(which) };
        if !dir.join("plan.json").is_file() {
            return Err(missing());
        }
        StoredPlan::read(&dir)
    }

    /// The ids of all plans, oldest first.
    pub fn ids(&self) -> Result<Vec<String>, PlanStoreError> {
        let mut ids = match DISK.list(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(DiskError::io("list", &self.dir))?,
        };
        ids.retain(|id| is_plain_name(id) && is_plan(&self.dir.join(id)));
        ids.sort();
        Ok(ids)
    }
}

/// Links are not followed: in a state directory that somebody else made, they could lead to any plan of the user.
fn is_plan(dir: &Path) -> bool {
    let file = dir.join("plan.json");
    matches!(DISK.kind(dir), Ok(Some(EntryKind::Dir)))
        && matches!(DISK.kind(&file), Ok(Some(EntryKind::File { .. })))
}

impl StoredPlan {
    fn read(dir: &Path) -> Result<Self, PlanStoreError> {
        let dir = dir.canonicalize().map_err(DiskError::io("access", dir))?;
        let id = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let value: Value = read_json(&dir.join("plan.json"))?;
        let plan = plan_from_json(&value)?.checked()?;
        let wrong = |e: serde_json::Error| {
            PlanStoreError::from(althing_plan::PlanError::NotReadable { why: format!("plan.json: {e}") })
        };
        let header: PlanHeader = serde_json::from_value(value).map_err(wrong)?;
        let progress = dir.join("progress.json");
        let mut progress_by_task: ProgressByTask =
            if progress.is_file() { read_json(&progress)? } else { ProgressByTask::new() };
        progress_by_task.retain(|id, _| plan.task(id).is_some());
        Ok(Self { id, dir, header, plan, progress_by_task })
    }

    /// Reads the plan's files again.
    pub fn read_again(&mut self) -> Result<(), PlanStoreError> {
        *self = Self::read(&self.dir)?;
        Ok(())
    }

    /// The plan's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The plan's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The plan's tasks.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What the plan is for.
    pub fn goal(&self) -> &str {
        &self.header.goal
    }

    /// What the user added with the approval.
    pub fn additions(&self) -> Option<&str> {
        self.header.additions.as_deref()
    }

    /// Whether the plan was approved for execution. `edit` revokes the approval; an edit of the file by hand does
    /// not.
    pub fn is_approved(&self) -> bool {
        self.header.approved
    }

    /// The id and directory of this plan, for the results of runs.
    pub fn reference(&self) -> PlanRef {
        PlanRef { id: self.id.clone(), path: self.dir.display().to_string() }
    }

    /// The progress of a task.
    pub fn progress(&self, task: &str) -> TaskProgress {
        self.progress_by_task.get(task).cloned().unwrap_or_default()
    }

    /// The tasks that can begin now, in the plan's order.
    pub fn ready(&self) -> Vec<&PlanTask> {
        progress::ready(&self.plan.tasks, &self.progress_by_task)
    }

    /// The number of completed tasks, and of all tasks.
    pub fn done(&self) -> (usize, usize) {
        let is_done = |task: &&PlanTask| self.progress(&task.id).status == PlanStatus::Completed;
        (self.plan.tasks.iter().filter(is_done).count(), self.plan.tasks.len())
    }

    /// The plan as Markdown, with a checkbox per task.
    pub fn text(&self) -> String {
        markdown::render_plan(&self.header.goal, self.additions(), &self.plan.tasks, &self.progress_by_task)
    }

    /// Approves the plan for execution and replaces the user's additions.
    pub fn approve(&mut self, additions: Option<String>) -> Result<(), PlanStoreError> {
        let header = PlanHeader { additions, approved: true, ..self.header.clone() };
        self.header = header;
        self.write_plan()
    }

    /// Replaces the tasks. Tasks whose id stays keep their progress; the plan has to be approved again.
    pub fn edit(&mut self, plan: Plan) -> Result<(), PlanStoreError> {
        self.plan = plan.checked()?;
        self.progress_by_task.retain(|id, _| self.plan.task(id).is_some());
        self.header.approved = false;
        self.write_plan()?;
        self.write_progress()
    }

    /// Sets the status and note of a task; the change is synced to disk before this returns.
    pub fn set(
        &mut self,
        task: &str,
        status: PlanStatus,
        note: Option<String>,
    ) -> Result<(), PlanStoreError> {
        if self.plan.task(task).is_none() {
            return Err(PlanStoreError::NoSuchTask { task: task.to_owned() });
        }
        self.progress_by_task.insert(task.to_owned(), TaskProgress { status, note });
        self.write_progress()
    }

    /// Discards the progress of every task that is in progress, so that the task starts over after its process ended.
    pub fn reset_unfinished(&mut self) -> Result<(), PlanStoreError> {
        let under_way = |task: &TaskProgress| task.status == PlanStatus::InProgress;
        if !self.progress_by_task.values().any(under_way) {
            return Ok(());
        }
        self.progress_by_task.retain(|_, task| !under_way(task));
        self.write_progress()
    }

    /// Takes the lock for executing the plan; fails if it is held.
    pub fn lock(&self) -> Result<PlanLock, PlanStoreError> {
        let path = self.dir.join("lock");
        match DISK.lock(&path).map_err(DiskError::io("lock", &path))? {
            Lock::Taken(lock) => Ok(PlanLock { _lock: lock }),
            Lock::Held { pid } => Err(PlanStoreError::Locked { id: self.id.clone(), pid }),
        }
    }

    fn write_plan(&self) -> Result<(), PlanStoreError> {
        let mut whole = self.to_json("plan.json", &self.header)?;
        if let Value::Object(fields) = &mut whole {
            fields.insert("tasks".to_owned(), self.to_json("plan.json", &self.plan.tasks)?);
        }
        self.write("plan.json", &format!("{whole:#}\n"))?;
        self.write("plan.md", &self.text())
    }

    fn write_progress(&self) -> Result<(), PlanStoreError> {
        let json = self.to_json("progress.json", &self.progress_by_task)?;
        self.write("progress.json", &format!("{json:#}\n"))?;
        self.write("plan.md", &self.text())
    }

    fn to_json(&self, name: &str, content: &impl Serialize) -> Result<Value, PlanStoreError> {
        let json = serde_json::to_value(content).map_err(io::Error::from);
        Ok(json.map_err(DiskError::io("write", &self.dir.join(name)))?)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), PlanStoreError> {
        Ok(replace(&DISK, &self.dir, name, text.as_bytes(), Durability::Synced)?)
    }
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, PlanStoreError> {
    let bytes = DISK.read(path).map_err(DiskError::io("read", path))?;
    serde_json::from_slice(&bytes).map_err(|e| {
        PlanStoreError::from(althing_plan::PlanError::NotReadable { why: format!("{}: {e}", path.display()) })
    })
}
