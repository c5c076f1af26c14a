//! The report of a session: what happened, who said what, how it was decided, what it cost, and where its files are. A
//! pure function of the events; the structure itself is the JSON form.

mod agent;
mod block;
mod layout;
mod run;
mod spent;
mod words;

pub use agent::{AgentReport, AnswerReport, AttemptReport};
pub use block::{Block, markdown, plain};
pub use layout::{run_blocks, session_blocks};
pub use run::{BallotReport, DecisionReport, FilePlace, RunReport, TimelineLine};
pub use spent::{CostGroup, Spent, add_costs};

use crate::labels;
use crate::lines::ProgressLines;
use crate::session::{EntryBody, QueuedMessage, SessionView, TaskKind};
use althing_protocol::{
    Event, Fact, FeedItem, Millis, NoticeLevel, SessionKind, SessionOpened, TaskId, TaskSpec, Timestamp,
};
use serde::Serialize;
use similar::TextDiff;
use spent::Callers;
use std::sync::Arc;

/// The number of unchanged lines before and after a change in a diff.
const DIFF_CONTEXT: usize = 2;

pub struct Places<'a> {
    pub session: String,
    pub task: &'a dyn Fn(&TaskId) -> String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionReport {
    pub session: String,
    pub kind: SessionKind,
    /// The goal that was recorded when the session was opened; for a conversation, the user's first message.
    pub goal: String,
    pub started: Timestamp,
    pub updated: Timestamp,
    /// Whether the session has ended, so that nothing is left to resume.
    pub closed: bool,
    /// The directory in which the session was started.
    pub directory: String,
    pub project: Option<String>,
    pub config: String,
    pub version: String,
    /// For a conversation: the messages, and the runs, tool calls and compactions between them.
    pub conversation: Vec<MessageReport>,
    pub tasks: Vec<TaskReport>,
    /// The runs, in the order in which they began.
    pub runs: Vec<RunReport>,
    /// Warnings and errors that belong to no run.
    pub warnings: Vec<Warning>,
    pub usage: Spent,
    pub chat_agent: Option<String>,
    /// The usage of the chat agent, without runs.
    pub chat_usage: Spent,
    pub events: u64,
    pub files: Vec<FilePlace>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MessageReport {
    pub at: Timestamp,
    /// Who wrote the message: `you`, the name of the chat agent (`agent` if there is none), `run` for a run, or
    /// `althing` for a compaction.
    pub who: String,
    pub text: String,
    /// The run that stands here in the conversation; then the text is the run's task.
    pub run: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskReport {
    pub id: String,
    pub stage: Option<String>,
    /// What runs the task: the name of an adapter, or `run`.
    pub runs: String,
    pub status: &'static str,
    pub error: Option<String>,
    #[serde(rename = "duration_ms")]
    pub duration: Option<Millis>,
    /// The end of the task's output.
    pub output: String,
    pub usage: Spent,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    pub at: Timestamp,
    pub level: NoticeLevel,
    pub text: String,
    pub hint: Option<String>,
}

impl SessionReport {
    /// The report of a session; None if the log does not begin with the opening of the session.
    pub fn of(events: &[Arc<Event>], places: &Places<'_>) -> Option<Self> {
        let first = events.first()?;
        let Fact::SessionOpened(opened) = &first.fact else { return None };
        let mut report = Self::new(opened, first.at, places);
        let (mut callers, mut lines) = (Callers::default(), ProgressLines::default());
        let mut view = SessionView::default();
        for event in events {
            report.updated = event.at;
            callers.apply(event);
            let item = FeedItem::Event(Arc::clone(event));
            let line = lines.describe(&item);
            view.apply(&item);
            report.apply(event, line, callers.spent(event), places);
        }
        for run in &mut report.runs {
            run.complete();
        }
        report.closed = view.closed;
        report.events = events.len() as u64;
        report.chat_agent = view.chat_agent.as_ref().map(|agent| agent.id.to_string());
        report.add_conversation(&view);
        report.add_tasks(&view);
        Some(report)
    }

    fn new(opened: &SessionOpened, at: Timestamp, places: &Places<'_>) -> Self {
        let dir = &places.session;
        let place = |what: &str, path: String| FilePlace { what: what.to_owned(), path };
        Self {
            session: opened.session.to_string(),
            kind: opened.kind,
            goal: opened.goal.clone(),
            started: at,
            updated: at,
            closed: false,
            directory: opened.cwd.clone(),
            project: opened.project.clone(),
            config: opened.config_source.clone(),
            version: opened.version.clone(),
            conversation: Vec::new(),
            tasks: Vec::new(),
            runs: Vec::new(),
            warnings: Vec::new(),
            usage: Spent::default(),
            chat_agent: None,
            chat_usage: Spent::default(),
            events: 0,
            files: vec![place("session", dir.clone()), place("log", format!("{dir}/events.jsonl"))],
        }
    }

    /// The run with this id: `r1`, or `<session>.r1`.
    pub fn run(&self, id: &str) -> Option<&RunReport> {
        self.runs.iter().find(|run| run.id.as_str() == id || run.run_id == id)
    }

    fn apply(
        &mut self,
        event: &Event,
        line: Option<(String, String)>,
        spent: Option<Spent>,
        places: &Places<'_>,
    ) {
        if let Fact::TaskCreated { id, spec: TaskSpec::Run(spec), .. } = &event.fact {
            self.runs.push(RunReport::new(&self.session, id, spec, event.at, places));
        }
        if let Some(spent) = spent {
            self.usage += spent;
            self.add_spent(event, spent);
        }
        // A run covers its subagents, so the last run that covers the task is the one that the event belongs to.
        let task = event.task.as_ref();
        let warning = warning(event);
        let Some(task) = task else {
            self.warnings.extend(warning);
            // An event of the whole session, such as its resumption, is listed in the newest run that is not over.
            if let Some(run) = self.runs.iter_mut().rfind(|run| !run.is_over) {
                run.add_line(event.at, line);
            }
            return;
        };
        let run = self.runs.iter_mut().rfind(|run| run.id.covers(task));
        match run {
            Some(run) => {
                run.apply(event, places);
                run.warnings.extend(warning);
                run.add_line(event.at, line);
            }
            None => self.warnings.extend(warning),
        }
    }

    fn add_spent(&mut self, event: &Event, spent: Spent) {
        let Some(task) = &event.task else { return };
        let attempt = match &event.fact {
            Fact::ItemAdded { attempt, .. } | Fact::AttemptEnded { attempt, .. } => *attempt,
            _ => 0,
        };
        if *task == TaskId::chat() {
            self.chat_usage += spent;
        }
        if let Some(agent) = self.runs.iter_mut().find_map(|run| run.agent_of(task)) {
            agent.add_spent(attempt, spent);
            return;
        }
        let id = task.as_str().split_once('.').map_or(task.as_str(), |(_, name)| name);
        match self.tasks.iter_mut().find(|report| report.id == id) {
            Some(report) => report.usage += spent,
            None => self.tasks.push(TaskReport::with_usage(id, spent)),
        }
    }

    fn add_conversation(&mut self, view: &SessionView) {
        let agent = view.chat_agent.as_ref().map_or_else(|| "agent".to_owned(), |agent| agent.id.to_string());
        let queue = view.queue.iter().cloned().map(QueuedMessage::into_entry);
        let entries = view.entries.iter().cloned().chain(queue);
        for entry in entries.filter(|_| self.kind == SessionKind::Chat) {
            let (who, text, run) = match &entry.body {
                EntryBody::User { text, .. } => ("you".to_owned(), text.clone(), None),
                EntryBody::Agent { text } => (agent.clone(), text.clone(), None),
                EntryBody::Run(id) => {
                    let Some(run) = self.run(id.as_str()) else { continue };
                    ("run".to_owned(), run.task.clone(), Some(run.run_id.clone()))
                }
                EntryBody::Tool { name, arguments, .. } => {
                    (agent.clone(), format!("called {name} {arguments}"), None)
                }
                EntryBody::Compacted { what, .. } => ("althing".to_owned(), what.clone(), None),
                EntryBody::Program(_)
                | EntryBody::Final(_)
                | EntryBody::Notice { .. }
                | EntryBody::Rejected { .. }
                | EntryBody::Stopped { .. } => continue,
            };
            self.conversation.push(MessageReport { at: entry.at, who, text, run });
        }
        let first = self.conversation.iter().find(|message| message.who == "you");
        if let Some(first) = first.filter(|_| self.kind == SessionKind::Chat) {
            self.goal.clone_from(&first.text);
        }
    }

    /// Replaces `self.tasks`, which contains only what each task used, with full reports of the workflow's tasks.
    fn add_tasks(&mut self, view: &SessionView) {
        let used = std::mem::take(&mut self.tasks);
        for task in
            view.tasks.iter().filter(|task| task.parent.is_some() && self.kind == SessionKind::Workflow)
        {
            let runs = match &task.kind {
                TaskKind::Program { adapter, .. } => adapter.clone(),
                TaskKind::Run => "run".to_owned(),
                TaskKind::Chat | TaskKind::Workflow(_) => continue,
            };
            if task.stage.is_none() {
                continue;
            }
            let usage = used.iter().find(|report| report.id == task.name).map(|report| report.usage);
            let run = self.runs.iter().find(|run| run.id == task.id).map(|run| run.usage);
            self.tasks.push(TaskReport {
                id: task.name.clone(),
                stage: task.stage.clone(),
                runs,
                status: labels::task_status(task.status),
                error: task.why.clone(),
                duration: task.ended.map(|ended| ended.since(task.started)),
                output: task.output.clone(),
                usage: usage.or(run).unwrap_or_default(),
            });
        }
    }
}

impl TaskReport {
    fn with_usage(id: &str, usage: Spent) -> Self {
        Self {
            id: id.to_owned(),
            stage: None,
            runs: String::new(),
            status: "",
            error: None,
            duration: None,
            output: String::new(),
            usage,
        }
    }
}

/// The warning in an event. Notes are not warnings; they are in the timeline.
fn warning(event: &Event) -> Option<Warning> {
    match &event.fact {
        Fact::Notice(notice) if notice.level != NoticeLevel::Info => Some(Warning {
            at: event.at,
            level: notice.level,
            text: notice.text.clone(),
            hint: notice.hint.clone(),
        }),
        _ => None,
    }
}

fn diff(before: &str, after: &str, (old, new): (&str, &str)) -> String {
    // Blanks at the end of a text are no change that a reader can see.
    let lines = |text: &str| format!("{}\n", text.trim_end());
    let (before, after) = (lines(before), lines(after));
    let diff = TextDiff::from_lines(&before, &after);
    diff.unified_diff().context_radius(DIFF_CONTEXT).header(old, new).to_string()
}
