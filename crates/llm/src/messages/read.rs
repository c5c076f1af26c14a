//! Parses the events of an Anthropic Messages stream. Unknown event types are ignored.

use crate::error::CallFailure;
use crate::error_response::stream_error;
use crate::fast_path::FastPath;
use crate::partial_reply::{FinishReason, PartialReply, StreamEnd};
use crate::prices::TokenCounts;
use crate::text::Text;
use crate::tool_call_assembler::Fragment;
use crate::wire::{FinishedReply, StreamReader, unreadable};
use althing_protocol::DeltaSink;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
struct MessagesEvent<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(default)]
    index: Option<u32>,
    #[serde(borrow, default)]
    message: Option<Whole<'a>>,
    #[serde(borrow, default)]
    content_block: Option<Block<'a>>,
    #[serde(borrow, default)]
    delta: Option<MessagesDelta<'a>>,
    #[serde(default)]
    usage: Option<MessagesUsage>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The message is empty at the start of a stream, and complete from a server that does not stream.
#[derive(Debug, Deserialize)]
struct Whole<'a> {
    #[serde(borrow, default)]
    content: Option<Vec<Block<'a>>>,
    #[serde(borrow, default)]
    stop_reason: Option<Text<'a>>,
    #[serde(default)]
    usage: Option<MessagesUsage>,
}

#[derive(Debug, Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    data: Option<Text<'a>>,
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct MessagesDelta<'a> {
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    partial_json: Option<Text<'a>>,
    #[serde(borrow, default)]
    stop_reason: Option<Text<'a>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct MessagesUsage {
    #[serde(default, rename = "input_tokens")]
    fresh: Option<u64>,
    #[serde(default, rename = "cache_creation_input_tokens")]
    written: Option<u64>,
    #[serde(default, rename = "cache_read_input_tokens")]
    read: Option<u64>,
    #[serde(default, rename = "output_tokens")]
    output: Option<u64>,
}

#[derive(Debug)]
enum OpenBlock {
    Other,
    Thinking { text: String, signature: String },
    Call { input: String, began: bool },
}

#[derive(Debug, Default)]
pub(crate) struct MessagesReader {
    partial_reply: PartialReply,
    fast_path: FastPath,
    open: Vec<(u32, OpenBlock)>,
    /// The thoughts to send back with the next request.
    thoughts: Vec<Value>,
    /// Whether the reply has blocks other than text, thoughts and our tool calls, usually of tools that the provider
    /// ran; the thoughts cannot be sent back without those blocks.
    hosted_tools: bool,
    usage: MessagesUsage,
}

impl StreamReader for MessagesReader {
    fn event(&mut self, data: &[u8], on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        if self.partial_reply.done {
            return Ok(());
        }
        if let Some(more) = self.fast_path.text(data) {
            return self.partial_reply.text(more, on_delta);
        }
        let data = data.trim_ascii();
        if data.is_empty() {
            return Ok(());
        }
        let event: MessagesEvent<'_> = serde_json::from_slice(data).map_err(|error| unreadable(&error))?;
        if let Some(text) = only_text(&event) {
            self.fast_path.learn(data, text);
        }
        self.take(event, data, on_delta)
    }

    fn partial_reply(&self) -> &PartialReply {
        &self.partial_reply
    }

    fn end(self, ended: StreamEnd, input_estimate: u64) -> Result<FinishedReply, CallFailure> {
        let keep = !self.thoughts.is_empty() && !self.hosted_tools;
        let (reply, counted) = self.partial_reply.end(ended, input_estimate)?;
        Ok(FinishedReply { reply, counted, provider_state: keep.then_some(Value::Array(self.thoughts)) })
    }
}

impl MessagesReader {
    fn take(
        &mut self,
        event: MessagesEvent<'_>,
        data: &[u8],
        on_delta: &mut DeltaSink<'_>,
    ) -> Result<(), CallFailure> {
        let index = event.index.unwrap_or(0);
        match event.kind.as_ref().map_or("", Text::as_str) {
            "message_start" => self.count(event.message.and_then(|message| message.usage), false),
            "content_block_start" => {
                if let Some(block) = &event.content_block {
                    self.start(index, block, on_delta)?;
                }
            }
            "content_block_delta" => {
                if let Some(piece) = &event.delta {
                    self.piece(index, piece, on_delta)?;
                }
            }
            "content_block_stop" => self.stop(index, on_delta)?,
            "message_delta" => {
                self.count(event.usage, true);
                self.finish(event.delta.as_ref().and_then(|delta| delta.stop_reason.as_ref()));
            }
            "message_stop" => self.partial_reply.done = true,
            "message" => {
                let message: Whole<'_> = serde_json::from_slice(data).map_err(|error| unreadable(&error))?;
                self.whole(&message, on_delta)?;
            }
            _ if event.error.is_some() => {
                return Err(stream_error(event.error.map_or("null", RawValue::get)));
            }
            "error" => return Err(stream_error("null")),
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, message: &Whole<'_>, on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        for (index, block) in message.content.iter().flatten().enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            self.start(index, block, on_delta)?;
            self.stop(index, on_delta)?;
        }
        self.count(message.usage, true);
        self.finish(message.stop_reason.as_ref());
        self.partial_reply.done = true;
        Ok(())
    }

    fn start(
        &mut self,
        index: u32,
        block: &Block<'_>,
        on_delta: &mut DeltaSink<'_>,
    ) -> Result<(), CallFailure> {
        let text =
            |field: &Option<Text<'_>>| field.as_ref().map_or(String::new(), |text| text.as_str().into());
        let open = match block.kind.as_str() {
            "text" => {
                self.partial_reply.text(&text(&block.text), on_delta)?;
                OpenBlock::Other
            }
            "thinking" => {
                let thinking = text(&block.thinking);
                self.partial_reply.reasoning(&thinking, on_delta)?;
                OpenBlock::Thinking { text: thinking, signature: text(&block.signature) }
            }
            "redacted_thinking" => {
                self.thoughts.push(json!({"type": "redacted_thinking", "data": text(&block.data)}));
                OpenBlock::Other
            }
            "tool_use" => {
                let (id, name) = (text(&block.id), text(&block.name));
                let fragment = Fragment { index: Some(index), id: &id, name: &name, arguments: "" };
                self.partial_reply.call(fragment, on_delta)?;
                OpenBlock::Call { input: block.input.map_or("", RawValue::get).to_owned(), began: false }
            }
            _ => {
                self.hosted_tools = true;
                OpenBlock::Other
            }
        };
        self.open.retain(|(known, _)| *known != index);
        self.open.push((index, open));
        Ok(())
    }

    fn piece(
        &mut self,
        index: u32,
        piece: &MessagesDelta<'_>,
        on_delta: &mut DeltaSink<'_>,
    ) -> Result<(), CallFailure> {
        if let Some(more) = &piece.text {
            return self.partial_reply.text(more.as_str(), on_delta);
        }
        let open = self.open.iter_mut().find(|(known, _)| *known == index).map(|(_, open)| open);
        match (open, piece) {
            (Some(OpenBlock::Thinking { text, .. }), MessagesDelta { thinking: Some(more), .. }) => {
                // Fails once the reasoning is too long, so `text` cannot grow beyond that limit either.
                self.partial_reply.reasoning(more.as_str(), on_delta)?;
                text.push_str(more.as_str());
            }
            (Some(OpenBlock::Thinking { signature, .. }), MessagesDelta { signature: Some(more), .. }) => {
                signature.push_str(more.as_str());
            }
            (Some(OpenBlock::Call { began, .. }), MessagesDelta { partial_json: Some(more), .. }) => {
                *began |= !more.as_str().is_empty();
                let arguments = more.as_str();
                self.partial_reply
                    .call(Fragment { index: Some(index), arguments, ..Fragment::default() }, on_delta)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn stop(&mut self, index: u32, on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        let Some(at) = self.open.iter().position(|(known, _)| *known == index) else { return Ok(()) };
        match self.open.swap_remove(at).1 {
            OpenBlock::Thinking { text, signature } => {
                self.thoughts.push(json!({"type": "thinking", "thinking": text, "signature": signature}));
            }
            // Some servers send the whole input when the block starts.
            OpenBlock::Call { input, began: false } => {
                let fragment = Fragment { index: Some(index), arguments: &input, ..Fragment::default() };
                self.partial_reply.call(fragment, on_delta)?;
            }
            OpenBlock::Call { .. } | OpenBlock::Other => {}
        }
        Ok(())
    }

    fn finish(&mut self, reason: Option<&Text<'_>>) {
        let Some(reason) = reason.map(Text::as_str).filter(|reason| !reason.is_empty()) else { return };
        self.partial_reply.finish(match reason {
            "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
            "refusal" => FinishReason::Withheld("refusal".to_owned()),
            // The provider's own tools reached their limit.
            "pause_turn" => FinishReason::Garbled("pause_turn".to_owned()),
            _ => FinishReason::Good,
        });
    }

    /// Counts are cumulative, so new ones replace earlier ones. `with_output` is false for the first event of a
    /// stream, whose output count is meaningless.
    fn count(&mut self, usage: Option<MessagesUsage>, with_output: bool) {
        let Some(new) = usage else { return };
        let all = &mut self.usage;
        all.fresh = new.fresh.or(all.fresh);
        all.read = new.read.or(all.read);
        all.written = new.written.or(all.written);
        if with_output {
            all.output = new.output.or(all.output);
        }
        let (read, written) = (all.read.unwrap_or(0), all.written.unwrap_or(0));
        self.partial_reply.counted = Some(TokenCounts {
            input: all.fresh.unwrap_or(0).saturating_add(read).saturating_add(written),
            cached: read,
            cache_written: written,
            output: all.output.unwrap_or(0),
            reasoning: 0,
        });
    }
}

fn only_text<'a>(event: &'a MessagesEvent<'_>) -> Option<&'a str> {
    let is_delta = event.kind.as_ref().is_some_and(|kind| kind.as_str() == "content_block_delta");
    match &event.delta {
        Some(MessagesDelta {
            text: Some(text),
            thinking: None,
            signature: None,
            partial_json: None,
            stop_reason: None,
        }) if is_delta => Some(text.as_str()),
        _ => None,
    }
}
