//! A small local model: it follows a schema if there is one, and otherwise writes its tool calls as text.

use serde_json::{Value, json};

use crate::recorded::RecordedRequest;
use crate::reply::Reply;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CallStyle {
    #[default]
    Fence,
    ToolCall,
    Tools,
    Bare,
}

/// Plays an agent like `Parliament`, but never returns tool calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct SmallModel {
    style: CallStyle,
}

impl SmallModel {
    pub fn new(style: CallStyle) -> Self {
        Self { style }
    }

    pub fn reply(self, request: &RecordedRequest) -> Reply {
        let Some(call) = chosen_call(request) else {
            return Reply::text(format!("Final answer of {}", request.model())).chunks(3);
        };
        let text = match self.style {
            _ if request.wanted_schema().is_some() => call.to_string(),
            CallStyle::Fence => format!("```json\n{call}\n```"),
            CallStyle::ToolCall => format!("<tool_call>\n{call}\n</tool_call>"),
            CallStyle::Tools => format!("<tools>{call}</tools>"),
            CallStyle::Bare => call.to_string(),
        };
        Reply::text(text).chunks(9)
    }
}

fn chosen_call(request: &RecordedRequest) -> Option<Value> {
    let model = request.model();
    let call = |name: &str, arguments: Value| Some(json!({"name": name, "arguments": arguments}));
    if let Some(target) = first_votable(request) {
        let reason = format!("{model} finds {target} the most complete");
        let is_first_version = request
            .tool_parameters("vote")
            .is_some_and(|tool| tool.pointer("/properties/agent_id").is_some())
            || request.system_text().contains("\n- agent_id (");
        return call(
            "vote",
            if is_first_version {
                json!({"agent_id": target, "reason": reason})
            } else {
                json!({"ranking": [target], "reason": reason})
            },
        );
    }
    offers(request, "new_answer")
        .then(|| call("new_answer", json!({"content": format!("Answer of {model}")})))?
}

/// Whether a tool is offered: as a tool, in the schema, or in the prompt.
fn offers(request: &RecordedRequest, tool: &str) -> bool {
    let schema = request.wanted_schema().map(Value::to_string).unwrap_or_default();
    request.tool_names().contains(&tool)
        || schema.contains(&format!("\"{tool}\""))
        || request.system_text().contains(&format!("\n## {tool}\n"))
}

fn first_votable(request: &RecordedRequest) -> Option<String> {
    if let Some(first) = request.votable().first() {
        return Some((*first).to_owned());
    }
    let system = request.system_text();
    let (_, vote) = system.split_once("\n## vote\n")?;
    let (_, ids) = vote.split_once("one of \"")?;
    ids.split_once('"').map(|(first, _)| first.to_owned())
}
