//! Parses a server's messages and repairs malformed parts, so that one bad part does not make the whole message
//! unreadable.
//!
//! `rmcp` parses a result as the first type that fits. A single malformed tool or an unknown content type would
//! therefore make a whole list or result unreadable. Such parts are removed or replaced, and recorded, before `rmcp`
//! parses the message.

use super::notice::quote;
use rmcp::model::{ContentBlock, ServerJsonRpcMessage, Tool};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};

/// Limit on skipped tools that are reported individually.
const TOLD: usize = 32;

/// The tools removed from tool lists, each with the reason.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    tools: Mutex<Vec<(String, String)>>,
}

impl LeftOut {
    /// Records a skipped tool.
    pub(crate) fn say(&self, tool: &str, reason: &str) {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if tools.len() < TOLD {
            tools.push((quote(tool), quote(reason)));
        }
    }

    /// The tools recorded since the last call.
    pub(crate) fn take(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.tools.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The messages in a line; None if the line is not MCP. Revision 2025-03-26 allows an array of messages.
pub(crate) fn messages(line: &[u8], left_out: &LeftOut) -> Option<Vec<ServerJsonRpcMessage>> {
    match serde_json::from_slice(line).ok()? {
        Value::Array(batch) => batch.into_iter().map(|value| message(value, left_out)).collect(),
        value => Some(vec![message(value, left_out)?]),
    }
}

/// One message; None if it is not MCP.
pub(crate) fn message(mut value: Value, left_out: &LeftOut) -> Option<ServerJsonRpcMessage> {
    repair(&mut value, left_out);
    serde_json::from_value(value).ok()
}

/// The text, repaired if necessary. For transports that parse messages themselves.
pub(crate) fn text(text: String, left_out: &LeftOut) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(&text) else { return text };
    if repair(&mut value, left_out) { value.to_string() } else { text }
}

/// Repairs a message in place. Returns whether anything changed.
fn repair(message: &mut Value, left_out: &LeftOut) -> bool {
    let Some(result) = message.get_mut("result") else { return false };
    let mut changed = false;
    if let Some(Value::Array(tools)) = result.get_mut("tools") {
        let before = tools.len();
        tools.retain(|tool| readable(tool, left_out));
        changed |= tools.len() != before;
    }
    match result.get_mut("content") {
        Some(Value::Array(blocks)) => {
            for block in blocks.iter_mut().filter(|block| ContentBlock::deserialize(&**block).is_err()) {
                *block = stand_in(block);
                changed = true;
            }
        }
        Some(Value::String(text)) => {
            let block = json!([{"type": "text", "text": text}]);
            result["content"] = block;
            changed = true;
        }
        _ => {}
    }
    changed
}

fn readable(tool: &Value, left_out: &LeftOut) -> bool {
    let Err(error) = Tool::deserialize(tool) else { return true };
    let name = tool.get("name").and_then(Value::as_str).unwrap_or("(without a name)");
    left_out.say(name, &error.to_string());
    false
}

fn stand_in(block: &Value) -> Value {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or("unknown");
    let text = match block.get("text").and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => {
            format!("[content of kind {}: {} bytes of JSON, not shown]", quote(kind), block.to_string().len())
        }
    };
    json!({"type": "text", "text": text})
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::ServerResult;

    fn result(value: &Value, left_out: &LeftOut) -> ServerResult {
        let line = json!({"jsonrpc": "2.0", "id": 1, "result": value}).to_string();
        let mut all = messages(line.as_bytes(), left_out).unwrap();
        let ServerJsonRpcMessage::Response(response) = all.remove(0) else { panic!("not a response") };
        response.result
    }

    #[test]
    fn one_malformed_tool_does_not_hide_the_others() {
        let left_out = LeftOut::default();
        let tools = json!({"_meta": {}, "resultType": "complete", "tools": [
            {"name": "bad", "inputSchema": "no object"},
            {"name": "good", "inputSchema": {"type": "object"}},
        ]});
        let ServerResult::ListToolsResult(list) = result(&tools, &left_out) else { panic!("not a list") };
        assert_eq!(list.tools.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>(), ["good"]);
        assert_eq!(left_out.take()[0].0, "bad");
    }

    #[test]
    fn content_of_an_unknown_kind_is_described_and_the_rest_stays() {
        let content = json!({"content": [{"type": "hologram", "x": 1}, {"type": "text", "text": "hi"}]});
        let ServerResult::CallToolResult(answer) = result(&content, &LeftOut::default()) else {
            panic!("not an answer")
        };
        let texts: Vec<_> =
            answer.content.iter().map(|block| block.as_text().unwrap().text.as_str()).collect();
        assert!(texts[0].contains("hologram"), "{texts:?}");
        assert_eq!(texts[1], "hi");
    }

    #[test]
    fn a_batch_gives_all_its_messages_and_noise_gives_none() {
        let batch = br#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}]"#;
        assert_eq!(messages(batch, &LeftOut::default()).unwrap().len(), 2);
        for noise in ["Server running on stdio", "", "{}", "42", "{\"jsonrpc\":\"2.0\"}", "[1]"] {
            assert!(messages(noise.as_bytes(), &LeftOut::default()).is_none(), "{noise}");
        }
    }
}
