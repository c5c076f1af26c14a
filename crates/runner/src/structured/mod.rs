//! Structured protocols of CLI agents, over which a headless agent can ask a person for permission and continue with
//! the answer. A protocol is a pure state machine that does no I/O and reads no clock.

mod acp;
mod claude;
mod codex;
mod permission_options;
mod request_text;

pub use acp::Acp;
pub use claude::ClaudeControl;
pub use codex::AppServer;

use crate::adapter::{Exit, OutputEvent, ProgramOutcome};
use althing_protocol::{Ask, AskOption, reported_tokens};
use serde_json::Value;

/// One conversation over a CLI agent's structured protocol: lines of JSON in both directions.
pub trait StructuredProtocol: Send + std::fmt::Debug {
    /// The first messages to send.
    fn begin(&mut self) -> Vec<Value>;

    /// Handles a message from the agent and fills in what follows from it.
    fn receive(&mut self, message: &Value, step: &mut ProtocolStep);

    /// Why the agent cannot reach its model, if this line of its stderr says so.
    fn trouble(&self, _line: &str) -> Option<OutputEvent> {
        None
    }

    /// The messages that answer a question; `None` if there is no such open question or option. A question from
    /// Claude Code's tool `AskUserQuestion` accepts any text as the option.
    fn answer(&mut self, native: &str, option: &str) -> Option<Vec<Value>>;

    /// Determines the outcome at the end; `diagnostics` is the last part of the agent's stderr.
    fn end(&mut self, exit: Exit, diagnostics: &str) -> ProgramOutcome;
}

/// What follows from a received message.
#[derive(Debug, Default, PartialEq)]
pub struct ProtocolStep {
    /// The messages to be sent to the agent.
    pub messages: Vec<Value>,
    /// What the agent said or did.
    pub events: Vec<OutputEvent>,
    /// New questions for a person.
    pub questions: Vec<Ask>,
    /// Ids of questions that need no answer any more.
    pub closed_questions: Vec<String>,
    /// Whether `messages` contains the prompt.
    pub sends_prompt: bool,
    /// Whether the turn is over: nothing more is sent, and the program may exit.
    pub is_over: bool,
}

fn option(id: &str, label: &str) -> AskOption {
    AskOption { id: id.to_owned(), label: label.to_owned() }
}

fn text<'a>(message: &'a Value, pointer: &str) -> &'a str {
    message.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn count(message: &Value, pointer: &str) -> u64 {
    message.pointer(pointer).and_then(Value::as_u64).map(reported_tokens).unwrap_or_default()
}

fn list<'a>(message: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    message.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn explain_failure(failure: &str, diagnostics: &str) -> String {
    match diagnostics.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        Some(line) => format!("{failure}: {line}"),
        None => failure.to_owned(),
    }
}

#[cfg(test)]
mod tests;
