//! The tools with which an agent maintains its task list in a file. The file is read again for every call and
//! replaced atomically, so the list survives a crash of the process.

mod specs;

use crate::access::Refusal;
use crate::confine::ConfinedDir;
use crate::exclusive;
use crate::plans::TaskProgress;
use crate::plans::{ready, render_tasks};
use crate::tools::Args;
use althing_disk::DiskError;
use althing_plan::{problems, task_from_json};
use althing_protocol::{
    BoxFuture, ContextAccess, PlanStatus, PlanTask, ToolCall, ToolHost, ToolOutcome, ToolSpec,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "tasks";
const FILE: &str = "plan.json";
/// The maximum size of the list's file in bytes; a larger file counts as broken.
const CAP: u64 = 1 << 20;

/// The tools for one agent's list.
pub struct TaskHost {
    inner: Arc<Inner>,
}

struct Inner {
    /// The workspace, or another directory if the list is not shown to other agents.
    root: ConfinedDir,
    most: usize,
    /// The list's file. Calls run one at a time under the lock of this path, because they read the file and then
    /// replace it.
    file: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TaskEntry {
    #[serde(flatten)]
    task: PlanTask,
    #[serde(flatten)]
    progress: TaskProgress,
}

#[derive(Default, Serialize, Deserialize)]
struct TaskList {
    tasks: Vec<TaskEntry>,
}

fn invalid_argument(argument: &str, why: impl Into<String>) -> Refusal {
    Refusal::Argument { argument: argument.to_owned(), why: why.into() }
}

impl TaskHost {
    /// The tools for a list in `tasks/plan.json` below `root`, with at most `most` tasks (at least 1).
    pub fn open(root: &Path, most: u32) -> Result<Self, DiskError> {
        let dir = ConfinedDir::open(root).map_err(DiskError::io("open the directory", root))?;
        let most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
        Ok(Self { inner: Arc::new(Inner { root: dir, most, file: root.join(DIR).join(FILE) }) })
    }
}

impl Inner {
    fn run(&self, call: &ToolCall) -> Result<String, Refusal> {
        let Some(spec) = specs::find(&call.name) else {
            return Err(invalid_argument("(tool)", "there is no such tool"));
        };
        let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        let args = Args::parse(text, &spec.arguments())?;
        if call.name == specs::CREATE {
            return self.save(&TaskList { tasks: entries(&args)? });
        }
        let mut list = self.read()?;
        match call.name.as_str() {
            specs::GET => return Ok(render(&list)),
            specs::ADD => add(&mut list, &args)?,
            specs::UPDATE => update(&mut list, &args)?,
            specs::EDIT => edit(&mut list, &args)?,
            _ => delete(&mut list, &args)?,
        }
        self.save(&list)
    }

    fn read(&self) -> Result<TaskList, Refusal> {
        let failed = |e: io::Error| Refusal::io("read", "tasks/plan.json")(e);
        let opened = self.root.open_dir(OsStr::new(DIR)).and_then(|dir| dir.open_file(OsStr::new(FILE)));
        let (file, _) = match opened {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(TaskList::default()),
            opened => opened.map_err(failed)?,
        };
        let mut bytes = Vec::new();
        file.take(CAP).read_to_end(&mut bytes).map_err(failed)?;
        serde_json::from_slice(&bytes)
            .map_err(|e| failed(io::Error::other(format!("{e}; call create_task_plan to write a new list"))))
    }

    fn save(&self, list: &TaskList) -> Result<String, Refusal> {
        let tasks: Vec<PlanTask> = list.tasks.iter().map(|entry| entry.task.clone()).collect();
        let problems = problems(&tasks, self.most);
        if !problems.is_empty() {
            let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
            return Err(invalid_argument("(the list)", format!("{}; nothing was changed", all.join("; "))));
        }
        let json = serde_json::to_string_pretty(list).map_err(io::Error::from);
        let write = |json: String| {
            let dir = self.root.make_dir(OsStr::new(DIR), 0o777)?;
            dir.replace(OsStr::new(FILE), json.as_bytes(), None)
        };
        json.and_then(write).map_err(Refusal::io("write", "tasks/plan.json"))?;
        Ok(render(list))
    }
}

fn render(list: &TaskList) -> String {
    if list.tasks.is_empty() {
        return "There are no tasks yet; create_task_plan creates a list.".to_owned();
    }
    let tasks: Vec<PlanTask> = list.tasks.iter().map(|entry| entry.task.clone()).collect();
    let progress_by_task: BTreeMap<String, TaskProgress> =
        list.tasks.iter().map(|entry| (entry.task.id.clone(), entry.progress.clone())).collect();
    let done = list.tasks.iter().filter(|entry| entry.progress.status == PlanStatus::Completed).count();
    let next: Vec<&str> = ready(&tasks, &progress_by_task).into_iter().map(|task| task.id.as_str()).collect();
    let next = if next.is_empty() { "none".to_owned() } else { next.join(", ") };
    format!(
        "{done} of {} done. Can begin now: {next}.\n{}",
        tasks.len(),
        render_tasks(&tasks, &progress_by_task)
    )
}

fn entry(number: usize, value: &Value) -> Result<TaskEntry, Refusal> {
    let value = match value {
        Value::String(text) => serde_json::json!({ "description": text }),
        value => value.clone(),
    };
    let mut task = task_from_json(number, &value).map_err(|e| invalid_argument("tasks", e.to_string()))?;
    if task.id.is_empty() {
        task.id = format!("t{number}");
    }
    Ok(TaskEntry { task, progress: TaskProgress::default() })
}

fn entries(args: &Args) -> Result<Vec<TaskEntry>, Refusal> {
    let Some(Value::Array(tasks)) = args.value("tasks") else {
        return Err(invalid_argument("tasks", "must be a list"));
    };
    (1..).zip(tasks).map(|(number, task)| entry(number, task)).collect()
}

fn add(list: &mut TaskList, args: &Args) -> Result<(), Refusal> {
    // At least one number in this range is free.
    let number = (list.tasks.len() + 1..=2 * list.tasks.len() + 1)
        .find(|n| !list.tasks.iter().any(|entry| entry.task.id == format!("t{n}")))
        .unwrap_or_default();
    let new = entry(number, &Value::Object(args.all().clone()))?;
    let at = match args.optional_text("after")? {
        Some(id) => position(list, "after", id)? + 1,
        None => list.tasks.len(),
    };
    list.tasks.insert(at, new);
    Ok(())
}

fn position(list: &TaskList, argument: &str, id: &str) -> Result<usize, Refusal> {
    list.tasks.iter().position(|entry| entry.task.id == id).ok_or_else(|| {
        let known: Vec<&str> = list.tasks.iter().map(|entry| entry.task.id.as_str()).collect();
        invalid_argument(
            argument,
            format!("there is no task `{}`; the tasks are: {}", id.escape_debug(), known.join(", ")),
        )
    })
}

fn find_mut<'a>(list: &'a mut TaskList, args: &Args) -> Result<&'a mut TaskEntry, Refusal> {
    let id = args.text("id")?;
    let at = position(list, "id", id)?;
    list.tasks.get_mut(at).ok_or_else(|| invalid_argument("id", "there is no such task"))
}

fn update(list: &mut TaskList, args: &Args) -> Result<(), Refusal> {
    let name = args.text("status")?;
    let names = PlanStatus::NAMES;
    let Some((_, status)) = names.iter().find(|(known, _)| *known == name) else {
        let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        return Err(invalid_argument("status", format!("must be one of {}", all.join(", "))));
    };
    let note = args.optional_text("note")?.map(str::to_owned);
    let entry = find_mut(list, args)?;
    if *status == PlanStatus::Completed || *status == PlanStatus::InProgress {
        let needs = entry.task.depends_on.clone();
        let id = entry.task.id.clone();
        let open = list
            .tasks
            .iter()
            .find(|other| needs.contains(&other.task.id) && other.progress.status != PlanStatus::Completed);
        if let Some(open) = open {
            let why = format!("`{id}` depends on `{}`, which is not completed", open.task.id);
            return Err(invalid_argument("status", why));
        }
    }
    let entry = find_mut(list, args)?;
    entry.progress = TaskProgress { status: *status, note: note.or(entry.progress.note.take()) };
    Ok(())
}

fn edit(list: &mut TaskList, args: &Args) -> Result<(), Refusal> {
    let entry = find_mut(list, args)?;
    let changed = task_from_json(1, &Value::Object(args.all().clone()))
        .map_err(|e| invalid_argument("(all)", e.to_string()))?;
    if args.value("description").is_some() {
        entry.task.description = changed.description;
    }
    if args.value("depends_on").is_some() {
        entry.task.depends_on = changed.depends_on;
    }
    if args.value("verification").is_some() {
        entry.task.verification = changed.verification;
    }
    Ok(())
}

fn delete(list: &mut TaskList, args: &Args) -> Result<(), Refusal> {
    let at = position(list, "id", args.text("id")?)?;
    list.tasks.remove(at);
    Ok(())
}

impl ToolHost for TaskHost {
    fn tools(&self, _access: ContextAccess) -> Vec<ToolSpec> {
        specs::all(self.inner.most)
    }

    fn call<'a>(&'a self, call: &'a ToolCall, _access: ContextAccess) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let (inner, call) = (Arc::clone(&self.inner), call.clone());
            let file = inner.file.clone();
            match exclusive::run_exclusively(&file, move || inner.run(&call)).await {
                Ok(Ok(content)) => ToolOutcome { content, is_error: false },
                Ok(Err(refusal)) => ToolOutcome { content: refusal.to_string(), is_error: true },
                Err(e) => {
                    ToolOutcome { content: format!("the tool failed unexpectedly: {e}"), is_error: true }
                }
            }
        })
    }
}
