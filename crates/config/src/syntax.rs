//! Messages about text that is not YAML, or that is rejected before parsing: they say what to change.

use granit_parser::{ErrorKind, ScanError, Span as YamlSpan};

use crate::diagnostic::Problem;
use crate::limits;
use crate::quotes;
use crate::tree::Span;

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
    let problem = Problem::new(format!("the character U+{:04X} is not allowed here", u32::from(odd)));
    Some((
        span_at(text, start),
        problem.hint("is this a text file? remove the character, or save the file as UTF-8"),
    ))
}

pub(crate) fn convert_span(span: &YamlSpan) -> Span {
    let start = span.start.byte_offset().unwrap_or_default();
    let end = span.end.byte_offset().unwrap_or(start);
    Span { start, end, line: span.start.line(), column: span.start.col() + 1 }
}

/// An error that a quote without an end caused is reported where the quote opens.
pub(crate) fn explain(error: &ScanError, text: &str) -> (Span, Problem) {
    let marker = error.marker();
    let start = marker.byte_offset().unwrap_or_default();
    let quotes = quotes::over_several_lines(text);
    let is_unclosed = matches!(error.kind(), ErrorKind::UnclosedQuotedScalar);
    let causes = |quote: &&quotes::Quote| match quote.end {
        None => is_unclosed || quote.start < start,
        // The next quote of its kind closed this one; what follows on that line is the error.
        Some(end) => quote.start < start && end_of_line(text, end) >= start,
    };
    if let Some(quote) = quotes.iter().rev().find(causes) {
        let problem = Problem::new("not valid YAML: the quote that opens here is not closed on this line");
        let span = span_at(text, quote.start);
        return (
            span,
            problem.hint("close the quote; if the text is meant to go on, use a block (`key: |`) instead"),
        );
    }
    let span = Span { start, end: start + 1, line: marker.line(), column: marker.col() + 1 };
    (span, advise(error, text))
}

fn end_of_line(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.find('\n').map_or(text.len(), |length| at + length)
}

fn span_at(text: &str, start: usize) -> Span {
    let before = text.get(..start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Span { start, end: start + 1, line, column }
}

/// `None` for rare errors, for which the parser's own words are used.
fn plain_words(kind: &ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart => "a tab where only spaces are allowed",
        ErrorKind::InvalidIndentation
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry => "this line is not aligned with the lines above it",
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => "a key without `: ` after it",
        ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent => "a quote is not closed",
        ErrorKind::MappingValueNotAllowed => "a `: ` where no key can be",
        ErrorKind::BlockSequenceEntryNotAllowed => "a list item (`- `) where no list can be",
        ErrorKind::MismatchedFlowCollectionEnd { .. } => "a bracket is closed with another kind of bracket",
        ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofImplicitFlowMapping => "a bracket is not closed",
        ErrorKind::UnknownAnchor => "an alias (`*name`) whose anchor (`&name`) is not defined before it",
        ErrorKind::UnknownQuotedScalarEscape | ErrorKind::InvalidQuotedScalarHexEscape => {
            "a backslash in double quotes that starts no known escape"
        }
        _ => return None,
    })
}

fn advise(error: &ScanError, text: &str) -> Problem {
    let problem = match plain_words(error.kind()) {
        Some(words) => Problem::new(format!("not valid YAML: {words}")),
        None => Problem::new(format!("not valid YAML: {}", error.info())),
    };
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
