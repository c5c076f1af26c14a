//! Which calls in a reply are quotations. The prompt contains texts of others (answers, results, files), which may
//! contain calls; a model that quotes such a text does not make these calls.

use althing_protocol::Message;
use althing_text::{closed_marker, next_marker};
use std::collections::HashMap;
use std::ops::Range;

const MAX_MARKER_BYTES: usize = 400;

/// The parts of a reply between marker lines, or from an opening marker line to the end of the reply.
pub(super) fn marked_ranges(text: &str) -> Vec<Range<usize>> {
    let closings = closing_markers(text);
    let mut ranges = Vec::new();
    let mut from = 0;
    while let Some(marker) = next_marker(text, from) {
        let Range { start, end: after } = marker.range;
        if marker.closes().is_some() {
            from = after;
            continue;
        }
        let ends = closings.get(marker.inside).map(Vec::as_slice).unwrap_or_default();
        let next = ends.get(ends.partition_point(|end| end.start < after));
        from = next.map_or(text.len(), |end| end.end);
        ranges.push(start..from);
    }
    ranges
}

/// All closing markers by the `NAME CODE` that they close, each in order. They are collected once, because a search for
/// the end of each marked text would read a hostile reply again and again.
fn closing_markers(text: &str) -> HashMap<&str, Vec<Range<usize>>> {
    let mut found: HashMap<&str, Vec<Range<usize>>> = HashMap::new();
    for (start, _) in text.match_indices('<') {
        let begin = text.get(start + 1..).unwrap_or_default();
        let Some(rest) = closed_marker(begin) else { continue };
        let rest_len = rest.len();
        let rest = rest.get(..rest.floor_char_boundary(MAX_MARKER_BYTES)).unwrap_or_default();
        if let Some((inside, _)) = rest.split_once('>') {
            let end = text.len() - rest_len + inside.len() + 1;
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
