//! OpenAI's chat-completions format. Frames are written by hand rather than through a JSON tree, because the server is
//! also the zero-latency baseline of the benchmarks.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use super::{Context, Frame, Part};
use crate::reply::{Finish, Reply, ToolCall, Usage};

/// A fixed time (2026-01-01), so that two runs of one script send the same bytes.
const CREATED: u64 = 1_767_225_600;

pub(super) fn frames(reply: &Reply, context: &Context) -> Vec<Frame> {
    let mut out = Writer::new(context, reply);
    out.delta(Part::Frame, r#"{"role":"assistant","content":""}"#);
    for piece in &reply.reasoning {
        out.field(Part::Reasoning, context.reasoning_field, piece);
    }
    for piece in &reply.text {
        out.field(Part::Text, "content", piece);
    }
    for (index, call) in reply.calls.iter().enumerate() {
        out.tool_call(index, call);
    }
    out.finish(reply.finish_or_default());
    if let (Some(usage), true) = (reply.usage, context.include_usage) {
        out.usage(usage);
    }
    out.raw(Part::Tail, "[DONE]");
    out.frames
}

/// Collects frames in one shared buffer, so that a stream of thousands of chunks needs few allocations.
struct Writer<'a> {
    context: &'a Context,
    frames: Vec<Frame>,
    buffer: BytesMut,
    prefix: String,
    /// The end of a chunk. If usage is requested, OpenAI sends `"usage":null` in every chunk but the one with the
    /// usage.
    suffix: &'static str,
}

impl<'a> Writer<'a> {
    fn new(context: &'a Context, reply: &Reply) -> Self {
        let count = reply.reasoning.len() + reply.text.len() + 4 * reply.calls.len() + 4;
        Self {
            context,
            frames: Vec::with_capacity(count),
            buffer: BytesMut::with_capacity(count * 256),
            prefix: format!(
                r#"{{{},"choices":[{{"index":0,"delta":"#,
                envelope("chat.completion.chunk", context)
            ),
            suffix: if context.include_usage { r#"],"usage":null}"# } else { "]}" },
        }
    }

    fn push(&mut self, part: Part) {
        let bytes = self.buffer.split().freeze();
        self.frames.push(Frame { part, bytes });
    }

    fn raw(&mut self, part: Part, data: &str) {
        put_all(&mut self.buffer, &["data: ", data, "\n\n"]);
        self.push(part);
    }

    fn delta(&mut self, part: Part, delta: &str) {
        put_all(&mut self.buffer, &["data: ", &self.prefix, delta]);
        self.close(part);
    }

    /// Writes directly into the buffer, without intermediate strings: benchmarks of streaming write almost only such
    /// fields.
    fn field(&mut self, part: Part, name: &str, text: &str) {
        put_all(&mut self.buffer, &["data: ", &self.prefix, "{\"", name, "\":"]);
        serde_json::to_writer((&mut self.buffer).writer(), text).expect("a string is always JSON");
        self.buffer.put_u8(b'}');
        self.close(part);
    }

    fn close(&mut self, part: Part) {
        put_all(&mut self.buffer, &[r#","finish_reason":null}"#, self.suffix, "\n\n"]);
        self.push(part);
    }

    fn tool_call(&mut self, index: usize, call: &ToolCall) {
        let id = self.context.call_id(index, call);
        self.delta(
            Part::Tool,
            &format!(
                r#"{{"tool_calls":[{{"index":{index},"id":{},"type":"function","function":{{"name":{},"arguments":""}}}}]}}"#,
                quoted(&id),
                quoted(&call.name)
            ),
        );
        for fragment in &call.fragments {
            self.delta(
                Part::Tool,
                &format!(
                    r#"{{"tool_calls":[{{"index":{index},"function":{{"arguments":{}}}}}]}}"#,
                    quoted(fragment)
                ),
            );
        }
    }

    fn finish(&mut self, finish: Finish) {
        let data =
            format!(r#"{}{{}},"finish_reason":"{}"}}{}"#, self.prefix, finish_word(finish), self.suffix);
        self.raw(Part::End, &data);
    }

    fn usage(&mut self, usage: Usage) {
        let data = format!(
            r#"{{{},"choices":[],"usage":{}}}"#,
            envelope("chat.completion.chunk", self.context),
            usage_value(usage)
        );
        self.raw(Part::Tail, &data);
    }
}

pub(super) fn whole(reply: &Reply, context: &Context) -> String {
    let calls: Vec<Value> = reply
        .calls
        .iter()
        .enumerate()
        .map(|(index, call)| {
            json!({
                "id": context.call_id(index, call),
                "type": "function",
                "function": { "name": call.name, "arguments": call.arguments() },
            })
        })
        .collect();
    let text = reply.full_text();
    let mut message = json!({ "role": "assistant", "content": null });
    if !text.is_empty() {
        message["content"] = text.into();
    }
    if !reply.reasoning.is_empty() {
        message[context.reasoning_field] = reply.reasoning.concat().into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choice = json!({
        "index": 0,
        "message": message,
        "finish_reason": finish_word(reply.finish_or_default()),
    });
    let envelope = envelope("chat.completion", context);
    let usage = reply.usage.map_or(Value::Null, usage_value);
    format!(r#"{{{envelope},"choices":[{choice}],"usage":{usage}}}"#)
}

/// Error bodies in OpenAI's wording. A client may check `code` as well as the status.
pub(super) fn error_body(status: u16, context: &Context) -> String {
    let model = &context.model;
    let (kind, code, message) = match status {
        400 => (
            "invalid_request_error",
            Value::Null,
            "We could not parse the JSON body of your request.".to_owned(),
        ),
        401 => (
            "invalid_request_error",
            json!("invalid_api_key"),
            "Incorrect API key provided: sk-test.".to_owned(),
        ),
        404 => (
            "invalid_request_error",
            json!("model_not_found"),
            format!("The model `{model}` does not exist or you do not have access to it."),
        ),
        429 => (
            "requests",
            json!("rate_limit_exceeded"),
            format!("Rate limit reached for {model} on requests per min (RPM): Limit 3, Used 3."),
        ),
        _ => (
            "server_error",
            Value::Null,
            format!("The server had an error while processing your request (HTTP {status})."),
        ),
    };
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } }).to_string()
}

pub(super) fn malformed(context: &Context) -> Bytes {
    let start = envelope("chat.completion.chunk", context);
    data(&format!(r#"{{{start},"choices":[{{"index":0,"del"#))
}

pub(super) fn data(json: &str) -> Bytes {
    Bytes::from(format!("data: {json}\n\n"))
}

fn envelope(object: &str, context: &Context) -> String {
    format!(
        r#""id":"chatcmpl-{}","object":"{object}","created":{CREATED},"model":{}"#,
        context.seq,
        quoted(&context.model)
    )
}

fn usage_value(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": { "cached_tokens": usage.cached },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}

fn finish_word(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::ContentFilter => "content_filter",
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string is always JSON")
}

fn put_all(buffer: &mut BytesMut, pieces: &[&str]) {
    for piece in pieces {
        buffer.put_slice(piece.as_bytes());
    }
}
