//! A scrolling list that lays out only the items in view and caches their layouts. Neither the time per frame nor the
//! memory of the cache depends on the length of the list.

use crate::line::Line;
use crate::markdown::{GrowingText, Part};
use crate::paint::Canvas;
use crate::search::{self, Search};
use crate::theme::Tone;
use ratatui::layout::Rect;
use std::collections::HashMap;

/// If more lines are cached, the layouts that were not in the last frame are dropped.
const MOST_LINES: usize = 4_000;

pub type ListId = u64;

pub trait ListItems {
    fn len(&self) -> usize;

    /// A number that changes whenever the item looks different at the same width. With `None`, the item is laid out for
    /// every frame.
    fn version(&self, at: usize) -> Option<u64>;

    fn layout(&self, at: usize, width: usize) -> Vec<Line>;

    /// Whether the item may contain all these lower-case words. A cheap test before the layout is searched.
    fn may_contain(&self, _at: usize, _words: &[&str]) -> bool {
        true
    }

    /// All lines of an item, for a search.
    fn whole_layout(&self, at: usize, width: usize) -> Vec<Line> {
        let Some((text, head)) = self.grows(at) else { return self.layout(at, width) };
        let mut growing = CachedLayout::new(width);
        growing.grow(text, head, width);
        growing.lines
    }

    /// The Markdown of an item whose text only grows at the end, and the line above the text. `None` for other items.
    fn grows(&self, _at: usize) -> Option<(&str, Line)> {
        None
    }
}

struct CachedLayout {
    version: Option<u64>,
    width: usize,
    lines: Vec<Line>,
    /// For growing text: how much of it has its final layout, and in how many lines.
    settled: (GrowingText, usize),
    frame: u64,
}

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
        let cached = self.cached.entry((list_id, at)).or_insert_with(|| CachedLayout::new(width));
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
                cached.settled = (GrowingText::default(), 0);
            }
        }
        cached.width = width;
        cached.frame = frame;
        &cached.lines
    }
}

impl CachedLayout {
    fn new(width: usize) -> Self {
        Self { version: None, width, lines: Vec::new(), settled: (GrowingText::default(), 0), frame: 0 }
    }

    /// Lays out the new part of a growing text: only its last block can change.
    fn grow(&mut self, text: &str, head: Line, width: usize) {
        // Starts over if nothing is laid out yet, the width changed, or the text became shorter.
        if self.settled.1 == 0 || self.width != width || self.settled.0.done() > text.len() {
            self.lines = vec![Line::default(), Line::default()];
            self.settled = (GrowingText::default(), 2);
            self.version = None;
        }
        self.lines.truncate(self.settled.1);
        if let Some(line) = self.lines.get_mut(1) {
            *line = head;
        }
        let room = width.saturating_sub(3);
        while let Some(part) = self.settled.0.next(text, room) {
            self.add(part);
            self.settled.1 = self.lines.len();
        }
        let rest = self.settled.0.rest(text, room);
        self.add(rest);
    }

    fn add(&mut self, part: Part) {
        if self.lines.len() > 2 && !part.lines.is_empty() && !part.continues {
            self.lines.push(Line::default());
        }
        self.lines.extend(part.lines.into_iter().map(|line| line.indented(3)));
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scroll {
    /// The first visible item and its first visible line. With `None`, the view follows the end of the list.
    top: Option<(usize, usize)>,
    /// Lines to scroll at the next frame, when the heights of items are known.
    pending: isize,
    /// When the user scrolled away from the end: the number of items and, in `left_lines`, the lines of the last item.
    left_at: usize,
    left_lines: usize,
    pub selected: Option<usize>,
    reveal: bool,
    goal: Option<(usize, usize)>,
    search: Option<Search>,
    width: usize,
}

impl Scroll {
    pub fn top() -> Self {
        Self { top: Some((0, 0)), ..Self::default() }
    }

    /// Positive is down.
    pub fn by(&mut self, lines: isize) {
        self.pending = self.pending.saturating_add(lines);
    }

    pub fn go_top(&mut self) {
        self.top = Some((0, 0));
        self.pending = 0;
    }

    pub fn go_end(&mut self) {
        self.top = None;
        self.pending = 0;
    }

    /// Searches the list and brings a match into view. If the same text was searched before, goes to the next (`step`
    /// 1) or previous (`step` -1) match.
    pub fn find(&mut self, wanted: &str, items: &dyn ListItems, step: isize) {
        let search = Search::new(wanted, items, self.width);
        self.go_to_match(search, step);
    }

    /// Like `find`, but the matches are whole items, which may contain more text than the list shows.
    pub fn find_items(&mut self, wanted: &str, items: impl Iterator<Item = usize>, step: isize) {
        let search = Search::of_items(wanted, items);
        self.go_to_match(search, step);
        self.selected = self.found_item().or(self.selected);
    }

    fn go_to_match(&mut self, mut search: Search, step: isize) {
        match self.search.take().filter(|earlier| earlier.wanted() == search.wanted()) {
            Some(earlier) => search.step_from(&earlier, step),
            None => match self.top {
                Some((item, line)) => search.start_from(item, line),
                None => search.start_at_end(),
            },
        }
        self.goal = search.hit().map(|hit| (hit.item, hit.line));
        self.search = Some(search);
    }

    pub fn found_item(&self) -> Option<usize> {
        self.search.as_ref().and_then(Search::hit).map(|hit| hit.item)
    }

    pub fn end_search(&mut self) {
        self.search = None;
    }

    pub fn search_label(&self) -> Option<String> {
        self.search.as_ref().map(|search| format!("{}: {}", search.wanted(), search.label()))
    }

    pub fn select(&mut self, item: usize) {
        self.selected = Some(item);
        self.reveal = true;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedRow {
    pub y: u16,
    pub item: usize,
    pub button: Option<(u16, u16)>,
}

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

/// Returns which item is in which row.
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
    scroll.width = area.width.into();
    let view = Viewport { list_id, items, width: area.width.into(), height: area.height.into() };
    let (mut item, mut line) = view.settle(scroll, layouts);
    let mut y = area.top();
    while y < area.bottom() && item < items.len() {
        let lines = layouts.lines(list_id, items, item, view.width);
        let marked = scroll.selected == Some(item);
        for (at, shown) in lines.iter().enumerate().skip(line) {
            if y >= area.bottom() {
                break;
            }
            canvas.line(area.left(), y, area.width, shown);
            if let Some(search) = &scroll.search {
                highlight(canvas, Rect { y, height: 1, ..area }, shown, search, (item, at));
            }
            if marked {
                canvas.text(area.left(), y, 1, Tone::AccentBold, "▎");
            }
            placed.push(PlacedRow { y, item, button: button(shown, area.left(), area.width) });
            y += 1;
        }
        line = 0;
        item += 1;
    }
    if let Some(label) = view.new_below(scroll, layouts).filter(|_| area.height > 2) {
        let y = area.bottom() - 1;
        canvas.clear(Rect { y, height: 1, ..area });
        canvas.right(area.right().saturating_sub(1), y, 16, Tone::Accent, &label);
        placed.retain(|row: &PlacedRow| row.y < y);
    }
    placed
}

fn highlight(canvas: &mut Canvas<'_>, row: Rect, line: &Line, search: &Search, place: (usize, usize)) {
    for (nth, (column, wide)) in search::columns(&line.text(), search.wanted()).into_iter().enumerate() {
        let x = row.x.saturating_add(u16::try_from(column).unwrap_or(u16::MAX));
        let width = u16::try_from(wide).unwrap_or(u16::MAX).min(row.right().saturating_sub(x));
        let current =
            search.hit().is_some_and(|hit| (hit.item, hit.line, hit.nth) == (place.0, place.1, nth));
        let tone = if current { Tone::Match } else { Tone::Found };
        canvas.tone(Rect { x, width, ..row }, tone);
    }
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

    fn settle(&self, scroll: &mut Scroll, layouts: &mut Layouts) -> (usize, usize) {
        if std::mem::take(&mut scroll.reveal) {
            self.reveal(scroll, layouts);
        }
        if let Some(goal) = scroll.goal.take() {
            self.reveal_line(scroll, layouts, goal);
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
            self.leave_end(scroll, layouts);
        }
        scroll.top = Some(moved);
        moved
    }

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

    fn leave_end(&self, scroll: &mut Scroll, layouts: &mut Layouts) {
        scroll.left_at = self.items.len();
        scroll.left_lines = self.tall(layouts, self.items.len() - 1);
    }

    fn new_below(&self, scroll: &Scroll, layouts: &mut Layouts) -> Option<String> {
        if scroll.top.is_none() || scroll.left_at == 0 {
            return None;
        }
        match self.items.len().saturating_sub(scroll.left_at) {
            0 => {
                let grown = self.tall(layouts, self.items.len() - 1) > scroll.left_lines;
                grown.then(|| "↓ new text ".to_owned())
            }
            new => Some(format!("↓ {new} new ")),
        }
    }

    fn reveal_line(&self, scroll: &mut Scroll, layouts: &mut Layouts, line: (usize, usize)) {
        let start = scroll.top.unwrap_or_else(|| self.end(layouts));
        let bottom = self.down(layouts, start, self.height.saturating_sub(1));
        if line >= start && line <= bottom {
            return;
        }
        if scroll.top.is_none() {
            self.leave_end(scroll, layouts);
        }
        scroll.top = Some(self.up(layouts, line, self.height / 3));
    }

    fn reveal(&self, scroll: &mut Scroll, layouts: &mut Layouts) {
        let Some(selected) = scroll.selected.filter(|at| *at < self.items.len()) else { return };
        let start = scroll.top.unwrap_or_else(|| self.end(layouts));
        let bottom = self.down(layouts, start, self.height.saturating_sub(1));
        if (selected, 0) < start {
            if scroll.top.is_none() {
                self.leave_end(scroll, layouts);
            }
            scroll.top = Some((selected, 0));
            return;
        }
        let tall = self.tall(layouts, selected);
        if (selected, tall.saturating_sub(1)) > bottom {
            let last = (selected, tall.saturating_sub(1));
            let top = self.up(layouts, last, self.height.saturating_sub(1));
            if scroll.top.is_none() {
                self.leave_end(scroll, layouts);
            }
            scroll.top = Some(top.min((selected, 0)));
        }
    }
}
