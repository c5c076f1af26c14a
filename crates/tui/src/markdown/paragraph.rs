//! Where a very long paragraph is divided while it is still being written, so that it is not laid out as a whole again
//! and again. The parts look like the whole, unless a mark such as `**` has its other half thousands of letters later.

use super::growing::item_kind;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use std::ops::Range;

/// A paragraph that is longer, in bytes, is divided.
pub const MAX_PARAGRAPH: usize = 8 * 1024;

/// Where the first part of a text ends that begins with a very long paragraph. Depends on the first [`MAX_PARAGRAPH`]
/// bytes alone, so the place stays the same however the text grows.
pub fn division(text: &str) -> Option<usize> {
    if text.len() <= MAX_PARAGRAPH {
        return None;
    }
    let window = text.get(..text.floor_char_boundary(MAX_PARAGRAPH))?;
    if window.starts_with(char::is_whitespace) || !window.lines().all(is_text) {
        return None;
    }
    let marked = marked_ranges(window);
    let is_marked = |at: usize| marked.iter().any(|range| range.contains(&at));
    // What follows must not look like the beginning of another block.
    let begins_text = |at: usize| window.get(at..).is_some_and(|rest| rest.starts_with(char::is_alphabetic));
    let (from, to) = (window.len() / 4, window.len() * 3 / 4);
    let after_space = |(at, c): (usize, char)| {
        let next = at + c.len_utf8();
        (matches!(c, ' ' | '\n') && begins_text(next) && !is_marked(next)).then_some(next)
    };
    let places = || window.char_indices().rev().filter(move |(at, _)| (from..to).contains(at));
    let anywhere = || places().map(|(at, _)| at).find(|at| begins_text(*at) && !is_marked(*at));
    places().find_map(after_space).or_else(anywhere)
}

/// Whether a line of a paragraph continues it, and cannot be the beginning of another block.
fn is_text(line: &str) -> bool {
    let text = line.trim_start();
    let is_rule = text.trim_end().chars().all(|c| matches!(c, '-' | '=' | '*' | '_' | ' ' | '+'));
    let begins_block = ["#", ">", "|", "<", "```", "~~~"].iter().any(|mark| text.starts_with(mark));
    !is_rule && !begins_block && item_kind(text).is_none()
}

/// The ranges of emphasis, links, code and the like, outermost only.
fn marked_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut depth = 0;
    for (event, range) in Parser::new_ext(text, super::OPTIONS).into_offset_iter() {
        match event {
            Event::Start(Tag::Paragraph) | Event::End(TagEnd::Paragraph) => {}
            Event::Start(_) => {
                if depth == 0 {
                    ranges.push(range);
                }
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            Event::Code(_) if depth == 0 => ranges.push(range),
            _ => {}
        }
    }
    ranges
}
