//! Google's Gemini format.

use serde_json::{Value, json};

use super::chat::data;
use super::{Context, Frame, Part};
use crate::reply::{Finish, Reply, ToolCall, Usage};

pub(super) fn frames(reply: &Reply, context: &Context) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut push = |part, value: &Value| frames.push(Frame { part, bytes: data(&value.to_string()) });
    for piece in &reply.reasoning {
        push(Part::Reasoning, &chunk(context, &[json!({ "text": piece, "thought": true })], None, None));
    }
    for piece in &reply.text {
        push(Part::Text, &chunk(context, &[json!({ "text": piece })], None, None));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        push(Part::Tool, &chunk(context, &[call_part(index, call, context)], None, None));
    }
    let end = chunk(context, &[json!({ "text": "" })], Some(reply.finish_or_default()), reply.usage);
    push(Part::End, &end);
    frames
}

pub(super) fn whole(reply: &Reply, context: &Context) -> String {
    let mut parts = Vec::new();
    if !reply.reasoning.is_empty() {
        parts.push(json!({ "text": reply.reasoning.concat(), "thought": true }));
    }
    if !reply.text.is_empty() {
        parts.push(json!({ "text": reply.full_text() }));
    }
    parts.extend(reply.calls.iter().enumerate().map(|(index, call)| call_part(index, call, context)));
    chunk(context, &parts, Some(reply.finish_or_default()), reply.usage).to_string()
}

pub(super) fn error_body(status: u16, context: &Context) -> String {
    let model = &context.model;
    let (word, message) = match status {
        400 => ("INVALID_ARGUMENT", "Invalid JSON payload received.".to_owned()),
        401 => ("UNAUTHENTICATED", "API key not valid. Please pass a valid API key.".to_owned()),
        404 => ("NOT_FOUND", format!("models/{model} is not found for API version v1beta.")),
        429 => ("RESOURCE_EXHAUSTED", "Rate limit reached: requests per minute.".to_owned()),
        503 => ("UNAVAILABLE", "The model is overloaded. Please try again later.".to_owned()),
        _ => ("INTERNAL", format!("An internal error has occurred (HTTP {status}).")),
    };
    json!({ "error": { "code": status, "message": message, "status": word } }).to_string()
}

fn chunk(context: &Context, parts: &[Value], finish: Option<Finish>, usage: Option<Usage>) -> Value {
    let mut candidate = json!({ "content": { "parts": parts, "role": "model" }, "index": 0 });
    if let Some(finish) = finish {
        candidate["finishReason"] = finish_word(finish).into();
    }
    let mut chunk = json!({
        "candidates": [candidate],
        "modelVersion": context.model,
        "responseId": format!("resp-{}", context.seq),
    });
    if let Some(usage) = usage {
        chunk["usageMetadata"] = usage_value(usage);
    }
    chunk
}

/// A call is one part, never in fragments. Only the first of several calls carries the thought signature.
fn call_part(index: usize, call: &ToolCall, context: &Context) -> Value {
    // This format cannot express arguments that are not JSON. A string is the closest invalid value.
    let text = call.arguments();
    let arguments = serde_json::from_str(&text).unwrap_or(Value::String(text));
    let mut part = json!({ "functionCall": { "name": call.name, "args": arguments } });
    if let Some(id) = &call.id {
        part["functionCall"]["id"] = id.as_str().into();
    }
    if index == 0 {
        part["thoughtSignature"] = format!("signature-{}", context.seq).into();
    }
    part
}

/// Google counts thoughts separately from the rest of the output.
fn usage_value(usage: Usage) -> Value {
    json!({
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.input + usage.output,
    })
}

fn finish_word(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::ToolCalls => "STOP",
        Finish::Length => "MAX_TOKENS",
        Finish::ContentFilter => "SAFETY",
    }
}
