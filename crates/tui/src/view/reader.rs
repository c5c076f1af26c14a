//! A text screen: an answer, a tool's result or a diff.

use super::{hints, spread};
use crate::app::{App, ReaderText, Target, TextReader, TuiScreen};
use crate::line::{self, Line};
use crate::list::{self, ListItems};
use crate::markdown;
use crate::paint::Canvas;
use crate::theme::Tone;
use ratatui::layout::Rect;

pub struct Parts<'a>(pub &'a TextReader);

impl ListItems for Parts<'_> {
    fn len(&self) -> usize {
        self.0.parts().len()
    }

    /// Different texts have different versions, so that the cached layout of another text is never shown.
    fn version(&self, at: usize) -> Option<u64> {
        let part = self.0.parts().get(at).map_or("", String::as_str);
        let kind = match &self.0.text {
            ReaderText::Markdown(_) => "markdown",
            ReaderText::Plain(_) => "plain",
            ReaderText::Diff(_) => "diff",
        };
        Some(super::list_id(&[kind, part]))
    }

    fn layout(&self, at: usize, width: usize) -> Vec<Line> {
        let part = self.0.parts().get(at).map_or("", String::as_str);
        let room = width.saturating_sub(2);
        let lines = match &self.0.text {
            ReaderText::Markdown(_) => {
                let mut lines = markdown::lines(part, room);
                lines.push(Line::default());
                lines
            }
            ReaderText::Plain(_) => line::wrap_text(Tone::Plain, part, room),
            ReaderText::Diff(_) => {
                let tone = match part.as_bytes().first() {
                    Some(b'+') => Tone::Added,
                    Some(b'-') => Tone::Removed,
                    Some(b'@') => Tone::Accent,
                    _ => Tone::Plain,
                };
                line::wrap_text(tone, part, room)
            }
        };
        let lines = if lines.is_empty() { vec![Line::default()] } else { lines };
        lines.into_iter().map(|line| line.indented(1)).collect()
    }
}

pub fn search_hint(app: &App) -> Option<String> {
    let label = match app.screens.last()? {
        TuiScreen::TextReader(reader) => reader.scroll.search_label()?,
        TuiScreen::Run(screen) => screen.scrolls.get(screen.tab)?.search_label()?,
        _ => return None,
    };
    Some(format!("{label} · n next · N previous · esc ends the search"))
}

pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let panel = super::panel(app, canvas, area, area.y + 2);
    let Some(TuiScreen::TextReader(reader)) = app.screens.last_mut() else { return };
    let left = Line::of(Tone::Dim, " ‹ esc   ").with(Tone::Bold, &reader.title);
    canvas.line(area.x, area.y, area.width, &spread(&left, &Line::default(), area.width.into()));
    canvas.rule(area, area.y + 1);
    let list_id = super::list_id(&["reader"]);
    let mut scroll = std::mem::take(&mut reader.scroll);
    list::draw(canvas, panel.body, list_id, &Parts(reader), &mut scroll, &mut app.layouts);
    reader.scroll = scroll;
    let typing = reader.typing.then(|| reader.search.clone().unwrap_or_default());
    app.targets.push((Rect { height: 1, width: 8.min(area.width), ..area }, Target::Back));
    let found = search_hint(app);
    let words = match (app.input_has_focus(), app.has_input()) {
        (false, _) if found.is_some() => found.as_deref().unwrap_or_default(),
        (true, _) => "pgup pgdn scroll · tab go into the text · esc close it",
        (false, true) => "↑↓ scroll · / search · c copy · o open in pager · tab input",
        (false, false) => "↑↓ scroll · / search · c copy · o open in pager",
    };
    hints(app, canvas, area, &panel, typing.as_deref(), words);
}
