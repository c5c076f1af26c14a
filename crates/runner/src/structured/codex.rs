//! Codex's app server: `codex app-server`, JSON-RPC without the version field. Verified with version 0.166.0.

use super::permission_options::{Offered, OptionKind, permission_options};
use super::request_text::{codex_changes, codex_request, indented};
use super::{ProtocolStep, StructuredProtocol, count, explain_failure, list, text};
use crate::adapter::codex::without_counter;
use crate::adapter::{Exit, OpenCalls, OutputEvent, ProgramOutcome, ReportedUsage, Trouble};
use althing_protocol::{Ask, AskKind, Item, Usage};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// All request ids are fixed, because each request is sent once.
const INITIALIZE: u64 = 1;
const THREAD: u64 = 2;
const TURN: u64 = 3;
/// What a question says that asks about something that Codex has not described, or has described in a message that was
/// too long to be read.
const UNKNOWN: &str = "Codex did not say what it wants to do, or the description was too long.";

/// One conversation with the app server.
#[derive(Debug)]
pub struct AppServer {
    prompt: String,
    cwd: String,
    model: Option<String>,
    resume: Option<String>,
    asks: bool,
    thread: String,
    open: BTreeMap<String, (Value, BTreeMap<String, Value>)>,
    changes: OpenCalls<String>,
    message: String,
    usage: Usage,
    completed: Option<Result<(), String>>,
}

impl AppServer {
    /// Prepares to send this prompt in a new conversation, or in the conversation with the id `resume`.
    pub fn new(prompt: &str, cwd: &str, model: Option<&str>, resume: Option<&str>) -> Self {
        Self {
            prompt: prompt.to_owned(),
            cwd: cwd.to_owned(),
            model: model.map(str::to_owned),
            resume: resume.map(str::to_owned),
            asks: true,
            thread: String::new(),
            open: BTreeMap::new(),
            changes: OpenCalls::default(),
            message: String::new(),
            usage: Usage::default(),
            completed: None,
        }
    }

    /// The same session, in which Codex asks for no permission, so that it can only read.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { asks: false, ..self }
    }

    fn response(&mut self, id: u64, message: &Value, step: &mut ProtocolStep) {
        if let Some(error) = message.pointer("/error") {
            let words = text(error, "/message");
            self.completed = Some(Err(if words.is_empty() { error.to_string() } else { words.to_owned() }));
            step.is_over = true;
            return;
        }
        match id {
            INITIALIZE => {
                step.messages.push(json!({ "method": "initialized" }));
                let policy = if self.asks { "on-request" } else { "never" };
                let mut params = json!({ "cwd": self.cwd, "approvalPolicy": policy, "sandbox": "read-only" });
                let mut set = |name: &str, value: &Option<String>| {
                    if let (Some(params), Some(value)) = (params.as_object_mut(), value) {
                        params.insert(name.to_owned(), json!(value));
                    }
                };
                set("model", &self.model);
                set("threadId", &self.resume);
                let method = if self.resume.is_some() { "thread/resume" } else { "thread/start" };
                step.messages.push(json!({ "id": THREAD, "method": method, "params": params }));
            }
            THREAD => {
                text(message, "/result/thread/id").clone_into(&mut self.thread);
                step.events.push(OutputEvent::Item(Item::Conversation { id: self.thread.clone() }));
                let input = json!([{ "type": "text", "text": self.prompt }]);
                let params = json!({ "threadId": self.thread, "input": input });
                step.messages.push(json!({ "id": TURN, "method": "turn/start", "params": params }));
                step.sends_prompt = true;
            }
            _ => {}
        }
    }

    fn request(&mut self, message: &Value, step: &mut ProtocolStep) {
        let (id, params) = (&message["id"], &message["params"]);
        let what = match text(message, "/method") {
            "item/commandExecution/requestApproval" => indented(text(params, "/command")),
            "item/fileChange/requestApproval" => {
                self.changes.get(text(params, "/itemId")).cloned().unwrap_or_default()
            }
            _ => {
                let error = json!({ "code": -32601, "message": "not supported" });
                step.messages.push(json!({ "id": id, "error": error }));
                return;
            }
        };
        let rejection = decision(&json!("decline"));
        let mut offered: Vec<Offered<Value>> = list(params, "/availableDecisions").map(decision).collect();
        if offered.is_empty() {
            offered.push(decision(&json!("accept")));
        }
        // What is not shown cannot be allowed.
        let is_unknown = what.trim().is_empty() && params["networkApprovalContext"].is_null();
        let (what, decisions) = if is_unknown {
            (UNKNOWN.to_owned(), permission_options(vec![decision(&json!("decline"))], rejection))
        } else {
            (what, permission_options(offered, rejection))
        };
        let native = format!("request-{id}");
        step.questions.push(Ask {
            about: AskKind::Permission,
            text: codex_request(params, &what, &self.cwd),
            options: decisions.iter().map(|(option, _)| option.clone()).collect(),
            native: Some(native.clone()),
        });
        let decisions = decisions.into_iter().map(|(option, decision)| (option.id, decision)).collect();
        self.open.insert(native, (id.clone(), decisions));
    }

    fn notification(&mut self, message: &Value, step: &mut ProtocolStep) {
        let params = &message["params"];
        match text(message, "/method") {
            "item/started" if text(params, "/item/type") == "fileChange" => {
                let changes = codex_changes(&params["item"]);
                self.changes.insert(text(params, "/item/id"), changes.len(), changes);
            }
            "item/completed" => {
                self.changes.remove(text(params, "/item/id"));
                self.item(&params["item"], step);
            }
            "thread/tokenUsage/updated" => {
                let total = params.pointer("/tokenUsage/total").unwrap_or(&Value::Null);
                self.usage = Usage {
                    input_tokens: count(total, "/inputTokens"),
                    output_tokens: count(total, "/outputTokens"),
                    cached_input_tokens: count(total, "/cachedInputTokens"),
                    reasoning_tokens: count(total, "/reasoningOutputTokens"),
                    cost_usd: 0.0,
                    calls: self.usage.calls + 1,
                    unpriced_calls: 0,
                };
            }
            "serverRequest/resolved" => {
                let native = format!("request-{}", params["requestId"]);
                if self.open.remove(&native).is_some() {
                    step.closed_questions.push(native);
                }
            }
            "error" if params["willRetry"] == true => {
                let details = text(params, "/error/additionalDetails");
                let message = without_counter(text(params, "/error/message"));
                step.events.push(Trouble::passing(if details.is_empty() { message } else { details }));
            }
            "turn/completed" => {
                let error = text(params, "/turn/error/message");
                self.completed = Some(match text(params, "/turn/status") {
                    "completed" => Ok(()),
                    status if error.is_empty() => Err(format!("the turn ended with the status {status}")),
                    _ => Err(error.to_owned()),
                });
                step.is_over = true;
            }
            _ => {}
        }
    }

    fn item(&mut self, item: &Value, step: &mut ProtocolStep) {
        let failed = matches!(text(item, "/status"), "failed" | "declined");
        let did = |tool: &str, detail: String, result: Option<String>, is_error: bool| {
            OutputEvent::Item(Item::Did { tool: tool.to_owned(), detail, result, is_error })
        };
        match text(item, "/type") {
            "agentMessage" => {
                text(item, "/text").clone_into(&mut self.message);
                step.events.push(OutputEvent::Item(Item::Said { text: self.message.clone() }));
            }
            "commandExecution" => {
                let output = Some(text(item, "/aggregatedOutput")).filter(|output| !output.is_empty());
                let wrong = item["exitCode"].as_i64().is_some_and(|code| code != 0);
                let command = text(item, "/command").to_owned();
                step.events.push(did("shell", command, output.map(str::to_owned), failed || wrong));
            }
            "fileChange" => {
                let paths: Vec<&str> = list(item, "/changes").map(|change| text(change, "/path")).collect();
                step.events.push(did("edit", paths.join(" "), None, failed));
            }
            "mcpToolCall" => {
                step.events.push(did(text(item, "/tool"), item["arguments"].to_string(), None, failed));
            }
            _ => {}
        }
    }
}

fn decision(decision: &Value) -> Offered<Value> {
    let id = match decision {
        Value::String(word) => word.clone(),
        other => other.as_object().and_then(|object| object.keys().next()).cloned().unwrap_or_default(),
    };
    let such = decision.pointer("/acceptWithExecpolicyAmendment/execpolicy_amendment");
    let such = such.map(|such| format!("Allow, and do not ask again for commands that begin with {such}"));
    let label = match id.as_str() {
        "accept" => "Allow",
        "acceptForSession" => "Allow for this session",
        "acceptWithExecpolicyAmendment" => {
            such.as_deref().unwrap_or("Allow, and do not ask again for such commands")
        }
        "decline" => "Deny",
        "cancel" => "Deny, and stop",
        other => other,
    };
    let kind = match id.as_str() {
        "accept" => OptionKind::Allow,
        "acceptForSession" | "acceptWithExecpolicyAmendment" => OptionKind::AllowAlways,
        "decline" | "cancel" => OptionKind::Reject,
        _ => OptionKind::Other,
    };
    Offered { kind, label: label.to_owned(), native_id: id, answer: decision.clone() }
}

impl StructuredProtocol for AppServer {
    fn begin(&mut self) -> Vec<Value> {
        let client = json!({ "name": "althing", "title": "Althing", "version": env!("CARGO_PKG_VERSION") });
        vec![json!({ "id": INITIALIZE, "method": "initialize", "params": { "clientInfo": client } })]
    }

    fn receive(&mut self, message: &Value, step: &mut ProtocolStep) {
        match (message.get("method"), message.get("id")) {
            (Some(_), Some(_)) => self.request(message, step),
            (Some(_), None) => self.notification(message, step),
            (None, id) => self.response(id.and_then(Value::as_u64).unwrap_or_default(), message, step),
        }
    }

    fn answer(&mut self, native: &str, option: &str) -> Option<Vec<Value>> {
        let decision = self.open.get(native)?.1.get(option)?.clone();
        let (id, _) = self.open.remove(native)?;
        Some(vec![json!({ "id": id, "result": { "decision": decision } })])
    }

    fn end(&mut self, exit: Exit, diagnostics: &str) -> ProgramOutcome {
        // Codex reports the tokens of the whole conversation, and no cost.
        let this_run = Usage { calls: self.usage.calls, ..Usage::default() };
        let conversation_total = Usage { calls: 0, ..self.usage };
        let usage = ReportedUsage { this_run, conversation_total, ..ReportedUsage::default() };
        let message = Some(std::mem::take(&mut self.message));
        let error = match self.completed.take() {
            Some(Ok(())) => None,
            Some(Err(error)) => Some(error),
            None => Some(explain_failure(&format!("codex did not complete its turn; {exit}"), diagnostics)),
        };
        let signed_out = error.as_deref().is_some_and(|error| error.contains("401"));
        let hint = signed_out.then(|| "run `codex login`, or set OPENAI_API_KEY".to_owned());
        ProgramOutcome { ok: error.is_none(), message, error, hint, usage }
    }
}
