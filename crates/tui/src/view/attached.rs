//! A program's terminal: the whole screen except the last line.

use crate::app::App;
use crate::line;
use crate::paint::Canvas;
use crate::theme::{Theme, Tone};
use althing_protocol::{ScreenCell, ScreenColor, TaskId};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, id: &TaskId) {
    let body = Rect { height: area.height.saturating_sub(1), ..area };
    match &app.attached {
        Some(screen) => {
            for (y, row) in (body.top()..body.bottom()).zip(&screen.rows) {
                let mut x = body.left();
                for cell in row {
                    if x >= body.right() {
                        break;
                    }
                    // An empty cell is the right half of a wide character, which was drawn with the left half.
                    if cell.text.is_empty() {
                        x += 1;
                        continue;
                    }
                    canvas.styled(x, y, (body.right() - x).min(2), style(cell, app.theme), &cell.text);
                    x += 1;
                }
            }
            if let Some((column, row)) = screen.cursor.filter(|(_, row)| *row < body.height) {
                canvas.set_cursor(body.x + column, body.y + row);
            }
        }
        None => {
            canvas.text(body.x + 1, body.y, body.width, Tone::Dim, "Waiting for the program's screen…");
        }
    }
    let adapter = app.model.task(id).map_or("", |task| task.work.member.backend.as_str());
    let name = app.model.task(id).map_or(id.as_str(), |task| task.name.as_str());
    let detach = " · ^] detach";
    let text = line::cut(
        &format!(" attached to {} ({adapter})", line::cut(name, 40)),
        usize::from(area.width).saturating_sub(line::width(detach)),
    ) + detach;
    let bar = Rect { y: area.bottom() - 1, height: 1, ..area };
    canvas.clear(bar);
    canvas.text(bar.x, bar.y, bar.width, Tone::Plain, &text);
    canvas.tone(bar, Tone::Selected);
}

fn style(cell: &ScreenCell, theme: Theme) -> Style {
    let mut style = Style::new();
    if theme != Theme::Mono {
        style = style.fg(color(cell.fg)).bg(color(cell.bg));
    }
    for (on, modifier) in [
        (cell.bold, Modifier::BOLD),
        (cell.dim, Modifier::DIM),
        (cell.italic, Modifier::ITALIC),
        (cell.underline, Modifier::UNDERLINED),
        (cell.inverse, Modifier::REVERSED),
    ] {
        if on {
            style = style.add_modifier(modifier);
        }
    }
    style
}

fn color(color: ScreenColor) -> Color {
    match color {
        ScreenColor::Default => Color::Reset,
        ScreenColor::Indexed(index) => Color::Indexed(index),
        ScreenColor::Rgb(red, green, blue) => Color::Rgb(red, green, blue),
    }
}
