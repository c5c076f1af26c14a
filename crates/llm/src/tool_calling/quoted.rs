//! Which calls in a reply are quotations. The prompt contains texts of others (answers, results, files), which may
//! contain calls; a model that quotes such a text does not make these calls.

use althing_protocol::Message;
use std::collections::HashMap;
use std::ops::Range;

const CODE_LENGTH: usize = 8;
const MAX_MARKER_BYTES: usize = 400;
const CLOSINGS: [&str; 2] = ["end of ", "END OF "];

/// The parts of a reply between marker lines, or from an opening marker line to the end of the reply.
pub(super) fn marked_ranges(text: &str) -> Vec<Range<usize>> {
    let closings = closing_markers(text);
    let mut ranges = Vec::new();
    let mut from = 0;
    while let Some((start, name, inside)) = next_marker(text, from) {
        let after = start + inside.len() + 2;
        if CLOSINGS.iter().any(|end| name.starts_with(end)) {
            from = after;
            continue;
        }
        let ends = closings.get(inside).map(Vec::as_slice).unwrap_or_default();
        let next = ends.get(ends.partition_point(|end| end.start < after));
        from = next.map_or(text.len(), |end| end.end);
        ranges.push(start..from);
    }
    ranges
}

/// The next `<NAME CODE>`: where it is, its name, and what is between the angle brackets.
fn next_marker(text: &str, from: usize) -> Option<(usize, &str, &str)> {
    let rest = text.get(from..)?;
    rest.match_indices('<').find_map(|(at, _)| {
        let line = rest.get(at + 1..rest.floor_char_boundary(at + MAX_MARKER_BYTES))?.lines().next()?;
        let inside = line.split_once('>')?.0;
        let (name, code) = inside.rsplit_once(' ')?;
        let is_code = code.len() == CODE_LENGTH && code.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_code.then_some((from + at, name, inside))
    })
}

/// All closing markers by the `NAME CODE` that they close, each in order. They are collected once, because a search for
/// the end of each marked text would read a hostile reply again and again.
fn closing_markers(text: &str) -> HashMap<&str, Vec<Range<usize>>> {
    let mut found: HashMap<&str, Vec<Range<usize>>> = HashMap::new();
    for (start, _) in text.match_indices('<') {
        let begin = text.get(start + 1..).unwrap_or_default();
        let Some(rest) = CLOSINGS.iter().find_map(|end| begin.strip_prefix(end)) else { continue };
        let rest = rest.get(..rest.floor_char_boundary(MAX_MARKER_BYTES)).unwrap_or_default();
        if let Some((inside, _)) = rest.split_once('>') {
            let end = text.len() - begin.len() + "end of ".len() + inside.len() + 1;
            found.entry(inside).or_default().push(start..end);
        }
    }
    found
}

/// What others wrote in a conversation.
pub(super) struct Material(String);

impl Material {
    pub(super) fn of(messages: &[Message]) -> Self {
        let texts = messages.iter().filter_map(|message| match message {
            Message::User(text) | Message::Tool { content: text, .. } => Some(text),
            Message::Assistant { .. } => None,
        });
        Self(texts.map(|text| compact(text)).collect::<Vec<_>>().join("\n"))
    }

    pub(super) fn contains(&self, call: &str) -> bool {
        self.0.contains(&compact(call))
    }
}

fn compact(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str) -> Vec<&str> {
        marked_ranges(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn a_marked_text_ends_at_its_own_closing_marker_in_either_spelling() {
        let small = "<a 0123abcd>\nx <b 0123abcd> <end of b 0123abcd> y\n<end of a 0123abcd>";
        let large = "<Ä b 0123abcd>\nx\n<END OF Ä b 0123abcd>";
        let nearest = "<a 00000000><END OF a 00000000>";
        let text = format!("{small}\n<end of a 0123abcd> {large} <c> {nearest}<end of a 00000000>");
        assert_eq!(marked(&text), [small, large, nearest]);
        let open = "<a 0123abcd>\nx <end of a 0123abce> <end of a 0123abcd";
        assert_eq!(marked(&format!("so: {open}")), [open], "without its end, all of the rest is marked");
    }

    #[test]
    fn a_reply_of_very_many_marked_texts_is_read() {
        let count = 200_000;
        let text = "<a 01234567>x<end of a 01234567>".repeat(count);
        assert_eq!(marked_ranges(&text).len(), count);
    }
}
