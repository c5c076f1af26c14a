//! The Agent Client Protocol (ACP), version 1: `gemini --acp`, `opencode acp`. Verified with gemini 0.61.0 and
//! opencode 1.18.33. We do not offer the protocol's access to files and terminals, so the agent uses its own tools.

use super::permission_options::{Offered, OptionKind, permission_options};
use super::request_text::acp_call;
use super::{ProtocolStep, StructuredProtocol, count, explain_failure, list, text};
use crate::adapter::gemini::failed_attempt;
use crate::adapter::opencode_events::{is_log_line, stream_error};
use crate::adapter::{
    Exit, OpenCalls, OutputEvent, ProgramOutcome, ReportedUsage, Trouble, push_piece, reported_cost,
};
use althing_protocol::{Ask, AskKind, AskOption, Item, Usage};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// All request ids are fixed, because each request is sent once.
const INITIALIZE: u64 = 1;
const SESSION: u64 = 2;
const PROMPT: u64 = 3;

/// One conversation over ACP.
#[derive(Debug)]
pub struct Acp {
    program: String,
    prompt: String,
    cwd: String,
    resume: Option<String>,
    session: String,
    /// Whether the prompt was sent; updates before that replay the history and are ignored.
    prompted: bool,
    open: BTreeMap<String, (Value, BTreeMap<String, Value>)>,
    tools: OpenCalls<(String, String)>,
    /// The message that is being received or, if `whole` is true, the last complete one.
    message: String,
    whole: bool,
    usage: Usage,
    completed: Option<Result<(), String>>,
}

impl Acp {
    /// Prepares to send this prompt in a new conversation, or in the conversation with the id `resume`.
    pub fn new(program: &str, prompt: &str, cwd: &str, resume: Option<&str>) -> Self {
        Self {
            program: program.to_owned(),
            prompt: prompt.to_owned(),
            cwd: cwd.to_owned(),
            resume: resume.map(str::to_owned),
            session: String::new(),
            prompted: false,
            open: BTreeMap::new(),
            tools: OpenCalls::default(),
            message: String::new(),
            whole: true,
            usage: Usage::default(),
            completed: None,
        }
    }

    fn response(&mut self, id: u64, message: &Value, step: &mut ProtocolStep) {
        if let Some(error) = message.pointer("/error") {
            let words = [text(error, "/message"), text(error, "/data/details")];
            let words: Vec<&str> = words.into_iter().filter(|words| !words.is_empty()).collect();
            self.completed = Some(Err(words.join(": ")));
            step.is_over = true;
            return;
        }
        match id {
            INITIALIZE => {
                let mut params = json!({ "cwd": self.cwd, "mcpServers": [] });
                let method = match (&self.resume, params.as_object_mut()) {
                    (Some(id), Some(params)) => {
                        params.insert("sessionId".to_owned(), json!(id));
                        "session/load"
                    }
                    _ => "session/new",
                };
                step.messages.push(request(SESSION, method, &params));
            }
            SESSION => {
                let id = text(message, "/result/sessionId");
                self.session = self.resume.clone().unwrap_or_else(|| id.to_owned());
                step.events.push(OutputEvent::Item(Item::Conversation { id: self.session.clone() }));
                let prompt = json!([{ "type": "text", "text": self.prompt }]);
                let params = json!({ "sessionId": self.session, "prompt": prompt });
                step.messages.push(request(PROMPT, "session/prompt", &params));
                (step.sends_prompt, self.prompted) = (true, true);
            }
            PROMPT => {
                self.end_message(step);
                self.record_usage(&message["result"]);
                self.completed = Some(match text(message, "/result/stopReason") {
                    "end_turn" => Ok(()),
                    reason => Err(format!("the turn ended with the reason {reason}")),
                });
                step.is_over = true;
            }
            _ => {}
        }
    }

    /// Gemini CLI and opencode report the tokens in different places; the cost comes with `usage_update`.
    fn record_usage(&mut self, result: &Value) {
        let either = |one: &str, other: &str| count(result, one).max(count(result, other));
        self.usage.input_tokens = either("/usage/inputTokens", "/_meta/quota/token_count/input_tokens");
        self.usage.output_tokens = either("/usage/outputTokens", "/_meta/quota/token_count/output_tokens");
    }

    fn on_request(&mut self, message: &Value, step: &mut ProtocolStep) {
        let (id, params) = (&message["id"], &message["params"]);
        if text(message, "/method") != "session/request_permission" {
            let error = json!({ "code": -32601, "message": "not supported" });
            step.messages.push(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            return;
        }
        self.end_message(step);
        let (options, answers) = options(params).into_iter().unzip();
        let native = format!("request-{id}");
        self.open.insert(native.clone(), (id.clone(), answers));
        let (about, text) = (AskKind::Permission, acp_call(&params["toolCall"]));
        step.questions.push(Ask { about, text, options, native: Some(native) });
    }

    fn update(&mut self, update: &Value, step: &mut ProtocolStep) {
        match text(update, "/sessionUpdate") {
            "agent_message_chunk" => {
                if std::mem::take(&mut self.whole) {
                    self.message.clear();
                    self.usage.calls += 1;
                }
                let piece = text(update, "/content/text");
                push_piece(&mut self.message, piece);
                step.events.push(OutputEvent::TextDelta(piece.to_owned()));
            }
            "tool_call" | "tool_call_update" => {
                self.end_message(step);
                self.tool(update, step);
            }
            "usage_update" => {
                self.usage.cost_usd = reported_cost(update, "/cost/amount");
            }
            _ => {}
        }
    }

    fn tool(&mut self, update: &Value, step: &mut ProtocolStep) {
        let id = text(update, "/toolCallId");
        let (mut tool, mut detail) = self.tools.remove(id).unwrap_or_default();
        for (pointer, found) in [("/kind", &mut tool), ("/title", &mut detail)] {
            let value = text(update, pointer);
            if !value.is_empty() {
                value.clone_into(found);
            }
        }
        let status = text(update, "/status");
        if matches!(status, "completed" | "failed") {
            let results: Vec<&str> =
                list(update, "/content").map(|part| text(part, "/content/text")).collect();
            let result = Some(results.join("\n")).filter(|result| !result.trim().is_empty());
            let is_error = status == "failed";
            step.events.push(OutputEvent::Item(Item::Did { tool, detail, result, is_error }));
        } else {
            self.tools.insert(id, tool.len() + detail.len(), (tool, detail));
        }
    }

    fn end_message(&mut self, step: &mut ProtocolStep) {
        if !self.whole && !self.message.trim().is_empty() {
            step.events.push(OutputEvent::Item(Item::Said { text: self.message.clone() }));
        }
        self.whole = true;
    }
}

fn options(params: &Value) -> Vec<(AskOption, (String, Value))> {
    let offered = list(params, "/options").map(|choice| Offered {
        kind: match text(choice, "/kind") {
            "allow_once" => OptionKind::Allow,
            "allow_always" => OptionKind::AllowAlways,
            "reject_once" => OptionKind::Reject,
            _ => OptionKind::Other,
        },
        native_id: text(choice, "/optionId").to_owned(),
        label: text(choice, "/name").to_owned(),
        answer: json!({ "outcome": "selected", "optionId": text(choice, "/optionId") }),
    });
    let rejection = Offered {
        kind: OptionKind::Reject,
        native_id: "reject".to_owned(),
        label: "Reject".to_owned(),
        answer: json!({ "outcome": "cancelled" }),
    };
    let options = permission_options(offered.collect(), rejection);
    options.into_iter().map(|(option, answer)| (option.clone(), (option.id, answer))).collect()
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

impl StructuredProtocol for Acp {
    fn begin(&mut self) -> Vec<Value> {
        let files = json!({ "readTextFile": false, "writeTextFile": false });
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": { "fs": files, "terminal": false },
            "clientInfo": { "name": "althing", "version": env!("CARGO_PKG_VERSION") },
        });
        vec![request(INITIALIZE, "initialize", &params)]
    }

    fn receive(&mut self, message: &Value, step: &mut ProtocolStep) {
        match (message.get("method"), message.get("id")) {
            (Some(_), Some(_)) => self.on_request(message, step),
            (Some(_), None) => {
                if let Some(update) = message.pointer("/params/update").filter(|_| self.prompted) {
                    self.update(update, step);
                }
            }
            (None, id) => self.response(id.and_then(Value::as_u64).unwrap_or_default(), message, step),
        }
    }

    fn trouble(&self, line: &str) -> Option<OutputEvent> {
        failed_attempt(line).or_else(|| stream_error(line)).map(Trouble::passing)
    }

    fn answer(&mut self, native: &str, option: &str) -> Option<Vec<Value>> {
        let outcome = self.open.get(native)?.1.get(option)?.clone();
        let (id, _) = self.open.remove(native)?;
        Some(vec![json!({ "jsonrpc": "2.0", "id": id, "result": { "outcome": outcome } })])
    }

    fn end(&mut self, exit: Exit, diagnostics: &str) -> ProgramOutcome {
        let usage = ReportedUsage { this_run: self.usage, ..ReportedUsage::default() };
        let message = Some(std::mem::take(&mut self.message));
        let failure = format!("{} did not finish its turn; {exit}", self.program);
        let error = match self.completed.take() {
            Some(Ok(())) => None,
            Some(Err(error)) => Some(error),
            None => {
                let lines: Vec<&str> = diagnostics.lines().filter(|line| !is_log_line(line)).collect();
                Some(explain_failure(&failure, &lines.join("\n")))
            }
        };
        let signed_out = error.as_deref().is_some_and(|error| error.contains("uthentic"));
        let hint = signed_out.then(|| format!("run `{}` once to sign in, or set its API key", self.program));
        ProgramOutcome { ok: error.is_none(), message, error, hint, usage }
    }
}
