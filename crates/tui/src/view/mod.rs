//! The views: pure functions that draw the state.

mod approval_dialog;
mod attached;
mod bars;
mod card;
mod conversation;
mod entry;
mod input;
mod modal;
mod picker;
mod reader;
mod run;
mod tasks;
mod timeline;
mod welcome;

use crate::app::{App, Target, TuiScreen};
use crate::line::{self, Line};
use crate::paint::Canvas;
use crate::theme::Tone;
use althing_protocol::Usage;
use althing_text::short_number;
use ratatui::layout::Rect;

/// The width from which a run is shown beside the conversation.
pub(crate) const WIDE: u16 = 150;

/// The width of the conversation beside a run.
pub(crate) fn split_width(width: u16) -> u16 {
    width * 2 / 5
}

/// Minimum size of the screen.
const LEAST: (u16, u16) = (12, 4);

/// Draws everything.
pub fn draw(app: &mut App, canvas: &mut Canvas<'_>) {
    let area = canvas.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        canvas.text(area.x, area.y, area.width, Tone::Plain, "Althing: make the window larger");
        return;
    }
    let top = app.screens.last().cloned().unwrap_or(TuiScreen::Conversation);
    match top {
        TuiScreen::Conversation => conversation::draw(app, canvas, area),
        TuiScreen::Run(screen) => {
            let split = app.is_split();
            let left = if split { split_width(area.width) } else { 0 };
            if split {
                conversation::draw(app, canvas, Rect { width: left, ..area });
                // Beside a run, only the input of the conversation can be clicked.
                app.targets.retain(|(_, target)| *target == Target::Input);
                for y in area.top()..area.bottom() {
                    canvas.text(left, y, 1, Tone::Dim, "│");
                }
            }
            let offset = if split { left + 1 } else { 0 };
            let right = Rect { x: area.x + offset, width: area.width - offset, ..area };
            run::draw(app, canvas, right, &screen);
        }
        TuiScreen::TextReader(_) => reader::draw(app, canvas, area),
        TuiScreen::Tasks(chosen) => tasks::panel(app, canvas, area, chosen),
        TuiScreen::Task(id, _) => tasks::task(app, canvas, area, &id),
        TuiScreen::Attached(id) => attached::draw(app, canvas, area, &id),
    }
    modal::draw(app, canvas, area);
}

/// Draws the bottom line: key hints or a message.
pub(crate) fn hints(app: &App, canvas: &mut Canvas<'_>, area: Rect, y: u16, hints: &str) {
    match &app.toast {
        Some(word) => canvas.text(area.x + 1, y, area.width.saturating_sub(2), Tone::Warn, word),
        None => canvas.text(area.x + 1, y, area.width.saturating_sub(2), Tone::Dim, hints),
    };
}

/// Two texts at both ends of a line; the left one is cut if there is no room.
pub(crate) fn spread(left: &Line, right: &Line, width: usize) -> Line {
    let room = width.saturating_sub(right.width() + usize::from(!right.pieces.is_empty()));
    let mut whole = Line::default();
    let mut used = 0;
    for (tone, text) in &left.pieces {
        let shown = line::cut(text, room.saturating_sub(used));
        used += line::width(&shown);
        whole.push(*tone, &shown);
        if shown.ends_with('…') {
            break;
        }
    }
    let gap = width.saturating_sub(used + right.width());
    whole.push(Tone::Plain, &" ".repeat(gap));
    for (tone, text) in &right.pieces {
        whole.push(*tone, text);
    }
    whole
}

/// Token counts, in short form.
pub(crate) fn tokens(usage: &Usage) -> String {
    short_number(usage.input_tokens + usage.output_tokens)
}

/// A number with its noun.
pub(crate) fn count(number: usize, one: &str) -> String {
    althing_text::count(number as u64, one)
}

/// A hash of texts, so that different lists do not share layouts.
pub(crate) fn list_id(parts: &[&str]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}
