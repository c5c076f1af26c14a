//! Messages about text that is not YAML, or that is rejected before parsing.
//!
//! This module never looks at keys. It turns the parser's terse messages into messages that say what to change.

use granit_parser::{ErrorKind, ScanError, Span as YamlSpan};

use crate::diagnostic::Problem;
use crate::limits;
use crate::tree::Span;

/// The reason to reject a text before parsing it: its size, or a control character other than a line break or a tab.
pub(crate) fn reject_before_parsing(text: &str) -> Option<(Span, Problem)> {
    if text.len() > limits::MAX_BYTES {
        let problem =
            Problem::new(format!("the file has {} bytes; the limit is {}", text.len(), limits::MAX_BYTES));
        return Some((
            Span { line: 1, column: 1, ..Span::default() },
            problem.hint("is this the right file?"),
        ));
    }
    let (start, odd) =
        text.char_indices().find(|(_, c)| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{85}'))?;
    let before = text.get(..start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let problem = Problem::new(format!("the character U+{:04X} is not allowed here", u32::from(odd)));
    let span = Span { start, end: start + 1, line, column };
    Some((span, problem.hint("is this a text file? remove the character, or save the file as UTF-8")))
}

/// Converts the parser's span.
pub(crate) fn convert_span(span: &YamlSpan) -> Span {
    let start = span.start.byte_offset().unwrap_or_default();
    let end = span.end.byte_offset().unwrap_or(start);
    Span { start, end, line: span.start.line(), column: span.start.col() + 1 }
}

/// The position of a parser error, and a message with a suggestion.
pub(crate) fn explain(error: &ScanError, text: &str) -> (Span, Problem) {
    let marker = error.marker();
    let start = marker.byte_offset().unwrap_or_default();
    let span = Span { start, end: start + 1, line: marker.line(), column: marker.col() + 1 };
    (span, advise(error, text))
}

fn advise(error: &ScanError, text: &str) -> Problem {
    let problem = Problem::new(format!("not valid YAML: {}", error.info()));
    let line = error.marker().line();
    // A tab often causes an error on the line before or after it.
    let near = text.split('\n').enumerate().skip(line.saturating_sub(2)).take(3);
    for (index, text) in near {
        let indentation = text.len() - text.trim_start_matches([' ', '\t']).len();
        if text.get(..indentation).is_some_and(|indentation| indentation.contains('\t')) {
            return problem
                .hint(format!("indent line {} with spaces; YAML does not allow tabs there", index + 1));
        }
    }
    match error.kind() {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart => {
            problem.hint("indent with spaces; YAML does not allow tabs there")
        }
        ErrorKind::InvalidIndentation
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry => problem.hint("align this key with its neighbors"),
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            problem.hint("a key needs `: ` after it; put quotes around a text that contains `: `")
        }
        ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent => {
            problem.hint("close the quote on the line where it opens")
        }
        ErrorKind::MappingValueNotAllowed => {
            problem.hint("put quotes around a text that contains `: `, or align this key with its neighbors")
        }
        ErrorKind::BlockSequenceEntryNotAllowed => problem.hint("start a list on the line below its key"),
        ErrorKind::MismatchedFlowCollectionEnd { .. } => {
            problem.hint("close the bracket with the matching kind")
        }
        ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofImplicitFlowMapping => problem.hint("close the bracket"),
        ErrorKind::UnknownAnchor => problem.hint(
            "define the anchor (`&name`) before the alias (`*name`), or quote a text that starts with `*`",
        ),
        ErrorKind::RecursionLimitExceeded => {
            Problem::new(format!("nested deeper than {} levels", limits::MAX_DEPTH))
                .hint("flatten this part of the file")
        }
        ErrorKind::UnexpectedCharacter { .. } => problem.hint("put quotes around the value"),
        ErrorKind::UnknownQuotedScalarEscape | ErrorKind::InvalidQuotedScalarHexEscape => {
            problem.hint("use single quotes, or double the backslash")
        }
        _ => problem.hint("check the indentation and the quotes on this line and the one before it"),
    }
}
