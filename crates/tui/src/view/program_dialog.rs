//! Draws the dialog of a program's question.

use super::dialog::{self, DialogText, ROW_MARK};
use super::fitting_hints;
use crate::app::{App, Modal, Target};
use crate::line::{self, Line};
use crate::paint::Canvas;
use crate::theme::Tone;
use althing_protocol::{Ask, AskKind, TaskId};
use althing_text::sanitize;
use ratatui::layout::Rect;

pub fn draw(
    app: &mut App,
    canvas: &mut Canvas<'_>,
    area: Rect,
    modal: &Modal,
    (ask, task, chosen): (&Ask, Option<&TaskId>, usize),
) {
    let width = dialog::text_width(area);
    let what = match ask.about {
        AskKind::Permission => "asks for permission",
        AskKind::Question => "asks",
        AskKind::Auth => "wants you to sign in",
        AskKind::Password => "wants a password",
        AskKind::YourTurn => "has finished its turn",
        AskKind::Other => "waits for you",
    };
    let name =
        task.map_or("A program", |id| app.model.task(id).map_or(id.as_str(), |task| task.name.as_str()));
    let title = format!("{} {what}", line::cut(name, width.saturating_sub(line::width(what) + 1)));
    let mut lines = line::wrap_whole(Tone::Plain, &ask.text, width, ROW_MARK);
    lines.push(Line::default());
    let mut options = Vec::new();
    for (n, option) in ask.options.iter().enumerate() {
        let tone = if n == chosen { Tone::Bold } else { Tone::Plain };
        let label = format!("{} {}", n + 1, sanitize::line(&option.label));
        for wrapped in line::wrap_whole(tone, &label, width.saturating_sub(2), ROW_MARK) {
            options.push((lines.len(), n));
            lines.push(wrapped.indented(2));
        }
    }
    if options.is_empty() {
        lines.pop();
    }
    let first_row = options.iter().find(|(_, n)| *n == chosen).map(|(row, _)| *row);
    let mut text = DialogText::whole(lines);
    text.follow = first_row.filter(|_| app.is_read());
    let (below, inside) = dialog::draw(app, canvas, area, (modal, &title), &text, 1);
    let top = app.reading.hidden().above;
    for (row, n) in options {
        let Some(at) = row.checked_sub(top).filter(|at| *at < usize::from(inside.height)) else { continue };
        let y = inside.y + at as u16;
        // The mark is drawn beside the text: if it were part of the text, moving it would count as a new text to read.
        if first_row == Some(row) {
            canvas.text(inside.x, y, 1, Tone::AccentBold, "›");
        }
        app.targets.push((Rect { y, height: 1, ..inside }, Target::Item(n)));
    }
    let keys = match (ask.options.is_empty(), app.is_read()) {
        (true, _) => "enter open it and answer there · esc later",
        (false, true) => "↑↓ choose · enter answer · esc later",
        (false, false) => "↑↓ pgdn read on · esc later",
    };
    match app.box_note() {
        Some(note) => canvas.text(below.x, below.y, below.width, Tone::Warn, note),
        None => {
            canvas.text(below.x, below.y, below.width, Tone::Dim, &fitting_hints(keys, below.width.into()))
        }
    };
}
