//! The frame of a dialog whose text scrolls. The number of hidden lines is stated on the frame, where no text of agents
//! can be drawn.

use super::modal::centered_frame;
use super::{count, spread};
use crate::app::{App, HiddenRows, Modal};
use crate::line::{self, Line};
use crate::paint::Canvas;
use crate::theme::Tone;
use ratatui::layout::Rect;

pub const LABEL: usize = 10;

/// The start of a row that continues a line of a text that somebody else wrote.
pub const ROW_MARK: &str = "↳ ";

/// From this width on, labels are beside their values instead of above them.
const LEAST_BESIDE: usize = 24;

#[derive(Default)]
pub struct DialogText {
    pub lines: Vec<Line>,
    /// How many lines, counted from the first, must be shown before the dialog can be approved.
    pub needed: usize,
    /// A line that has to be visible, such as the line of the cursor.
    pub follow: Option<usize>,
    pub edits: bool,
}

impl DialogText {
    pub fn whole(lines: Vec<Line>) -> Self {
        Self { needed: lines.len(), lines, ..Self::default() }
    }
}

pub fn text_width(area: Rect) -> usize {
    usize::from(area.width.saturating_sub(6).min(92)).max(2)
}

pub fn labeled(label: &str, value: Vec<Line>, width: usize) -> Vec<Line> {
    if width < LEAST_BESIDE {
        return [Line::of(Tone::Dim, label)].into_iter().chain(value).collect();
    }
    let beside = |(n, line): (usize, Line)| {
        let mut whole = Line::of(Tone::Dim, &line::pad(if n == 0 { label } else { "" }, LABEL));
        for (tone, text) in line.pieces {
            whole.push(tone, &text);
        }
        whole
    };
    if value.is_empty() {
        return vec![Line::of(Tone::Dim, label)];
    }
    value.into_iter().enumerate().map(beside).collect()
}

pub fn value_width(width: usize) -> usize {
    if width < LEAST_BESIDE { width } else { width - LABEL }
}

pub fn value(label: &str, text: &str, width: usize) -> Vec<Line> {
    labeled(label, line::wrap_whole(Tone::Plain, text, value_width(width), ""), width)
}

pub fn first_line(label: &str, text: &str, width: usize) -> Vec<Line> {
    let wrapped = line::wrap_whole(Tone::Plain, text, value_width(width), "");
    let more = wrapped.len().saturating_sub(1);
    let mut lines = labeled(label, wrapped.into_iter().take(1).collect(), width);
    if more > 0
        && let Some(last) = lines.pop()
    {
        lines.push(spread(&last, &Line::of(Tone::Dim, &format!("+ {}", count(more, "line"))), width));
    }
    lines
}

/// The further lines of an entry are indented, so that none of them looks like another entry.
pub fn entry(text: &str, width: usize, indent: usize) -> Vec<Line> {
    let wrapped = line::wrap_whole(Tone::Plain, text, width.saturating_sub(indent).max(2), "");
    let indented = |(n, line): (usize, Line)| if n == 0 { line } else { line.indented(indent) };
    wrapped.into_iter().enumerate().map(indented).collect()
}

/// Draws the part of the text that fits, and leaves `below` rows for buttons and the like. Returns the area below the
/// text, and the area of the text.
pub fn draw(
    app: &mut App,
    canvas: &mut Canvas<'_>,
    area: Rect,
    (modal, title): (&Modal, &str),
    text: &DialogText,
    below: usize,
) -> (Rect, Rect) {
    let inside = centered_frame(canvas, area, title, text.lines.len().saturating_add(1 + below));
    let rows = usize::from(inside.height);
    let room = rows.saturating_sub(1 + below);
    // A line that is too wide for the frame is cut, so no row counts as shown.
    let is_whole = text.lines.iter().all(|line| line.width() <= usize::from(inside.width));
    let counted = if is_whole { room } else { 0 };
    let follow = (text.follow, text.edits);
    let shown = app.reading.show(modal, &text.lines, text.needed, counted, follow);
    let shown = if is_whole { shown } else { 0..room };
    let lines = text.lines.get(shown.start..shown.end.min(text.lines.len())).unwrap_or_default();
    for (y, line) in (inside.top()..).zip(lines) {
        canvas.line(inside.x, y, inside.width, line);
    }
    let offset = rows.saturating_sub(below).min(usize::from(u16::MAX)) as u16;
    let hidden = app.reading.hidden();
    if room == 0 || !is_whole {
        marker(canvas, inside, inside.y + offset.saturating_sub(1), Tone::Warn, "make the window larger");
    } else if hidden.above + hidden.below > 0 {
        let (tone, words) = hidden_words(hidden, inside.width);
        marker(canvas, inside, inside.y + offset.saturating_sub(1), tone, &words);
    }
    let text_area = Rect { height: room.min(usize::from(u16::MAX)) as u16, ..inside };
    (Rect { y: inside.y + offset, height: inside.height - offset, ..inside }, text_area)
}

fn hidden_words(hidden: HiddenRows, width: u16) -> (Tone, String) {
    let above = if hidden.above > 0 { format!("↑ {}", hidden.above) } else { String::new() };
    if hidden.below == 0 {
        return (
            Tone::Dim,
            format!("{above} {} above · pgup", if hidden.above == 1 { "line" } else { "lines" }),
        );
    }
    let more = format!("↓ {} more {} · pgdn", hidden.below, if hidden.below == 1 { "line" } else { "lines" });
    match (hidden.unread, hidden.refused) {
        (true, true) if width >= 70 => (Tone::Bad, format!("scroll to the end before you approve: {more}")),
        (true, true) => (Tone::Bad, format!("first read {more}")),
        (unread, _) => {
            let tone = if unread { Tone::Warn } else { Tone::Dim };
            (tone, if above.is_empty() { more } else { format!("{above} · {more}") })
        }
    }
}

pub fn marker(canvas: &mut Canvas<'_>, inside: Rect, y: u16, tone: Tone, words: &str) {
    let (left, right) = (inside.x.saturating_sub(2), inside.right() + 1);
    canvas.rule(Rect { x: left, width: right.saturating_sub(left), ..inside }, y);
    canvas.text(left, y, 1, Tone::Accent, "├");
    canvas.text(right, y, 1, Tone::Accent, "┤");
    if words.is_empty() {
        return;
    }
    let words = line::cut(words, inside.width.into());
    canvas.text(inside.x.saturating_sub(1), y, inside.width + 2, tone, &format!(" {words} "));
}
