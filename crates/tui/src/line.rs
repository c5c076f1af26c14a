//! Styled lines of text, and fitting text to a width.
//!
//! Widths are counted in terminal cells per unit that is drawn as one (see `units`), because the width of a text can be
//! smaller than the sum of the widths of its characters.

use crate::theme::Tone;
use althing_text::sanitize;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The pieces from left to right. The strings are boxed to save memory, because a long transcript has many of them.
    pub pieces: Vec<(Tone, Box<str>)>,
}

impl Line {
    pub fn of(tone: Tone, text: &str) -> Self {
        let mut line = Self::default();
        line.push(tone, text);
        line
    }

    /// Appends sanitized text. Extends the last piece if the tone is the same.
    pub fn push(&mut self, tone: Tone, text: &str) {
        if text.is_empty() {
            return;
        }
        let text = sanitize::line(text);
        match self.pieces.last_mut() {
            Some((last, before)) if *last == tone => {
                let mut joined = String::with_capacity(before.len() + text.len());
                joined.push_str(before);
                joined.push_str(&text);
                *before = joined.into_boxed_str();
            }
            _ => self.pieces.push((tone, text.into())),
        }
    }

    pub fn with(mut self, tone: Tone, text: &str) -> Self {
        self.push(tone, text);
        self
    }

    pub fn indented(self, columns: usize) -> Self {
        let mut line = Self::of(Tone::Plain, &" ".repeat(columns));
        for (tone, text) in self.pieces {
            line.push(tone, &text);
        }
        line
    }

    pub fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| cells(text)).sum()
    }

    pub fn text(&self) -> String {
        self.pieces.iter().map(|(_, text)| &**text).collect()
    }
}

/// The units of a sanitized text that are drawn as one, each with its width: grapheme clusters or, for a cluster wider
/// than two cells, its characters.
pub(crate) fn units(text: &str) -> impl Iterator<Item = (&str, usize)> {
    fn parts(cluster: &str) -> impl Iterator<Item = &str> {
        let is_wide = cluster.width() > 2;
        cluster.split_inclusive(move |_: char| is_wide)
    }
    text.graphemes(true).flat_map(parts).map(|unit| (unit, unit.width()))
}

pub(crate) fn cells(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { units(text).map(|(_, wide)| wide).sum() }
}

pub fn width(text: &str) -> usize {
    cells(&sanitize::line(text))
}

pub fn cut(text: &str, most: usize) -> String {
    let text = sanitize::line(text);
    if cells(&text) <= most {
        return text.into_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for (letter, wide) in units(&text) {
        if used + wide + 1 > most {
            break;
        }
        out.push_str(letter);
        used += wide;
    }
    if most > 0 {
        out.push('…');
    }
    out
}

pub fn pad(text: &str, columns: usize) -> String {
    let mut out = cut(text, columns);
    let used = cells(&out);
    out.extend(std::iter::repeat_n(' ', columns.saturating_sub(used)));
    out
}

pub fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

/// Wraps styled text into lines of at most `most` columns, at spaces if possible.
pub fn wrap(pieces: &[(Tone, &str)], most: usize) -> Vec<Line> {
    let mut wrapper = Wrapper { most: most.max(1), ..Wrapper::default() };
    for (tone, text) in pieces {
        wrapper.add(*tone, &sanitize::text(text));
    }
    wrapper.finish()
}

/// Wraps plain text, keeping its line breaks and indentation.
pub fn wrap_text(tone: Tone, text: &str, most: usize) -> Vec<Line> {
    let text = sanitize::text(text);
    let mut out = Vec::new();
    for line in text.lines() {
        out.extend(wrap(&[(tone, line)], most));
    }
    out
}

/// Wraps text that a person has to judge. Every row that continues a line starts with `mark`, so that no part of a line
/// looks like a line of its own. Spaces stay; only without a mark, one space at the end of a full row is dropped.
pub fn wrap_whole(tone: Tone, text: &str, most: usize, mark: &str) -> Vec<Line> {
    let may_drop = mark.is_empty();
    // Without room for the mark and a wide letter, there is no mark.
    let mark = if most >= cells(mark) + 2 { mark } else { "" };
    let mut out = Vec::new();
    for line in sanitize::text(text).lines() {
        let (mut row, mut start) = (String::new(), "");
        let (mut used, mut is_continued) = (0, false);
        for (unit, wide) in units(line) {
            if used + wide > most && !row.is_empty() {
                let drops = may_drop && unit == " " && !row.ends_with(' ');
                let room = most.saturating_sub(cells(mark) + wide);
                let rest = if drops { String::new() } else { row.split_off(last_word(&row, room)) };
                out.push(Line::of(tone, start).with(tone, &row));
                (row, start, is_continued) = (rest, mark, true);
                used = cells(start) + cells(&row);
                if drops {
                    continue;
                }
            }
            row.push_str(unit);
            used += wide;
        }
        if !row.is_empty() || !is_continued {
            out.push(Line::of(tone, start).with(tone, &row));
        }
    }
    out
}

/// Where the last word of a row begins, if it has at most `room` columns; else the end of the row.
fn last_word(row: &str, room: usize) -> usize {
    let start = row.rfind(' ').map_or(row.len(), |space| space + 1);
    if cells(row.get(start..).unwrap_or_default()) <= room { start } else { row.len() }
}

#[derive(Default)]
struct Wrapper {
    most: usize,
    done: Vec<Line>,
    line: Line,
    used: usize,
    word: Vec<(Tone, String)>,
    word_width: usize,
    space: Option<(Tone, usize)>,
}

impl Wrapper {
    fn add(&mut self, tone: Tone, text: &str) {
        for part in text.split_inclusive(' ') {
            let (word, has_space) = part.strip_suffix(' ').map_or((part, false), |word| (word, true));
            for (n, segment) in word.split('\n').enumerate() {
                if n > 0 {
                    self.end_word();
                    self.break_line();
                }
                self.grow(tone, segment);
            }
            if has_space {
                self.end_word();
                let before = self.space.map_or(0, |(_, count)| count);
                self.space = Some((tone, before + 1));
            }
        }
    }

    fn grow(&mut self, tone: Tone, segment: &str) {
        if segment.is_empty() {
            return;
        }
        match self.word.last_mut() {
            Some((last, text)) if *last == tone => text.push_str(segment),
            _ => self.word.push((tone, segment.to_owned())),
        }
        self.word_width += cells(segment);
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let (space_tone, spaces) = self.space.take().unwrap_or((Tone::Plain, 0));
        let fresh = self.used == 0 && self.done.is_empty();
        if self.used > 0 && self.used + spaces + self.word_width > self.most {
            self.break_line();
        } else if self.used > 0 || fresh {
            // Keeps the indentation of the first line. After a break, leading spaces are dropped.
            let spaces = spaces.min(self.most.saturating_sub(1));
            self.line.push(space_tone, &" ".repeat(spaces));
            self.used += spaces;
        }
        let word = std::mem::take(&mut self.word);
        self.word_width = 0;
        for (tone, text) in word {
            let wide = cells(&text);
            if self.used + wide <= self.most {
                self.line.push(tone, &text);
                self.used += wide;
            } else {
                self.split(tone, &text);
            }
        }
    }

    fn split(&mut self, tone: Tone, text: &str) {
        let mut part = String::new();
        for (letter, wide) in units(text) {
            if self.used + wide > self.most && self.used > 0 {
                self.line.push(tone, &std::mem::take(&mut part));
                self.break_line();
            }
            part.push_str(letter);
            self.used += wide;
        }
        self.line.push(tone, &part);
    }

    fn break_line(&mut self) {
        self.done.push(std::mem::take(&mut self.line));
        self.used = 0;
        self.space = None;
    }

    fn finish(mut self) -> Vec<Line> {
        self.end_word();
        if !self.line.pieces.is_empty() || self.done.is_empty() {
            self.done.push(self.line);
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: &[Line]) -> Vec<String> {
        lines.iter().map(Line::text).collect()
    }

    #[test]
    fn text_breaks_at_spaces_and_only_long_words_break_inside() {
        assert_eq!(texts(&wrap_text(Tone::Plain, "one two three", 7)), ["one two", "three"]);
        assert_eq!(texts(&wrap_text(Tone::Plain, "abcdefghij", 4)), ["abcd", "efgh", "ij"]);
        assert_eq!(texts(&wrap_text(Tone::Plain, "a\n\nb", 4)), ["a", "", "b"]);
        assert_eq!(texts(&wrap_text(Tone::Plain, "  indented", 20)), ["  indented"]);
    }

    #[test]
    fn wide_letters_count_twice_and_are_never_halved() {
        assert_eq!(texts(&wrap_text(Tone::Plain, "日本語日本語", 5)), ["日本", "語日", "本語"]);
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(pad("日本", 6), "日本  ");
    }

    #[test]
    fn every_letter_of_a_wrapped_line_is_drawn() {
        // Texts whose width is smaller than the sum of their parts, and clusters that are wider than a line.
        let texts = [
            "لا".repeat(60),
            format!("{}r{}m", "\u{600}".repeat(50), "\u{600}".repeat(50)),
            "क्".repeat(70),
            "日本語 ".repeat(30),
            "🇮🇸👩‍👩‍👧".repeat(20),
            "e\u{301}\u{301}\u{301}\u{301}".repeat(40),
            "⸻ a".repeat(30),
        ];
        for text in &texts {
            for (most, mark) in
                (4..60_u16).flat_map(|most| [None, Some(""), Some("↳ ")].map(|mark| (most, mark)))
            {
                let letters: String = sanitize::text(text).chars().filter(|c| *c != ' ').collect();
                let mut drawn = String::new();
                let lines = match mark {
                    None => wrap_text(Tone::Plain, text, most.into()),
                    Some(mark) => wrap_whole(Tone::Plain, text, most.into(), mark),
                };
                for line in lines {
                    assert!(line.width() <= most.into(), "{:?} at {most}", line.text());
                    let area = ratatui::layout::Rect::new(0, 0, most, 1);
                    let mut buffer = ratatui::buffer::Buffer::empty(area);
                    let mut canvas =
                        crate::paint::Canvas::new(&mut buffer, crate::theme::Theme::default(), false);
                    canvas.line(0, 0, most, &line);
                    drawn.extend(buffer.content.iter().map(ratatui::buffer::Cell::symbol));
                }
                drawn.retain(|c| !matches!(c, ' ' | '↳'));
                // A mark whose cluster had to be taken apart may be missing, but no letter.
                let visible = |c: &char| unicode_width::UnicodeWidthChar::width(*c) != Some(0);
                let (drawn, letters): (String, String) =
                    (drawn.chars().filter(visible).collect(), letters.chars().filter(visible).collect());
                assert_eq!(drawn, letters, "at {most}");
            }
        }
    }

    #[test]
    fn a_text_to_judge_keeps_its_spaces_and_marks_every_row_that_continues_a_line() {
        let wrapped = |text: &str, most| texts(&wrap_whole(Tone::Plain, text, most, "↳ "));
        assert_eq!(wrapped("one two three\n  four", 9), ["one two ", "↳ three", "  four"]);
        assert_eq!(wrapped("abcdefghij", 5), ["abcde", "↳ fgh", "↳ ij"]);
        let unmarked = |text: &str, most| texts(&wrap_whole(Tone::Plain, text, most, ""));
        assert_eq!(unmarked("one two   three ", 7), ["one two", "  three"]);
        assert_eq!(unmarked("one two ", 7), ["one two"]);
        for spaces in 0..40 {
            for most in 1..30 {
                let text = format!("ls{}rm 日本 -rf", " ".repeat(spaces));
                let rows = wrapped(&text, most);
                let mark = if most > 3 { "↳ " } else { "" };
                let strip = |(n, row): (usize, &String)| {
                    row.strip_prefix(if n > 0 { mark } else { "" }).map(str::to_owned)
                };
                let joined: Option<String> = rows.iter().enumerate().map(strip).collect();
                assert_eq!(joined, Some(text), "{most}: {rows:?}");
            }
        }
    }

    #[test]
    fn a_word_of_two_tones_stays_together() {
        let lines = wrap(&[(Tone::Plain, "see "), (Tone::Bold, "bold"), (Tone::Plain, ", then")], 6);
        assert_eq!(texts(&lines), ["see", "bold,", "then"]);
    }
}
