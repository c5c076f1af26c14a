//! Programs that are spoken to over their own structured protocols, so that one on pipes can ask a person and go on.
//!
//! A dialogue knows one protocol: what to say, what was said, what an answer means. It touches no pipe and no clock;
//! whoever drives it does. Approvals come out as the same questions as those of programs in terminals.

mod acp;
mod claude;
mod codex;

pub use acp::Acp;
pub use claude::ClaudeControl;
pub use codex::AppServer;

use crate::adapter::{Exit, OutputEvent, ProgramOutcome};
use althing_protocol::{Ask, AskOption};
use serde_json::Value;

/// One conversation over a program's structured protocol: lines of JSON both ways.
pub trait StructuredProtocol: Send + std::fmt::Debug {
    /// What is said first.
    fn begin(&mut self) -> Vec<Value>;

    /// Takes in a message.
    fn receive(&mut self, message: &Value, step: &mut ProtocolStep);

    /// What gives this answer to the question of this id; None where that was not asked, or was answered.
    fn answer(&mut self, native: &str, option: &str) -> Option<Vec<Value>>;

    /// Judges it once it is over; `diagnostics` is the end of what the program wrote for people.
    fn end(&mut self, exit: Exit, diagnostics: &str) -> ProgramOutcome;
}

/// What came of a message.
#[derive(Debug, Default, PartialEq)]
pub struct ProtocolStep {
    /// To be said.
    pub messages: Vec<Value>,
    /// What was said or done.
    pub events: Vec<OutputEvent>,
    /// What is asked.
    pub questions: Vec<Ask>,
    /// Questions that need no answer any more.
    pub closed_questions: Vec<String>,
    /// Whether the prompt is among what is to be said.
    pub sends_prompt: bool,
    /// Whether it is over: nothing more is said, and the program may leave.
    pub is_over: bool,
}

/// An answer by name.
fn option(id: &str, label: &str) -> AskOption {
    AskOption { id: id.to_owned(), label: label.to_owned() }
}

/// A text inside a message; empty where there is none.
fn text<'a>(message: &'a Value, pointer: &str) -> &'a str {
    message.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A number inside a message.
fn count(message: &Value, pointer: &str) -> u64 {
    message.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

/// A list inside a message.
fn list<'a>(message: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    message.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// The last line of a complaint, for a failure that has no better words.
fn explain_failure(failure: &str, diagnostics: &str) -> String {
    match diagnostics.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        Some(line) => format!("{failure}: {line}"),
        None => failure.to_owned(),
    }
}

#[cfg(test)]
mod tests;
