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
    if area.height < TALL || area.width < NARROW {
        let newest = queue.last().map(|queued| message(&queued.text)).unwrap_or_default();
        let more = if queue.len() > 1 { format!(" (+{})", queue.len() - 1) } else { String::new() };
        let note = " · del removes";
        let room = width.saturating_sub(line::width(note) + line::width(&more));
        let text = line::cut(&format!(" queued: {newest}"), room);
        return vec![Line::of(Tone::Plain, &text).with(Tone::Dim, &format!("{more}{note}"))];
    }
    let note = format!(" queued, delivered after this {after} · del removes · ↑ edits");
    let mut lines = vec![Line::of(Tone::Dim, &line::cut(&note, width))];
    let hidden = queue.len().saturating_sub(MOST_QUEUED);
    if hidden > 0 {
        lines.push(Line::of(Tone::Dim, &format!("   … {} before", count(hidden, "message"))));
    }
    for queued in queue.iter().skip(hidden) {
        let pinned = if queued.pinned { " · pinned" } else { "" };
        let room = width.saturating_sub(3 + line::width(pinned));
        let text = line::cut(&message(&queued.text), room);
        lines.push(Line::of(Tone::Plain, &format!("   {text}")).with(Tone::Dim, pinned));
    }
    lines
}
