//! The only access to the cells of the screen. All text is sanitized here. No other code may set a cell, because the
//! buffer does not sanitize: it would pass a clipboard sequence or a direction override on to the terminal.

use crate::ascii::ascii;
use crate::line::Line;
use crate::theme::{Theme, Tone};
use althing_text::sanitize;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use std::borrow::Cow;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

fn safe_units(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.graphemes(true).map(sanitize::cell).collect())
}

#[derive(Debug)]
pub struct Canvas<'a> {
    buffer: &'a mut Buffer,
    theme: Theme,
    ascii: bool,
    simple: bool,
    cursor: Option<Position>,
}

/// A replacement for a cluster whose characters some terminals and multiplexers count separately. It has the same width
/// in every terminal: two letters for a flag; for any other cluster its first character, padded with spaces to `wide`.
/// `None` if the cluster can stay as it is, or if the replacement would not be `wide` columns wide.
fn simplified(cluster: &str, wide: usize) -> Option<String> {
    /// Regional indicators. Two of them are a flag.
    const REGIONS: std::ops::RangeInclusive<char> = '\u{1f1e6}'..='\u{1f1ff}';
    let is_counted_apart = |c: char| {
        REGIONS.contains(&c)
            || matches!(c, '\u{200d}' | '\u{fe0f}' | '\u{20e3}' | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0020}'..='\u{e007f}')
    };
    if cluster.chars().nth(1).is_none() || !cluster.chars().any(is_counted_apart) {
        return None;
    }
    let letter = |c: char| char::from_u32(u32::from(c) - 0x1f1e6 + u32::from('A'));
    let mut simple: String = if cluster.chars().all(|c| REGIONS.contains(&c)) {
        cluster.chars().filter_map(letter).collect()
    } else {
        cluster.chars().take(1).collect()
    };
    while simple.width() < wide {
        simple.push(' ');
    }
    (simple.width() == wide).then_some(simple)
}

impl<'a> Canvas<'a> {
    pub fn new(buffer: &'a mut Buffer, theme: Theme, ascii: bool) -> Self {
        Self { buffer, theme, ascii, simple: false, cursor: None }
    }

    pub fn with_simple_clusters(mut self, simple: bool) -> Self {
        self.simple = simple;
        self
    }

    pub fn area(&self) -> Rect {
        self.buffer.area
    }

    pub fn cursor(&self) -> Option<Position> {
        self.cursor
    }

    pub fn set_cursor(&mut self, x: u16, y: u16) {
        if self.buffer.area.contains(Position { x, y }) {
            self.cursor = Some(Position { x, y });
        }
    }

    pub fn hide_cursor(&mut self) {
        self.cursor = None;
    }

    /// Writes at most `most` columns. Returns the columns used.
    pub fn text(&mut self, x: u16, y: u16, most: u16, tone: Tone, text: &str) -> u16 {
        let style = self.theme.style(tone);
        self.styled(x, y, most, style, text)
    }

    pub fn line(&mut self, x: u16, y: u16, most: u16, line: &Line) -> u16 {
        let mut used = 0;
        for (tone, text) in &line.pieces {
            used += self.text(x.saturating_add(used), y, most.saturating_sub(used), *tone, text);
        }
        used
    }

    pub fn right(&mut self, end: u16, y: u16, most: u16, tone: Tone, text: &str) -> u16 {
        let text = crate::line::cut(text, most.into());
        let wide = u16::try_from(crate::line::cells(&text)).unwrap_or(u16::MAX).min(most);
        self.text(end.saturating_sub(wide), y, wide, tone, &text)
    }

    pub fn rule(&mut self, area: Rect, y: u16) {
        for x in area.left()..area.right() {
            self.text(x, y, 1, Tone::Dim, "─");
        }
    }

    pub fn clear(&mut self, area: Rect) {
        let area = area.intersection(self.buffer.area);
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                self.clear_left_half(x, y);
                if let Some(cell) = self.buffer.cell_mut(Position { x, y }) {
                    cell.reset();
                }
            }
            self.unhide(area.right(), y);
        }
    }

    pub fn tone(&mut self, area: Rect, tone: Tone) {
        let style = self.theme.style(tone);
        self.buffer.set_style(area.intersection(self.buffer.area), style);
    }

    pub fn read(&self, row: Rect) -> String {
        let row = row.intersection(self.buffer.area);
        let mut text = String::new();
        let mut x = row.left();
        while let Some(cell) = self.buffer.cell(Position { x, y: row.y }).filter(|_| x < row.right()) {
            text.push_str(cell.symbol());
            x += u16::try_from(cell.symbol().width()).unwrap_or(1).max(1);
        }
        text
    }

    pub fn frame(&mut self, area: Rect, title: &str, tone: Tone) -> Rect {
        self.clear(area);
        if area.width < 2 || area.height < 2 {
            return Rect::new(area.x, area.y, 0, 0);
        }
        let (right, bottom) = (area.right() - 1, area.bottom() - 1);
        for x in area.left() + 1..right {
            self.text(x, area.top(), 1, tone, "─");
            self.text(x, bottom, 1, tone, "─");
        }
        for y in area.top() + 1..bottom {
            self.text(area.left(), y, 1, tone, "│");
            self.text(right, y, 1, tone, "│");
        }
        for (x, y, corner) in [
            (area.left(), area.top(), "┌"),
            (right, area.top(), "┐"),
            (area.left(), bottom, "└"),
            (right, bottom, "┘"),
        ] {
            self.text(x, y, 1, tone, corner);
        }
        if !title.is_empty() && area.width > 6 {
            let title = crate::line::cut(title, usize::from(area.width) - 6);
            self.text(area.left() + 1, area.top(), area.width - 3, Tone::Bold, &format!(" {title} "));
        }
        Rect::new(area.x + 1, area.y + 1, area.width - 2, area.height - 2)
    }

    /// Writes text with an explicit style, such as a cell of a program's screen. Returns the columns used.
    pub fn styled(&mut self, x: u16, y: u16, most: u16, style: Style, text: &str) -> u16 {
        let area = self.buffer.area;
        if y < area.top() || y >= area.bottom() || x >= area.right() {
            return 0;
        }
        let end = x.saturating_add(most).min(area.right());
        let mut at = x;
        let safe = safe_units(text);
        for (safe, wide) in crate::line::units(&safe) {
            let wide = u16::try_from(wide).unwrap_or(0);
            if wide == 0 {
                continue;
            }
            if at + wide > end {
                break;
            }
            let simple = if self.simple { simplified(safe, wide.into()) } else { None };
            let safe = simple.as_deref().unwrap_or(safe);
            let shown = if self.ascii && !safe.is_ascii() { ascii(safe, wide.into()) } else { safe };
            self.clear_left_half(at, y);
            if let Some(cell) = self.buffer.cell_mut(Position { x: at, y }) {
                cell.set_symbol(shown).set_style(style);
            }
            for hidden in 1..wide {
                if let Some(cell) = self.buffer.cell_mut(Position { x: at + hidden, y }) {
                    cell.reset();
                    // An empty symbol differs from a space, so this column is drawn again when the cluster disappears.
                    // Some terminals have drawn something of their own there, such as the second letter of a flag.
                    cell.set_symbol("");
                    if self.ascii {
                        cell.set_symbol("?").set_style(style);
                    }
                }
            }
            if self.ascii
                && wide > 1
                && !safe.is_ascii()
                && let Some(cell) = self.buffer.cell_mut(Position { x: at, y })
            {
                cell.set_symbol("?").set_style(style);
            }
            at += wide;
            self.unhide(at, y);
        }
        at - x
    }

    /// A wide character whose right half is about to be overwritten becomes a space.
    fn clear_left_half(&mut self, x: u16, y: u16) {
        if x == 0 {
            return;
        }
        if let Some(left) = self.buffer.cell_mut(Position { x: x - 1, y })
            && left.symbol().width() > 1
        {
            left.set_symbol(" ");
        }
    }

    /// A cell that was the right half of an overwritten wide character becomes visible again.
    fn unhide(&mut self, x: u16, y: u16) {
        if let Some(cell) = self.buffer.cell_mut(Position { x, y })
            && cell.symbol().is_empty()
        {
            cell.set_symbol(" ");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_that_terminals_measure_differently_are_drawn_as_simple_ones() {
        for (cluster, expected) in [
            ("🇮🇸", Some("IS")),
            ("👩\u{200d}👩\u{200d}👧", Some("👩")),
            ("👍🏽", Some("👍")),
            ("❤\u{fe0f}", Some("❤ ")),
            ("1\u{fe0f}\u{20e3}", Some("1 ")),
            ("日", None),
            ("e\u{301}", None),
            ("x", None),
        ] {
            assert_eq!(simplified(cluster, cluster.width()).as_deref(), expected, "{cluster}");
        }
    }

    #[test]
    fn both_columns_of_a_wide_cluster_are_drawn_again_when_it_disappears() {
        for (cluster, simple) in [("🇮🇸", false), ("🇮🇸", true), ("日", false), ("👍🏽", false)]
        {
            let draw = |text: &str| {
                let mut buffer = Buffer::empty(Rect::new(0, 0, 6, 1));
                Canvas::new(&mut buffer, Theme::default(), false).with_simple_clusters(simple).text(
                    1,
                    0,
                    5,
                    Tone::Plain,
                    text,
                );
                buffer
            };
            for after in ["", "x"] {
                let drawn: Vec<u16> = draw(cluster).diff(&draw(after)).into_iter().map(|(x, ..)| x).collect();
                assert_eq!(drawn, [1, 2], "{cluster}, then `{after}`: {drawn:?}");
            }
        }
    }

    #[test]
    fn what_was_drawn_can_be_read() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        let mut canvas = Canvas::new(&mut buffer, Theme::default(), false);
        canvas.text(0, 0, 12, Tone::Plain, "a 日本 b");
        assert_eq!(canvas.read(Rect::new(2, 0, 5, 1)), "日本 ");
    }
}
