//! Parses an MCP server's messages and repairs malformed parts. `rmcp` parses a result as the first type that fits,
//! so one malformed tool or unknown content type would make a whole list or result unreadable.

use super::notice::quote;
use rmcp::model::{ContentBlock, ServerJsonRpcMessage, Tool};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};

const MAX_REPORTED: usize = 32;

/// Tools that were removed from tool lists, each with the reason.
#[derive(Debug, Default)]
pub(crate) struct SkippedTools {
    tools: Mutex<Vec<(String, String)>>,
}

impl SkippedTools {
    pub(crate) fn record(&self, tool: &str, reason: &str) {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if tools.len() < MAX_REPORTED {
            tools.push((quote(tool), quote(reason)));
        }
    }

    /// Returns the tools that were removed since the last call.
    pub(crate) fn take(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.tools.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// `None` if the line is not MCP. Revision 2025-03-26 allows an array of messages.
pub(crate) fn messages(line: &[u8], skipped_tools: &SkippedTools) -> Option<Vec<ServerJsonRpcMessage>> {
    match serde_json::from_slice(line).ok()? {
        Value::Array(batch) => batch.into_iter().map(|value| message(value, skipped_tools)).collect(),
        value => Some(vec![message(value, skipped_tools)?]),
    }
}

pub(crate) fn message(mut value: Value, skipped_tools: &SkippedTools) -> Option<ServerJsonRpcMessage> {
    repair(&mut value, skipped_tools);
    serde_json::from_value(value).ok()
}

/// This is for transports that parse messages themselves.
pub(crate) fn text(text: String, skipped_tools: &SkippedTools) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(&text) else { return text };
    if repair(&mut value, skipped_tools) { value.to_string() } else { text }
}

fn repair(message: &mut Value, skipped_tools: &SkippedTools) -> bool {
    let Some(result) = message.get_mut("result") else { return false };
    let mut changed = false;
    if let Some(Value::Array(tools)) = result.get_mut("tools") {
        let before = tools.len();
        tools.retain(|tool| readable(tool, skipped_tools));
        changed |= tools.len() != before;
    }
    match result.get_mut("content") {
        Some(Value::Array(blocks)) => {
            for block in blocks.iter_mut().filter(|block| ContentBlock::deserialize(&**block).is_err()) {
                *block = placeholder(block);
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

fn readable(tool: &Value, skipped_tools: &SkippedTools) -> bool {
    let Err(error) = Tool::deserialize(tool) else { return true };
    let name = tool.get("name").and_then(Value::as_str).unwrap_or("(without a name)");
    skipped_tools.record(name, &error.to_string());
    false
}

fn placeholder(block: &Value) -> Value {
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

    fn result(value: &Value, skipped_tools: &SkippedTools) -> ServerResult {
        let line = json!({"jsonrpc": "2.0", "id": 1, "result": value}).to_string();
        let mut all = messages(line.as_bytes(), skipped_tools).unwrap();
        let ServerJsonRpcMessage::Response(response) = all.remove(0) else { panic!("not a response") };
        response.result
    }

    #[test]
    fn one_malformed_tool_does_not_hide_the_others() {
        let skipped_tools = SkippedTools::default();
        let tools = json!({"_meta": {}, "resultType": "complete", "tools": [
            {"name": "bad", "inputSchema": "no object"},
            {"name": "good", "inputSchema": {"type": "object"}},
        ]});
        let ServerResult::ListToolsResult(list) = result(&tools, &skipped_tools) else {
            panic!("not a list")
        };
        assert_eq!(list.tools.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>(), ["good"]);
        assert_eq!(skipped_tools.take()[0].0, "bad");
    }

    #[test]
    fn content_of_an_unknown_kind_is_described_and_the_rest_stays() {
        let content = json!({"content": [{"type": "hologram", "x": 1}, {"type": "text", "text": "hi"}]});
        let ServerResult::CallToolResult(answer) = result(&content, &SkippedTools::default()) else {
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
        assert_eq!(messages(batch, &SkippedTools::default()).unwrap().len(), 2);
        for noise in ["Server running on stdio", "", "{}", "42", "{\"jsonrpc\":\"2.0\"}", "[1]"] {
            assert!(messages(noise.as_bytes(), &SkippedTools::default()).is_none(), "{noise}");
        }
    }
}
