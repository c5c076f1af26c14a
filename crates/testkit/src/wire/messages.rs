//! Anthropic's Messages format.

use serde_json::{Value, json};

use super::sse::Events;
use super::{Context, Frame, Part};
use crate::reply::{Finish, Reply, ToolCall, Usage};

pub(super) fn frames(reply: &Reply, context: &Context) -> Vec<Frame> {
    let mut out = Writer { events: Events::default(), index: 0 };
    let mut start = json!({ "type": "message_start", "message": message(context, &[], None) });
    if let Some(usage) = reply.usage {
        start["message"]["usage"] = usage_value(usage, 1);
    }
    out.events.push(Part::Frame, &start);
    out.events.push(Part::Frame, &json!({ "type": "ping" }));
    if !reply.reasoning.is_empty() {
        out.open(Part::Frame, &json!({ "type": "thinking", "thinking": "", "signature": "" }));
        for piece in &reply.reasoning {
            out.delta(Part::Reasoning, &json!({ "type": "thinking_delta", "thinking": piece }));
        }
        let signature = signature(context);
        out.delta(Part::Frame, &json!({ "type": "signature_delta", "signature": signature }));
        out.close();
    }
    if !reply.text.is_empty() {
        out.open(Part::Frame, &json!({ "type": "text", "text": "" }));
        for piece in &reply.text {
            out.delta(Part::Text, &json!({ "type": "text_delta", "text": piece }));
        }
        out.close();
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let id = id(index, call, context);
        out.open(Part::Tool, &json!({ "type": "tool_use", "id": id, "name": call.name, "input": {} }));
        for fragment in &call.fragments {
            out.delta(Part::Tool, &json!({ "type": "input_json_delta", "partial_json": fragment }));
        }
        out.close();
    }
    let mut end = json!({
        "type": "message_delta",
        "delta": { "stop_reason": stop_word(reply.finish_or_default()), "stop_sequence": null },
    });
    if let Some(usage) = reply.usage {
        end["usage"] = json!({ "output_tokens": usage.output });
    }
    out.events.push(Part::End, &end);
    out.events.push(Part::Tail, &json!({ "type": "message_stop" }));
    out.events.frames
}

struct Writer {
    events: Events,
    index: usize,
}

impl Writer {
    fn open(&mut self, part: Part, block: &Value) {
        let event = json!({ "type": "content_block_start", "index": self.index, "content_block": block });
        self.events.push(part, &event);
    }

    fn delta(&mut self, part: Part, delta: &Value) {
        let event = json!({ "type": "content_block_delta", "index": self.index, "delta": delta });
        self.events.push(part, &event);
    }

    fn close(&mut self) {
        self.events.push(Part::Frame, &json!({ "type": "content_block_stop", "index": self.index }));
        self.index += 1;
    }
}

pub(super) fn whole(reply: &Reply, context: &Context) -> String {
    let mut content = Vec::new();
    if !reply.reasoning.is_empty() {
        let thinking = reply.reasoning.concat();
        content.push(json!({ "type": "thinking", "thinking": thinking, "signature": signature(context) }));
    }
    if !reply.text.is_empty() {
        content.push(json!({ "type": "text", "text": reply.full_text() }));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let input: Value = serde_json::from_str(&call.arguments()).unwrap_or(Value::Null);
        content.push(
            json!({ "type": "tool_use", "id": id(index, call, context), "name": call.name, "input": input }),
        );
    }
    let stop = stop_word(reply.finish_or_default());
    let mut message = message(context, &content, Some(stop));
    if let Some(usage) = reply.usage {
        message["usage"] = usage_value(usage, usage.output);
    }
    message.to_string()
}

pub(super) fn error_body(status: u16, context: &Context) -> String {
    let (kind, message) = match status {
        400 => ("invalid_request_error", "messages: Field required".to_owned()),
        401 => ("authentication_error", "invalid x-api-key".to_owned()),
        403 => ("permission_error", "Your API key does not have permission to use the resource".to_owned()),
        404 => ("not_found_error", format!("model: {}", context.model)),
        413 => ("request_too_large", "Request exceeds the maximum size".to_owned()),
        429 => ("rate_limit_error", "Rate limit reached: requests per minute".to_owned()),
        529 => ("overloaded_error", "Overloaded".to_owned()),
        _ => ("api_error", format!("Internal server error (HTTP {status})")),
    };
    let request = format!("req_{}", context.seq);
    json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": request })
        .to_string()
}

fn message(context: &Context, content: &[Value], stop: Option<&str>) -> Value {
    json!({
        "id": format!("msg_{}", context.seq),
        "type": "message",
        "role": "assistant",
        "model": context.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": null,
    })
}

fn signature(context: &Context) -> String {
    format!("signature-{}", context.seq)
}

fn id(index: usize, call: &ToolCall, context: &Context) -> String {
    call.id.clone().unwrap_or_else(|| format!("toolu_{}_{index}", context.seq))
}

/// Anthropic counts cache reads separately from the rest of the input.
fn usage_value(usage: Usage, output: u64) -> Value {
    json!({
        "input_tokens": usage.input - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": output,
    })
}

fn stop_word(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "end_turn",
        Finish::ToolCalls => "tool_use",
        Finish::Length => "max_tokens",
        Finish::ContentFilter => "refusal",
    }
}
