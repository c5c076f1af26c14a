//! Tables: columns are as wide as needed, or narrowed to fit the screen.

use crate::line::{self, Line};
use crate::theme::Tone;
use pulldown_cmark::Alignment;

#[derive(Debug, Default)]
pub struct Table {
    pub align: Vec<Alignment>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The first row is the header.
    pub fn lines(&self, most: usize) -> Vec<Line> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        if columns == 0 {
            return Vec::new();
        }
        let widths = self.widths(columns, most.saturating_sub(3 * columns.saturating_sub(1)));
        let mut out = Vec::new();
        for (n, row) in self.rows.iter().enumerate() {
            let tone = if n == 0 { Tone::Bold } else { Tone::Plain };
            let cells: Vec<Vec<Line>> = widths
                .iter()
                .enumerate()
                .map(|(at, wide)| line::wrap_text(tone, row.get(at).map_or("", String::as_str), *wide))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or_default();
            for part in 0..height {
                let mut whole = Line::default();
                for (at, (cell, wide)) in cells.iter().zip(&widths).enumerate() {
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
            self.rows.iter().filter_map(|row| row.get(at)).map(|cell| line::width(cell)).max().unwrap_or(0)
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
