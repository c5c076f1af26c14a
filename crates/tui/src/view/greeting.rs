//! The greeting of an empty conversation: the model that answers, the agents, the directory, and tips.

use super::dialog;
use crate::app::App;
use crate::line::{self, Line};
use crate::paint::Canvas;
use crate::theme::Tone;
use althing_protocol::ChatState;
use althing_view::EntryBody;
use ratatui::layout::Rect;

const TIPS: [&str; 3] = [
    "@path in a message lets its run read a file or directory; @path:w lets it write there too",
    "Shift+Tab: what you ask next becomes a plan that you approve first",
    "Ctrl+G shows all keys and commands; / completes commands",
];

const LABEL: usize = 12;

/// Shown until somebody writes a message. Notices about the start may already be there.
pub fn is_shown(app: &App) -> bool {
    let is_note = |body: &EntryBody| matches!(body, EntryBody::Notice { .. });
    app.has_input()
        && !app.options.replay
        && !app.model.closed
        && app.model.state == ChatState::Idle
        && app.model.runs.is_empty()
        && app.model.entries.iter().all(|entry| is_note(&entry.body))
        && !app.model.team.is_empty()
        // The options say who answers before the log does; until both agree, the greeting is not shown.
        && app.modes.interactive_mode == app.model.chat_agent.is_some()
}

fn labeled(label: &str, text: &str, width: usize) -> Vec<Line> {
    if width < 2 * LABEL {
        return dialog::value(label, text, width);
    }
    let wrapped = line::wrap_text(Tone::Plain, text, width - LABEL);
    let beside = |(n, piece): (usize, Line)| {
        let mut whole = Line::of(Tone::Dim, &line::pad(if n == 0 { label } else { "" }, LABEL));
        for (tone, text) in piece.pieces {
            whole.push(tone, &text);
        }
        whole
    };
    wrapped.into_iter().enumerate().map(beside).collect()
}

fn tip_lines(tip: &str, width: usize) -> Vec<Line> {
    let wrapped = line::wrap_text(Tone::Dim, tip, width.saturating_sub(2).max(2));
    let marked = |(n, piece): (usize, Line)| {
        if n == 0 { Line::of(Tone::Dim, "· ").with(Tone::Dim, &piece.text()) } else { piece.indented(2) }
    };
    wrapped.into_iter().enumerate().map(marked).collect()
}

fn lines(app: &App, width: usize, rows: usize) -> Vec<Line> {
    let name = |member: &althing_protocol::Member| {
        let note = if member.offline { " (not an AI)" } else { "" };
        format!("{} {}{note}", member.id, member.model)
    };
    let answers = match &app.model.chat_agent {
        Some(agent) => {
            let note = if agent.offline { " (not an AI)" } else { "" };
            format!("{}{note}", agent.model)
        }
        None => "no single agent: every message starts a run".to_owned(),
    };
    let agents: Vec<String> = app.model.team.iter().map(name).collect();
    let mut facts = labeled("you talk to", &answers, width);
    facts.extend(labeled("agents", &agents.join(" · "), width));
    if let Some(directory) = &app.options.directory {
        facts.extend(labeled("directory", directory, width));
    }
    let tips: Vec<Line> = TIPS.iter().flat_map(|tip| tip_lines(tip, width)).collect();
    let title = Line::of(Tone::AccentBold, "Althing: several AI agents, one answer.");
    // If there is little room, blank lines are left out first, then the tips.
    let is_roomy = facts.len() + tips.len() + 3 <= rows;
    let mut lines = vec![title];
    if is_roomy {
        lines.push(Line::default());
    }
    lines.extend(facts);
    if is_roomy {
        lines.push(Line::default());
    }
    if lines.len() + tips.len() <= rows {
        lines.extend(tips);
    }
    lines
}

pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) -> u16 {
    let margin = if area.width < 60 { 1 } else { 3 };
    let width = area.width.saturating_sub(margin + 1);
    // Leaves room for the notices about the start, which are shown below the greeting.
    let notes = u16::try_from(app.model.entries.len()).unwrap_or(u16::MAX).saturating_mul(2);
    let rows = area.height.saturating_sub(notes.min(area.height / 2));
    let top = area.y + u16::from(area.height > 12);
    let shown = lines(app, width.into(), rows.saturating_sub(top - area.y).into());
    let mut y = top;
    for line in shown {
        if y >= area.y + rows {
            break;
        }
        canvas.line(area.x + margin, y, width, &line);
        y += 1;
    }
    (y + u16::from(y < area.bottom())) - area.y
}
