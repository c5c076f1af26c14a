//! The views: functions that draw the state and record what can be clicked. They do no I/O.

mod approval_dialog;
mod attached;
mod bars;
mod card;
mod chooser;
mod conversation;
mod dialog;
mod dock;
pub(crate) mod entry;
mod greeting;
mod input;
mod modal;
mod picker;
mod pinned;
mod program_dialog;
pub(crate) mod reader;
pub(crate) mod run;
mod session_picker;
mod tasks;
mod timeline;
mod welcome;

pub(crate) use approval_dialog::confirmation_text;
pub(crate) use input::text_width as input_text_width;

use crate::app::{App, Modal, Target, TuiScreen};
use crate::line::{self, Line};
use crate::paint::Canvas;
use crate::theme::Tone;
use althing_protocol::Usage;
use althing_text::short_number;
use ratatui::layout::Rect;

/// From this width on, a run is shown beside the conversation.
pub(crate) const WIDE: u16 = 150;

pub(crate) fn split_width(width: u16) -> u16 {
    width * 2 / 5
}

const LEAST: (u16, u16) = (12, 4);

pub fn draw(app: &mut App, canvas: &mut Canvas<'_>) {
    let area = canvas.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        canvas.text(area.x, area.y, area.width, Tone::Plain, "Althing: make the window larger");
        return;
    }
    if matches!(app.modal, Some(Modal::Trust { .. })) {
        modal::draw(app, canvas, area);
        // The frame of the question leaves the last row free.
        let lines = toast_lines(app, area);
        let y = area.bottom().saturating_sub(lines.len() as u16);
        for (y, line) in (y..).zip(lines) {
            canvas.clear(Rect { y, height: 1, ..area });
            canvas.line(area.x + 1, y, area.width - 1, &line);
        }
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
                // Clicks on entries go to the opened run, so the entries of the conversation cannot be clicked.
                app.targets.retain(|(_, target)| !matches!(target, Target::Item(_) | Target::Welcome(_)));
                for y in area.top()..area.bottom() {
                    canvas.text(left, y, 1, Tone::Dim, "│");
                }
            }
            let offset = if split { left + 1 } else { 0 };
            if split {
                let right = Rect { x: area.x + offset, width: area.width - offset, ..area };
                run::draw(app, canvas, right, &screen);
            } else {
                above_dock(app, canvas, area, |app, canvas, top| run::draw(app, canvas, top, &screen));
            }
        }
        TuiScreen::TextReader(_) => above_dock(app, canvas, area, reader::draw),
        TuiScreen::Tasks(chosen) => {
            above_dock(app, canvas, area, |app, canvas, top| tasks::panel(app, canvas, top, chosen));
        }
        TuiScreen::Task(id, _) => {
            above_dock(app, canvas, area, |app, canvas, top| tasks::task(app, canvas, top, &id));
        }
        TuiScreen::Attached(id) => attached::draw(app, canvas, area, &id),
    }
    modal::draw(app, canvas, area);
}

/// Draws a screen above the mode bar and the input. A workflow has neither, so there the screen gets the whole area.
fn above_dock(
    app: &mut App,
    canvas: &mut Canvas<'_>,
    area: Rect,
    draw: impl FnOnce(&mut App, &mut Canvas<'_>, Rect),
) {
    if !app.has_input() {
        return draw(app, canvas, area);
    }
    let top = area.height.saturating_sub(dock::rows(app, area));
    draw(app, canvas, Rect { height: top, ..area });
    // Clears what a screen that is too tall for its area has drawn below that area.
    canvas.clear(Rect { y: area.y + top, height: area.height - top, ..area });
    app.targets.retain(|(target, _)| target.y < area.y + top);
    dock::draw(app, canvas, area, area.y + top);
}

/// The message to the user, wrapped to the width of the area. A message of more than a third of the rows is cut.
pub(crate) fn toast_lines(app: &App, area: Rect) -> Vec<Line> {
    let Some(toast) = &app.toast else { return Vec::new() };
    wrapped(Tone::Warn, toast, area.width.saturating_sub(2).into(), usize::from(area.height / 3).max(1))
}

/// A text in at most `most` rows; if it has more, the last row ends with `…`.
pub(crate) fn wrapped(tone: Tone, text: &str, width: usize, most: usize) -> Vec<Line> {
    let mut lines = line::wrap_text(tone, text, width);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            *last = Line::of(
                tone,
                &format!("{}…", line::cut(&last.text(), width.saturating_sub(1)).trim_end_matches('…')),
            );
        }
    }
    lines
}

/// An opened screen above the mode bar has a row for key hints only if its area has at least this many rows.
const ROOMY: u16 = 10;

pub(crate) struct Panel {
    pub(crate) body: Rect,
    hints: Option<u16>,
    /// Whether the mode bar is below this screen; then the mode bar shows the messages to the user.
    docked: bool,
}

pub(crate) fn panel(app: &App, canvas: &mut Canvas<'_>, area: Rect, y: u16) -> Panel {
    let docked = app.has_input() && !app.is_split();
    let toast = (toast_lines(app, area).len() as u16).max(1);
    let (rows, rule) = match (docked, area.height >= ROOMY) {
        (true, false) => (0, 0),
        (true, true) => (1, 0),
        (false, _) => (toast, 1),
    };
    if !docked {
        canvas.rule(area, area.bottom().saturating_sub(rows + rule));
    }
    let height = area.bottom().saturating_sub(y + rows + rule);
    let hints = (rows > 0).then(|| area.bottom().saturating_sub(rows));
    Panel { body: Rect { y, height, ..area }, hints, docked }
}

/// Draws the row below an opened screen: the search text while it is typed, or a message to the user (unless the mode
/// bar shows it) and the key hints that fit beside it. While a dialog is open, these are the keys of the dialog.
pub(crate) fn hints(
    app: &App,
    canvas: &mut Canvas<'_>,
    area: Rect,
    panel: &Panel,
    search: Option<&str>,
    hints: &str,
) {
    let width = area.width.saturating_sub(2);
    if let Some(search) = search {
        let y = panel.hints.unwrap_or_else(|| area.bottom().saturating_sub(1));
        canvas.clear(Rect { y, height: 1, ..area });
        canvas.text(area.x + 1, y, width, Tone::Plain, &format!("/ {search}"));
        canvas.set_cursor(area.x + 3 + line::width(search) as u16, y);
        return;
    }
    let Some(y) = panel.hints else { return };
    // The keys of an open dialog are shown once: in the mode bar if there is one.
    let hints = match dock::box_hint(app) {
        Some(_) if panel.docked => "",
        Some(of_dialog) => of_dialog,
        None => hints,
    };
    if app.toast.is_some() && !panel.docked {
        let mut lines = toast_lines(app, area);
        if let [line] = lines.as_mut_slice() {
            let room = usize::from(width).saturating_sub(line::width(&line.text()) + 3);
            let hints = fitting_hints(hints, room);
            if !hints.is_empty() {
                *line = std::mem::take(line).with(Tone::Dim, &format!(" · {hints}"));
            }
        }
        for (y, line) in (y..).zip(lines) {
            canvas.line(area.x + 1, y, width, &line);
        }
    } else {
        canvas.text(area.x + 1, y, width, Tone::Dim, &fitting_hints(hints, width.into()));
    }
}

/// Key hints such as `enter send · esc back`, without those that do not fit into `room` columns. Hints of keys that lead
/// out stay longest, then those of Enter, Tab and `y`, and what is not a key, such as `needle: 3 of 7`; of equal ones the
/// last goes first.
pub(crate) fn fitting_hints(hints: &str, room: usize) -> String {
    let rank = |hint: &str| {
        let leads_out =
            hint.starts_with("esc") || ["stop", "leave", "detach"].iter().any(|word| hint.contains(word));
        let is_main = ["enter", "tab", "y "].iter().any(|key| hint.starts_with(key)) || hint.contains(": ");
        if leads_out { 0 } else { 2 - u8::from(is_main) }
    };
    let mut kept: Vec<(u8, &str)> = hints.split(" · ").map(|hint| (rank(hint), hint)).collect();
    loop {
        let all: Vec<&str> = kept.iter().map(|(_, hint)| *hint).collect();
        let all = all.join(" · ");
        let least = kept.iter().enumerate().max_by_key(|(n, (rank, _))| (*rank, *n)).map(|(n, _)| n);
        match least {
            Some(least) if line::width(&all) > room => {
                // `needle: 3 of 7` becomes `3 of 7` first.
                let (_, hint) = kept.remove(least);
                if let Some((_, end)) = hint.rsplit_once(": ") {
                    kept.insert(least, (1, end));
                }
            }
            _ => return all,
        }
    }
}

/// Words such as `3 agents · 2 rounds · 4m12s`, without the last ones that do not fit into `room` columns. The first one is
/// cut if it does not fit alone.
pub(crate) fn fitting_words(words: &str, room: usize) -> String {
    let mut shown = words;
    while line::width(shown) > room {
        match shown.rsplit_once(" · ") {
            Some((before, _)) => shown = before,
            None => return line::cut(shown, room),
        }
    }
    shown.to_owned()
}

/// Puts two texts at both ends of a line. The left one is cut if there is no room.
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

pub(crate) fn tokens(usage: &Usage) -> String {
    short_number(usage.input_tokens.saturating_add(usage.output_tokens))
}

pub(crate) fn count(number: usize, one: &str) -> String {
    althing_text::count(number as u64, one)
}

/// A hash of texts: the id of a list, or the version of an item.
pub(crate) fn list_id(parts: &[&str]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}
