//! Claude Code's control protocol: `claude -p --input-format stream-json --permission-prompt-tool stdio`. Verified
//! with version 2.1.325. Handles the questions; the parser of headless output reads the other events.

use super::request_text::whole_input;
use super::{ProtocolStep, StructuredProtocol, list, option, text};
use crate::adapter::{Exit, OutputParser, ProgramOutcome, Stream};
use althing_protocol::{Ask, AskKind};
use althing_text::sanitize::visible_line;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One conversation over the control protocol.
pub struct ClaudeControl {
    prompt: String,
    parser: Box<dyn OutputParser>,
    open: BTreeMap<String, (String, Value)>,
}

impl std::fmt::Debug for ClaudeControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaudeControl").field("open", &self.open).finish_non_exhaustive()
    }
}

const ASK_TOOL: &str = "AskUserQuestion";

impl ClaudeControl {
    /// A conversation that sends this prompt. `parser` is the parser of headless output.
    pub fn new(prompt: &str, parser: Box<dyn OutputParser>) -> Self {
        Self { prompt: prompt.to_owned(), parser, open: BTreeMap::new() }
    }

    fn on_request(&mut self, message: &Value) -> Option<Ask> {
        let id = text(message, "/request_id").to_owned();
        let request = message.pointer("/request")?;
        let input = request.pointer("/input").cloned().unwrap_or_default();
        let tool = text(request, "/tool_name").to_owned();
        let ask = if tool == ASK_TOOL {
            let labels = list(&input, "/questions/0/options").map(|choice| text(choice, "/label"));
            Ask {
                about: AskKind::Question,
                text: text(&input, "/questions/0/question").to_owned(),
                options: labels.map(|label| option(label, label)).collect(),
                native: Some(id.clone()),
            }
        } else {
            Ask {
                about: AskKind::Permission,
                text: format!("{}: {}", visible_line(&tool), whole_input(&input)),
                options: vec![option("allow", "Allow"), option("reject", "Deny")],
                native: Some(id.clone()),
            }
        };
        self.open.insert(id, (tool, input));
        Some(ask)
    }
}

impl StructuredProtocol for ClaudeControl {
    fn begin(&mut self) -> Vec<Value> {
        let request = json!({ "subtype": "initialize", "hooks": null });
        vec![json!({ "type": "control_request", "request_id": "initialize", "request": request })]
    }

    fn receive(&mut self, message: &Value, step: &mut ProtocolStep) {
        match text(message, "/type") {
            "control_response" if text(message, "/response/request_id") == "initialize" => {
                step.messages.push(json!({
                    "type": "user",
                    "message": { "role": "user", "content": self.prompt },
                }));
                step.sends_prompt = true;
            }
            "control_request" if text(message, "/request/subtype") == "can_use_tool" => {
                step.questions.extend(self.on_request(message));
            }
            "control_request" => {
                // Without an answer Claude Code would wait forever.
                let id = text(message, "/request_id");
                let response = json!({ "subtype": "error", "request_id": id, "error": "not supported" });
                step.messages.push(json!({ "type": "control_response", "response": response }));
            }
            "control_cancel_request" => {
                let id = text(message, "/request_id").to_owned();
                if self.open.remove(&id).is_some() {
                    step.closed_questions.push(id);
                }
            }
            "control_response" => {}
            kind => {
                step.is_over = kind == "result";
                let line = format!("{message}\n");
                let mut emit = |event| step.events.push(event);
                self.parser.output(Stream::Out, line.as_bytes(), &line, &mut emit);
            }
        }
    }

    fn answer(&mut self, native: &str, option: &str) -> Option<Vec<Value>> {
        if self.open.get(native)?.0 != ASK_TOOL && !matches!(option, "allow" | "reject") {
            return None;
        }
        let (tool, input) = self.open.remove(native)?;
        let response = if tool == ASK_TOOL {
            let mut input = input;
            let question = text(&input, "/questions/0/question").to_owned();
            if let Some(input) = input.as_object_mut() {
                input.insert("answers".to_owned(), json!({ question: option }));
            }
            json!({ "behavior": "allow", "updatedInput": input })
        } else if option == "allow" {
            json!({ "behavior": "allow", "updatedInput": input })
        } else {
            json!({ "behavior": "deny", "message": "The user does not want this to be done." })
        };
        let response = json!({ "subtype": "success", "request_id": native, "response": response });
        Some(vec![json!({ "type": "control_response", "response": response })])
    }

    fn end(&mut self, exit: Exit, diagnostics: &str) -> ProgramOutcome {
        self.parser.output(Stream::Err, diagnostics.as_bytes(), diagnostics, &mut |_| ());
        self.parser.end(exit, &mut |_| ())
    }
}
