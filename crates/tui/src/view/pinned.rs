//! What is pinned above the mode bar: the progress of the plan that is being executed, and the queued messages.

use super::count;
use crate::app::App;
use crate::line::{self, Line};
use crate::paint::Canvas;
use crate::theme::Tone;
use althing_protocol::{PlanStatus, PlanTask};
use ratatui::layout::Rect;

const MOST_QUEUED: usize = 4;

const MOST_TASKS: usize = 5;

/// From this height on, the plan and the queue may each have more than one line.
const TALL: u16 = 20;

const NARROW: u16 = 60;

pub fn rows(app: &App, area: Rect) -> u16 {
    u16::try_from(lines(app, area).len()).unwrap_or(u16::MAX).min(area.height / 3)
}

pub fn draw(app: &App, canvas: &mut Canvas<'_>, screen: Rect, area: Rect) {
    for (y, line) in (area.top()..area.bottom()).zip(lines(app, screen)) {
        canvas.line(area.x, y, area.width, &line);
    }
}

fn lines(app: &App, area: Rect) -> Vec<Line> {
    let mut lines = plan(app, area);
    lines.extend(queue(app, area));
    lines
}

/// Such as `3 of 8 ✓ · now: Rotate keys`, and below it the tasks around the current one.
fn plan(app: &App, area: Rect) -> Vec<Line> {
    let Some(run) = app.model.live_run().filter(|run| !run.checklist.is_empty()) else { return Vec::new() };
    let width = usize::from(area.width);
    let is = |wanted: PlanStatus| move |(_, status): &&(PlanTask, PlanStatus)| *status == wanted;
    let done = run.checklist.iter().filter(is(PlanStatus::Completed)).count();
    let failed = run.checklist.iter().filter(is(PlanStatus::Failed)).count();
    let current = run
        .checklist
        .iter()
        .find(is(PlanStatus::InProgress))
        .or_else(|| run.checklist.iter().find(is(PlanStatus::Pending)).filter(|_| done + failed > 0));
    let mut words = format!("{done} of {} ✓", run.checklist.len());
    if failed > 0 {
        words = format!("{words} · {failed} ✗");
    }
    if let Some((task, status)) = current {
        let when = if *status == PlanStatus::InProgress { "now" } else { "next" };
        words = format!("{words} · {when}: {}", line::first_line(&task.description));
    }
    let mut lines = vec![Line::of(Tone::Plain, &line::cut(&format!(" {words}"), width))];
    if area.height < TALL || area.width < NARROW {
        return lines;
    }
    let at = current.and_then(|current| run.checklist.iter().position(|one| one == current));
    let most = run.checklist.len().min(MOST_TASKS);
    let first = at.unwrap_or_default().saturating_sub(most / 2).min(run.checklist.len() - most);
    for (task, status) in run.checklist.iter().skip(first).take(most) {
        let (mark, tone) = match status {
            PlanStatus::Completed => ("✓", Tone::Dim),
            PlanStatus::Failed => ("✗", Tone::Bad),
            PlanStatus::InProgress => ("▸", Tone::Bold),
            PlanStatus::Pending => ("·", Tone::Dim),
        };
        let text = format!("   {mark} {}", line::first_line(&task.description));
        lines.push(Line::of(tone, &line::cut(&text, width)));
    }
    lines
}

fn queue(app: &App, area: Rect) -> Vec<Line> {
    let Some(after) = app.model.queue_waits_for().filter(|_| !app.model.queue.is_empty()) else {
        return Vec::new();
    };
    let width = usize::from(area.width);
    let queue = &app.model.queue;
    let message = |text: &str| line::first_line(text).to_owned();
    let selected = app.selected_queued();
    let keys = if selected.is_some() { "enter edits · del removes" } else { "↑ chooses · del removes" };
    if area.height < TALL || area.width < NARROW {
        let shown = selected.and_then(|at| queue.get(at)).or_else(|| queue.last());
        let shown = shown.map(|queued| message(&queued.text)).unwrap_or_default();
        let more = match (selected, queue.len()) {
            (Some(at), all) => format!(" ({} of {all})", at + 1),
            (None, 0 | 1) => String::new(),
            (None, all) => format!(" (+{})", all - 1),
        };
        let note = if selected.is_some() { "" } else { " · del removes" };
        let room = width.saturating_sub(line::width(note) + line::width(&more));
        let tone = if selected.is_some() { Tone::Selected } else { Tone::Plain };
        let text = line::cut(&format!(" queued: {shown}"), room);
        return vec![Line::of(tone, &text).with(Tone::Dim, &format!("{more}{note}"))];
    }
    let note = format!(" queued, delivered after this {after} · ");
    let keys = super::fitting_hints(keys, width.saturating_sub(line::width(&note)));
    let mut lines = vec![Line::of(Tone::Dim, &line::cut(&format!("{note}{keys}"), width))];
    let first = selected.unwrap_or(queue.len()).min(queue.len().saturating_sub(MOST_QUEUED));
    if first > 0 {
        lines.push(Line::of(Tone::Dim, &format!("   … {} before", count(first, "message"))));
    }
    for (at, queued) in queue.iter().enumerate().skip(first).take(MOST_QUEUED) {
        let pinned = if queued.pinned { " · pinned" } else { "" };
        let room = width.saturating_sub(3 + line::width(pinned));
        let text = line::cut(&message(&queued.text), room);
        let (mark, tone) =
            if selected == Some(at) { (" › ", Tone::Selected) } else { ("   ", Tone::Plain) };
        lines.push(Line::of(tone, &format!("{mark}{text}")).with(Tone::Dim, pinned));
    }
    let after = queue.len().saturating_sub(first + MOST_QUEUED);
    if after > 0 {
        lines.push(Line::of(Tone::Dim, &format!("   … {} after", count(after, "message"))));
    }
    lines
}
