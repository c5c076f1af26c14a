//! The conversation: context bar, messages and cards, and the bottom of the screen.

use super::{bars, dock, entry, greeting, welcome};
use crate::app::{App, Target};
use crate::list;
use crate::paint::Canvas;
use ratatui::layout::Rect;

pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    bars::context(app, canvas, area);
    let bottom = dock::rows(app, area);
    let list_area = Rect { y: area.y + 2, height: area.height.saturating_sub(2 + bottom), ..area };
    if app.welcome.is_some() {
        welcome::draw(app, canvas, list_area);
    } else {
        let greeted = if greeting::is_shown(app) { greeting::draw(app, canvas, list_area) } else { 0 };
        let (y, height) = (list_area.y + greeted, list_area.height - greeted);
        entries(app, canvas, Rect { y, height, ..list_area });
    }
    dock::draw(app, canvas, area, list_area.bottom());
}

fn entries(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let esc_stops = app.esc_stops_reply();
    let conversation = entry::ConversationList { model: &app.model, now: app.now, esc_stops };
    let list_id = super::list_id(&["talk"]);
    let placed = list::draw(canvas, area, list_id, &conversation, &mut app.scroll, &mut app.layouts);
    let count = app.model.entries.len();
    for row in placed.into_iter().filter(|row| row.item < count) {
        app.targets.push((Rect { y: row.y, height: 1, ..area }, Target::Item(row.item)));
        if let Some((x, width)) = row.button {
            app.targets.push((Rect::new(x, row.y, width, 1), Target::CancelEntry(row.item)));
        }
    }
}
