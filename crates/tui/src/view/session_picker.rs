//! The picker of sessions: a filter, the list, and a preview of the selected session.

use super::modal::centered_frame;
use super::picker::ago;
use super::{count, spread};
use crate::app::{App, PickerAction, SessionPicker, Target};
use crate::editor::Editor;
use crate::host::SessionEntry;
use crate::line::{self, Line};
use crate::paint::Canvas;
use crate::theme::Tone;
use ratatui::layout::Rect;

/// The rows of list and preview together from which there is a preview.
const PREVIEW_FROM: usize = 9;

/// The maximum height of the preview.
const MOST_PREVIEW: usize = 11;

/// Width below which the keys are named briefly, and the states of the sessions are left out.
const WIDE: u16 = 50;

/// Draws the picker.
pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, picker: &SessionPicker) {
    // The rows inside a frame of the full height, without the filter and the keys.
    let room = usize::from(area.height.saturating_sub(3)).saturating_sub(2).max(1);
    let preview_rows = if room >= PREVIEW_FROM { (room / 2).min(MOST_PREVIEW) } else { 0 };
    let rule = usize::from(preview_rows > 0);
    let list_rows = picker.entries.len().clamp(1, (room - preview_rows - rule).max(1));
    let inside = centered_frame(canvas, area, "Sessions", 2 + list_rows + rule + preview_rows);
    let matches = picker.matches();
    draw_field(canvas, inside, picker, matches.len());
    let (first, width) = ((picker.chosen + 1).saturating_sub(list_rows), usize::from(inside.width));
    let list = inside.y.saturating_add(1);
    if matches.is_empty() {
        canvas.text(inside.x + 2, list, inside.width, Tone::Dim, "no session matches");
    }
    for (row, (at, entry)) in matches.iter().enumerate().skip(first).take(list_rows).enumerate() {
        let y = list + row as u16;
        let is_chosen = at == picker.chosen;
        canvas.text(inside.x, y, 2, Tone::AccentBold, if is_chosen { "› " } else { "  " });
        let tone = if is_chosen { Tone::Bold } else { Tone::Plain };
        let when = ago(app.now, entry.updated);
        let when = if inside.width < WIDE { when } else { format!("{} · {when}", entry.state) };
        let line =
            spread(&Line::of(tone, title(entry)), &Line::of(Tone::Dim, &when), width.saturating_sub(2));
        canvas.line(inside.x + 2, y, inside.width.saturating_sub(2), &line);
        app.targets.push((Rect { y, height: 1, ..inside }, Target::Item(at)));
    }
    let keys = inside.bottom().saturating_sub(1);
    if let Some(entry) = matches.get(picker.chosen).filter(|_| preview_rows > 0) {
        let top = list + list_rows as u16;
        canvas.rule(inside, top);
        for (y, line) in (top + 1..keys).zip(preview(app, entry, width, preview_rows)) {
            canvas.line(inside.x, y, inside.width, &line);
        }
    }
    let (tone, words) = match app.box_note() {
        Some(note) => (Tone::Warn, note.to_owned()),
        None => key_words(picker, inside.width),
    };
    canvas.text(inside.x, keys, inside.width, tone, &words);
}

/// The title; the id of a session without one.
fn title(entry: &SessionEntry) -> &str {
    let title = line::first_line(&entry.title);
    if title.is_empty() { entry.id.as_str() } else { title }
}

/// Draws the field that receives the keys, and how many sessions match.
fn draw_field(canvas: &mut Canvas<'_>, inside: Rect, picker: &SessionPicker, matches: usize) {
    let count = format!("{matches} of {}", picker.entries.len());
    let shown = canvas.right(inside.right(), inside.y, inside.width, Tone::Dim, &count);
    let room = inside.width.saturating_sub(shown + 2);
    match &picker.action {
        PickerAction::Rename(editor) => draw_editor(canvas, inside, room, "New title: ", editor),
        PickerAction::Choose | PickerAction::Delete => {
            draw_editor(canvas, inside, room, "Filter: ", &picker.filter);
        }
    }
    if picker.action == PickerAction::Delete {
        canvas.hide_cursor();
    }
}

/// Draws a label and the row of an editor that contains the cursor.
fn draw_editor(canvas: &mut Canvas<'_>, inside: Rect, room: u16, label: &str, editor: &Editor) {
    let used = canvas.text(inside.x, inside.y, room, Tone::AccentBold, label);
    let (x, room) = (inside.x + used, room.saturating_sub(used).max(2));
    let wrapped = editor.wrap(room.into());
    let (row, column) = wrapped.cursor;
    let text = wrapped.rows.get(row).map(String::as_str).unwrap_or_default();
    canvas.text(x, inside.y, room.saturating_add(1), Tone::Plain, text);
    canvas.set_cursor(x + column as u16, inside.y);
}

/// What the keys do now.
fn key_words(picker: &SessionPicker, width: u16) -> (Tone, String) {
    let words = match &picker.action {
        PickerAction::Choose if width < WIDE => "enter · ^R rename · ^X delete",
        PickerAction::Choose => "type to filter · enter resume · ^R rename · ^X delete · esc close",
        PickerAction::Rename(_) if width < WIDE => "enter keep · esc back",
        PickerAction::Rename(_) => "enter keep · esc back · an empty title: from the first messages",
        PickerAction::Delete => {
            let title = picker.selected().map(title).unwrap_or_default();
            let title = line::cut(title, usize::from(width).saturating_sub(32).max(8));
            return (Tone::Warn, format!("Delete “{title}” forever? y delete · esc no"));
        }
    };
    (Tone::Dim, super::fitting_hints(words, width.into()))
}

/// The lines of the preview: where and when, then the first and the last messages.
fn preview(app: &App, entry: &SessionEntry, width: usize, rows: usize) -> Vec<Line> {
    let when = format!("{} · {}", entry.state, ago(app.now, entry.updated));
    let place = if entry.directory.is_empty() { when } else { format!("{} · {when}", entry.directory) };
    let id = Line::of(Tone::Dim, entry.id.as_str());
    let mut lines = vec![spread(&Line::of(Tone::Dim, &place), &id, width)];
    let gaps = entry.preview.iter().filter(|message| message.omitted > 0).count();
    let each = rows.saturating_sub(1 + gaps) / entry.preview.len().max(1);
    for message in &entry.preview {
        if message.omitted > 0 {
            let omitted = count(message.omitted, "message");
            lines.push(Line::of(Tone::Dim, &format!("… {omitted} …")));
        }
        let (mark, tone) = if message.by_user { ("› ", Tone::Plain) } else { ("  ", Tone::Dim) };
        let words: Vec<&str> = message.text.split_whitespace().collect();
        let wrapped = line::wrap_text(tone, &words.join(" "), width.saturating_sub(2).max(2));
        for (row, text) in wrapped.iter().take(each.max(1)).enumerate() {
            let mark = if row == 0 { mark } else { "  " };
            lines.push(Line::of(Tone::Accent, mark).with(tone, &text.text()));
        }
    }
    lines
}
