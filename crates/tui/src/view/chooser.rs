//! Draws the choice of the presenter: the candidates, and below them the reasons of the voters and the answer of the
//! selected candidate.

use super::dialog;
use super::modal::centered_frame;
use super::spread;
use crate::app::{App, Target};
use crate::line::{self, Line};
use crate::markdown;
use crate::paint::Canvas;
use crate::theme::Tone;
use althing_protocol::{Candidate, InteractionId, InteractionKind};
use ratatui::layout::Rect;

/// The maximum number of bytes of an answer that are laid out in the dialog. A key opens the whole answer.
const MOST: usize = 20_000;

pub fn draw(
    app: &mut App,
    canvas: &mut Canvas<'_>,
    area: Rect,
    id: &InteractionId,
    candidates: &[Candidate],
    chosen: usize,
) {
    let width = dialog::text_width(area);
    let about = candidates.get(chosen).map(|one| about(app, id, one, width)).unwrap_or_default();
    let inside = centered_frame(canvas, area, "Choose who presents", candidates.len() + about.len() + 3);
    let rows = usize::from(inside.height);
    let room = candidates.len().min((rows.saturating_sub(2) / 2).max(1));
    list(app, canvas, Rect { height: room as u16, ..inside }, candidates, chosen);
    let rest = rows.saturating_sub(room + 2);
    app.info_scroll = app.info_scroll.min(about.len().saturating_sub(rest));
    let (from, y) = (app.info_scroll, inside.y + room as u16);
    if rows > room + 1 {
        let below = about.len().saturating_sub(from + rest);
        let words = match (from, below) {
            (0, 0) => {
                candidates.get(chosen).map(|one| format!("the answer of {}", one.agent)).unwrap_or_default()
            }
            (_, 0) => format!("↑ {from} · pgup"),
            (_, below) => format!("↓ {below} more · pgdn"),
        };
        dialog::marker(canvas, inside, y, Tone::Dim, &words);
    }
    for (y, line) in (y + 1..).zip(about.iter().skip(from).take(rest)) {
        canvas.line(inside.x, y, inside.width, line);
    }
    let winner = app.model.override_question().and_then(|question| match &question.interaction.kind {
        InteractionKind::WinnerOverride { winner, .. } => Some(winner.to_string()),
        _ => None,
    });
    let keep = winner.map(|name| format!("esc keep {name}")).unwrap_or_default();
    let keys = format!("↑↓ choose · space read all · enter let this one present · {keep}");
    let short = format!("space read all · enter choose · {keep}");
    let keys = if line::width(&keys) > usize::from(inside.width) { short } else { keys };
    let keys = super::fitting_hints(&keys, inside.width.into());
    canvas.text(inside.x, inside.bottom().saturating_sub(1), inside.width, Tone::Dim, &keys);
}

fn about(app: &App, id: &InteractionId, one: &Candidate, width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for (voter, reason) in app.reasons_for(id, one) {
        let text = format!("{voter} voted for it: {}", line::first_line(&reason));
        lines.extend(line::wrap_text(Tone::Dim, text.trim_end_matches([' ', ':']), width));
    }
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    let answer = app.candidate_answer(id, one);
    let end = answer.floor_char_boundary(MOST);
    lines.extend(markdown::lines(answer.get(..end).unwrap_or_default(), width));
    lines
}

fn list(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, candidates: &[Candidate], chosen: usize) {
    let room = usize::from(area.height);
    let names = candidates.iter().map(|one| line::width(one.agent.as_str())).max();
    let names = names.unwrap_or(4).min(usize::from(area.width / 2));
    let first = (chosen + 1).saturating_sub(room);
    for (row, (at, one)) in candidates.iter().enumerate().skip(first).take(room).enumerate() {
        let y = area.y + row as u16;
        let (mark, tone) = if at == chosen { ("› ", Tone::Bold) } else { ("  ", Tone::Plain) };
        let votes = if one.votes == 1 { "1 vote ".into() } else { format!("{} votes", one.votes) };
        // The lines are joined, because the first one alone may be only a heading.
        let text = one.preview.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = Line::of(Tone::AccentBold, mark)
            .with(tone, &line::pad(one.agent.as_str(), names))
            .with(Tone::Plain, &format!("  {votes}  "))
            .with(Tone::Dim, &text);
        canvas.line(area.x, y, area.width, &spread(&line, &Line::default(), area.width.into()));
        app.targets.push((Rect { y, height: 1, ..area }, Target::Item(at)));
    }
}
