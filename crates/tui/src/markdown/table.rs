//! Tables: columns are as wide as the first rows need, or narrowed to fit the screen. Later rows do not change the
//! columns, so that the rows of a table that is still being written keep their layout.

use crate::line::{self, Line};
use crate::theme::Tone;
use pulldown_cmark::{Alignment, Event, Parser, Tag, TagEnd};

/// How many rows below the header the columns are measured by.
pub const MEASURED_ROWS: usize = 100;

#[derive(Debug, Default)]
pub struct Table {
    pub align: Vec<Alignment>,
    pub rows: Vec<Vec<String>>,
}

/// Where the rows of a table at the top level of a text are.
#[derive(Debug, Default)]
pub struct TablePlace {
    /// Where the header begins.
    pub start: usize,
    /// Where each row below the header begins and ends; the end of a complete line is behind its line feed.
    pub rows: Vec<(usize, usize)>,
}

/// The first table at the top level of a text that has a row below its header.
pub fn find(text: &str) -> Option<TablePlace> {
    let mut place = TablePlace::default();
    let mut depth = 0;
    for (event, range) in Parser::new_ext(text, super::OPTIONS).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                match tag {
                    Tag::Table(_) if depth == 0 => place.start = range.start,
                    Tag::TableRow if depth == 1 => {
                        let end = text.get(range.end..).unwrap_or_default();
                        let line_end = end.find('\n').map_or(text.len(), |at| range.end + at + 1);
                        let end = if text.get(..range.end).is_some_and(|row| row.ends_with('\n')) {
                            range.end
                        } else {
                            line_end
                        };
                        place.rows.push((range.start, end));
                    }
                    _ => {}
                }
                depth += 1;
            }
            Event::End(end) => {
                depth -= 1;
                if matches!(end, TagEnd::Table) && depth == 0 && !place.rows.is_empty() {
                    return Some(place);
                }
            }
            _ => {}
        }
    }
    None
}

impl Table {
    /// The widths of the columns, if the whole table may have `most` columns of the screen.
    pub fn measure(&self, most: usize) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        self.widths(columns, most.saturating_sub(3 * columns.saturating_sub(1)))
    }

    /// The first row is the header, and is left out if `skip_header`.
    pub fn lines(&self, widths: &[usize], skip_header: bool) -> Vec<Line> {
        if widths.is_empty() {
            return Vec::new();
        }
        let mut out = Vec::new();
        for (n, row) in self.rows.iter().enumerate().skip(usize::from(skip_header)) {
            let tone = if n == 0 { Tone::Bold } else { Tone::Plain };
            let cells: Vec<Vec<Line>> = widths
                .iter()
                .enumerate()
                .map(|(at, wide)| line::wrap_text(tone, row.get(at).map_or("", String::as_str), *wide))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or_default();
            for part in 0..height {
                let mut whole = Line::default();
                for (at, (cell, wide)) in cells.iter().zip(widths).enumerate() {
                    if at > 0 {
                        whole.push(Tone::Dim, " │ ");
                    }
                    let text = cell.get(part).map(Line::text).unwrap_or_default();
                    let free = wide.saturating_sub(line::width(&text));
                    let before = match self.align.get(at) {
                        Some(Alignment::Right) => free,
                        Some(Alignment::Center) => free / 2,
                        _ => 0,
                    };
                    whole.push(tone, &format!("{}{text}{}", " ".repeat(before), " ".repeat(free - before)));
                }
                out.push(whole);
            }
            if n == 0 {
                let rule: Vec<String> = widths.iter().map(|wide| "─".repeat(*wide)).collect();
                out.push(Line::of(Tone::Dim, &rule.join("─┼─")));
            }
        }
        out
    }

    fn widths(&self, columns: usize, room: usize) -> Vec<usize> {
        let needs = |at: usize| {
            let measured = self.rows.iter().take(1 + MEASURED_ROWS);
            measured.filter_map(|row| row.get(at)).map(|cell| line::width(cell)).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..columns).map(|at| needs(at).max(1)).collect();
        let mut over = widths.iter().sum::<usize>().saturating_sub(room.max(columns));
        while over > 0 {
            let Some(widest) = widths.iter_mut().max() else { break };
            if *widest <= 1 {
                break;
            }
            let take = over.min((*widest / 8).max(1));
            *widest -= take;
            over -= take;
        }
        widths
    }
}
