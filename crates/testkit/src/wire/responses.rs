//! OpenAI's Responses format.

use bytes::Bytes;
use serde_json::{Value, json};

use super::sse::{Events, named};
use super::{Context, Frame, Part};
use crate::reply::{Finish, Reply, ToolCall, Usage};

/// A fixed time (2026-01-01), so that two runs of one script send the same bytes.
const CREATED: u64 = 1_767_225_600;

pub(super) fn frames(reply: &Reply, context: &Context) -> Vec<Frame> {
    let mut out = Writer { events: Events::default(), context, output: Vec::new() };
    let opening = response(context, "in_progress", &[], None);
    out.event(Part::Frame, json!({ "type": "response.created", "response": opening }));
    out.event(Part::Frame, json!({ "type": "response.in_progress", "response": opening }));
    if !reply.reasoning.is_empty() {
        out.reasoning(&reply.reasoning);
    }
    if !reply.text.is_empty() {
        out.message(&reply.text);
    }
    for (index, call) in reply.calls.iter().enumerate() {
        out.call(index, call);
    }
    let (status, kind) = ending(reply.finish_or_default());
    let closing = finished(reply, response(context, status, &out.output, reply.usage));
    out.event(Part::End, json!({ "type": kind, "response": closing }));
    out.events.frames
}

pub(super) fn whole(reply: &Reply, context: &Context) -> String {
    let mut output = Vec::new();
    if !reply.reasoning.is_empty() {
        output.push(reasoning_item(&format!("rs_{}", context.seq), &reply.reasoning.concat()));
    }
    if !reply.text.is_empty() {
        output.push(message_item(&format!("msg_{}", context.seq), "completed", Some(&reply.full_text())));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        output.push(call_item(index, call, context, "completed", &call.arguments()));
    }
    let (status, _) = ending(reply.finish_or_default());
    finished(reply, response(context, status, &output, reply.usage)).to_string()
}

/// An error in the stream, with the code that corresponds to the status.
pub(super) fn error(status: u16, context: &Context) -> Bytes {
    let body: Value = serde_json::from_str(&super::chat::error_body(status, context)).expect("our own JSON");
    let code = match &body["error"]["code"] {
        Value::Null => json!("server_error"),
        code => code.clone(),
    };
    let message = &body["error"]["message"];
    let event =
        json!({ "type": "error", "code": code, "message": message, "param": null, "sequence_number": 0 });
    named("error", &event.to_string())
}

struct Writer<'a> {
    events: Events,
    context: &'a Context,
    output: Vec<Value>,
}

impl Writer<'_> {
    fn event(&mut self, part: Part, mut event: Value) {
        event["sequence_number"] = self.events.frames.len().into();
        self.events.push(part, &event);
    }

    fn about(&mut self, part: Part, kind: &str, item: &str, mut fields: Value) {
        fields["type"] = kind.into();
        fields["item_id"] = item.into();
        fields["output_index"] = self.output.len().into();
        self.event(part, fields);
    }

    fn open(&mut self, part: Part, item: &Value) {
        let index = self.output.len();
        self.event(
            part,
            json!({ "type": "response.output_item.added", "output_index": index, "item": item }),
        );
    }

    fn close(&mut self, part: Part, item: Value) {
        let index = self.output.len();
        self.event(part, json!({ "type": "response.output_item.done", "output_index": index, "item": item }));
        self.output.push(item);
    }

    fn reasoning(&mut self, pieces: &[String]) {
        let id = format!("rs_{}", self.context.seq);
        self.open(Part::Frame, &json!({ "type": "reasoning", "id": id, "summary": [] }));
        let empty = json!({ "type": "summary_text", "text": "" });
        let fields = json!({ "summary_index": 0, "part": empty });
        self.about(Part::Frame, "response.reasoning_summary_part.added", &id, fields);
        for piece in pieces {
            let fields = json!({ "summary_index": 0, "delta": piece });
            self.about(Part::Reasoning, "response.reasoning_summary_text.delta", &id, fields);
        }
        let fields = json!({ "summary_index": 0, "text": pieces.concat() });
        self.about(Part::Frame, "response.reasoning_summary_text.done", &id, fields);
        self.close(Part::Frame, reasoning_item(&id, &pieces.concat()));
    }

    fn message(&mut self, pieces: &[String]) {
        let id = format!("msg_{}", self.context.seq);
        self.open(Part::Frame, &message_item(&id, "in_progress", None));
        let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
        let fields = json!({ "content_index": 0, "part": part("") });
        self.about(Part::Frame, "response.content_part.added", &id, fields);
        for piece in pieces {
            let fields = json!({ "content_index": 0, "delta": piece });
            self.about(Part::Text, "response.output_text.delta", &id, fields);
        }
        let text = pieces.concat();
        let fields = json!({ "content_index": 0, "text": text });
        self.about(Part::Frame, "response.output_text.done", &id, fields);
        let fields = json!({ "content_index": 0, "part": part(&text) });
        self.about(Part::Frame, "response.content_part.done", &id, fields);
        self.close(Part::Frame, message_item(&id, "completed", Some(&text)));
    }

    fn call(&mut self, index: usize, call: &ToolCall) {
        let id = item_id(index, self.context);
        self.open(Part::Tool, &call_item(index, call, self.context, "in_progress", ""));
        for fragment in &call.fragments {
            let fields = json!({ "delta": fragment });
            self.about(Part::Tool, "response.function_call_arguments.delta", &id, fields);
        }
        let fields = json!({ "arguments": call.arguments() });
        self.about(Part::Frame, "response.function_call_arguments.done", &id, fields);
        self.close(Part::Frame, call_item(index, call, self.context, "completed", &call.arguments()));
    }
}

fn response(context: &Context, status: &str, output: &[Value], usage: Option<Usage>) -> Value {
    json!({
        "id": format!("resp_{}", context.seq),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "model": context.model,
        "output": output,
        "usage": usage.map(usage_value),
    })
}

/// Adds why the response is incomplete, if it is.
fn finished(reply: &Reply, mut response: Value) -> Value {
    let reason = match reply.finish_or_default() {
        Finish::Stop | Finish::ToolCalls => return response,
        Finish::Length => "max_output_tokens",
        Finish::ContentFilter => "content_filter",
    };
    response["incomplete_details"] = json!({ "reason": reason });
    response
}

fn ending(finish: Finish) -> (&'static str, &'static str) {
    match finish {
        Finish::Stop | Finish::ToolCalls => ("completed", "response.completed"),
        Finish::Length | Finish::ContentFilter => ("incomplete", "response.incomplete"),
    }
}

fn reasoning_item(id: &str, text: &str) -> Value {
    json!({ "type": "reasoning", "id": id, "summary": [{ "type": "summary_text", "text": text }] })
}

fn message_item(id: &str, status: &str, text: Option<&str>) -> Value {
    let content: Vec<Value> = text
        .map(|text| json!({ "type": "output_text", "text": text, "annotations": [] }))
        .into_iter()
        .collect();
    json!({ "type": "message", "id": id, "status": status, "role": "assistant", "content": content })
}

fn call_item(index: usize, call: &ToolCall, context: &Context, status: &str, arguments: &str) -> Value {
    let mut item = json!({
        "type": "function_call",
        "id": item_id(index, context),
        "call_id": context.call_id(index, call),
        "name": call.name,
        "arguments": arguments,
        "status": status,
    });
    if let Some(space) = context.namespaces.get(&call.name) {
        item["namespace"] = space.as_str().into();
    }
    item
}

fn item_id(index: usize, context: &Context) -> String {
    format!("fc_{}_{index}", context.seq)
}

fn usage_value(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": { "cached_tokens": usage.cached },
        "output_tokens": usage.output,
        "output_tokens_details": { "reasoning_tokens": usage.reasoning },
        "total_tokens": usage.input + usage.output,
    })
}
