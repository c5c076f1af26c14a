//! Selecting text with the mouse: dragging marks it, and letting go copies it.

use super::{App, Effect};
use crate::paint::Canvas;
use crate::theme::Tone;
use crate::view;
use ratatui::layout::{Position, Rect};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    from: Position,
    to: Position,
    /// The part of the screen that the selection stays in: one side, if a run is shown beside the conversation.
    within: Rect,
    /// Whether the button was let go, so that the next frame copies the text.
    is_done: bool,
}

impl Selection {
    fn rows(&self) -> impl Iterator<Item = Rect> + use<> {
        let key = |at: Position| (at.y, at.x);
        let (first, last) =
            if key(self.from) <= key(self.to) { (self.from, self.to) } else { (self.to, self.from) };
        let within = self.within;
        (first.y..=last.y).map(move |y| {
            let left = if y == first.y { first.x } else { within.left() };
            let right = if y == last.y { last.x.saturating_add(1) } else { within.right() };
            Rect { x: left, y, width: right.saturating_sub(left), height: 1 }.intersection(within)
        })
    }
}

/// The selected lines, each with the column at which it begins, without the columns that are empty in all of them.
fn without_margin(lines: &[(usize, String)]) -> String {
    let indent = |text: &str| text.len() - text.trim_start_matches(' ').len();
    let written = lines.iter().filter(|(_, text)| !text.is_empty());
    let margin = written.map(|(column, text)| column + indent(text)).min().unwrap_or_default();
    let cut = |(column, text): &(usize, String)| {
        let spaces = margin.saturating_sub(*column).min(indent(text));
        text.get(spaces..).unwrap_or_default().to_owned()
    };
    lines.iter().map(cut).collect::<Vec<String>>().join("\n")
}

impl App {
    pub(crate) fn begin_selection(&mut self, at: Position) {
        self.selection = None;
        self.pressed_at = Some(at);
    }

    pub(crate) fn drag_selection(&mut self, at: Position) {
        let Some(from) = self.pressed_at else { return };
        let mut within = self.size;
        if self.is_split() {
            let left = view::split_width(self.size.width);
            within = if from.x < left {
                Rect { width: left, ..within }
            } else {
                Rect { x: left + 1, width: within.width.saturating_sub(left + 1), ..within }
            };
        }
        let inside = |at: Position| Position {
            x: at.x.clamp(within.left(), within.right().saturating_sub(1)),
            y: at.y.clamp(within.top(), within.bottom().saturating_sub(1)),
        };
        self.selection = Some(Selection { from, to: inside(at), within, is_done: false });
    }

    pub(crate) fn end_selection(&mut self, at: Position) -> bool {
        let pressed = self.pressed_at.take();
        if let Some(selection) = &mut self.selection {
            selection.is_done = true;
            return false;
        }
        pressed == Some(at)
    }

    pub(crate) fn draw_selection(&mut self, canvas: &mut Canvas<'_>) {
        let Some(selection) = self.selection else { return };
        let rows: Vec<Rect> = selection.rows().collect();
        if selection.is_done {
            let left = selection.within.left();
            let lines: Vec<(usize, String)> = rows
                .iter()
                .map(|row| (usize::from(row.x - left), canvas.read(*row).trim_end().to_owned()))
                .collect();
            let text = without_margin(&lines);
            self.selection = None;
            if !text.trim().is_empty() {
                self.effects.push(Effect::Copy(text));
            }
            return;
        }
        for row in rows {
            canvas.tone(row, Tone::Selected);
        }
    }

    /// `/mouse`: whether mouse events go to the screen, or the terminal selects text itself.
    pub(crate) fn set_mouse(&mut self, word: &str) {
        let on = match word {
            "on" => true,
            "off" => false,
            _ => !self.mouse,
        };
        self.mouse = on;
        self.effects.push(Effect::Mouse(on));
        self.toast = Some(if on {
            "mouse on: click and scroll; dragging copies".into()
        } else {
            "mouse off: the terminal selects text".into()
        });
    }
}
