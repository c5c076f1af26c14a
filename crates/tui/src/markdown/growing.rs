//! The layout of a text that only grows at its end: final parts are laid out once. Final are finished blocks and, in an
//! unfinished block, finished list items, lines of code, rows of a table and the beginning of a very long paragraph,
//! because a message may be one long block. The rest is laid out again whenever the text grows.

use super::{Continued, Rendered, first_block_len, paragraph, render, table};
use crate::line::Line;
use crate::theme::Tone;

#[derive(Debug, Default)]
pub struct Part {
    pub lines: Vec<Line>,
    /// Whether the lines continue the list, code, table or paragraph above them, so that no empty line separates them.
    pub continues: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Nothing,
    /// A list at the top level, with the number of its next item. `None` for bullets.
    List(Option<u64>),
    Code {
        first: String,
        begun: bool,
    },
    /// A table at the top level, whose first rows are laid out.
    Table {
        header: String,
        columns: Vec<usize>,
    },
    /// A very long paragraph, with the words of its last line, which is laid out again with what follows.
    Paragraph {
        words: Vec<(Tone, Box<str>)>,
        begun: bool,
    },
}

/// The maximum number of rows of a table that are laid out at once.
const ROWS_AT_ONCE: usize = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrowingText {
    /// The number of bytes that have their final layout.
    done: usize,
    inside: Inside,
}

const FENCES: [&str; 2] = ["```", "~~~"];

fn fence_of(line: &str) -> Option<&'static str> {
    FENCES.into_iter().find(|mark| line.starts_with(mark))
}

/// The kind of list item that a line begins at the top level: its bullet, or the character after its number.
pub(super) fn item_kind(line: &str) -> Option<char> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let mut rest = line.get(digits..)?.chars();
    let mark = rest.next()?;
    let is_mark = if digits == 0 { matches!(mark, '-' | '*' | '+') } else { matches!(mark, '.' | ')') };
    let text = rest.as_str();
    // Marks alone, such as `- - -`, are a horizontal rule.
    let is_rule = text.trim().chars().all(|c| c == mark || c == ' ');
    (is_mark && digits <= 9 && text.starts_with(' ') && !is_rule).then_some(mark)
}

impl GrowingText {
    pub fn done(&self) -> usize {
        self.done
    }

    pub fn next(&mut self, text: &str, width: usize) -> Option<Part> {
        let rest = text.get(self.done..)?;
        if let Inside::Code { first, begun } = &self.inside {
            let (first, begun) = (first.clone(), *begun);
            return self.next_code(&first, begun, rest, width);
        }
        if let Inside::Table { header, columns } = &self.inside {
            match next_rows(header, rest) {
                Rows::Some(length) => {
                    let lines = rows(header, columns, rest.get(..length).unwrap_or_default(), width);
                    self.done += length;
                    return Some(Part { lines, continues: true });
                }
                Rows::Unknown => return None,
                Rows::None => self.inside = Inside::Nothing,
            }
        }
        if let Some(length) = paragraph::division(rest) {
            return Some(self.take_words(rest, length, width));
        }
        if let Some(length) = first_block_len(rest) {
            return Some(self.take(rest, length, width, Inside::Nothing));
        }
        if let Some(at) = open_code(rest) {
            let first = rest.get(at..).and_then(|code| code.split_inclusive('\n').next()).unwrap_or_default();
            let inside = Inside::Code { first: first.to_owned(), begun: false };
            let part = self.take(rest, at, width, inside);
            self.done += first.len();
            return Some(part);
        }
        if let Some((length, header)) = measured_table(rest) {
            return Some(self.take(rest, length, width, Inside::Table { header, columns: Vec::new() }));
        }
        let length = finished_items(rest, matches!(self.inside, Inside::List(_)))?;
        let part = self.take(rest, length, width, Inside::List(None));
        Some(part)
    }

    fn next_code(&mut self, first: &str, begun: bool, rest: &str, width: usize) -> Option<Part> {
        let mark = fence_of(first).unwrap_or_default();
        let mut length = 0;
        let mut is_closed = false;
        for line in rest.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            length += line.len();
            if line.trim_start().starts_with(mark) {
                is_closed = true;
                break;
            }
        }
        if length == 0 {
            return None;
        }
        let code = rest.get(..length).unwrap_or_default();
        let lines = render(&format!("{first}{code}"), width, &Continued::default()).lines;
        self.done += length;
        self.inside =
            if is_closed { Inside::Nothing } else { Inside::Code { first: first.to_owned(), begun: true } };
        Some(Part { lines, continues: begun })
    }

    fn take(&mut self, rest: &str, length: usize, width: usize, inside: Inside) -> Part {
        let (continues, Rendered { lines, number, columns }) =
            self.laid_out(rest.get(..length).unwrap_or_default(), width);
        self.done += length;
        self.inside = match inside {
            Inside::List(_) => Inside::List(number),
            Inside::Table { header, .. } => Inside::Table { header, columns },
            inside => inside,
        };
        Part { lines, continues }
    }

    /// Takes the beginning of a very long paragraph. The last line may not be full, so it is kept for the next part.
    fn take_words(&mut self, rest: &str, length: usize, width: usize) -> Part {
        let text = rest.get(..length).unwrap_or_default();
        let (continues, Rendered { mut lines, .. }) = self.laid_out(text, width);
        let mut words =
            if text.ends_with('\n') { Vec::new() } else { lines.pop().unwrap_or_default().pieces };
        if text.ends_with(' ') && !words.is_empty() {
            words.push((Tone::Plain, " ".into()));
        }
        self.done += length;
        self.inside = Inside::Paragraph { words, begun: continues || !lines.is_empty() };
        Part { lines, continues }
    }

    /// Lays out a text that continues what is laid out, and says whether it continues the same block.
    fn laid_out(&self, text: &str, width: usize) -> (bool, Rendered) {
        let (continues, continued) = match &self.inside {
            Inside::Nothing | Inside::Table { .. } => (false, Continued::default()),
            Inside::List(number) => (true, Continued { number: *number, ..Continued::default() }),
            Inside::Code { begun, .. } => (*begun, Continued::default()),
            Inside::Paragraph { words, begun } => (*begun, Continued { words, ..Continued::default() }),
        };
        (continues, render(text, width, &continued))
    }

    pub fn rest(&self, text: &str, width: usize) -> Part {
        let rest = text.get(self.done..).unwrap_or_default();
        match &self.inside {
            Inside::Code { begun, .. } if rest.is_empty() => Part { lines: Vec::new(), continues: *begun },
            Inside::Code { first, begun } => {
                let lines = render(&format!("{first}{rest}"), width, &Continued::default()).lines;
                Part { lines, continues: *begun }
            }
            Inside::Table { header, columns } if is_row(header, rest) => {
                Part { lines: rows(header, columns, rest, width), continues: true }
            }
            _ => {
                let (continues, Rendered { lines, .. }) = self.laid_out(rest, width);
                Part { lines, continues }
            }
        }
    }
}

enum Rows {
    /// The length of the rows that can be laid out.
    Some(usize),
    /// The first line is not complete.
    Unknown,
    /// The table has ended.
    None,
}

/// The rows at the beginning of a text that continues the table with this header.
fn next_rows(header: &str, text: &str) -> Rows {
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).take(ROWS_AT_ONCE);
    let length: usize = lines.map(str::len).sum();
    if length == 0 {
        return Rows::Unknown;
    }
    let text = text.get(..length).unwrap_or_default();
    let place = table::find(&format!("{header}{text}")).filter(|place| place.start == 0);
    let end = place.and_then(|place| place.rows.last().map(|(_, end)| end.saturating_sub(header.len())));
    end.filter(|end| *end > 0).map_or(Rows::None, Rows::Some)
}

/// Whether a line that is not complete is a row of the table with this header.
fn is_row(header: &str, line: &str) -> bool {
    !line.trim().is_empty() && table::find(&format!("{header}{line}")).is_some_and(|place| place.start == 0)
}

fn rows(header: &str, columns: &[usize], text: &str, width: usize) -> Vec<Line> {
    render(&format!("{header}{text}"), width, &Continued { columns, ..Continued::default() }).lines
}

/// The length of a text up to the row by which the columns of its first table are measured, and the table's header.
/// `None` if the table has no further rows yet.
fn measured_table(text: &str) -> Option<(usize, String)> {
    let may_be_rows = text.lines().filter(|line| line.contains('|')).count();
    if may_be_rows <= table::MEASURED_ROWS {
        return None;
    }
    let place = table::find(text)?;
    let (first, _) = place.rows.first()?;
    let (_, end) = place.rows.get(table::MEASURED_ROWS - 1)?;
    let header = text.get(place.start..*first)?;
    text.get(..*end).filter(|text| text.ends_with('\n')).map(|text| (text.len(), header.to_owned()))
}

/// Where the code block begins that is open at the end of the text, if its first line is complete and at the top level.
fn open_code(text: &str) -> Option<usize> {
    let mut at = 0;
    let mut open: Option<(usize, &str)> = None;
    for line in text.split_inclusive('\n') {
        let mark = fence_of(line.trim_start());
        match open {
            Some((_, start)) if mark == Some(start) => open = None,
            Some(_) => {}
            None => {
                if let Some(mark) = mark {
                    let is_top = line.starts_with(mark) && line.ends_with('\n');
                    open = Some((if is_top { at } else { usize::MAX }, mark));
                }
            }
        }
        at += line.len();
    }
    open.map(|(at, _)| at).filter(|at| *at != usize::MAX)
}

/// The length of the finished items at the beginning of a list. They end where the last item begins that directly
/// follows an item of the same list. `is_list`: whether `text` continues a list whose first items are already laid out.
fn finished_items(text: &str, is_list: bool) -> Option<usize> {
    let mut at = 0;
    let mut before: Option<char> = None;
    let mut fence: Option<&str> = None;
    let mut last = None;
    for line in text.split_inclusive('\n') {
        let mark = fence_of(line.trim_start());
        if fence.is_some() || mark.is_some() {
            fence = match fence {
                Some(open) if mark == Some(open) => None,
                Some(open) => Some(open),
                None => mark,
            };
        } else if let Some(kind) = item_kind(line) {
            if at > 0 && before == Some(kind) && line.ends_with('\n') {
                last = Some(at);
            }
            before = Some(kind);
        } else if line.chars().next().is_some_and(|first| !first.is_whitespace()) {
            // Text at the margin may end the list.
            before = None;
        }
        at += line.len();
    }
    last.filter(|_| is_list || fence.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use paragraph::MAX_PARAGRAPH;
    use table::MEASURED_ROWS;

    fn grown(text: &str, piece: usize) -> Vec<String> {
        let mut state = GrowingText::default();
        let mut lines: Vec<Line> = Vec::new();
        let add = |lines: &mut Vec<Line>, part: Part| {
            if !lines.is_empty() && !part.continues && !part.lines.is_empty() {
                lines.push(Line::default());
            }
            lines.extend(part.lines);
        };
        let mut end = 0;
        while end < text.len() {
            end = (end + piece).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            while let Some(part) = state.next(&text[..end], 40) {
                add(&mut lines, part);
            }
        }
        let rest = state.rest(text, 40);
        add(&mut lines, rest);
        lines.iter().map(Line::text).collect()
    }

    #[test]
    fn a_text_that_grew_in_pieces_looks_like_the_whole_text() {
        let items =
            |most: usize, item: &dyn Fn(usize) -> String| (1..most).map(item).collect::<Vec<_>>().concat();
        let numbered = items(30, &|n| format!("{n}. item {n} with some words that wrap around\n"));
        let row = |n: usize| format!("| row {n} | {} |\n", "wide ".repeat(n / 20));
        let table = format!("| a | b |\n|---|:-:|\n{}", items(3 * MEASURED_ROWS, &row));
        let long = items(900, &|n| match n % 30 {
            7 => format!("**bold {n} "),
            9 => format!("{n}** and `code {n}` "),
            11 => format!("a [link {n}](https://example.com/{n})\n"),
            _ => format!("word {n} "),
        });
        let long = long.trim_end().to_owned();
        let lazy = items(9, &|n| format!("1. same number {n}\n   - nested\n   more\n"));
        let texts = [
            numbered.clone(),
            lazy,
            format!("Intro:\n{numbered}\nAfter it.\n\n- a\n- b\n\n- c\n\nEnd."),
            "- a\n- b\n* c\n* d\n* e\n\n1. x\n\n2. y\n3) z\n4) w\n".into(),
            "Text\n```rust\nlet a = 1;\n\n// - b\nlet c = 2;\n```\nmore\n\n```\nopen\n\nstill\n".into(),
            "- a\n- b\n- - -\n- c\n- d\n\n---\n\n| a | b |\n|---|---|\n| 1 | 2 |\n".into(),
            "- a\n  ```\n  - no item\n  ```\n- b\nlazy text\n- c\n- d\n# Head\n- e\n- f\n".into(),
            "> quote\n> more\n\n- x\n- y\n\n    code\n- z\n- w\n".into(),
            format!("Intro\n\n{table}\nAfter the table.\n\n{table}- a list\n- after it\n"),
            format!("{table}one cell\n| `a|b` | **bold** |\n> quote\n"),
            format!("- item\n\n{table}"),
            long.clone(),
            format!("# Head\n{long}\n\n{long}\n- item\n"),
            format!("- {long}\n- {long}\n"),
            format!("> {long}\n\n{long}"),
            "word".repeat(3 * MAX_PARAGRAPH),
        ];
        for text in &texts {
            let whole: Vec<String> = crate::markdown::lines(text, 40).iter().map(Line::text).collect();
            // Long texts would need minutes in short pieces.
            let pieces: &[usize] = if text.len() < 2_000 { &[1, 3, 10, 1000] } else { &[301, 1000] };
            for piece in pieces.iter().copied() {
                assert_eq!(grown(text, piece), whole, "in pieces of {piece}: {text}");
            }
        }
    }

    #[test]
    fn the_rest_of_a_long_table_or_paragraph_is_short() {
        let table = format!("| a | b |\n|---|---|\n{}", "| one | two |\n".repeat(10_000));
        let lines = "A line of a long paragraph.\n".repeat(10_000);
        for (text, most) in [(table, 2 * "| one | two |\n".len()), (lines, 2 * MAX_PARAGRAPH)] {
            let mut state = GrowingText::default();
            let mut rests = Vec::new();
            for end in (0..=text.len()).step_by(1000) {
                while state.next(&text[..end], 40).is_some() {}
                rests.push(end - state.done());
            }
            // Until the columns are measured, a table is laid out as a whole.
            rests.drain(..rests.len() / 2);
            assert!(rests.iter().all(|rest| *rest <= most), "{}: {rests:?}", &text[..20]);
        }
    }

    #[test]
    fn the_rest_of_a_long_list_or_code_block_is_short() {
        for line in ["- item\n", "7. item\n", "let x = 1;\n"] {
            let fence = if line.starts_with("let") { "```rust\n" } else { "" };
            let text = format!("{fence}{}", line.repeat(1000));
            let mut state = GrowingText::default();
            while state.next(&text, 40).is_some() {}
            assert!(text.len() - state.done() <= 2 * line.len(), "{line}: {}", state.done());
        }
    }
}
