//! The screens on top of the conversation: a run, a text, the tasks, a program's terminal.

use super::{App, Effect};
use crate::line;
use crate::list::Scroll;
use althing_protocol::{AgentId, Op, TaskId, TaskStatus};
use althing_view::{RunView, TimelineEntry, TimelineEvent};

#[derive(Clone, Debug, PartialEq)]
pub enum TuiScreen {
    Conversation,
    Run(RunScreen),
    TextReader(TextReader),
    Tasks(usize),
    /// The output of a program that has no terminal, or has ended.
    Task(TaskId, Scroll),
    Attached(TaskId),
}

#[derive(Clone, Debug, PartialEq)]
pub struct RunScreen {
    pub id: TaskId,
    /// The index of the agent whose timeline is shown. The index after the last agent is the final answer.
    pub tab: usize,
    pub scrolls: Vec<Scroll>,
    pub search: Option<String>,
    pub typing: bool,
}

impl RunScreen {
    pub fn open(run: &RunView) -> Self {
        let tabs = run.agents.len() + 1;
        let tab = if run.result.is_some() { run.agents.len() } else { 0 };
        let mut scrolls = vec![Scroll::default(); tabs];
        if let Some(last) = scrolls.last_mut() {
            *last = Scroll::top();
        }
        Self { id: run.id.clone(), tab, scrolls, search: None, typing: false }
    }

    pub fn scroll(&mut self) -> Option<&mut Scroll> {
        self.scrolls.get_mut(self.tab)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReaderText {
    Markdown(Vec<String>),
    Plain(Vec<String>),
    Diff(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct TextReader {
    pub title: String,
    pub text: ReaderText,
    pub scroll: Scroll,
    pub search: Option<String>,
    pub typing: bool,
}

impl TextReader {
    fn new(title: &str, text: ReaderText) -> Self {
        Self { title: title.to_owned(), text, scroll: Scroll::top(), search: None, typing: false }
    }

    pub fn markdown(title: &str, text: &str) -> Self {
        let mut blocks = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let length = crate::markdown::first_block_len(rest).unwrap_or(rest.len());
            let (block, later) = rest.split_at_checked(length).unwrap_or((rest, ""));
            blocks.push(block.to_owned());
            rest = later;
        }
        Self::new(title, ReaderText::Markdown(blocks))
    }

    pub fn plain(title: &str, text: &str) -> Self {
        Self::new(title, ReaderText::Plain(text.lines().map(str::to_owned).collect()))
    }

    pub fn diff(title: &str, old: &str, new: &str) -> Self {
        let (old, new) = (format!("{}\n", old.trim_end()), format!("{}\n", new.trim_end()));
        let diff = similar::TextDiff::from_lines(&old, &new);
        let mut lines = Vec::new();
        for group in diff.grouped_ops(3) {
            if !lines.is_empty() {
                lines.push("@@".to_owned());
            }
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                let sign = match change.tag() {
                    similar::ChangeTag::Delete => '-',
                    similar::ChangeTag::Insert => '+',
                    similar::ChangeTag::Equal => ' ',
                };
                lines.push(format!("{sign}{}", change.value().trim_end_matches('\n')));
            }
        }
        if lines.is_empty() {
            lines.push(" both answers are the same".into());
        }
        Self::new(title, ReaderText::Diff(lines))
    }

    /// Shows the lines of a diff.
    pub fn diff_lines(title: &str, lines: Vec<String>) -> Self {
        Self::new(title, ReaderText::Diff(lines))
    }

    /// The parts that scroll as units.
    pub fn parts(&self) -> &[String] {
        match &self.text {
            ReaderText::Markdown(parts) | ReaderText::Plain(parts) | ReaderText::Diff(parts) => parts,
        }
    }

    pub fn whole(&self) -> String {
        match &self.text {
            ReaderText::Markdown(parts) => parts.concat(),
            ReaderText::Plain(parts) | ReaderText::Diff(parts) => parts.join("\n"),
        }
    }
}

pub fn timeline_text(entry: &TimelineEntry) -> (String, String) {
    match &entry.event {
        TimelineEvent::Began(what) => ("began".into(), (*what).to_owned()),
        TimelineEvent::Reasoning(text) => ("reasoning".into(), text.clone()),
        TimelineEvent::Text(text) => ("text".into(), text.clone()),
        TimelineEvent::Tool { name, arguments, result, .. } => {
            let result = match result {
                Some((text, _, true)) => format!("failed:\n\n{text}"),
                Some((text, _, false)) => text.clone(),
                None => "still running".into(),
            };
            (name.clone(), format!("{}\n\n{result}", pretty(arguments)))
        }
        TimelineEvent::Answer { label, content } => (label.to_string(), content.clone()),
        TimelineEvent::Update(labels) => {
            let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
            ("update".into(), labels.join(", "))
        }
        TimelineEvent::Note(text) => ("note".into(), text.clone()),
        TimelineEvent::Plan(text) => ("plan".into(), text.clone()),
        TimelineEvent::Vote { target, reason, stale } => {
            let stale = if *stale { " (not counted: newer answers had arrived)" } else { "" };
            ("vote".into(), format!("for {target}{stale}\n\n{reason}"))
        }
        TimelineEvent::Files(writes) => {
            let lines: Vec<String> = writes.iter().map(althing_view::labels::file_write).collect();
            ("files".into(), lines.join("\n"))
        }
        TimelineEvent::Presented(text) => ("final answer".into(), text.clone()),
        TimelineEvent::Ended(text) => ("ended".into(), text.clone()),
    }
}

/// The arguments of a tool. Long arguments are shown without the braces and with line breaks for escaped newlines.
fn pretty(arguments: &str) -> String {
    let Some(inner) = arguments.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return arguments.to_owned();
    };
    if line::width(arguments) < 80 { arguments.to_owned() } else { inner.replace("\\n", "\n") }
}

impl App {
    pub(crate) fn open_run(&mut self, id: &TaskId) {
        let Some(run) = self.model.runs.get(id) else { return };
        if matches!(self.screens.last(), Some(TuiScreen::Run(shown)) if shown.id == *id) {
            return;
        }
        self.panel_has_keys = !self.input_has_focus();
        let mut screen = RunScreen::open(run);
        if let (None, Some(agent)) = (&run.result, &self.modes.selected_agent)
            && let Some(member_index) = run.agents.iter().position(|other| other.member.id == *agent)
        {
            screen.tab = member_index;
        }
        self.screens.push(TuiScreen::Run(screen));
    }

    /// Opens the run screen of a run, the terminal of an interactive program that has not ended, or the output of any
    /// other task. For a task that has not started, only a message is shown.
    pub(crate) fn open_task(&mut self, id: &TaskId) {
        if self.model.runs.contains_key(id) {
            return self.open_run(id);
        }
        let Some(task) = self.model.task(id) else { return };
        if task.status == TaskStatus::Pending {
            self.toast = Some("the task has not started yet".into());
        } else if task.has_terminal() && !task.status.is_final() {
            let (cols, rows) = (self.size.width, self.size.height.saturating_sub(1));
            let id = id.clone();
            self.attached = None;
            self.screens.push(TuiScreen::Attached(id.clone()));
            self.effects.push(Effect::Submit(Op::Resize { task: id, cols, rows }));
        } else {
            self.panel_has_keys = true;
            self.screens.push(TuiScreen::Task(id.clone(), Scroll::default()));
        }
    }

    pub(crate) fn open_reader(&mut self, reader: TextReader) {
        self.panel_has_keys = true;
        self.screens.push(TuiScreen::TextReader(reader));
    }

    pub(crate) fn back(&mut self) {
        if self.screens.len() > 1 {
            self.screens.pop();
        }
    }

    pub(crate) fn shown_agent(&self) -> Option<AgentId> {
        let Some(TuiScreen::Run(screen)) = self.screens.last() else { return None };
        let run = self.model.runs.get(&screen.id)?;
        run.agents.get(screen.tab).map(|agent| agent.member.id.clone())
    }
}

/// The difference between an agent's last two answers. If the agent has only one, the difference between it and the
/// newest answer of another agent (the last in config order that has answered).
pub fn diff_answers(run: &RunView, member_index: usize) -> Option<TextReader> {
    let agent = run.agents.get(member_index)?;
    let mut own = agent.answers().rev();
    let (label, newest) = own.next()?;
    if let Some((before, text)) = own.next() {
        return Some(TextReader::diff(&format!("{before} to {label}"), text, newest));
    }
    let others = run.agents.iter().enumerate().filter(|(other, _)| *other != member_index);
    let (other, text) = others.filter_map(|(_, agent)| agent.answers().next_back()).next_back()?;
    Some(TextReader::diff(&format!("{other} to {label}"), text, newest))
}
