//! Pickers: projects, themes.

use super::modal::centered_frame;
use super::spread;
use crate::app::{App, Picker, Target};
use crate::line::{self, Line};
use crate::paint::Canvas;
use crate::theme::{Theme, Tone};
use althing_protocol::Timestamp;
use ratatui::layout::Rect;

pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, picker: &Picker, chosen: usize) {
    let (title, keys) = match picker {
        Picker::Projects(_) => ("Projects", "↑↓ choose · enter go there · esc stay"),
        Picker::Themes(_) => ("Theme", "↑↓ try · enter keep · esc as before"),
    };
    let inside = centered_frame(canvas, area, title, picker.len() + 2);
    let room = usize::from(inside.height.saturating_sub(2)).max(1);
    let first = (chosen + 1).saturating_sub(room);
    let width = usize::from(inside.width.saturating_sub(2));
    for (row, at) in (first..picker.len()).take(room).enumerate() {
        let y = inside.y + row as u16;
        let (left, right) = offer(picker, at);
        let mark = if at == chosen { "› " } else { "  " };
        canvas.text(inside.x, y, 2, Tone::AccentBold, mark);
        let tone = if at == chosen { Tone::Bold } else { Tone::Plain };
        let line = spread(&Line::of(tone, &left), &Line::of(Tone::Dim, &right), width);
        canvas.line(inside.x + 2, y, inside.width.saturating_sub(2), &line);
        app.targets.push((Rect { y, height: 1, ..inside }, Target::Item(at)));
    }
    canvas.text(
        inside.x,
        inside.bottom().saturating_sub(1),
        inside.width,
        Tone::Dim,
        &super::fitting_hints(keys, inside.width.into()),
    );
}

fn offer(picker: &Picker, at: usize) -> (String, String) {
    match picker {
        Picker::Projects(entries) => entries.get(at).map_or_else(Default::default, |entry| {
            (format!("{}  {}", entry.name, line::first_line(&entry.about)), entry.path.clone())
        }),
        Picker::Themes(_) => Theme::ALL.get(at).map_or_else(Default::default, |theme| {
            let about = match theme {
                Theme::Dark => "light text on a dark background",
                Theme::Light => "dark text on a light background",
                Theme::Mono => "bold and dim, no color",
            };
            (theme.name().to_owned(), about.to_owned())
        }),
    }
}

/// The time since `then`.
pub fn ago(now: Timestamp, then: Timestamp) -> String {
    let minutes = now.since(then).0 / 60_000;
    match minutes {
        0 => "just now".into(),
        1..60 => format!("{minutes} min ago"),
        60..1440 => format!("{} h ago", minutes / 60),
        _ => format!("{} d ago", minutes / 1440),
    }
}
