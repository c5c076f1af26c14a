//! Frames of dialogs, and dialogs that only inform.

use super::{approval_dialog, count, picker, session_picker, tokens};
use crate::app::{App, COMMANDS, Modal, Target};
use crate::line::{self, Line};
use crate::paint::Canvas;
use crate::theme::Tone;
use althing_view::money::{cost as shown_cost, exact_money};
use ratatui::layout::Rect;

const ABOUT: &str = "You talk to one agent. For real work it proposes a run: several agents answer, read each other's \
    answers, refine and vote; the winner presents.";

const KEYS: &[(&str, &str)] = &[
    ("Enter", "send; in a dialog, with nothing typed: approve"),
    ("a", "in a dialog: approve, after a second without other keys"),
    ("Alt+Enter, Ctrl+J", "new line"),
    ("Shift+Tab", "plan mode"),
    ("Alt+A · Alt+R", "one agent or several · refine or not"),
    ("Alt+1 … 9", "choose the agent that works alone"),
    ("Tab", "move between input and conversation, or what is open"),
    ("Tab after @ or /", "complete a path or a command"),
    ("Ctrl+R", "open the newest run"),
    ("Ctrl+T", "tasks; Ctrl+] detaches from a program"),
    ("Ctrl+O", "override the vote"),
    ("Ctrl+X", "write in your editor"),
    ("↑ ↓", "earlier messages"),
    ("PgUp PgDn", "scroll"),
    ("↑ · Enter · Del", "choose a queued message · edit it · remove it"),
    ("Esc", "stop the reply, never a run"),
    ("e", "on your message: edit it, and branch from there"),
    ("/ · n N", "while moving through the conversation: search"),
    ("Ctrl+Y · Ctrl+_", "insert what was removed · undo"),
    ("Ctrl+C", "close a dialog, clear the input, else stop the run; twice: leave"),
    ("Ctrl+D", "leave, if the input is empty; asks while a run works"),
];

pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(modal) = app.modal.clone() else { return };
    // The screen below is visible but not clickable, except for sending a message that is being typed.
    let sends = app.input_has_focus_under_box();
    app.targets.retain(|(_, target)| sends && *target == Target::Send);
    if !app.input_has_focus_under_box() {
        canvas.hide_cursor();
    }
    match &modal {
        Modal::RunApproval { .. } | Modal::PlanApproval { .. } | Modal::Override { .. } => {
            approval_dialog::draw(app, canvas, area, &modal)
        }
        Modal::Program { .. }
        | Modal::Interrupted { .. }
        | Modal::Budget { .. }
        | Modal::EditApproval { .. }
        | Modal::Trust { .. }
        | Modal::Confirm(_) => approval_dialog::draw_small(app, canvas, area, &modal),
        Modal::Sessions(picker) => session_picker::draw(app, canvas, area, picker),
        Modal::Pick { picker, chosen } => picker::draw(app, canvas, area, picker, *chosen),
        Modal::Problems => {
            let lines: Vec<Line> = app
                .options
                .problems
                .iter()
                .flat_map(|problem| {
                    problem.lines().map(|text| Line::of(Tone::Plain, text)).collect::<Vec<_>>()
                })
                .collect();
            draw_info(app, canvas, area, "Problems of the config", &lines);
        }
        Modal::Cost => {
            let lines = cost(app);
            draw_info(app, canvas, area, "Cost so far", &lines);
        }
        Modal::Agents => {
            let lines = agents(app);
            draw_info(app, canvas, area, "Agents", &lines);
        }
        Modal::Help => {
            let width = usize::from(area.width.min(96)).saturating_sub(6);
            let mut lines = line::wrap_text(Tone::Plain, ABOUT, width);
            lines.push(Line::default());
            lines.extend(KEYS.iter().map(|(key, about)| pair(key, about)));
            lines.push(Line::default());
            lines.extend(COMMANDS.iter().map(|command| pair(command.name, command.about)));
            lines.push(Line::default());
            lines.push(pair("@path, @path:w", "a file or directory that the run may read, or write"));
            draw_info(app, canvas, area, "Help", &lines);
        }
    }
}

fn pair(left: &str, right: &str) -> Line {
    Line::of(Tone::Accent, &line::pad(left, 19)).with(Tone::Plain, right)
}

pub fn centered_frame(canvas: &mut Canvas<'_>, area: Rect, title: &str, lines: usize) -> Rect {
    let width = area.width.saturating_sub(2).min(96);
    let height =
        u16::try_from(lines).unwrap_or(u16::MAX).saturating_add(2).min(area.height.saturating_sub(1));
    let x = area.x + (area.width - width) / 2;
    let y = area.y + (area.height - height) / 2;
    let inside = canvas.frame(Rect { x, y, width, height }, title, Tone::Accent);
    Rect { x: inside.x + 1, width: inside.width.saturating_sub(2), ..inside }
}

pub fn buttons(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, y: u16, buttons: &[(&str, &str, char)]) {
    let gap = if area.width < 60 { 2 } else { 6 };
    let mut x = area.x + if area.width < 60 { 0 } else { 2 };
    // Without room for all buttons, the first and the last stay whole. The keys of the others work as well.
    let mut buttons = buttons.to_vec();
    let needed = |buttons: &[(&str, &str, char)]| {
        let each = |(word, key, _): &(&str, &str, char)| line::width(word) + 1 + line::width(key) + gap;
        buttons.iter().map(each).sum::<usize>().saturating_sub(gap)
    };
    while buttons.len() > 2 && needed(&buttons) > usize::from(area.right().saturating_sub(x)) {
        buttons.remove(buttons.len() - 2);
    }
    for (n, (word, key, press)) in buttons.iter().enumerate() {
        // The button that grants something is dimmed until what it grants was shown.
        let trusts = matches!(app.modal, Some(Modal::Trust { .. } | Modal::EditApproval { .. }));
        let trusts = trusts && *press != '\x1b';
        let grants = *press == '\n' || *press == 'y' || trusts;
        let tone = match n {
            _ if grants && !app.is_read() => Tone::Dim,
            0 => Tone::AccentBold,
            _ => Tone::Bold,
        };
        let start = x;
        x += canvas.text(x, y, area.right().saturating_sub(x), tone, word);
        x += 1 + canvas.text(x + 1, y, area.right().saturating_sub(x + 1), Tone::Dim, key);
        app.targets.push((Rect::new(start, y, x - start, 1), Target::Key(*press)));
        x += gap as u16;
    }
    if let Some(note) = app.box_note() {
        canvas.right(area.right(), y, area.right().saturating_sub(x), Tone::Warn, note);
    }
}

fn draw_info(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, title: &str, lines: &[Line]) {
    let width = usize::from(area.width.saturating_sub(2).min(96)).saturating_sub(4);
    let wrap = |line: &Line| {
        let pieces: Vec<(Tone, &str)> = line.pieces.iter().map(|(tone, text)| (*tone, &**text)).collect();
        let rows = line::wrap(&pieces, width.saturating_sub(2)).into_iter().enumerate();
        rows.map(|(row, line)| if row == 0 { line } else { line.indented(2) }).collect()
    };
    let fits = |line: &Line| line.width() <= width;
    let lines: Vec<Line> =
        lines.iter().flat_map(|line| if fits(line) { vec![line.clone()] } else { wrap(line) }).collect();
    let inside = centered_frame(canvas, area, title, lines.len() + 2);
    let room = usize::from(inside.height.saturating_sub(2));
    app.info_scroll = app.info_scroll.min(lines.len().saturating_sub(room));
    for (y, line) in (inside.top()..).zip(lines.iter().skip(app.info_scroll).take(room)) {
        canvas.line(inside.x, y, inside.width, line);
    }
    let keys = if lines.len() > room { "↑↓ scroll · esc close" } else { "esc close" };
    canvas.text(inside.x, inside.bottom().saturating_sub(1), inside.width, Tone::Dim, keys);
    app.targets.push((inside, Target::Key('\x1b')));
}

fn cost(app: &App) -> Vec<Line> {
    let model = &app.model;
    let row = |name: &str, usage: &althing_protocol::Usage| {
        let calls = if usage.calls == 1 { "call " } else { "calls" };
        let numbers =
            format!("{:>7} tokens  {:>4} {calls}  {:>11}", tokens(usage), usage.calls, shown_cost(usage));
        Line::of(Tone::Plain, &line::pad(name, 30)).with(Tone::Plain, &numbers)
    };
    let mut lines = Vec::new();
    if model.chat_agent.is_some() {
        lines.push(row("the conversation", &model.chat_usage));
    }
    for task in &model.tasks {
        if let Some(run) = model.runs.get(&task.id) {
            lines.push(row(&format!("Run: {}", line::first_line(&run.task)), &run.usage()));
        } else if task.work.usage.calls > 0 {
            lines.push(row(&task.name, &task.work.usage));
        }
    }
    lines.push(Line::default());
    lines.push(row("everything", &model.usage()));
    if let Some(budget) = model.budget_micro_usd {
        lines.push(Line::of(Tone::Dim, &format!("budget {}", exact_money(budget))));
    }
    lines
}

fn agents(app: &App) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some(member) = &app.model.chat_agent {
        lines.push(Line::of(Tone::Dim, &format!("you talk to {} ({})", member.id, member.model)));
        lines.push(Line::default());
    }
    for (member_index, member) in app.model.team.iter().enumerate() {
        let works = app.modes.selected_agent.as_ref() == Some(&member.id);
        let mut line =
            Line::of(if works { Tone::AccentBold } else { Tone::Bold }, &format!("{} ", member_index + 1))
                .with(Tone::Bold, &line::pad(member.id.as_str(), 16))
                .with(Tone::Plain, &format!(" {} · {}", member.backend, member.model));
        if member.offline {
            line.push(Tone::Warn, " · offline, not an AI");
        }
        if member.has_tools {
            line.push(Tone::Dim, " · files and tools");
        }
        lines.push(line);
    }
    lines.push(Line::default());
    lines.push(Line::of(Tone::Dim, &format!("{} in runs", count(app.model.team.len(), "agent"))));
    lines
}
