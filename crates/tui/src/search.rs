//! Searching in a list: where the words are, which match is the current one, and where a line is highlighted.

use crate::line;
use crate::list::ListItems;

/// A match: the item, the line of its layout, and the number of the match within that line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    pub item: usize,
    pub line: usize,
    pub nth: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    wanted: String,
    hits: Vec<Hit>,
    current: usize,
}

impl Search {
    pub fn new(wanted: &str, items: &dyn ListItems, width: usize) -> Self {
        let wanted = wanted.trim().to_lowercase();
        let words: Vec<&str> = wanted.split(|c: char| !c.is_alphanumeric()).collect();
        let mut hits = Vec::new();
        for item in (0..items.len()).filter(|_| !wanted.is_empty()) {
            if !items.may_contain(item, &words) {
                continue;
            }
            for (at, line) in items.whole_layout(item, width).iter().enumerate() {
                let count = columns(&line.text(), &wanted).len();
                hits.extend((0..count).map(|nth| Hit { item, line: at, nth }));
            }
        }
        Self { wanted, hits, current: 0 }
    }

    pub fn of_items(wanted: &str, items: impl Iterator<Item = usize>) -> Self {
        let hits = items.map(|item| Hit { item, line: 0, nth: 0 }).collect();
        Self { wanted: wanted.trim().to_lowercase(), hits, current: 0 }
    }

    pub fn wanted(&self) -> &str {
        &self.wanted
    }

    pub fn hit(&self) -> Option<Hit> {
        self.hits.get(self.current).copied()
    }

    pub fn place(&self) -> (usize, usize) {
        ((self.current + 1).min(self.hits.len()), self.hits.len())
    }

    pub fn label(&self) -> String {
        match self.place() {
            (_, 0) => "no match".into(),
            (at, count) => format!("{at} of {count}"),
        }
    }

    pub fn start_from(&mut self, item: usize, line: usize) {
        let next = self.hits.iter().position(|hit| (hit.item, hit.line) >= (item, line));
        self.current = next.unwrap_or_default();
    }

    pub fn start_at_end(&mut self) {
        self.current = self.hits.len().saturating_sub(1);
    }

    pub fn step_from(&mut self, earlier: &Self, step: isize) {
        let count = self.hits.len().max(1);
        let Some(before) = earlier.hit() else { return };
        let found = self.hits.iter().position(|hit| *hit >= before);
        self.current = match (found, step < 0) {
            (None, false) => 0,
            (None, true) => count - 1,
            (Some(at), true) => (at + count - 1) % count,
            (Some(at), false) if self.hits.get(at) == Some(&before) => (at + 1) % count,
            (Some(at), false) => at,
        };
    }
}

/// The first column and the width of each match in a line. `wanted` must be in lower case.
pub fn columns(text: &str, wanted: &str) -> Vec<(usize, usize)> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut lower = String::with_capacity(text.len());
    // The column at which each byte of `lower` begins, and the end of the line.
    let mut starts = Vec::with_capacity(text.len() + 1);
    let mut column = 0;
    for (unit, wide) in line::units(text) {
        let before = lower.len();
        lower.extend(unit.chars().flat_map(char::to_lowercase));
        starts.extend(std::iter::repeat_n(column, lower.len() - before));
        column += wide;
    }
    starts.push(column);
    let column_of = |byte: usize| starts.get(byte).copied().unwrap_or(column);
    let found = lower.match_indices(wanted).map(|(at, _)| (column_of(at), column_of(at + wanted.len())));
    found.map(|(start, end)| (start, end.saturating_sub(start).max(1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_found_by_column_in_any_case() {
        assert_eq!(columns("Keys and keys", "keys"), [(0, 4), (9, 4)]);
        assert_eq!(columns("日本 KEY İx", "key"), [(5, 3)]);
        assert_eq!(columns("日本語", "本"), [(2, 2)]);
        assert_eq!(columns("anything", ""), []);
    }
}
