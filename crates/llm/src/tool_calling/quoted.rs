//! Which calls in a reply are quotations. The prompt contains texts of others (answers, results, files), which may
//! contain calls; a model that quotes such a text does not make these calls.

use althing_protocol::Message;
use std::ops::Range;

const CODE_LENGTH: usize = 8;
const MAX_MARKER_BYTES: usize = 400;

/// The parts of a reply between marker lines, or from an opening marker line to the end of the reply.
pub(super) fn marked_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut from = 0;
    while let Some((start, name, code)) = next_marker(text, from) {
        let after = start + name.len() + code.len() + 3;
        let is_closing = ["end of ", "END OF "].iter().any(|end| name.starts_with(end));
        if is_closing {
            from = after;
            continue;
        }
        let closings = [format!("<end of {name} {code}>"), format!("<END OF {name} {code}>")];
        let rest = text.get(after..).unwrap_or_default();
        let end = closings.iter().filter_map(|closing| Some(rest.find(closing)? + closing.len())).min();
        from = end.map_or(text.len(), |end| after + end);
        ranges.push(start..from);
    }
    ranges
}

/// The next `<NAME CODE>`.
fn next_marker(text: &str, from: usize) -> Option<(usize, &str, &str)> {
    let rest = text.get(from..)?;
    rest.match_indices('<').find_map(|(at, _)| {
        let line = rest.get(at + 1..rest.floor_char_boundary(at + MAX_MARKER_BYTES))?.lines().next()?;
        let (name, code) = line.split_once('>')?.0.rsplit_once(' ')?;
        let is_code = code.len() == CODE_LENGTH && code.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_code.then_some((from + at, name, code))
    })
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
