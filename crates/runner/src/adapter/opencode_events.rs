//! Parses the JSON events and log lines of a headless run of opencode.

use super::events::{Diagnostics, EventHandler, count, message_item, reported_cost, text, tool_item};
use super::open_calls::push_piece;
use super::{Exit, OutputEvent, ProgramOutcome, ReportedUsage, Trouble};
use althing_protocol::{Item, Usage};
use serde_json::Value;

#[derive(Debug, Default)]
pub(super) struct OpencodeEvents {
    known: bool,
    message: String,
    reason: String,
    error: Option<String>,
    trouble: Option<String>,
    status: u64,
    usage: Usage,
}

impl EventHandler for OpencodeEvents {
    fn event(&mut self, event: &Value, emit: &mut dyn FnMut(OutputEvent)) {
        let id = text(event, "/sessionID");
        if !self.known && !id.is_empty() {
            self.known = true;
            emit(OutputEvent::Item(Item::Conversation { id: id.to_owned() }));
        }
        match text(event, "/type") {
            "text" => {
                let piece = text(event, "/part/text");
                if !self.message.is_empty() {
                    push_piece(&mut self.message, "\n");
                }
                push_piece(&mut self.message, piece);
                message_item(piece).into_iter().for_each(emit);
            }
            "tool_use" => {
                self.message.clear();
                let state = event.pointer("/part/state").unwrap_or(&Value::Null);
                let failed = text(state, "/status") == "error";
                let result = if failed { text(state, "/error") } else { text(state, "/output") };
                let input = state.pointer("/input").unwrap_or(&Value::Null);
                emit(tool_item(text(event, "/part/tool"), input, Some(result), failed));
            }
            // opencode reports a step when the reply of the model begins, and a tool call only when the tool is done.
            "step_start" => emit(OutputEvent::ModelReplies),
            "step_finish" => self.step(event),
            "error" => {
                let message = text(event, "/error/data/message");
                let message = if message.is_empty() { text(event, "/error/name") } else { message };
                self.status = count(event, "/error/data/statusCode");
                self.error = Some(message.to_owned());
            }
            _ => {}
        }
    }

    fn error_line(&mut self, line: &str, emit: &mut dyn FnMut(OutputEvent)) -> bool {
        if let Some(said) = stream_error(line) {
            self.trouble = Some(said.to_owned());
            emit(Trouble::passing(said));
        }
        !is_log_line(line)
    }

    fn has_ended_turn(&self) -> bool {
        self.reason == "stop"
    }

    /// opencode has no final event.
    fn end(
        &mut self,
        exit: Exit,
        diagnostics: &Diagnostics,
        _tell: &mut dyn FnMut(OutputEvent),
    ) -> ProgramOutcome {
        let ok = self.reason == "stop" && self.error.is_none() && exit.is_success();
        let hint = if self.status == 401 {
            Some("run `opencode auth login`, or set the provider's key".to_owned())
        } else if diagnostics.mentions(&["auto-rejecting"]) {
            Some("opencode's permission rules refused a tool that nobody could be asked about; allow the tool in opencode's settings".to_owned())
        } else {
            None
        };
        let error = (!ok).then(|| {
            let failure = format!("opencode did not finish its turn; {exit}");
            match (self.error.take(), self.trouble.take()) {
                (Some(error), _) => error,
                (None, Some(said)) => format!("{failure}: {said}"),
                (None, None) => diagnostics.explain(&failure),
            }
        });
        let usage = ReportedUsage { this_run: self.usage, ..ReportedUsage::default() };
        ProgramOutcome { ok, message: Some(std::mem::take(&mut self.message)), error, hint, usage }
    }
}

pub(crate) fn is_log_line(line: &str) -> bool {
    line.starts_with("timestamp=")
}

/// The error in a log line with which opencode reports a failed request to its model, except for a request for the
/// title of the conversation.
pub(crate) fn stream_error(line: &str) -> Option<&str> {
    if !is_log_line(line) || !line.contains("message=\"stream error\"") || line.contains(" small=true ") {
        return None;
    }
    let (_, error) = line.split_once(" error.error=")?;
    Some(error.trim().trim_matches('"'))
}

impl OpencodeEvents {
    fn step(&mut self, event: &Value) {
        text(event, "/part/reason").clone_into(&mut self.reason);
        let cached = count(event, "/part/tokens/cache/read");
        let reasoning = count(event, "/part/tokens/reasoning");
        let fresh = count(event, "/part/tokens/input") + count(event, "/part/tokens/cache/write");
        self.usage += Usage {
            input_tokens: fresh + cached,
            output_tokens: count(event, "/part/tokens/output") + reasoning,
            cached_input_tokens: cached,
            reasoning_tokens: reasoning,
            cost_usd: reported_cost(event, "/part/cost"),
            calls: 1,
            unpriced_calls: 0,
        };
    }
}
