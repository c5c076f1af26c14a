//! Diagnostics: what is wrong with a config, and where. A quoted source line never contains a secret, because
//! messages end up in terminals, logs and bug reports.

use crate::limits;
use crate::secrets;
use crate::tree::Span;
use althing_text::sanitize::is_safe;

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The config cannot be used.
    Error,
    /// The config can be used, but for example a key has no effect, or an API key is missing.
    Warning,
}

/// One problem of a config or workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the config can still be used.
    pub severity: Severity,
    /// What is wrong, in one sentence.
    pub message: String,
    /// The dotted path of the key, such as `agents[0].backend.type`; empty for the whole file.
    pub location: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// How many characters are marked, at least one.
    pub width: usize,
    /// The line with secrets masked; a very long line is cut around the column.
    pub source_line: String,
    /// The column within `source_line`, counted from 1.
    pub caret: usize,
    /// What the user can do.
    pub suggestion: Option<String>,
}

pub(crate) struct Problem {
    pub(crate) message: String,
    pub(crate) suggestion: Option<String>,
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), suggestion: None }
    }

    pub(crate) fn hint(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

pub(crate) struct Sink<'text> {
    text: &'text str,
    line_starts: Vec<usize>,
    /// `None` until the text is parsed; until then, whatever looks like a secret is masked.
    secrets: Option<Vec<Span>>,
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) warnings: Vec<Diagnostic>,
    unshown_errors: usize,
    unshown_warnings: usize,
}

impl<'text> Sink<'text> {
    pub(crate) fn new(text: &'text str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            line_starts: std::iter::once(0).chain(starts).collect(),
            secrets: None,
            errors: Vec::new(),
            warnings: Vec::new(),
            unshown_errors: 0,
            unshown_warnings: 0,
        }
    }

    pub(crate) fn set_secret_spans(&mut self, spans: Vec<Span>) {
        self.secrets = Some(spans);
    }

    pub(crate) fn error(&mut self, span: Span, location: &str, problem: Problem) {
        self.push(Severity::Error, span, location, problem);
    }

    pub(crate) fn warning(&mut self, span: Span, location: &str, problem: Problem) {
        self.push(Severity::Warning, span, location, problem);
    }

    pub(crate) fn push(&mut self, severity: Severity, span: Span, location: &str, problem: Problem) {
        self.push_with(severity, span, location, || problem);
    }

    pub(crate) fn push_with(
        &mut self,
        severity: Severity,
        span: Span,
        location: &str,
        problem: impl FnOnce() -> Problem,
    ) {
        let (kept, hidden) = match severity {
            Severity::Error => (self.errors.len(), &mut self.unshown_errors),
            Severity::Warning => (self.warnings.len(), &mut self.unshown_warnings),
        };
        if kept >= limits::MAX_DIAGNOSTICS {
            *hidden += 1;
            return;
        }
        let diagnostic = self.locate(severity, span, location, problem());
        match severity {
            Severity::Error => self.errors.push(diagnostic),
            Severity::Warning => self.warnings.push(diagnostic),
        }
    }

    /// In file order; if some were left out, the last entry says how many.
    pub(crate) fn finish(mut self) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
        self.errors.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
        self.warnings.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
        for (kept, hidden) in
            [(&mut self.errors, self.unshown_errors), (&mut self.warnings, self.unshown_warnings)]
        {
            if let (Some(last), true) = (kept.last().cloned(), hidden > 0) {
                let message = format!("{} not shown", althing_text::count(hidden as u64, "more problem"));
                kept.push(Diagnostic { message, suggestion: None, ..last });
            }
        }
        (self.errors, self.warnings)
    }

    fn locate(&self, severity: Severity, span: Span, location: &str, problem: Problem) -> Diagnostic {
        let line = span.line.max(1);
        let column = span.column.max(1);
        let quote = self.quote(line, column);
        // A span of several lines is marked only on the first.
        let bytes = span.end.saturating_sub(span.start);
        let mut seen = 0;
        let rest = quote.line.chars().skip(quote.caret - 1);
        let width = rest.take_while(|c| {
            let inside = seen < bytes;
            seen += c.len_utf8();
            inside
        });
        Diagnostic {
            severity,
            message: problem.message,
            location: location.to_owned(),
            line,
            column,
            width: width.count().max(1),
            source_line: quote.line,
            caret: quote.caret,
            suggestion: problem.suggestion,
        }
    }

    fn quote(&self, line: usize, column: usize) -> Quote {
        let start = self.line_starts.get(line - 1).copied().unwrap_or(self.text.len());
        let end = self.line_starts.get(line).map_or(self.text.len(), |next| next - 1);
        let full = self.text.get(start..end).unwrap_or_default();
        // The line is cut before it is searched for secrets: it may be a megabyte long and have hundreds of problems.
        let skip = (column - 1).saturating_sub(limits::MAX_QUOTED_LINE / 2);
        let skip = if skip + limits::MAX_QUOTED_LINE / 2 < limits::MAX_QUOTED_LINE { 0 } else { skip };
        let mut letters = full.char_indices().skip(skip);
        let from = letters.next().map_or(full.len(), |(at, _)| at);
        let to = letters.nth(limits::MAX_QUOTED_LINE - 2).map_or(full.len(), |(at, _)| at);
        let shown = full.get(from..to).unwrap_or_default();
        let masked = match &self.secrets {
            Some(spans) => secrets::mask(shown, start + from, spans),
            None => secrets::mask_unparsed(full, from, to),
        };
        // An unprintable character becomes one space, so that the caret stays at the right column.
        let line = masked.trim_end_matches('\r').chars().map(|c| if is_safe(c) { c } else { ' ' }).collect();
        Quote { line, caret: column - skip }
    }
}

struct Quote {
    line: String,
    caret: usize,
}
