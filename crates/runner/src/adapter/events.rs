//! Shared parser code for CLI agents that write one JSON object per line.

use super::{Exit, OutputEvent, OutputParser, ProgramOutcome, Stream};
use crate::lines::{LineSplitter, OutputLine};
use althing_protocol::{Item, reported_tokens};
use althing_text::truncate_bytes;
use serde_json::Value;

/// When the diagnostics exceed twice this size, in bytes, they are cut to their last part of this size.
const MAX_DIAGNOSTICS: usize = 4 * 1024;
const MAX_RESULT: usize = 2 * 1024;
const MAX_DETAIL: usize = 200;

pub(super) trait EventHandler: Send {
    fn event(&mut self, event: &Value, emit: &mut dyn FnMut(OutputEvent));

    fn error_line(&mut self, _line: &str, _emit: &mut dyn FnMut(OutputEvent)) -> bool {
        true
    }

    fn has_ended_turn(&self) -> bool;

    fn end(
        &mut self,
        exit: Exit,
        diagnostics: &Diagnostics,
        emit: &mut dyn FnMut(OutputEvent),
    ) -> ProgramOutcome;
}

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
            return self.diagnostics.push("a line of output was too long to be parsed\n");
        };
        match serde_json::from_slice::<Value>(line) {
            Ok(event @ Value::Object(_)) => self.events.event(&event, emit),
            Ok(_) | Err(_) => self.diagnostics.push(&crate::clean(&String::from_utf8_lossy(line))),
        }
    }
}

impl<E: EventHandler> OutputParser for JsonLines<E> {
    fn output(&mut self, stream: Stream, raw: &[u8], clean: &str, emit: &mut dyn FnMut(OutputEvent)) {
        if stream == Stream::Err {
            for line in clean.lines() {
                if self.events.error_line(line, emit) {
                    self.diagnostics.push(line);
                }
            }
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

    fn has_ended_turn(&self) -> bool {
        self.events.has_ended_turn()
    }
}

/// The last part of what a program printed for people: stderr, and lines of stdout that are not events.
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

    /// The last line that mentions an error or a failure, or else the last line that is not blank.
    pub(super) fn last_error_line(&self) -> Option<&str> {
        let lines = || self.0.lines().map(str::trim).filter(|line| !line.is_empty());
        let is_error_line = |line: &&str| line.contains("rror") || line.contains("ailed");
        lines().rfind(is_error_line).or_else(|| lines().next_back())
    }

    pub(crate) fn explain(&self, failure: &str) -> String {
        match self.last_error_line() {
            Some(line) => format!("{failure}: {}", truncate_bytes(line, 500)),
            None => failure.to_owned(),
        }
    }

    pub(super) fn mentions(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.0.contains(word))
    }
}

pub(super) fn message_item(text: &str) -> Option<OutputEvent> {
    let text = crate::clean(text);
    (!text.trim().is_empty()).then_some(OutputEvent::Item(Item::Said { text }))
}

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

pub(super) fn text<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The cost in dollars; 0 if there is none, or if it is negative or not finite: a program could report a negative
/// cost to hide what it spent.
pub(crate) fn reported_cost(event: &Value, pointer: &str) -> f64 {
    let cost = event.pointer(pointer).and_then(Value::as_f64);
    cost.filter(|cost| cost.is_finite() && *cost >= 0.0).unwrap_or_default()
}

pub(super) fn count(event: &Value, pointer: &str) -> u64 {
    event.pointer(pointer).and_then(Value::as_u64).map(reported_tokens).unwrap_or_default()
}
