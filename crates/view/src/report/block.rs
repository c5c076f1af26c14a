//! The blocks of a report, written as Markdown or as plain text. All text is sanitized here, because reports are read
//! in terminals. In Markdown, foreign text is fenced or escaped, so that no heading, link or image in it is
//! interpreted.

use althing_text::sanitize;
use std::fmt::Write;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    Heading {
        /// The level of the heading; 1 for the title.
        level: usize,
        text: String,
    },
    /// Text of Althing's own, written as one line. It may contain values such as paths or the task of a run.
    Paragraph(String),
    Fields(Vec<(&'static str, String)>),
    Table {
        head: Vec<&'static str>,
        rows: Vec<Vec<String>>,
    },
    List(Vec<String>),
    /// Text that somebody else wrote, with its line breaks.
    Quote(String),
    Diff(String),
}

pub fn markdown(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        if !out.is_empty() {
            out.push('\n');
        }
        match block {
            Block::Heading { level, text } => {
                let _ = writeln!(out, "{} {}", "#".repeat(*level), inline(text));
            }
            Block::Paragraph(text) => {
                let _ = writeln!(out, "{}", inline(text));
            }
            Block::Fields(fields) => {
                for (name, value) in fields {
                    let _ = writeln!(out, "- **{name}:** {}", inline(value));
                }
            }
            Block::Table { head, rows } => markdown_table(&mut out, head, rows),
            Block::List(items) => {
                for item in items {
                    let _ = writeln!(out, "- {}", inline(item));
                }
            }
            Block::Quote(text) => fenced(&mut out, "text", text),
            Block::Diff(text) => fenced(&mut out, "diff", text),
        }
    }
    out
}

pub fn plain(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        if !out.is_empty() {
            out.push('\n');
        }
        match block {
            Block::Heading { level: 1, text } => {
                let text = sanitize::line(text);
                let _ = writeln!(out, "{text}\n{}", "═".repeat(text.chars().count()));
            }
            Block::Heading { level: 2, text } => {
                let text = sanitize::line(text);
                let _ = writeln!(out, "{text}\n{}", "─".repeat(text.chars().count()));
            }
            Block::Heading { level: 3, text } => {
                let text = sanitize::line(text);
                let _ = writeln!(out, "{text}\n{}", "┄".repeat(text.chars().count()));
            }
            Block::Heading { text, .. } => {
                let _ = writeln!(out, "▪ {}", sanitize::line(text));
            }
            Block::Paragraph(text) => {
                let _ = writeln!(out, "{}", sanitize::line(text));
            }
            Block::Fields(fields) => {
                let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
                for (name, value) in fields {
                    let _ = writeln!(out, "{name:width$}  {}", sanitize::line(value));
                }
            }
            Block::Table { head, rows } => plain_table(&mut out, head, rows),
            Block::List(items) => {
                for item in items {
                    let _ = writeln!(out, "  {}", sanitize::line(item));
                }
            }
            Block::Quote(text) => indented(&mut out, "  │ ", text),
            Block::Diff(text) => indented(&mut out, "  ", text),
        }
    }
    out
}

fn indented(out: &mut String, prefix: &str, text: &str) {
    for line in sanitize::text(text).lines() {
        let _ = writeln!(out, "{}", format!("{prefix}{line}").trim_end());
    }
}

fn inline(text: &str) -> String {
    let mut out = String::new();
    for c in sanitize::line(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '!' | '#' | '&') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Writes a fenced block. The fence is longer than any fence in the text, so the text cannot end it.
fn fenced(out: &mut String, kind: &str, text: &str) {
    let text = sanitize::text(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(3.max(longest + 1));
    let _ = writeln!(out, "{fence}{kind}\n{}\n{fence}", text.trim_end_matches('\n'));
}

fn markdown_table(out: &mut String, head: &[&str], rows: &[Vec<String>]) {
    let _ = writeln!(out, "| {} |", head.join(" | "));
    let _ = writeln!(out, "|{}", " --- |".repeat(head.len()));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| inline(cell)).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
}

const MAX_WIDTH: usize = 60;

/// Writes a table with aligned columns. The last column may be long and is not padded.
fn plain_table(out: &mut String, head: &[&str], rows: &[Vec<String>]) {
    let head = head.iter().map(|name| (*name).to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(head)
        .chain(rows.iter().map(|row| row.iter().map(|cell| sanitize::line(cell).into_owned()).collect()))
        .collect();
    let columns = all.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = all.iter().filter_map(|row: &Vec<String>| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default().min(MAX_WIDTH)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in &all {
        let last = row.len().saturating_sub(1);
        let pad = |(at, (cell, width)): (usize, (&String, &usize))| {
            if at == last { cell.clone() } else { format!("{cell:width$}") }
        };
        let cells = row.iter().zip(&widths).enumerate().map(pad);
        let _ = writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_any_length_is_shown() {
        let long = "x".repeat(70_000);
        let table = Block::Table { head: vec!["a", "b"], rows: vec![vec![long.clone(), long.clone()]] };
        assert!(plain(&[table]).contains(&format!("{long}  {long}")));
    }

    #[test]
    fn nothing_in_a_quoted_text_ends_its_block_or_is_interpreted() {
        let evil = "# no heading\n```\n![x](https://example.org/?leak)\n````\n\u{1b}[31mred";
        let text = markdown(&[Block::Quote(evil.into()), Block::Paragraph("a*b [c](d) <img>".into())]);
        assert!(text.starts_with("`````text\n# no heading\n"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.contains("a\\*b \\[c\\](d) \\<img\\>"), "{text}");
        let shown = plain(&[Block::Quote(evil.into())]);
        assert!(!shown.contains('\u{1b}') && shown.contains("  │ # no heading"), "{shown}");
    }

    #[test]
    fn the_columns_of_a_plain_table_are_aligned() {
        let rows = vec![vec!["a".into(), "10".into()], vec!["longer".into(), "2".into()]];
        let text = plain(&[Block::Table { head: vec!["name", "n"], rows }]);
        assert_eq!(text, "  name    n\n  a       10\n  longer  2\n");
    }
}
