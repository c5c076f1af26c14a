//! What the parsers of programs that write one JSON object per line share: finding the lines, remembering complaints,
//! telling in a line what a tool was used on.

use super::{Exit, OutputEvent, OutputParser, ProgramOutcome, Stream};
use crate::lines::{LineSplitter, OutputLine};
use althing_protocol::Item;
use althing_text::truncate_bytes;
use serde_json::Value;

/// How much of what a program complains about is remembered.
const MAX_DIAGNOSTICS: usize = 4 * 1024;
/// How much of a tool's result is kept.
const MAX_RESULT: usize = 2 * 1024;
/// How much of what a tool was used on is kept.
const MAX_DETAIL: usize = 200;

/// What one program's events mean.
pub(super) trait EventHandler: Send {
    /// Takes in one event.
    fn event(&mut self, event: &Value, emit: &mut dyn FnMut(OutputEvent));

    /// Judges the run; `diagnostics` is what it wrote beside its events.
    fn end(
        &mut self,
        exit: Exit,
        diagnostics: &Diagnostics,
        emit: &mut dyn FnMut(OutputEvent),
    ) -> ProgramOutcome;
}

/// A parser for lines of JSON.
#[derive(Debug)]
pub(super) struct JsonLines<E> {
    events: E,
    lines: LineSplitter,
    diagnostics: Diagnostics,
}

impl<E: EventHandler> JsonLines<E> {
    pub(super) fn new(events: E) -> Self {
        Self { events, lines: LineSplitter::default(), diagnostics: Diagnostics::default() }
    }

    fn take_line(&mut self, line: OutputLine<'_>, emit: &mut dyn FnMut(OutputEvent)) {
        let OutputLine::Whole(line) = line else {
            return self.diagnostics.push("a line of its output was too long to be read\n");
        };
        match serde_json::from_slice::<Value>(line) {
            Ok(event @ Value::Object(_)) => self.events.event(&event, emit),
            // Not an event, so it is for people.
            Ok(_) | Err(_) => self.diagnostics.push(&crate::clean(&String::from_utf8_lossy(line))),
        }
    }
}

impl<E: EventHandler> OutputParser for JsonLines<E> {
    fn output(&mut self, stream: Stream, raw: &[u8], clean: &str, emit: &mut dyn FnMut(OutputEvent)) {
        if stream == Stream::Err {
            self.diagnostics.push(clean);
            return;
        }
        let mut lines = std::mem::take(&mut self.lines);
        lines.push(raw, &mut |line| self.take_line(line, emit));
        self.lines = lines;
    }

    fn end(&mut self, exit: Exit, emit: &mut dyn FnMut(OutputEvent)) -> ProgramOutcome {
        let mut lines = std::mem::take(&mut self.lines);
        lines.finish(&mut |line| self.take_line(line, emit));
        self.events.end(exit, &self.diagnostics, emit)
    }
}

/// The end of what a program wrote for people.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics(String);

impl Diagnostics {
    pub(crate) fn push(&mut self, text: &str) {
        let mut start = text.len().saturating_sub(MAX_DIAGNOSTICS);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        self.0.push_str(text.get(start..).unwrap_or_default());
        if !text.ends_with('\n') {
            self.0.push('\n');
        }
        if self.0.len() > 2 * MAX_DIAGNOSTICS {
            let mut from = self.0.len() - MAX_DIAGNOSTICS;
            while !self.0.is_char_boundary(from) {
                from += 1;
            }
            self.0.drain(..from);
        }
    }

    /// Its most telling line: the last that speaks of an error, else the last.
    pub(super) fn last_error_line(&self) -> Option<&str> {
        let lines = || self.0.lines().map(str::trim).filter(|line| !line.is_empty());
        let is_error_line = |line: &&str| line.contains("rror") || line.contains("ailed");
        lines().rfind(is_error_line).or_else(|| lines().next_back())
    }

    /// A failure, with what the program said about it.
    pub(crate) fn explain(&self, failure: &str) -> String {
        match self.last_error_line() {
            Some(line) => format!("{failure}: {}", truncate_bytes(line, 500)),
            None => failure.to_owned(),
        }
    }

    /// Whether any of these words was written.
    pub(super) fn mentions(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.0.contains(word))
    }
}

/// A message that a program said.
pub(super) fn message_item(text: &str) -> Option<OutputEvent> {
    let text = crate::clean(text);
    (!text.trim().is_empty()).then_some(OutputEvent::Item(Item::Said { text }))
}

/// A tool that a program used.
pub(super) fn tool_item(tool: &str, input: &Value, result: Option<&str>, is_error: bool) -> OutputEvent {
    OutputEvent::Item(Item::Did {
        tool: crate::clean(tool),
        detail: detail(input),
        result: result
            .filter(|text| !text.is_empty())
            .map(|text| truncate_bytes(&crate::clean(text), MAX_RESULT)),
        is_error,
    })
}

/// What a tool was used on, in a line.
fn detail(input: &Value) -> String {
    const SUMMARY_KEYS: [&str; 8] =
        ["command", "file_path", "filePath", "path", "pattern", "url", "query", "description"];
    let summary = SUMMARY_KEYS.iter().find_map(|key| input.get(key)?.as_str());
    let text = match (summary, input) {
        (Some(text), _) => text.to_owned(),
        (None, Value::String(text)) => text.clone(),
        (None, Value::Null) => String::new(),
        (None, other) => other.to_string(),
    };
    truncate_bytes(crate::clean(&text).lines().next().unwrap_or_default(), MAX_DETAIL)
}

/// A text inside an event.
pub(super) fn text<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A count inside an event.
pub(super) fn count(event: &Value, pointer: &str) -> u64 {
    event.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}
