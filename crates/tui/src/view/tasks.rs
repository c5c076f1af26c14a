//! The tasks panel, and the output of a program that has no terminal or has ended.

use super::{bars, hints, spread, timeline::Timeline};
use crate::app::{App, Target, TuiScreen, is_retryable};
use crate::line::{self, Line};
use crate::list::{self, ListItems};
use crate::paint::Canvas;
use crate::theme::Tone;
use althing_protocol::{InteractionKind, NoticeLevel, TaskId, TaskStatus, Timestamp};
use althing_view::{ConversationEntry, EntryBody, SessionView, TaskKind, TaskView, labels};
use ratatui::layout::Rect;

/// One line: the question that a task waits for, or the reason for its status, or the elapsed time of a running or
/// completed task.
pub fn waits_for(task: &TaskView, model: &SessionView, now: Timestamp) -> String {
    if let Some(question) = model.question_of(&task.id) {
        let text = match &question.interaction.kind {
            InteractionKind::Program(ask) => line::first_line(&ask.text).to_owned(),
            InteractionKind::Interrupted => "interrupted: start it again?".into(),
            InteractionKind::WinnerOverride { .. } => "the vote is over".into(),
            InteractionKind::RunApproval { .. } => "launch the run?".into(),
            InteractionKind::PlanApproval { .. } => "execute the plan?".into(),
            InteractionKind::EditApproval { .. } => "change these files?".into(),
            InteractionKind::Budget { .. } => "may the budget be exceeded?".into(),
        };
        return if text.is_empty() { "waits for you".into() } else { text };
    }
    if let Some(why) = &task.why {
        return line::first_line(why).to_owned();
    }
    match task.status {
        TaskStatus::Running | TaskStatus::Done => elapsed_time(task, now),
        _ => String::new(),
    }
}

pub fn elapsed_time(task: &TaskView, now: Timestamp) -> String {
    labels::elapsed(task.ended.unwrap_or(now).since(task.started), task.ended.is_none())
}

const MOST_NOTES: usize = 3;

/// The rows of one note.
const NOTE_ROWS: usize = 3;

pub fn panel(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, chosen: usize) {
    let home = app.screens.len() == 1;
    let panel = super::panel(app, canvas, area, area.y + 2);
    let mut body = panel.body;
    if home {
        bars::context(app, canvas, area);
        body = draw_goal_and_notices(app, canvas, body);
    } else {
        let left = Line::of(Tone::Dim, " ‹ esc   ").with(Tone::Bold, "Tasks");
        let waiting = app.model.waiting();
        let right = if waiting > 0 { format!("{waiting} waiting for you ") } else { String::new() };
        let right = Line::of(Tone::Warn, &right);
        canvas.line(area.x, area.y, area.width, &spread(&left, &right, area.width.into()));
        canvas.rule(area, area.y + 1);
        app.targets.push((Rect { height: 1, width: 8.min(area.width), ..area }, Target::Back));
    }
    rows(app, canvas, body, chosen);
    let words = if !home && app.input_has_focus() {
        "tab go into the tasks · esc close them".into()
    } else {
        let chosen = app.task_rows().get(chosen).and_then(|id| app.model.task(id));
        list_hints(app, chosen, home)
    };
    hints(app, canvas, area, &panel, None, &words);
}

/// The keys that do something for the chosen task.
fn list_hints(app: &App, chosen: Option<&TaskView>, home: bool) -> String {
    let over = app.model.closed || app.options.replay;
    let status = chosen.map(|task| task.status);
    let ends = app.model.tasks.iter().any(|task| task.turn_is_over);
    let open = match status {
        Some(status) if status.is_final() => "enter read",
        Some(TaskStatus::Pending) => "enter open",
        _ if ends => "enter attach",
        _ => "enter open or attach",
    };
    let keys = [
        (over || !home, "↑↓ choose"),
        (true, open),
        (chosen.is_some_and(is_retryable) && !app.options.replay, "r retry"),
        (app.model.waiting() > 0, "a answer"),
        (ends, "e end the program"),
        (is_cancellable(status), "x cancel"),
        (home, if over { "q leave" } else { "^D leave" }),
    ];
    shown_keys(&keys)
}

fn shown_keys(keys: &[(bool, &str)]) -> String {
    let shown: Vec<&str> = keys.iter().filter_map(|(shown, key)| shown.then_some(*key)).collect();
    shown.join(" · ")
}

fn is_cancellable(status: Option<TaskStatus>) -> bool {
    status.is_some_and(|status| !status.is_final() && status != TaskStatus::Pending)
}

fn draw_goal_and_notices(app: &App, canvas: &mut Canvas<'_>, mut body: Rect) -> Rect {
    let width = body.width.saturating_sub(2);
    if body.height >= 10 && !app.model.goal.is_empty() {
        let goal = line::cut(line::first_line(&app.model.goal), width.into());
        canvas.text(body.x + 1, body.y, width, Tone::Plain, &goal);
        (body.y, body.height) = (body.y + 2, body.height - 2);
    }
    let mut notes: Vec<(Tone, String)> = app.model.entries.iter().rev().filter_map(notice_line).collect();
    notes.truncate(if body.height >= 10 { MOST_NOTES } else { 1 });
    if let Some((reason, hint)) = &app.model.stalled {
        let hint = hint.as_deref().unwrap_or_default();
        notes.insert(0, (Tone::Bad, format!("Cannot write to disk: {reason}. {hint}")));
    }
    for (tone, note) in notes {
        let lines = super::wrapped(tone, line::first_line(&note), width.into(), NOTE_ROWS);
        body.height = body.height.saturating_sub(lines.len() as u16);
        for (y, line) in (body.bottom()..).zip(lines) {
            canvas.line(body.x + 1, y, width, &line);
        }
    }
    body
}

fn notice_line(entry: &ConversationEntry) -> Option<(Tone, String)> {
    let EntryBody::Notice { level, text } = &entry.body else { return None };
    let tone = match level {
        NoticeLevel::Info => Tone::Dim,
        NoticeLevel::Warning => Tone::Warn,
        NoticeLevel::Error => Tone::Bad,
    };
    Some((tone, text.clone()))
}

fn rows(app: &mut App, canvas: &mut Canvas<'_>, body: Rect, chosen: usize) {
    let rows = app.task_rows();
    let chosen = chosen.min(rows.len().saturating_sub(1));
    if rows.is_empty() {
        canvas.text(body.x + 1, body.y, body.width, Tone::Dim, "There are no tasks yet.");
    }
    let width = usize::from(body.width);
    let longest = rows.iter().filter_map(|id| app.model.task(id)).map(|task| line::width(&task.name)).max();
    let names = longest.unwrap_or_default().clamp(8, (width / 3).clamp(8, 40));
    let mut shown: Vec<(Option<usize>, Line)> = Vec::new();
    let mut stage = None;
    for (n, id) in rows.iter().enumerate() {
        let Some(task) = app.model.task(id) else { continue };
        if task.stage != stage {
            stage.clone_from(&task.stage);
            if let Some(name) = &task.stage {
                shown.push((None, Line::of(Tone::AccentBold, &format!(" Stage: {name}"))));
            }
        }
        shown.push((Some(n), row(task, &app.model, app.now, names, width)));
    }
    let at = shown.iter().position(|(n, _)| *n == Some(chosen)).unwrap_or_default();
    let first = (at + 1).saturating_sub(body.height.into());
    for (y, (n, line)) in (body.top()..body.bottom()).zip(shown.iter().skip(first)) {
        canvas.line(body.x, y, body.width, line);
        if let Some(n) = n {
            if *n == chosen {
                canvas.text(body.x, y, 1, Tone::AccentBold, "›");
            }
            app.targets.push((Rect { y, height: 1, ..body }, Target::Item(*n)));
        }
    }
}

fn row(task: &TaskView, model: &SessionView, now: Timestamp, names: usize, width: usize) -> Line {
    let tone = match task.status {
        TaskStatus::WaitingForUser => Tone::Warn,
        TaskStatus::Failed => Tone::Bad,
        TaskStatus::Done => Tone::Good,
        TaskStatus::Pending | TaskStatus::Cancelled | TaskStatus::Interrupted => Tone::Dim,
        TaskStatus::Running => Tone::Accent,
    };
    let kind = match &task.kind {
        TaskKind::Run => "run".to_owned(),
        TaskKind::Chat => "conversation".to_owned(),
        TaskKind::Workflow(_) => "workflow".to_owned(),
        TaskKind::Program { adapter, interactive: true } => format!("{adapter}, terminal"),
        TaskKind::Program { adapter, interactive: false } => adapter.clone(),
    };
    let name = line::pad(line::first_line(&task.name), names);
    let left = Line::of(Tone::Plain, "   ")
        .with(Tone::Bold, &name)
        .with(tone, &format!("  {}  ", line::pad(task.status_label(), 13)))
        .with(Tone::Dim, &waits_for(task, model, now));
    spread(&left, &Line::of(Tone::Dim, &format!("{kind} ")), width)
}

struct ProgramWork<'a> {
    task: &'a TaskView,
    timeline: Timeline<'a>,
}

impl ListItems for ProgramWork<'_> {
    fn len(&self) -> usize {
        self.timeline.len() + usize::from(!self.task.output.trim().is_empty())
    }

    fn version(&self, at: usize) -> Option<u64> {
        if at < self.timeline.len() { self.timeline.version(at) } else { Some(self.task.output.len() as u64) }
    }

    fn layout(&self, at: usize, width: usize) -> Vec<Line> {
        if at < self.timeline.len() {
            return self.timeline.layout(at, width);
        }
        let mut lines = vec![Line::default(), Line::of(Tone::Bold, "   output")];
        let output = line::wrap_text(Tone::Plain, self.task.output.trim_end(), width.saturating_sub(4));
        lines.extend(output.into_iter().map(|line| line.indented(3)));
        lines
    }

    fn grows(&self, at: usize) -> Option<(&str, Line)> {
        if at < self.timeline.len() { self.timeline.grows(at) } else { None }
    }
}

pub fn task(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, id: &TaskId) {
    let Some(task) = app.model.task(id) else { return };
    let left = Line::of(Tone::Dim, " ‹ esc   ").with(Tone::Bold, &format!("Task: {}", task.name));
    let right = format!("{} · {} ", task.status_label(), task.work.member.backend);
    canvas.line(
        area.x,
        area.y,
        area.width,
        &spread(&left, &Line::of(Tone::Plain, &right), area.width.into()),
    );
    canvas.rule(area, area.y + 1);
    let panel = super::panel(app, canvas, area, area.y + 2);
    let body = panel.body;
    let work = ProgramWork { task, timeline: Timeline { agent: &task.work, start: task.started } };
    if work.len() == 0 {
        canvas.text(body.x + 1, body.y, body.width, Tone::Dim, "The program has printed nothing yet.");
    }
    if let Some(TuiScreen::Task(_, scroll)) = app.screens.last_mut() {
        list::draw(canvas, body, super::list_id(&["task", id.as_str()]), &work, scroll, &mut app.layouts);
    }
    app.targets.push((Rect { height: 1, width: 8.min(area.width), ..area }, Target::Back));
    let words = if app.input_has_focus() {
        "pgup pgdn scroll · tab go into the task · esc close it".into()
    } else {
        let task = app.model.task(id);
        let keys = [
            (true, "↑↓ scroll"),
            (app.model.question_of(id).is_some(), "a answer"),
            (true, "o open in pager"),
            (task.is_some_and(is_retryable) && !app.options.replay, "r retry"),
            (is_cancellable(task.map(|task| task.status)), "x cancel"),
        ];
        shown_keys(&keys)
    };
    hints(app, canvas, area, &panel, None, &words);
}
