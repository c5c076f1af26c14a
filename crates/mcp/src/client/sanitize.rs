//! Parses an MCP server's messages and repairs malformed parts. `rmcp` parses a result as the first type that fits,
//! so one malformed tool or unknown content type would make a whole list or result unreadable.

use super::limits;
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
    if has_too_many_values(line) {
        return serde_json::from_value(refusal(line)?).ok().map(|message| vec![message]);
    }
    match serde_json::from_slice(line).ok()? {
        Value::Array(batch) => batch.into_iter().map(|value| message(value, skipped_tools)).collect(),
        value => Some(vec![message(value, skipped_tools)?]),
    }
}

pub(crate) fn message(mut value: Value, skipped_tools: &SkippedTools) -> Option<ServerJsonRpcMessage> {
    repair(&mut value, skipped_tools);
    serde_json::from_value(value).ok()
}

/// Like [`messages`], but for transports that parse messages themselves: returns the repaired text.
pub(crate) fn text(text: String, skipped_tools: &SkippedTools) -> String {
    if has_too_many_values(text.as_bytes()) {
        return refusal(text.as_bytes()).unwrap_or_default().to_string();
    }
    let Ok(mut value) = serde_json::from_str::<Value>(&text) else { return text };
    if repair(&mut value, skipped_tools) { value.to_string() } else { text }
}

/// Counts the values of a JSON text without parsing it.
pub(crate) fn has_too_many_values(json: &[u8]) -> bool {
    let (mut is_string, mut is_escaped, mut count) = (false, false, 0);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b',' | b'[' | b'{' if !is_string => count += 1,
            _ => {}
        }
    }
    count > limits::VALUES
}

/// The message that replaces a response with too many values: an error with the same id. `None` if the message is no
/// response.
fn refusal(json: &[u8]) -> Option<Value> {
    #[derive(Deserialize)]
    struct Response {
        id: Value,
    }
    let Response { id } = serde_json::from_slice(json).ok()?;
    let message = format!("the response has more than {} JSON values, which is too many", limits::VALUES);
    (id.is_number() || id.is_string())
        .then(|| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": message}}))
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
            let more = blocks.len().saturating_sub(limits::BLOCKS);
            if more > 0 {
                blocks.truncate(limits::BLOCKS);
                blocks.push(json!({"type": "text", "text": format!("[{more} more parts, not shown]")}));
                changed = true;
            }
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
    fn a_result_of_very_many_parts_costs_little_memory_and_says_what_is_left_out() {
        let parts = json!({"content": vec![json!({"type": "text", "text": "a"}); 1200]});
        let ServerResult::CallToolResult(answer) = result(&parts, &SkippedTools::default()) else {
            panic!("not an answer")
        };
        assert_eq!(answer.content.len(), 1001);
        assert_eq!(answer.content[1000].as_text().unwrap().text, "[200 more parts, not shown]");

        let brackets = json!({"content": [{"type": "text", "text": "[{,\"\\".repeat(100_000)}]});
        assert!(matches!(result(&brackets, &SkippedTools::default()), ServerResult::CallToolResult(_)));
        let zeros =
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[0{}]}}}}"#, ",0".repeat(100_000));
        let read = messages(zeros.as_bytes(), &SkippedTools::default()).unwrap();
        let [ServerJsonRpcMessage::Error(error)] = &read[..] else { panic!("not an error") };
        assert!(error.error.message.contains("more than 100000 JSON values"), "{error:?}");
        let parsed_elsewhere = text(zeros, &SkippedTools::default());
        assert!(parsed_elsewhere.contains("\"id\":7") && parsed_elsewhere.contains("too many"));
        let notification =
            format!(r#"{{"jsonrpc":"2.0","method":"m","params":[0{}]}}"#, ",0".repeat(100_000));
        assert!(messages(notification.as_bytes(), &SkippedTools::default()).is_none());
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
