//! Parses the YAML front matter of a Markdown file: its top-level scalar values, as text.

use granit_parser::{Event, Options, Parser};
use std::collections::BTreeMap;

const MAX_DEPTH: usize = 16;

/// Returns the fields, and the text after the front matter. `None` if the front matter is not valid YAML or is nested
/// too deeply.
pub(super) fn parse(text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let Some((yaml, rest)) = split(text) else { return Some((BTreeMap::new(), text)) };
    let mut options = Options::default();
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    let mut parser = Parser::new_from_str_with_options(yaml, options);
    let (mut found, mut key, mut depth) = (BTreeMap::new(), None, 0_usize);
    while let Some(event) = parser.next_event() {
        match event.ok()?.0 {
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                depth += 1;
                if depth > 1 {
                    key = None;
                }
            }
            Event::MappingEnd | Event::SequenceEnd => depth = depth.saturating_sub(1),
            Event::Scalar(text, ..) if depth == 1 => match key.take() {
                None => key = Some(text.into_owned()),
                Some(key) => {
                    found.entry(key).or_insert(text.into_owned());
                }
            },
            Event::Alias(..) if depth == 1 => key = None,
            _ => {}
        }
    }
    Some((found, rest))
}

fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches('\u{feff}');
    let body = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"))?;
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((body.get(..at)?, body.get(at + line.len()..)?));
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_quoted_and_folded_strings_are_parsed_and_nested_values_ignored() {
        let text = "---\nname: pdf\nlicense: 'MIT'\ndescription: >\n  Reads\n  PDF files\nmetadata:\n  name: other\n\
                    tags: [a, b]\nlast: \"x: y\"\n---\n# Body\n";
        let (found, rest) = parse(text).unwrap();
        let value = |key: &str| found.get(key).map(|text| text.trim()).unwrap_or_default();
        assert_eq!(value("name"), "pdf");
        assert_eq!(value("license"), "MIT");
        assert_eq!(value("description"), "Reads PDF files");
        assert_eq!(value("last"), "x: y");
        assert!(!found.contains_key("tags") && !found.contains_key("metadata"));
        assert_eq!(rest, "# Body\n");
    }

    #[test]
    fn missing_front_matter_is_fine_and_invalid_front_matter_is_detected() {
        assert_eq!(parse("# Title\n").unwrap(), (BTreeMap::new(), "# Title\n"));
        assert!(parse("---\nname: [unclosed\n---\nbody").is_none());
    }
}
