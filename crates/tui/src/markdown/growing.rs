//! The layout of a text that only grows at its end: final parts are laid out once. Final are finished blocks and, in an
//! unfinished block, finished list items and lines of code, because a message may be one long list. The rest is laid
//! out again whenever the text grows.

use super::{first_block_len, render};
use crate::line::Line;

#[derive(Debug, Default)]
pub struct Part {
    pub lines: Vec<Line>,
    /// Whether the lines continue the list or code above them, so that no empty line separates them.
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
}

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
fn item_kind(line: &str) -> Option<char> {
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
        let (lines, _) = render(&format!("{first}{code}"), width, None);
        self.done += length;
        self.inside =
            if is_closed { Inside::Nothing } else { Inside::Code { first: first.to_owned(), begun: true } };
        Some(Part { lines, continues: begun })
    }

    fn take(&mut self, rest: &str, length: usize, width: usize, inside: Inside) -> Part {
        let (continues, number) = self.continued();
        let (lines, next) = render(rest.get(..length).unwrap_or_default(), width, number);
        self.done += length;
        self.inside = if matches!(inside, Inside::List(_)) { Inside::List(next) } else { inside };
        Part { lines, continues }
    }

    fn continued(&self) -> (bool, Option<u64>) {
        match &self.inside {
            Inside::Nothing => (false, None),
            Inside::List(number) => (true, *number),
            Inside::Code { begun, .. } => (*begun, None),
        }
    }

    pub fn rest(&self, text: &str, width: usize) -> Part {
        let rest = text.get(self.done..).unwrap_or_default();
        let (continues, number) = self.continued();
        let lines = match &self.inside {
            Inside::Code { .. } if rest.is_empty() => Vec::new(),
            Inside::Code { first, .. } => render(&format!("{first}{rest}"), width, None).0,
            _ => render(rest, width, number).0,
        };
        Part { lines, continues }
    }
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
        ];
        for text in &texts {
            let whole: Vec<String> = crate::markdown::lines(text, 40).iter().map(Line::text).collect();
            for piece in [1, 3, 10, 1000] {
                assert_eq!(grown(text, piece), whole, "in pieces of {piece}: {text}");
            }
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
