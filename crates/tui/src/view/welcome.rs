//! The welcome screen: what was found on this machine, and what to do next.

use crate::app::{App, Target, WELCOME_CHOICES};
use crate::line;
use crate::paint::Canvas;
use crate::theme::Tone;
use ratatui::layout::Rect;

pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(welcome) = app.welcome.clone() else { return };
    let width = usize::from(area.width.saturating_sub(2));
    let mut y = area.y + u16::from(area.height > 12);
    let put = |canvas: &mut Canvas<'_>, y: u16, tone: Tone, x: u16, text: &str| {
        if y < area.bottom() {
            canvas.text(area.x + x, y, area.width.saturating_sub(x), tone, text);
        }
    };
    put(canvas, y, Tone::AccentBold, 1, "Welcome to Althing: several AI agents, one answer.");
    y += 2;
    let none = vec!["no API keys, no CLI agents, no local models: the offline model is used".to_owned()];
    let found = if welcome.found.is_empty() { none } else { welcome.found.clone() };
    for (word, names, tone) in
        [("found", found.join(" · "), Tone::Plain), ("missing", welcome.missing.join(", "), Tone::Dim)]
    {
        if names.is_empty() {
            continue;
        }
        put(canvas, y, Tone::Bold, 3, word);
        for part in line::wrap_text(tone, &names, width.saturating_sub(14).max(10)) {
            if y < area.bottom() {
                canvas.line(area.x + 13, y, area.width.saturating_sub(13), &part);
            }
            y += 1;
        }
    }
    y += 1;
    for (at, (_, about)) in WELCOME_CHOICES.iter().enumerate() {
        let chosen = at == app.welcome_choice;
        put(canvas, y, Tone::AccentBold, 3, if chosen { "›" } else { " " });
        put(canvas, y, if chosen { Tone::Bold } else { Tone::Plain }, 5, about);
        if y < area.bottom() {
            app.targets.push((Rect { y, height: 1, ..area }, Target::Welcome(at)));
        }
        y += 1;
    }
    y += 1;
    put(canvas, y, Tone::Dim, 3, "↑↓ choose · enter take it · or just type what you want done");
}
