//! The welcome screen: what was found on this machine, and what to do next.

use crate::app::{App, Target, WELCOME_CHOICES};
use crate::host::Welcome;
use crate::line::{self, Line};
use crate::paint::Canvas;
use crate::theme::Tone;
use ratatui::layout::Rect;

pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(welcome) = app.welcome.clone() else { return };
    let width = usize::from(area.width.saturating_sub(2));
    let found = found_lines(&welcome, width);
    // On a low screen the gaps are left out, and then what was found: the choices and their keys are always visible.
    let spare = usize::from(area.height).saturating_sub(WELCOME_CHOICES.len() + 2);
    let gap = u16::from(spare >= found.len() + 3);
    let found = found.get(..found.len().min(spare)).unwrap_or_default();
    let put = |canvas: &mut Canvas<'_>, y: u16, tone: Tone, x: u16, text: &str| {
        let room = area.width.saturating_sub(x);
        if y < area.bottom() {
            canvas.text(area.x + x, y, room, tone, &line::cut(text, room.into()));
        }
    };
    let mut y = area.y + u16::from(area.height > 12);
    put(canvas, y, Tone::AccentBold, 1, "Welcome to Althing: several AI agents, one answer.");
    y += 1 + gap;
    for line in found {
        canvas.line(area.x + 3, y, area.width.saturating_sub(3), line);
        y += 1;
    }
    y += gap;
    for (at, (_, about)) in WELCOME_CHOICES.iter().enumerate() {
        let chosen = at == app.welcome_choice;
        put(canvas, y, Tone::AccentBold, 3, if chosen { "›" } else { " " });
        put(canvas, y, if chosen { Tone::Bold } else { Tone::Plain }, 5, about);
        if y < area.bottom() {
            app.targets.push((Rect { y, height: 1, ..area }, Target::Welcome(at)));
        }
        y += 1;
    }
    y += gap;
    let keys = "↑↓ choose · enter take it · or just type what you want done";
    let short = "enter take · or just type";
    let keys = if line::width(keys) + 3 > usize::from(area.width) { short } else { keys };
    put(canvas, y, Tone::Dim, 3, keys);
}

fn found_lines(welcome: &Welcome, width: usize) -> Vec<Line> {
    let none = vec!["no API keys, no CLI agents, no local models: the offline model is used".to_owned()];
    let found = if welcome.found.is_empty() { &none } else { &welcome.found };
    let mut lines = Vec::new();
    for (word, names, tone) in
        [("found", found.join(" · "), Tone::Plain), ("missing", welcome.missing.join(", "), Tone::Dim)]
    {
        let parts = line::wrap_text(tone, &names, width.saturating_sub(14).max(10));
        for (n, part) in parts.into_iter().enumerate().filter(|_| !names.is_empty()) {
            let mut whole = Line::of(Tone::Bold, &line::pad(if n == 0 { word } else { "" }, 10));
            for (tone, text) in part.pieces {
                whole.push(tone, &text);
            }
            lines.push(whole);
        }
    }
    lines
}
