//! Renders diagnostics as text for a person, with a caret under the problem and a suggestion. Names of files and the
//! content of the file may be hostile, so every part is sanitized; the only escape sequences are our own colors.

use std::fmt::Write as _;

use crate::diagnostic::{Diagnostic, Severity};
use crate::report::ConfigReport;
use althing_text::sanitize;

/// Whether rendered text has color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// No color.
    #[default]
    Plain,
    /// ANSI colors.
    Color,
}

impl ConfigReport {
    /// All problems as text, errors first; empty if there are none.
    pub fn render(&self, style: Style) -> String {
        let all: Vec<String> = self
            .errors
            .iter()
            .chain(&self.warnings)
            .map(|diagnostic| diagnostic.render(&self.file, style))
            .collect();
        all.join("\n")
    }
}

impl Diagnostic {
    /// The problem as text.
    pub fn render(&self, file: &str, style: Style) -> String {
        let (file, location) = (sanitize::line(file), sanitize::line(&self.location));
        let (message, source_line) = (sanitize::output(&self.message), sanitize::line(&self.source_line));
        let (word, color) = match self.severity {
            Severity::Error => ("error", "31"),
            Severity::Warning => ("warning", "33"),
        };
        let bold = |text: &str| paint(text, "1", style);
        let dim = |text: &str| paint(text, "2", style);
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let path = if location.is_empty() { String::new() } else { format!(" ({location})") };

        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}: {}", paint(word, color, style), bold(&message));
        let _ = writeln!(out, "{margin}{} {file}:{}:{}{path}", dim("-->"), self.line, self.column);
        let _ = writeln!(out, "{} {} {}", dim(&number), dim("|"), source_line);
        let before = " ".repeat(self.caret.saturating_sub(1));
        let carets = paint(&"^".repeat(self.width), color, style);
        let _ = writeln!(out, "{margin} {} {before}{carets}", dim("|"));
        if let Some(suggestion) = &self.suggestion {
            let _ = writeln!(out, "{margin} {} help: {}", dim("="), sanitize::output(suggestion));
        }
        out
    }
}

fn paint(text: &str, code: &str, style: Style) -> String {
    match style {
        Style::Plain => text.to_owned(),
        Style::Color => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
    }
}
