//! Parses the JSON events of a headless run of Claude Code.

use super::events::{Diagnostics, EventHandler, count, message_item, reported_cost, text, tool_item};
use super::open_calls::OpenCalls;
use super::{Exit, ModelUsage, OutputEvent, ProgramOutcome, ReportedUsage, Trouble};
use althing_protocol::{Item, Usage};
use althing_text::estimate_tokens;
use serde_json::Value;

#[derive(Debug, Default)]
pub(super) struct ClaudeEvents {
    session: Option<String>,
    calls: OpenCalls<(String, Value)>,
    message: String,
    turns: u64,
    /// The usage of the messages by model, which counts only if no result event comes.
    messages: Vec<ModelUsage>,
    /// Why a request to the model failed most recently; kept if a later request succeeds.
    trouble: Option<String>,
    result: Option<Value>,
}

impl EventHandler for ClaudeEvents {
    fn event(&mut self, event: &Value, emit: &mut dyn FnMut(OutputEvent)) {
        if self.session.is_none() && text(event, "/subtype") == "init" {
            let id = text(event, "/session_id").to_owned();
            emit(OutputEvent::Item(Item::Conversation { id: id.clone() }));
            self.session = Some(id);
        }
        match text(event, "/type") {
            "assistant" => self.assistant(event, emit),
            "user" => self.results(event, emit),
            "stream_event" if text(event, "/event/type") == "message_start" => {
                emit(OutputEvent::ModelReplies)
            }
            "stream_event" if text(event, "/event/delta/type") == "text_delta" => {
                emit(OutputEvent::TextDelta(text(event, "/event/delta/text").to_owned()));
            }
            "result" => self.result = Some(event.clone()),
            "system" if text(event, "/subtype") == "api_retry" => {
                let trouble = retry_trouble(event);
                self.trouble = Some(trouble.text.clone());
                emit(OutputEvent::Trouble(trouble));
            }
            _ => {}
        }
    }

    fn has_ended_turn(&self) -> bool {
        self.result.is_some()
    }

    fn end(
        &mut self,
        exit: Exit,
        diagnostics: &Diagnostics,
        _tell: &mut dyn FnMut(OutputEvent),
    ) -> ProgramOutcome {
        let Some(result) = self.result.take() else {
            let said = self.trouble.take();
            let signed_out = said.as_deref().is_some_and(|said| said.contains(SIGNED_OUT));
            let error =
                said.unwrap_or_else(|| diagnostics.explain(&format!("claude gave no result; {exit}")));
            return ProgramOutcome {
                error: Some(error),
                hint: if signed_out { Some(SIGN_IN.to_owned()) } else { hint(diagnostics) },
                message: Some(String::new()),
                usage: self.usage_of_messages(),
                ..ProgramOutcome::default()
            };
        };
        let message = text(&result, "/result");
        let failed = result.pointer("/is_error").and_then(Value::as_bool).unwrap_or(true);
        let ok = !failed && exit.is_success();
        let error = (!ok).then(|| match (message, text(&result, "/errors/0")) {
            ("", "") => diagnostics.explain(&exit.to_string()),
            ("", first) => first.to_owned(),
            (message, _) if failed => message.to_owned(),
            _ => diagnostics.explain(&exit.to_string()),
        });
        let signed_out = text(&result, "/api_error_type") == "authentication_error";
        let denied = result.pointer("/permission_denials").and_then(Value::as_array).map_or(0, Vec::len);
        let hint = if signed_out {
            Some(SIGN_IN.to_owned())
        } else if denied > 0 {
            Some(format!(
                "claude was not allowed to use a tool ({})",
                althing_text::count(denied as u64, "time")
            ))
        } else {
            hint(diagnostics).filter(|_| !ok)
        };
        ProgramOutcome { ok, message: Some(message.to_owned()), error, hint, usage: self.usage(&result) }
    }
}

impl ClaudeEvents {
    fn assistant(&mut self, event: &Value, emit: &mut dyn FnMut(OutputEvent)) {
        let id = text(event, "/message/id");
        if text(event, "/message/model") == "<synthetic>" {
            return;
        }
        let is_new = id != self.message;
        if is_new {
            id.clone_into(&mut self.message);
            self.turns += 1;
        }
        emit(OutputEvent::ModelReplies);
        self.count_message(event, is_new);
        for block in blocks(event) {
            match text(block, "/type") {
                "text" => message_item(text(block, "/text")).into_iter().for_each(&mut *emit),
                "tool_use" => {
                    let input = block.pointer("/input").cloned().unwrap_or_default();
                    let bytes = input.to_string().len();
                    let call = (text(block, "/name").to_owned(), input);
                    self.calls.insert(text(block, "/id"), bytes, call);
                }
                _ => {}
            }
        }
    }

    fn results(&mut self, event: &Value, emit: &mut dyn FnMut(OutputEvent)) {
        for block in blocks(event).filter(|block| text(block, "/type") == "tool_result") {
            let Some((tool, input)) = self.calls.remove(text(block, "/tool_use_id")) else { continue };
            let is_error = block.pointer("/is_error").and_then(Value::as_bool).unwrap_or_default();
            let content = match block.pointer("/content") {
                Some(Value::String(content)) => content.clone(),
                Some(Value::Array(parts)) => {
                    parts.iter().map(|part| text(part, "/text")).collect::<Vec<_>>().join("\n")
                }
                _ => String::new(),
            };
            emit(tool_item(&tool, &input, Some(&content), is_error));
        }
    }

    /// Each event contains one block of a message and comes before the number of output tokens is known, so that
    /// number is estimated.
    fn count_message(&mut self, event: &Value, is_new: bool) {
        let model = text(event, "/message/model");
        let at = self.messages.iter().position(|row| row.model == model);
        let most = self.messages.get(..MAX_MODELS).map(|_| MAX_MODELS - 1);
        let at = at.or(most).unwrap_or_else(|| {
            self.messages.push(ModelUsage { model: model.to_owned(), usage: Usage::default() });
            self.messages.len() - 1
        });
        let mut usage = Usage {
            output_tokens: blocks(event).map(|block| estimate_tokens(&written(block))).sum(),
            ..Usage::default()
        };
        if is_new {
            let cached = count(event, "/message/usage/cache_read_input_tokens");
            let uncached = count(event, "/message/usage/input_tokens")
                .saturating_add(count(event, "/message/usage/cache_creation_input_tokens"));
            usage.input_tokens = uncached.saturating_add(cached);
            usage.cached_input_tokens = cached;
            usage.calls = 1;
        }
        if let Some(row) = self.messages.get_mut(at) {
            row.usage += usage;
        }
    }

    /// The usage of a run without a result event: that of its messages, and one more call, which was cut off.
    fn usage_of_messages(&mut self) -> ReportedUsage {
        let by_model = std::mem::take(&mut self.messages);
        let mut this_run = Usage { calls: 1, unpriced_calls: 1, ..Usage::default() };
        for row in &by_model {
            this_run += row.usage;
        }
        ReportedUsage { this_run, by_model, ..ReportedUsage::default() }
    }

    /// Claude Code reports the tokens of this run alone, but the cost of the whole conversation.
    fn usage(&self, result: &Value) -> ReportedUsage {
        let cached = count(result, "/usage/cache_read_input_tokens");
        let this_run = Usage {
            input_tokens: count(result, "/usage/input_tokens")
                + count(result, "/usage/cache_creation_input_tokens")
                + cached,
            output_tokens: count(result, "/usage/output_tokens"),
            cached_input_tokens: cached,
            reasoning_tokens: count(result, "/usage/output_tokens_details/thinking_tokens"),
            cost_usd: 0.0,
            calls: self.turns,
            unpriced_calls: 0,
        };
        let cost_usd = reported_cost(result, "/total_cost_usd");
        ReportedUsage {
            this_run,
            conversation_total: Usage { cost_usd, ..Usage::default() },
            ..ReportedUsage::default()
        }
    }
}

/// The tokens of further models are counted with those of the last one.
const MAX_MODELS: usize = 100;
pub(super) const SIGN_IN: &str = "run `claude` once to sign in, or set ANTHROPIC_API_KEY";
const SIGNED_OUT: &str = "authentication_failed";
/// A rejected key is final from this retry on: after the first failure, Claude Code renews a token that has expired.
const FINAL_RETRY: u64 = 3;

fn retry_trouble(event: &Value) -> Trouble {
    let error = match text(event, "/error") {
        "" => "unknown error",
        error => error,
    };
    let status = count(event, "/error_status");
    let text = match status {
        0 => format!("the request to the model failed ({error})"),
        status => format!("the request to the model failed with HTTP {status} ({error})"),
    };
    let is_refused = matches!(status, 401 | 403);
    Trouble { text, is_final: is_refused && count(event, "/attempt") >= FINAL_RETRY }
}

pub(super) fn stored_message(line: &Value) -> Option<String> {
    let is_ours = text(line, "/type") == "assistant"
        && line.pointer("/isSidechain") != Some(&Value::Bool(true))
        && text(line, "/message/model") != "<synthetic>";
    let texts: Vec<&str> =
        blocks(line).map(|block| text(block, "/text")).filter(|text| !text.is_empty()).collect();
    is_ours.then(|| texts.join("\n"))
}

fn blocks(event: &Value) -> impl Iterator<Item = &Value> {
    event.pointer("/message/content").and_then(Value::as_array).into_iter().flatten()
}

fn written(block: &Value) -> String {
    let prose = ["/text", "/thinking"].map(|name| text(block, name)).concat();
    let input = block.pointer("/input").map(Value::to_string).unwrap_or_default();
    prose + &input
}

fn hint(diagnostics: &Diagnostics) -> Option<String> {
    diagnostics.mentions(&["/login", "Invalid API key", "authentication"]).then(|| SIGN_IN.to_owned())
}
