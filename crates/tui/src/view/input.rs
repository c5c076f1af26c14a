//! The input at the bottom, with its completions.

use crate::app::{App, Target, TuiScreen};
use crate::line;
use crate::modes::PlanMode;
use crate::paint::Canvas;
use crate::theme::Tone;
use ratatui::layout::Rect;

const MOST_ROWS: u16 = 8;

const MOST_OFFERS: usize = 8;

const SEND: &str = "[Send]";

const SEND_FROM: u16 = 30;

pub fn text_width(width: u16) -> u16 {
    let button = if width < SEND_FROM { 0 } else { SEND.len() as u16 + 1 };
    width.saturating_sub(4 + button)
}

pub fn rows(app: &App, area: Rect) -> u16 {
    if !app.input_has_focus() {
        return 1;
    }
    let width = usize::from(text_width(area.width));
    let most = MOST_ROWS.min(area.height / 3).max(1);
    u16::try_from(app.input.wrap(width).rows.len()).unwrap_or(most).clamp(1, most)
}

pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let width = text_width(area.width);
    app.targets.push((area, Target::Input));
    if area.width >= SEND_FROM {
        let tone = if app.input.is_empty() { Tone::Dim } else { Tone::Button };
        let (x, wide) = (area.right().saturating_sub(SEND.len() as u16 + 1), SEND.len() as u16);
        canvas.text(x, area.y, wide, tone, SEND);
        app.targets.push((Rect::new(x, area.y, wide, 1), Target::Send));
    }
    if let Some(text) = &app.finding {
        let used = canvas.text(area.x + 1, area.y, 6, Tone::AccentBold, "Find: ");
        let room = area.width.saturating_sub(used + 10);
        let used = used + canvas.text(area.x + 1 + used, area.y, room, Tone::Plain, text);
        canvas.set_cursor(area.x + 1 + used, area.y);
        return;
    }
    if !app.input_has_focus() {
        let key = if app.browsing && matches!(app.screens.last(), Some(TuiScreen::Conversation)) {
            "esc"
        } else {
            "tab"
        };
        let draft = if app.input.is_empty() { "" } else { " · what you wrote is kept" };
        let words = format!("{key} to write a message{draft}");
        canvas.text(area.x + 3, area.y, width, Tone::Dim, &line::cut(&words, width.into()));
        return;
    }
    canvas.text(area.x + 1, area.y, 1, Tone::AccentBold, "›");
    if app.input.is_empty() {
        let words = match app.modes.plan_mode {
            PlanMode::Plan => "Describe what to plan...",
            PlanMode::Normal | PlanMode::Execute => "Type a message...",
        };
        canvas.text(area.x + 3, area.y, width, Tone::Dim, words);
        canvas.set_cursor(area.x + 3, area.y);
    } else {
        let wrapped = app.input.wrap(width.into());
        let (row, column) = wrapped.cursor;
        let first = (row + 1).saturating_sub(area.height.into());
        for (n, text) in wrapped.rows.iter().skip(first).take(area.height.into()).enumerate() {
            let y = area.y + n as u16;
            canvas.text(area.x + 3, y, width.saturating_add(1), Tone::Plain, text);
            for (column, wide) in app.missing.places_in(text) {
                let room = width.saturating_add(1).saturating_sub(column);
                canvas.tone(Rect { x: area.x + 3 + column, y, width: wide.min(room), height: 1 }, Tone::Bad);
            }
        }
        canvas.set_cursor(area.x + 3 + column as u16, area.y + (row - first) as u16);
    }
    offers(app, canvas, area);
}

fn offers(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let Some(completion) = &app.completion else { return };
    let bottom = area.y.saturating_sub(2);
    let room = usize::from(bottom.saturating_sub(2)).min(MOST_OFFERS);
    let first = (completion.chosen + 1).saturating_sub(room);
    let shown: Vec<&(String, String)> = completion.offers.iter().skip(first).take(room).collect();
    let names = shown.iter().map(|(offer, _)| line::width(offer)).max().unwrap_or(0);
    let abouts = shown.iter().map(|(_, about)| line::width(about)).max().unwrap_or(0);
    let wide = names + abouts + 6;
    let names = u16::try_from(names).unwrap_or(u16::MAX);
    let wide = u16::try_from(wide).unwrap_or(u16::MAX).min(area.width.saturating_sub(2));
    let top = bottom.saturating_sub(shown.len() as u16);
    let block = Rect { x: area.x + 1, y: top, width: wide, height: shown.len() as u16 };
    canvas.clear(block);
    for (n, (offer, about)) in shown.into_iter().enumerate() {
        let y = top + n as u16;
        canvas.text(block.x + 1, y, wide.saturating_sub(2), Tone::Plain, offer);
        let column = names.saturating_add(3);
        let room = wide.saturating_sub(column + 1);
        let about = super::fitting_words(about, room.into());
        canvas.text(block.x.saturating_add(column), y, room, Tone::Dim, &about);
        if first + n == completion.chosen {
            canvas.tone(Rect { y, height: 1, ..block }, Tone::Selected);
        }
    }
}
