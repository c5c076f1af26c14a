//! Draws the approval dialog of a run or a plan, and the dialogs for the presenter, for questions of programs, for
//! interrupted programs, for the budget and for confirmations.

use super::modal::{buttons, centered_frame};
use super::{count, spread};
use crate::app::{App, ConfirmedAction, Field, Modal, Target, approval_members};
use crate::editor::Editor;
use crate::line::{self, Line};
use crate::paint::Canvas;
use crate::theme::Tone;
use althing_protocol::{AskKind, LaunchRun, Member, Proposal};
use althing_view::labels::{self, micro_money};
use ratatui::layout::Rect;

/// The width of the labels.
const LABEL: usize = 10;

/// Draws a run approval, a plan approval, or the choice of the presenter. Draws nothing for other modals.
pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, modal: &Modal) {
    match modal {
        Modal::RunApproval { proposal, edited, field, editor, problem, .. } => {
            draw_run_approval(app, canvas, area, (proposal, edited), *field, editor, problem.as_deref());
        }
        Modal::PlanApproval { preview, field, instructions, changes, top, plan, .. } => {
            let title = format!("Plan: {} · {}", plan.id, count(preview.len(), "task"));
            let editor = if *field == Field::Changes { changes } else { instructions };
            draw_plan_approval(app, canvas, area, &title, (preview, *top), *field, editor);
        }
        Modal::Override { candidates, chosen, .. } => {
            let inside = centered_frame(canvas, area, "Choose who presents", candidates.len() + 2);
            let names =
                candidates.iter().map(|one| line::width(one.agent.as_str())).max().unwrap_or(4).min(16);
            let winner =
                app.model.override_question().and_then(|question| match &question.interaction.kind {
                    althing_protocol::InteractionKind::WinnerOverride { winner, .. } => {
                        Some(winner.to_string())
                    }
                    _ => None,
                });
            let room = usize::from(inside.height.saturating_sub(2)).max(1);
            let first = (chosen + 1).saturating_sub(room);
            for (row, (at, one)) in candidates.iter().enumerate().skip(first).take(room).enumerate() {
                let y = inside.y + row as u16;
                let mark = if at == *chosen { "› " } else { "  " };
                let votes = if one.votes == 1 { "1 vote ".into() } else { format!("{} votes", one.votes) };
                // Join the lines: the first one alone may be only a heading or a label.
                let text = one.preview.split_whitespace().collect::<Vec<_>>().join(" ");
                let line = Line::of(Tone::AccentBold, mark)
                    .with(
                        if at == *chosen { Tone::Bold } else { Tone::Plain },
                        &line::pad(one.agent.as_str(), names),
                    )
                    .with(Tone::Plain, &format!("  {votes}  "))
                    .with(Tone::Dim, &text);
                canvas.line(inside.x, y, inside.width, &spread(&line, &Line::default(), inside.width.into()));
                app.targets.push((Rect { y, height: 1, ..inside }, Target::Item(at)));
            }
            let keep = winner.map(|name| format!("esc keep {name}")).unwrap_or_default();
            let keys = format!("↑↓ choose · space read all · enter let this one present · {keep}");
            let keys = line::cut(&keys, inside.width.into());
            canvas.text(inside.x, inside.bottom().saturating_sub(1), inside.width, Tone::Dim, &keys);
        }
        _ => {}
    }
}

/// A labeled value, wrapped to at most `most` rows.
fn value(label: &str, text: &str, width: usize, most: usize) -> Vec<Line> {
    let wrapped = line::wrap_text(Tone::Plain, text, width.saturating_sub(LABEL).max(8));
    let more = wrapped.len().saturating_sub(most);
    let mut lines: Vec<Line> = wrapped
        .into_iter()
        .take(most)
        .enumerate()
        .map(|(n, line)| {
            let mut whole = Line::of(Tone::Dim, &line::pad(if n == 0 { label } else { "" }, LABEL));
            for (tone, text) in line.pieces {
                whole.push(tone, &text);
            }
            whole
        })
        .collect();
    if lines.is_empty() {
        lines.push(Line::of(Tone::Dim, label));
    }
    if more > 0
        && let Some(last) = lines.pop()
    {
        lines.push(spread(&last, &Line::of(Tone::Dim, &format!("+ {}", count(more, "line"))), width));
    }
    lines
}

/// Shortens the lines to the room on the screen: first the task and its context, which are the first `text_lines`, so
/// that agents, modes and paths stay visible. The last line says how many lines are hidden.
fn shorten(lines: &mut Vec<Line>, text_lines: usize, room: usize) {
    let hidden = (lines.len() + 1).saturating_sub(room);
    if lines.len() <= room || room == 0 {
        return;
    }
    let from = text_lines.saturating_sub(hidden).max(1);
    lines.drain(from..(from + hidden).min(lines.len()));
    lines.truncate(room - 1);
    lines.push(Line::of(Tone::Warn, &format!("+ {}: enlarge the window", count(hidden, "line"))));
}

fn draw_run_approval(
    app: &mut App,
    canvas: &mut Canvas<'_>,
    area: Rect,
    (proposal, edited): (&Proposal, &LaunchRun),
    field: Field,
    editor: &Editor,
    problem: Option<&str>,
) {
    let width = usize::from(area.width.saturating_sub(6).min(92));
    let most = usize::from(area.height / 6).max(1);
    let mut lines = Vec::new();
    if let Some(problem) = problem {
        lines.extend(line::wrap_text(Tone::Bad, problem, width.max(8)).into_iter().take(3));
    }
    let mut cursor = None;
    let mut put = |lines: &mut Vec<Line>, label: &str, text: &str, editing: bool| {
        if editing {
            let wrapped = editor.wrap(width.saturating_sub(LABEL).max(8));
            cursor = Some((lines.len() + wrapped.cursor.0, LABEL + wrapped.cursor.1));
            for (n, row) in wrapped.rows.iter().enumerate() {
                let label = line::pad(if n == 0 { label } else { "" }, LABEL);
                lines.push(Line::of(Tone::Accent, &label).with(Tone::Plain, row));
            }
        } else {
            lines.extend(value(label, text, width, most));
        }
    };
    put(&mut lines, "Task", &edited.task, field == Field::Task);
    let context = edited.context.as_deref().unwrap_or_default();
    if !context.is_empty() || field == Field::Context {
        put(&mut lines, "Context", context, field == Field::Context);
    }
    let text_lines = lines.len();
    let members = approval_members::members(proposal, edited, &app.model.team);
    let agents: Vec<String> =
        members.iter().map(|member| format!("{} {}", member.id, member.model)).collect();
    lines.extend(value("Agents", &agents.join(" · "), width, 3));
    lines.extend(value("Modes", &modes(proposal, edited, &app.model.team), width, 2));
    if !proposal.may_read.is_empty() {
        lines.extend(value("Reads", &proposal.may_read.join(", "), width, 3));
    }
    let writes = match (proposal.may_write.join(", "), members.as_slice()) {
        (paths, _) if paths.is_empty() => "nothing outside its workspaces".to_owned(),
        (paths, [alone]) => format!("{paths}, by {}", alone.id),
        (paths, _) => format!("{paths}, by the presenter after the vote"),
    };
    lines.extend(value("May write", &writes, width, 3));
    let inside = centered_frame(canvas, area, "Launch this run?", lines.len() + 2);
    let room = usize::from(inside.height.saturating_sub(2));
    if field == Field::Buttons {
        shorten(&mut lines, text_lines, room);
    }
    for (y, line) in (inside.top()..).zip(lines.iter().take(room)) {
        canvas.line(inside.x, y, inside.width, line);
    }
    if let Some((row, column)) = cursor {
        canvas.set_cursor(inside.x + column as u16, inside.y + row as u16);
    }
    let y = inside.bottom().saturating_sub(1);
    if field == Field::Buttons {
        buttons(
            app,
            canvas,
            inside,
            y,
            &[("Approve", "⏎", '\n'), ("Edit", "e", 'e'), ("Cancel", "esc", '\x1b')],
        );
        let hint = if approval_members::is_single(proposal, edited)
            && approval_members::candidates(proposal, &app.model.team).len() > 1
        {
            "←→ who · m agents · r refine"
        } else {
            "m agents · r refine"
        };
        if app.box_note().is_none() {
            canvas.right(inside.right(), y, inside.width.saturating_sub(46), Tone::Dim, hint);
        }
    } else {
        canvas.text(inside.x, y, inside.width, Tone::Dim, "enter done · alt+enter new line · tab next field");
    }
}

fn modes(proposal: &Proposal, edited: &LaunchRun, team: &[Member]) -> String {
    let single = approval_members::is_single(proposal, edited);
    let refine = edited.refinement.unwrap_or(proposal.modes.refinement);
    let who = single_agent_line(proposal, edited, team);
    let mut words =
        vec![if single { who.as_str() } else { labels::agent_mode(false) }, labels::refinement(refine)];
    if proposal.modes.planning {
        words.insert(0, "Plan");
    }
    if edited.execute_after_planning {
        words.push("then execute");
    }
    let chosen: Vec<&str> = proposal
        .chosen
        .iter()
        .filter_map(|name| match name.as_str() {
            "agent_mode" => Some(labels::agent_mode(single)),
            "refinement" => Some(labels::refinement(refine)),
            "planning" => Some("Plan"),
            _ => None,
        })
        .collect();
    let words = words.join(" · ");
    if chosen.is_empty() { words } else { format!("{words}   ({}: your choice)", chosen.join(", ")) }
}

/// Single-agent mode with all agents to choose from, the selected one marked.
fn single_agent_line(proposal: &Proposal, edited: &LaunchRun, team: &[Member]) -> String {
    let pool = approval_members::candidates(proposal, team);
    if pool.len() < 2 {
        return labels::agent_mode(true).into();
    }
    let chosen = approval_members::members(proposal, edited, team);
    let name = |member: &Member| {
        if chosen.iter().any(|chosen| chosen.id == member.id) {
            format!("‹{}›", member.id)
        } else {
            member.id.to_string()
        }
    };
    let names: Vec<String> = pool.iter().map(name).collect();
    format!("Single: {}", names.join(" "))
}

fn draw_plan_approval(
    app: &mut App,
    canvas: &mut Canvas<'_>,
    area: Rect,
    title: &str,
    (preview, top): (&[String], usize),
    field: Field,
    editor: &Editor,
) {
    let width = usize::from(area.width.saturating_sub(6).min(92));
    let wrapped = editor.wrap(width.saturating_sub(2).max(8));
    let room = usize::from(area.height.saturating_sub(8)).saturating_sub(wrapped.rows.len()).max(1);
    let rows = preview.len().min(room);
    let inside = centered_frame(canvas, area, title, rows + wrapped.rows.len() + 4);
    let mut y = inside.y;
    for (n, text) in preview.iter().enumerate().skip(top).take(rows) {
        let numbered = format!("{} {}", n + 1, line::first_line(text));
        canvas.text(inside.x, y, inside.width, Tone::Plain, &line::cut(&numbered, inside.width.into()));
        y += 1;
    }
    if preview.len() > top + rows {
        let more = format!("… {} more, ↑↓ scrolls", preview.len() - top - rows);
        canvas.text(inside.x, y, inside.width, Tone::Dim, &more);
    }
    y += 1;
    let (label, tone) = match field {
        Field::Changes => ("What should change:", Tone::Accent),
        Field::Instructions => ("Add instructions (optional):", Tone::Accent),
        _ => ("Add instructions (optional): tab", Tone::Dim),
    };
    canvas.text(inside.x, y, inside.width, tone, label);
    y += 1;
    for (n, row) in wrapped.rows.iter().enumerate() {
        canvas.text(inside.x, y + n as u16, 1, tone, if n == 0 { "›" } else { " " });
        canvas.text(inside.x + 2, y + n as u16, inside.width.saturating_sub(2), Tone::Plain, row);
    }
    if field != Field::Buttons {
        canvas.set_cursor(inside.x + 2 + wrapped.cursor.1 as u16, y + wrapped.cursor.0 as u16);
    }
    let bottom = inside.bottom().saturating_sub(1);
    match field {
        Field::Changes => {
            canvas.text(inside.x, bottom, inside.width, Tone::Dim, "enter ask for these changes · esc back");
        }
        Field::Instructions => {
            canvas.text(inside.x, bottom, inside.width, Tone::Dim, "enter approve with these · tab back");
        }
        _ => buttons(
            app,
            canvas,
            inside,
            bottom,
            &[
                ("Approve", "⏎", '\n'),
                ("Ask for changes", "c", 'c'),
                ("Edit", "e", 'e'),
                ("Cancel", "esc", '\x1b'),
            ],
        ),
    }
}

/// A button: its label, the displayed key, and the key.
type Button = (&'static str, &'static str, char);

/// The confirmation of an irreversible action: title, text, buttons.
fn confirmation(app: &App, action: &ConfirmedAction) -> (&'static str, &'static str, [Button; 2]) {
    match action {
        ConfirmedAction::Cancel(task) if app.model.runs.contains_key(task) => (
            "Stop this run?",
            "The agents' work so far is kept.",
            [("Keep it", "esc", '\x1b'), ("Stop it", "y", 'y')],
        ),
        ConfirmedAction::Cancel(_) => (
            "Stop this task?",
            "Its program is stopped; its output so far is kept.",
            [("Keep it", "esc", '\x1b'), ("Stop it", "y", 'y')],
        ),
        ConfirmedAction::Undo(_) => (
            "Undo what this run wrote?",
            "The files that it changed are restored.",
            [("Leave them", "esc", '\x1b'), ("Restore them", "y", 'y')],
        ),
    }
}

/// Draws a box with a text and buttons.
fn choose(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, title: &str, text: &str, choices: &[Button]) {
    let width = usize::from(area.width.saturating_sub(6).min(92));
    let lines = line::wrap_text(Tone::Plain, text, width);
    let inside = centered_frame(canvas, area, title, lines.len() + 2);
    draw_lines(canvas, inside, &lines);
    buttons(app, canvas, inside, inside.bottom().saturating_sub(1), choices);
}

/// Draws a modal with a short text and buttons.
pub fn draw_small(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, modal: &Modal) {
    let width = usize::from(area.width.saturating_sub(6).min(92));
    match modal {
        Modal::Budget { spent, budget, .. } => {
            let text = format!(
                "The session has spent {} of {}. Continuing may cost more.",
                micro_money(*spent),
                micro_money(*budget)
            );
            let choices = [("Approve", "⏎", '\n'), ("Cancel", "esc", '\x1b')];
            choose(app, canvas, area, "The budget is used up", &text, &choices);
        }
        Modal::Confirm(action) => {
            let (title, text, choices) = confirmation(app, action);
            choose(app, canvas, area, title, text, &choices);
        }
        Modal::Interrupted { task, .. } => {
            let name = task.as_ref().and_then(|id| app.model.task(id)).map_or("A task", |task| &task.name);
            let text = format!("{name} was interrupted. Restart it, or mark it as failed?");
            let choices = [("Start over", "⏎", '\n'), ("Failed", "f", 'f'), ("Later", "esc", '\x1b')];
            choose(app, canvas, area, "A task was interrupted", &text, &choices);
        }
        Modal::Program { ask, task, chosen, .. } => {
            let name = task
                .as_ref()
                .map_or("A program", |id| app.model.task(id).map_or(id.as_str(), |task| task.name.as_str()));
            let what = match ask.about {
                AskKind::Permission => "asks for permission",
                AskKind::Question => "asks",
                AskKind::Auth => "wants you to sign in",
                AskKind::Other => "waits for you",
            };
            let title = format!("{name} {what}");
            let mut lines = line::wrap_text(Tone::Plain, &ask.text, width);
            lines.truncate(
                usize::from(area.height.saturating_sub(8)).saturating_sub(ask.options.len()).max(1),
            );
            let inside = centered_frame(canvas, area, &title, lines.len() + ask.options.len() + 3);
            draw_lines(canvas, inside, &lines);
            let top = inside.y + lines.len() as u16 + 1;
            for (n, option) in ask.options.iter().enumerate() {
                let y = top + n as u16;
                if y + 1 >= inside.bottom() {
                    break;
                }
                let mark = if n == *chosen { "›" } else { " " };
                let tone = if n == *chosen { Tone::Bold } else { Tone::Plain };
                canvas.text(inside.x, y, 1, Tone::AccentBold, mark);
                canvas.text(
                    inside.x + 2,
                    y,
                    inside.width.saturating_sub(2),
                    tone,
                    &format!("{} {}", n + 1, option.label),
                );
                app.targets.push((Rect { y, height: 1, ..inside }, Target::Item(n)));
            }
            let keys = if ask.options.is_empty() {
                "enter open it and answer there · esc later"
            } else {
                "↑↓ choose · enter answer · esc later"
            };
            canvas.text(inside.x, inside.bottom().saturating_sub(1), inside.width, Tone::Dim, keys);
        }
        _ => {}
    }
}

fn draw_lines(canvas: &mut Canvas<'_>, inside: Rect, lines: &[Line]) {
    for (y, line) in (inside.top()..inside.bottom()).zip(lines) {
        canvas.line(inside.x, y, inside.width, line);
    }
}
