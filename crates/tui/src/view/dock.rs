//! The bottom of the screen: a disk error and the vote, if there are any, pinned lines, the tabs of the team, the mode
//! bar and the input. It stays below the conversation and below everything that is opened over it.

use super::{bars, input, pinned, wrapped};
use crate::app::{App, Field, Modal, PickerAction, Target, TuiScreen, has_changes};
use crate::line::{self, Line};
use crate::paint::Canvas;
use crate::theme::Tone;
use althing_protocol::{AgentMode, InteractionKind};
use althing_view::{EntryBody, RunView};
use ratatui::layout::Rect;

pub fn rows(app: &App, area: Rect) -> u16 {
    let modes = bars::mode_rows(app, area);
    input::rows(app, area) + 1 + modes + tab_rows(app, area) + note_rows(app, area) + pinned::rows(app, area)
}

fn tab_rows(app: &App, area: Rect) -> u16 {
    u16::from(app.modes.agent_mode == AgentMode::Single && app.model.team.len() > 1 && area.height > 10)
}

pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, y: u16) {
    let (input_rows, tabs, notes) = (input::rows(app, area), tab_rows(app, area), note_rows(app, area));
    let pinned_rows = pinned::rows(app, area);
    pinned::draw(app, canvas, area, Rect { y, height: pinned_rows, ..area });
    let y = y + pinned_rows;
    let mut y = y + note(app, canvas, area, Rect { y, height: notes, ..area });
    canvas.rule(area, y);
    y += 1;
    if tabs > 0 {
        bars::tabs(app, canvas, Rect { y, height: 1, ..area });
        y += 1;
    }
    let hint = hint(app, area);
    let modes = bars::mode_rows(app, area);
    bars::modes(app, canvas, Rect { y, height: modes, ..area }, &hint);
    input::draw(app, canvas, Rect { y: y + modes, height: input_rows, ..area });
}

fn hint(app: &App, area: Rect) -> String {
    if app.completion.is_some() && app.input_has_focus() {
        return "tab complete · ↑↓ choose · esc close".into();
    }
    if let Some(hint) = box_hint(app) {
        return hint.into();
    }
    // As long as nothing is typed, Enter takes a choice of the welcome.
    let is_conversation = matches!(app.screens.last(), Some(TuiScreen::Conversation));
    if app.welcome.is_some() && is_conversation && app.input.is_empty() {
        return "enter take · ↑↓ choose · ^G help".into();
    }
    if let Some(word) = app.missing_mention().filter(|_| app.input_has_focus()) {
        return format!("{}: no such file", line::cut(word, 40));
    }
    if app.is_typing_search() && !app.input_has_focus() {
        return "enter search · esc close".into();
    }
    if let Some(name) = opened(app) {
        return match (app.input_has_focus(), area.width < 72) {
            (true, false) => format!("enter send · tab {name} · esc close"),
            (true, true) => format!("tab {name} · esc close"),
            (false, _) => "tab input · esc back".into(),
        };
    }
    if app.finding.is_some() {
        return "enter search · esc close".into();
    }
    if let Some(label) = app.scroll.search_label().filter(|_| app.browsing) {
        return format!("{label} · n next · N previous · esc ends");
    }
    if app.browsing {
        return match app.scroll.selected.and_then(|at| app.model.entries.get(at)).map(|entry| &entry.body) {
            Some(EntryBody::Run(id)) if app.model.runs.get(id).is_some_and(RunView::is_live) => {
                "enter open · x cancel · ↑↓ move · esc back".into()
            }
            Some(EntryBody::Final(id)) if app.model.runs.get(id).is_some_and(has_changes) => {
                "enter open · d diff · u undo · esc back".into()
            }
            Some(EntryBody::User { .. }) => {
                "enter open · e edit · c copy · p pin · / search · esc back".into()
            }
            _ => "enter open · c copy · p pin · / search · esc back".into(),
        };
    }
    if app.selected_queued().is_some() {
        return "enter edit · del remove · ↑↓ choose · esc back".into();
    }
    if app.resending.is_some() {
        return "enter branch from here · esc cancel".into();
    }
    if app.model.waiting() > 0 {
        return "^T tasks · enter send · ^G help".into();
    }
    if app.esc_stops_reply() {
        return "enter queue · esc stop · ^G help".into();
    }
    if app.model.live_run().is_some() {
        return "^R open run · ^C stop · ^G help".into();
    }
    "enter send · ⇧tab plan · ^G help".into()
}

/// The keys of the open dialog.
pub(super) fn box_hint(app: &App) -> Option<&'static str> {
    let modal = app.modal.as_ref()?;
    if app.input_has_focus_under_box() {
        return Some("enter send · tab box");
    }
    if app.box_field_has_focus() {
        return Some(match modal {
            Modal::PlanApproval { field: Field::Instructions, .. } => "enter approve · esc back",
            Modal::PlanApproval { field: Field::Changes, .. } => "enter send · esc back",
            _ => "enter done · esc done",
        });
    }
    Some(match modal {
        Modal::RunApproval { .. } | Modal::PlanApproval { .. } | Modal::Budget { .. } => {
            "enter approve · esc reject"
        }
        Modal::EditApproval { .. } => "enter allow once · p always · esc reject",
        Modal::Override { .. } => "↑↓ choose · enter present · esc keep",
        Modal::Program { .. } => "↑↓ choose · enter answer · esc later",
        Modal::Interrupted { .. } => "enter restart · f fail · esc later",
        Modal::Confirm(_) => "y confirm · esc no",
        Modal::Sessions(picker) => match picker.action {
            PickerAction::Choose => "↑↓ choose · enter resume · esc close",
            PickerAction::Rename(_) => "enter keep · esc back",
            PickerAction::Delete => "y delete · esc no",
        },
        Modal::Pick { .. } => "↑↓ choose · enter take · esc close",
        _ => "esc close",
    })
}

fn opened(app: &App) -> Option<&'static str> {
    match app.screens.last()? {
        TuiScreen::Run(_) => Some("run"),
        TuiScreen::TextReader(_) => Some("text"),
        TuiScreen::Tasks(_) => Some("tasks"),
        TuiScreen::Task(..) => Some("task"),
        TuiScreen::Conversation | TuiScreen::Attached(_) => None,
    }
}

fn note_rows(app: &App, area: Rect) -> u16 {
    let hint = vote_hint(area).len();
    let frame = if is_framed(area) { 2 } else { 0 };
    let rows = vote_outcome(app, area).map_or(0, |outcome| outcome.len() + hint + frame);
    (rows + stalled_lines(app, area).len()) as u16
}

fn stalled_lines(app: &App, area: Rect) -> Vec<Line> {
    let Some((reason, hint)) = &app.model.stalled else { return Vec::new() };
    let text = format!("Cannot write to disk: {reason}. {}", hint.as_deref().unwrap_or_default());
    wrapped(Tone::Bad, &text, area.width.saturating_sub(2).into(), most_rows(area))
}

/// How many rows a note above the mode bar may have.
fn most_rows(area: Rect) -> usize {
    usize::from(area.height / 3).max(1)
}

/// Who wins the vote that can be overridden, and why.
fn vote_outcome(app: &App, area: Rect) -> Option<Vec<Line>> {
    let question = app.model.override_question()?;
    let InteractionKind::WinnerOverride { winner, candidates } = &question.interaction.kind else {
        return None;
    };
    let decided =
        question.task.as_ref().and_then(|task| app.model.runs.get(task)?.vote.as_ref()?.decision.as_ref());
    let votes = candidates.iter().find(|one| one.agent == *winner).map_or(0, |one| one.votes);
    let all: u32 = candidates.iter().map(|one| one.votes).sum();
    let outcome = if let Some(decision) = decided {
        format!("{}.", decision.explanation)
    } else if all == 0 {
        format!("{winner} was chosen (nobody voted) and will present.")
    } else {
        format!("{winner} wins with {votes} of {all} votes and will present.")
    };
    Some(wrapped(Tone::Plain, &outcome, vote_width(area), most_rows(area)))
}

fn is_framed(area: Rect) -> bool {
    area.height >= 20
}

fn vote_width(area: Rect) -> usize {
    let margin = if is_framed(area) { 6 } else { 2 };
    area.width.saturating_sub(margin).into()
}

fn vote_hint(area: Rect) -> Vec<Line> {
    line::wrap_text(Tone::Bold, "Press Ctrl+O to override, Enter to continue", vote_width(area))
}

fn note(app: &mut App, canvas: &mut Canvas<'_>, screen: Rect, area: Rect) -> u16 {
    let mut y = area.y;
    for line in stalled_lines(app, screen) {
        canvas.line(area.x + 1, y, area.width.saturating_sub(2), &line);
        y += 1;
    }
    let outcome = vote_outcome(app, screen);
    let (Some(question), Some(outcome)) = (app.model.override_question(), outcome) else { return y - area.y };
    let paused = if question.paused.is_some() { " (paused)" } else { "" };
    let seconds = question.seconds_left(app.now).map(|left| format!("{left} s{paused}")).unwrap_or_default();
    let hint = vote_hint(screen);
    let (said, rows) = (outcome.len() as u16, hint.len() as u16);
    let inside = if is_framed(screen) {
        let frame = Rect { x: area.x + 1, y, width: area.width.saturating_sub(2), height: 2 + said + rows };
        let inside = canvas.frame(frame, "The vote", Tone::Accent);
        Rect { x: inside.x + 1, width: inside.width.saturating_sub(2), ..inside }
    } else {
        Rect { x: area.x + 1, y, width: area.width.saturating_sub(2), height: said + rows }
    };
    let mut used = 0;
    for (y, line) in (inside.y..).zip(outcome.iter().chain(&hint)) {
        used = canvas.line(inside.x, y, inside.width, line);
    }
    let room = inside.width.saturating_sub(used + 1);
    canvas.right(inside.right(), inside.y + said + rows - 1, room, Tone::Dim, &seconds);
    app.targets.push((Rect { y: inside.y + said, height: rows, ..inside }, Target::Override));
    area.height
}
