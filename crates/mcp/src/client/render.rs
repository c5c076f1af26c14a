//! Renders a tool's result as text for the model: text verbatim, structured content as JSON if there is no text,
//! everything else as a one-line description.

use super::notice::quote;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, ServerResult};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

pub(crate) fn answer(result: ServerResult) -> Rendered {
    match result {
        ServerResult::CallToolResult(result) => tool_result(&result),
        ServerResult::CustomResult(result) => Rendered { text: result.0.to_string(), is_error: false },
        ServerResult::EmptyResult(_) => Rendered { text: NOTHING.to_owned(), is_error: false },
        ServerResult::InputRequiredResult(_) => {
            failed("the tool asked for more input, which Althing cannot give; call it with all that it needs")
        }
        ServerResult::CreateTaskResult(_) => failed(
            "the server answered with an MCP task instead of a result; Althing does not wait for such tasks",
        ),
        _ => failed("the server's answer is not the result of a tool call"),
    }
}

const NOTHING: &str = "(the tool gave no content)";

fn failed(reason: &str) -> Rendered {
    Rendered { text: reason.to_owned(), is_error: true }
}

fn tool_result(result: &CallToolResult) -> Rendered {
    let mut parts: Vec<String> = result.content.iter().map(block).collect();
    let has_text = result.content.iter().any(|block| block.as_text().is_some());
    if let (false, Some(value)) = (has_text, &result.structured_content) {
        parts.push(format!("{value:#}"));
    }
    let text = if parts.is_empty() { NOTHING.to_owned() } else { parts.join("\n") };
    Rendered { text, is_error: result.is_error.unwrap_or(false) }
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => blob("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => blob("audio", &audio.mime_type, &audio.data),
        ContentBlock::Resource(resource) => embedded(&resource.resource),
        ContentBlock::ResourceLink(link) => {
            let size = link.size.map(|size| format!(", {size} bytes")).unwrap_or_default();
            let mime = link.mime_type.as_deref().map(|mime| format!(", {}", quote(mime))).unwrap_or_default();
            format!("[link to the resource {} ({}{mime}{size})]", quote(&link.uri), quote(&link.name))
        }
        _ => "[content of a kind that cannot be shown]".to_owned(),
    }
}

fn embedded(resource: &ResourceContents) -> String {
    match resource {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            format!("[resource {}]\n{text}", quote(uri))
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob: data, .. } => {
            blob(&format!("resource {}", quote(uri)), mime_type.as_deref().unwrap_or("unknown type"), data)
        }
        _ => "[resource of a kind that cannot be shown]".to_owned(),
    }
}

fn blob(what: &str, mime: &str, base64: &str) -> String {
    format!("[{what}: {}, {} bytes, not shown]", quote(mime), decoded_len(base64))
}

fn decoded_len(base64: &str) -> usize {
    base64.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').count() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn rendered(value: Value) -> Rendered {
        answer(serde_json::from_value::<CallToolResult>(value).map(ServerResult::CallToolResult).unwrap())
    }

    #[test]
    fn texts_are_joined_and_an_error_stays_one() {
        let got = rendered(json!({"isError": true, "content": [
            {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}));
        assert_eq!(got, Rendered { text: "a\nb".to_owned(), is_error: true });
    }

    #[test]
    fn what_is_not_text_is_described_in_a_line_with_type_size_and_address() {
        let got = rendered(json!({"content": [
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "audio", "mimeType": "audio/wav", "data": "AAA="},
            {"type": "resource_link", "uri": "file:///x", "name": "x", "mimeType": "text/plain", "size": 7},
            {"type": "resource", "resource": {"uri": "a://b", "mimeType": "text/plain", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "a://c", "mimeType": "app/x", "blob": "AAAAAAAA"}},
        ]}));
        let wanted = "[image: image/png, 3 bytes, not shown]\n[audio: audio/wav, 2 bytes, not shown]\n\
            [link to the resource file:///x (x, text/plain, 7 bytes)]\n[resource a://b]\ninside\n\
            [resource a://c: app/x, 6 bytes, not shown]";
        assert_eq!(got.text, wanted);
    }

    #[test]
    fn structured_content_is_shown_only_where_there_is_no_text() {
        assert_eq!(rendered(json!({"structuredContent": {"a": 1}})).text, "{\n  \"a\": 1\n}");
        let both = json!({"content": [{"type": "text", "text": "one"}], "structuredContent": {"a": 1}});
        assert_eq!(rendered(both).text, "one");
        assert_eq!(rendered(json!({"content": []})).text, NOTHING);
    }
}
