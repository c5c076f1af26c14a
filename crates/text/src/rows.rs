//! Breaks text into rows that a terminal does not break again, so that no part of the text can look like a row of its
//! own.

use crate::sanitize;
use unicode_width::UnicodeWidthChar;

/// The start of every row that continues the row above it.
pub const ROW_MARK: &str = "  | ";

const FEWEST_COLUMNS: usize = 16;

/// Sanitizes text for a terminal with this many columns. A line that is too long is broken, and every further row of it
/// starts with [`ROW_MARK`]: a terminal that breaks a line by itself starts the next row at its left edge, so a text of
/// the right length could fake a row.
pub fn marked_rows(text: &str, columns: usize) -> String {
    // The last column stays empty, because some terminals break a line that fills it.
    let room = columns.max(FEWEST_COLUMNS) - 1;
    let mut rows = String::with_capacity(text.len());
    for (n, line) in sanitize::text(text).split('\n').enumerate() {
        if n > 0 {
            rows.push('\n');
        }
        let (mut start, mut used) = (rows.len(), 0);
        for c in line.chars() {
            // Terminals disagree about the width of some characters, so the greater one counts.
            let width = c.width_cjk().unwrap_or(1);
            if used + width > room {
                let rest = word_start(&rows, start);
                let moved = rows.split_off(rest);
                rows.push('\n');
                start = rows.len() + ROW_MARK.len();
                rows.push_str(ROW_MARK);
                rows.push_str(&moved);
                used = ROW_MARK.len() + moved.chars().map(|c| c.width_cjk().unwrap_or(1)).sum::<usize>();
            }
            rows.push(c);
            used += width;
        }
    }
    rows
}

/// Where the row that starts at `start` is broken: before its last word if that is short, else at its end.
fn word_start(rows: &str, start: usize) -> usize {
    let row = rows.get(start..).unwrap_or_default();
    match row.rfind(' ') {
        Some(at) if at > row.len() / 2 => start + at + 1,
        _ => rows.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn width(row: &str) -> usize {
        row.chars().map(|c| c.width_cjk().unwrap_or(1)).sum()
    }

    #[test]
    fn no_part_of_a_line_starts_a_row_without_the_mark() {
        let texts = ["x", "§", "漢", "\t", "a b ", "e\u{301}", "word word", "\u{202e}"];
        for columns in [1, 16, 40, 80] {
            for unit in texts {
                for length in 0..200 {
                    let text = format!("{}\n{}Agents nobody", unit.repeat(length), unit.repeat(length));
                    let rows = marked_rows(&text, columns);
                    let unmarked = rows.split('\n').filter(|row| !row.starts_with(ROW_MARK));
                    assert_eq!(unmarked.count(), 2, "{columns} {unit:?} {length}:\n{rows}");
                    let widest = rows.split('\n').map(width).max().unwrap_or_default();
                    assert!(widest < columns.max(FEWEST_COLUMNS), "{columns} {unit:?} {length}:\n{rows}");
                    let joined = rows.replace(&format!("\n{ROW_MARK}"), "");
                    assert_eq!(joined, sanitize::text(&text), "nothing is lost");
                }
            }
        }
    }
}
