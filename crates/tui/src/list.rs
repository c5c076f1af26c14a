//! A scrolling list that processes only what is in view.
//!
//! Items are laid out when they come into view, and their layouts are cached until the cache has more than
//! `MOST_LINES` lines. The time per frame and the memory of the cache do not depend on the length of the list.

use crate::line::Line;
use crate::markdown;
use crate::paint::Canvas;
use crate::theme::Tone;
use ratatui::layout::Rect;
use std::collections::HashMap;

/// Limit on cached lines; beyond it, layouts out of view are dropped.
const MOST_LINES: usize = 4_000;

/// Identifies a list, as part of the cache key.
pub type ListId = u64;

/// The items of a list.
pub trait ListItems {
    fn len(&self) -> usize;

    /// A number that changes whenever the item looks different at the same width. With None the item is laid
    /// out for every frame.
    fn version(&self, at: usize) -> Option<u64>;

    /// The item's lines.
    fn layout(&self, at: usize, width: usize) -> Vec<Line>;

    /// The Markdown of an item whose text only grows at the end, and the line above that text; None for other items.
    fn grows(&self, _at: usize) -> Option<(&str, Line)> {
        None
    }
}

struct CachedLayout {
    version: Option<u64>,
    width: usize,
    lines: Vec<Line>,
    /// For growing text: how many bytes are laid out permanently, and in how many lines.
    settled: (usize, usize),
    frame: u64,
}

/// The cache of layouts.
#[derive(Default)]
pub struct Layouts {
    cached: HashMap<(ListId, usize), CachedLayout>,
    frame: u64,
}

impl std::fmt::Debug for Layouts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Layouts").field("items", &self.cached.len()).finish_non_exhaustive()
    }
}

impl Layouts {
    /// Starts a new frame.
    pub fn begin(&mut self) {
        self.frame += 1;
        let lines: usize = self.cached.values().map(|cached| cached.lines.len()).sum();
        if lines > MOST_LINES {
            let last = self.frame - 1;
            self.cached.retain(|_, cached| cached.frame >= last);
        }
    }

    fn lines(&mut self, list_id: ListId, items: &dyn ListItems, at: usize, width: usize) -> &[Line] {
        let frame = self.frame;
        let fresh = || CachedLayout { version: None, width, lines: Vec::new(), settled: (0, 0), frame: 0 };
        let cached = self.cached.entry((list_id, at)).or_insert_with(fresh);
        if let Some((text, head)) = items.grows(at) {
            if cached.frame != frame {
                cached.grow(text, head, width);
            }
        } else {
            let version = items.version(at);
            let stale = cached.width != width
                || cached.version != version
                || (version.is_none() && cached.frame != frame);
            if stale || cached.lines.is_empty() {
                cached.lines = items.layout(at, width);
                cached.version = version;
                cached.settled = (0, 0);
            }
        }
        cached.width = width;
        cached.frame = frame;
        &cached.lines
    }
}

impl CachedLayout {
    /// Lays out the new part of a growing text: only its last block can change.
    fn grow(&mut self, text: &str, head: Line, width: usize) {
        let (done, wrapped) = self.settled;
        // Start over if nothing is laid out yet, the width changed, or the text became shorter.
        if wrapped == 0 || self.width != width || done > text.len() {
            self.lines = vec![Line::default(), head];
            self.settled = (0, 2);
            self.version = None;
        }
        self.lines.truncate(self.settled.1);
        while let Some(length) = text.get(self.settled.0..).and_then(markdown::first_block_len) {
            let end = self.settled.0 + length;
            self.block(text.get(self.settled.0..end).unwrap_or_default(), width);
            self.settled = (end, self.lines.len());
        }
        self.block(text.get(self.settled.0..).unwrap_or_default(), width);
    }

    fn block(&mut self, text: &str, width: usize) {
        let mut lines = Vec::new();
        markdown::block(text, width.saturating_sub(3), &mut lines);
        if self.lines.len() > 2 && !lines.is_empty() {
            self.lines.push(Line::default());
        }
        self.lines.extend(lines.into_iter().map(|line| line.indented(3)));
    }
}

/// The scroll position and selection of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scroll {
    /// The first visible item and its first visible line. With None the view follows the end of the list.
    top: Option<(usize, usize)>,
    /// Lines to scroll at the next frame, when heights are known.
    pending: isize,
    /// Number of items when the user scrolled away from the end.
    left_at: usize,
    pub selected: Option<usize>,
    /// Whether to bring the selected item into view at the next frame.
    reveal: bool,
}

impl Scroll {
    /// The position at the beginning of the list.
    pub fn top() -> Self {
        Self { top: Some((0, 0)), ..Self::default() }
    }

    /// Scrolls by lines; positive is down.
    pub fn by(&mut self, lines: isize) {
        self.pending = self.pending.saturating_add(lines);
    }

    /// Scrolls to the beginning.
    pub fn go_top(&mut self) {
        self.top = Some((0, 0));
        self.pending = 0;
    }

    /// Scrolls to the end and follows it.
    pub fn go_end(&mut self) {
        self.top = None;
        self.pending = 0;
    }

    /// Selects an item and brings it into view.
    pub fn select(&mut self, item: usize) {
        self.selected = Some(item);
        self.reveal = true;
    }
}

/// A row of the screen that shows a line of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedRow {
    pub y: u16,
    pub item: usize,
    /// The button in the line: its first column, and its width.
    pub button: Option<(u16, u16)>,
}

/// The column and width of the button in a line; None if there is no button, or not enough room for all of it.
fn button(line: &Line, left: u16, most: u16) -> Option<(u16, u16)> {
    let mut column: u16 = 0;
    for (tone, text) in &line.pieces {
        let wide = u16::try_from(crate::line::width(text)).unwrap_or(u16::MAX);
        if *tone == Tone::Button {
            let fits = column.saturating_add(wide) <= most;
            return fits.then(|| (left.saturating_add(column), wide));
        }
        column = column.saturating_add(wide);
    }
    None
}

/// Draws a list. Returns which item is in which row.
pub fn draw(
    canvas: &mut Canvas<'_>,
    area: Rect,
    list_id: ListId,
    items: &dyn ListItems,
    scroll: &mut Scroll,
    layouts: &mut Layouts,
) -> Vec<PlacedRow> {
    let mut placed = Vec::new();
    if area.height == 0 || area.width == 0 || items.len() == 0 {
        return placed;
    }
    let view = Viewport { list_id, items, width: area.width.into(), height: area.height.into() };
    let (mut item, mut line) = view.settle(scroll, layouts);
    let mut y = area.top();
    while y < area.bottom() && item < items.len() {
        let lines = layouts.lines(list_id, items, item, view.width);
        let marked = scroll.selected == Some(item);
        for shown in lines.iter().skip(line) {
            if y >= area.bottom() {
                break;
            }
            canvas.line(area.left(), y, area.width, shown);
            if marked {
                canvas.text(area.left(), y, 1, Tone::AccentBold, "▎");
            }
            placed.push(PlacedRow { y, item, button: button(shown, area.left(), area.width) });
            y += 1;
        }
        line = 0;
        item += 1;
    }
    if let (Some(_), true) = (scroll.top, area.height > 2) {
        let new = items.len().saturating_sub(scroll.left_at);
        let label = if new > 0 { format!(" ↓ {new} new ") } else { " ↓ more ".to_owned() };
        if scroll.left_at > 0 {
            canvas.right(area.right().saturating_sub(1), area.bottom() - 1, 16, Tone::Accent, &label);
        }
    }
    placed
}

struct Viewport<'a> {
    list_id: ListId,
    items: &'a dyn ListItems,
    width: usize,
    height: usize,
}

impl Viewport<'_> {
    fn tall(&self, layouts: &mut Layouts, item: usize) -> usize {
        layouts.lines(self.list_id, self.items, item, self.width).len()
    }

    /// Applies pending scrolling. Returns the first visible item and line.
    fn settle(&self, scroll: &mut Scroll, layouts: &mut Layouts) -> (usize, usize) {
        if std::mem::take(&mut scroll.reveal) {
            self.reveal(scroll, layouts);
        }
        let end = self.end(layouts);
        let pending = std::mem::take(&mut scroll.pending);
        let was_at_end = scroll.top.is_none();
        let start = scroll.top.unwrap_or(end);
        let moved = if pending < 0 {
            self.up(layouts, start, pending.unsigned_abs())
        } else {
            self.down(layouts, start, pending.unsigned_abs())
        };
        // At the end of the list, or if the whole list fits, the view follows the end.
        if moved >= end {
            scroll.top = None;
            scroll.left_at = 0;
            return end;
        }
        if was_at_end {
            scroll.left_at = self.items.len();
        }
        scroll.top = Some(moved);
        moved
    }

    /// The position from which the rest of the list fills the view; the beginning if the whole list fits.
    fn end(&self, layouts: &mut Layouts) -> (usize, usize) {
        let mut room = self.height;
        for item in (0..self.items.len()).rev() {
            let tall = self.tall(layouts, item);
            if tall >= room {
                return (item, tall - room);
            }
            room -= tall;
        }
        (0, 0)
    }

    fn up(&self, layouts: &mut Layouts, from: (usize, usize), lines: usize) -> (usize, usize) {
        let (mut item, mut line) = from;
        let mut left = lines;
        while left > line {
            left -= line;
            if item == 0 {
                return (0, 0);
            }
            item -= 1;
            line = self.tall(layouts, item);
        }
        (item, line - left)
    }

    fn down(&self, layouts: &mut Layouts, from: (usize, usize), lines: usize) -> (usize, usize) {
        let (mut item, mut line) = from;
        let mut left = lines;
        while item < self.items.len() {
            let tall = self.tall(layouts, item);
            if line + left < tall {
                return (item, line + left);
            }
            left = (line + left) - tall;
            line = 0;
            item += 1;
        }
        (item, 0)
    }

    fn reveal(&self, scroll: &mut Scroll, layouts: &mut Layouts) {
        let Some(selected) = scroll.selected.filter(|at| *at < self.items.len()) else { return };
        let start = scroll.top.unwrap_or_else(|| self.end(layouts));
        if (selected, 0) < start {
            scroll.left_at = if scroll.top.is_none() { self.items.len() } else { scroll.left_at };
            scroll.top = Some((selected, 0));
            return;
        }
        let bottom = self.down(layouts, start, self.height.saturating_sub(1));
        let tall = self.tall(layouts, selected);
        if (selected, tall.saturating_sub(1)) > bottom {
            let last = (selected, tall.saturating_sub(1));
            let top = self.up(layouts, last, self.height.saturating_sub(1));
            scroll.left_at = if scroll.top.is_none() { self.items.len() } else { scroll.left_at };
            scroll.top = Some(top.min((selected, 0)));
        }
    }
}
