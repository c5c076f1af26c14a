//! Renders Markdown as styled lines.
//!
//! A text is split into blocks that do not depend on later text. While a streaming text grows, its finished blocks keep
//! their look, and only its last block has to be laid out again.

mod growing;
mod highlight;
mod paragraph;
mod table;

use crate::line::{self, Line};
use crate::theme::Tone;
use althing_text::sanitize;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use table::Table;

pub use growing::{GrowingText, Part};

const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

pub fn lines(text: &str, width: usize) -> Vec<Line> {
    let mut out = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let length = first_block_len(rest).unwrap_or(rest.len());
        let (now, later) = rest.split_at_checked(length).unwrap_or((rest, ""));
        block(now, width, &mut out);
        rest = later;
    }
    out
}

/// From this length in bytes on, the first line of a block need not be complete to separate the block from the one above.
const LONG_LINE: usize = 80;

/// The length of the first block, if its layout cannot change however the text continues.
pub fn first_block_len(text: &str) -> Option<usize> {
    let mut at = 0;
    let mut fence: Option<&str> = None;
    let mut blank = false;
    let mut seen = false;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let marker = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        if let Some(open) = fence {
            if marker == Some(open) {
                fence = None;
            }
        } else if line.trim().is_empty() {
            blank = true;
        } else {
            let first = line.chars().next().unwrap_or(' ');
            // A list, quote, table or indented line may belong to the previous block.
            let own = !first.is_whitespace()
                && !matches!(first, '-' | '*' | '+' | '>' | '|')
                && !first.is_ascii_digit();
            // A line that is long enough begins a block, whatever its end will be.
            if blank && seen && own && (line.ends_with('\n') || line.len() > LONG_LINE) {
                return Some(at);
            }
            blank = false;
            seen = true;
            fence = marker;
        }
        at += line.len();
    }
    None
}

pub fn block(text: &str, width: usize, out: &mut Vec<Line>) {
    let mut lines = render(text, width, &Continued::default()).lines;
    if !out.is_empty() && !lines.is_empty() {
        out.push(Line::default());
    }
    out.append(&mut lines);
}

/// What a part of a text continues.
#[derive(Default)]
struct Continued<'a> {
    /// If the part begins with a numbered list: replaces the number of the first item.
    number: Option<u64>,
    /// If the part begins with a paragraph: its first words, whose line was not full.
    words: &'a [(Tone, Box<str>)],
    /// If the part begins with the header of a table whose first rows are laid out: the widths of its columns. The header
    /// is not repeated.
    columns: &'a [usize],
}

#[derive(Default)]
struct Rendered {
    lines: Vec<Line>,
    /// The number that would follow the last numbered list.
    number: Option<u64>,
    /// The widths of the columns of the last table.
    columns: Vec<usize>,
}

/// Renders a part of a text.
fn render(text: &str, width: usize, continued: &Continued<'_>) -> Rendered {
    let text = sanitize::text(text);
    let words = continued.words.iter().map(|(tone, text)| (*tone, text.to_string()));
    let mut renderer = Renderer {
        width: width.max(8),
        number: continued.number,
        inline: words.collect(),
        columns: continued.columns.to_vec(),
        skip_header: !continued.columns.is_empty(),
        ..Renderer::default()
    };
    if is_nested_too_deep(&text) {
        renderer.push_text(Tone::Plain, &text);
    } else {
        for event in Parser::new_ext(&text, OPTIONS) {
            renderer.take(event);
        }
    }
    renderer.flush();
    while renderer.out.last().is_some_and(|line| line.pieces.is_empty()) {
        renderer.out.pop();
    }
    Rendered { lines: renderer.out, number: renderer.number, columns: renderer.columns }
}

/// The maximum number of nested list items and quotes that have a prefix. Every line repeats the prefixes of all
/// levels, so thousands of levels would make the layout much larger than the text.
const MAX_LEADS: usize = 12;

/// The maximum number of quotes and list items that one line may open. Each of them is a level for the parser and the
/// layout, and a line of a few megabytes could open millions.
const MAX_OPENED: usize = 100;

fn is_nested_too_deep(text: &str) -> bool {
    text.lines().any(|line| {
        let (mut opened, mut rest) = (0, line.chars().peekable());
        while let Some(c) = rest.next() {
            match c {
                '>' => opened += 1,
                // Without a space after them these are text or a rule.
                '-' | '*' | '+' | '.' | ')' if rest.peek().is_none_or(|next| *next == ' ') => opened += 1,
                ' ' | '0'..='9' => {}
                _ => return false,
            }
            if opened > MAX_OPENED {
                return true;
            }
        }
        false
    })
}

#[derive(Debug)]
struct Lead {
    first: Option<String>,
    rest: String,
}

#[derive(Default)]
struct Renderer {
    width: usize,
    out: Vec<Line>,
    inline: Vec<(Tone, String)>,
    tones: Vec<Tone>,
    leads: Vec<Lead>,
    lists: Vec<Option<u64>>,
    /// First the number for the first item of the first list, later the number that would follow the last list. `None`
    /// for bullets.
    number: Option<u64>,
    code: Option<(String, String)>,
    table: Option<Table>,
    /// The widths of the columns of the last table, or those that the first table continues with.
    columns: Vec<usize>,
    /// Whether the header of the first table is left out.
    skip_header: bool,
    /// The targets of the open links, each with the number of inline pieces before the link.
    links: Vec<(String, usize)>,
}

impl Renderer {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => self.push_text(Tone::Code, &text),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.push_text(Tone::Code, &text),
            Event::FootnoteReference(text) => self.push_text(Tone::Dim, &format!("[{text}]")),
            Event::SoftBreak | Event::HardBreak => self.push_text(Tone::Plain, "\n"),
            Event::Rule => {
                self.flush();
                self.gap();
                let rule = "─".repeat(self.room());
                self.emit(Line::of(Tone::Dim, &rule));
            }
            Event::TaskListMarker(done) => self.push_text(Tone::Plain, if done { "[x] " } else { "[ ] " }),
        }
    }

    fn tone(&self) -> Tone {
        self.tones.last().copied().unwrap_or_default()
    }

    fn push_text(&mut self, tone: Tone, text: &str) {
        if let Some(cell) =
            self.table.as_mut().and_then(|table| table.rows.last_mut()).and_then(|row| row.last_mut())
        {
            cell.push_str(text);
        } else {
            self.inline.push((tone, text.to_owned()));
        }
    }

    fn text(&mut self, text: &str) {
        if let Some((_, code)) = &mut self.code {
            code.push_str(text);
        } else {
            self.push_text(self.tone(), text);
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph if self.leads.is_empty() => {
                self.gap();
            }
            Tag::Heading { level, .. } => {
                self.gap();
                self.tones.push(if level == HeadingLevel::H1 { Tone::AccentBold } else { Tone::Bold });
            }
            Tag::BlockQuote(_) => {
                self.flush();
                self.gap();
                self.push_lead(Lead { first: None, rest: "│ ".into() });
                self.tones.push(Tone::Dim);
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', ',']).next().unwrap_or_default().to_lowercase()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(start) => {
                self.flush();
                let mut start = start;
                if self.lists.is_empty() {
                    self.gap();
                    let continued = self.number.take().filter(|_| self.out.is_empty());
                    start = start.map(|start| continued.unwrap_or(start));
                }
                self.lists.push(start);
            }
            Tag::Item => {
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let mark = format!("{number}. ");
                        *number += 1;
                        mark
                    }
                    _ => "• ".to_owned(),
                };
                let rest = " ".repeat(line::width(&mark));
                self.push_lead(Lead { first: Some(mark), rest });
            }
            Tag::Table(align) => {
                self.flush();
                self.gap();
                self.table = Some(Table { align, rows: Vec::new() });
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            Tag::TableCell => {
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(String::new());
                }
            }
            Tag::Emphasis => self.tones.push(Tone::Italic),
            Tag::Strong => self.tones.push(Tone::Bold),
            Tag::Strikethrough => self.tones.push(Tone::Dim),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.tones.push(Tone::Link);
                self.links.push((dest_url.into_string(), self.inline.len()));
            }
            _ => {}
        }
    }

    fn push_lead(&mut self, lead: Lead) {
        let width = self.width.saturating_sub(self.room()) + line::width(&lead.rest);
        let is_shown = self.leads.len() < MAX_LEADS && width <= self.width / 2;
        self.leads.push(if is_shown { lead } else { Lead { first: None, rest: String::new() } });
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.tones.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.leads.pop();
                self.tones.pop();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.flush();
                self.number = self.lists.pop().flatten();
            }
            TagEnd::Item => {
                self.flush();
                self.leads.pop();
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let skip_header = std::mem::take(&mut self.skip_header);
                    if !skip_header {
                        self.columns = table.measure(self.room());
                    }
                    for line in table.lines(&self.columns, skip_header) {
                        self.emit(line);
                    }
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.tones.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.tones.pop();
                // The target of a link is shown as text, because a link that shows one address and opens another would
                // deceive the user.
                let (url, start) = self.links.pop().unwrap_or_default();
                let own = self.inline.get(start..).unwrap_or_default();
                let is_shown = own.iter().any(|(_, text)| *text == url);
                if !url.is_empty() && !is_shown {
                    self.push_text(Tone::Dim, &format!(" ({url})"));
                }
            }
            _ => {}
        }
    }

    fn end_code(&mut self) {
        let Some((language, code)) = self.code.take() else { return };
        if self.leads.is_empty() {
            self.gap();
        }
        let room = self.room().saturating_sub(2).max(1);
        for text in code.lines() {
            let whole = highlight::code(&language, text);
            let pieces: Vec<(Tone, &str)> =
                whole.pieces.iter().map(|(tone, text)| (*tone, &**text)).collect();
            for line in line::wrap(&pieces, room) {
                self.emit(line.indented(2));
            }
        }
    }

    fn room(&self) -> usize {
        let lead: usize = self.leads.iter().take(MAX_LEADS).map(|lead| line::width(&lead.rest)).sum();
        self.width.saturating_sub(lead).max(4)
    }

    fn gap(&mut self) {
        if !self.out.is_empty() && self.out.last().is_some_and(|line| !line.pieces.is_empty()) {
            self.out.push(Line::default());
        }
    }

    fn emit(&mut self, line: Line) {
        let mut whole = Line::default();
        for lead in self.leads.iter_mut().take(MAX_LEADS) {
            match lead.first.take() {
                Some(mark) => whole.push(Tone::Accent, &mark),
                None => whole.push(Tone::Dim, &lead.rest),
            }
        }
        for (tone, text) in line.pieces {
            whole.push(tone, &text);
        }
        self.out.push(whole);
    }

    fn flush(&mut self) {
        if self.inline.iter().all(|(_, text)| text.trim().is_empty()) {
            self.inline.clear();
            return;
        }
        let inline = std::mem::take(&mut self.inline);
        let pieces: Vec<(Tone, &str)> = inline.iter().map(|(tone, text)| (*tone, text.as_str())).collect();
        for line in line::wrap(&pieces, self.room()) {
            self.emit(line);
        }
    }
}

#[cfg(test)]
mod tests;
