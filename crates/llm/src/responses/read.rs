//! Parses the events of an OpenAI Responses stream. Unknown event types are ignored.

use crate::error::CallFailure;
use crate::error_response::stream_error;
use crate::partial_reply::{FinishReason, PartialReply, StreamEnd};
use crate::prices::TokenCounts;
use crate::text::Text;
use crate::tool_call_assembler::Fragment;
use crate::wire::{FinishedReply, StreamReader, unreadable};
use althing_protocol::DeltaSink;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashSet;

#[derive(Debug, Deserialize)]
struct ResponsesEvent<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    /// A string in the events handled here; other events use other types.
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(default)]
    output_index: Option<u32>,
    #[serde(default)]
    summary_index: Option<u32>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<Response<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    /// `response` if this is a whole reply that was not streamed.
    #[serde(borrow, default)]
    object: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    status: Option<Text<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Option<Incomplete<'a>>,
    #[serde(borrow, default)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    usage: Option<ResponsesUsage>,
}

#[derive(Debug, Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow, default)]
    reason: Option<Text<'a>>,
}

/// Only some item types have the fields of [`ResponsesItem`].
#[derive(Debug, Deserialize)]
struct ItemKind<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
struct ResponsesItem<'a> {
    #[serde(borrow, default)]
    call_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    arguments: Option<Text<'a>>,
    #[serde(borrow, default)]
    content: Option<Text<'a>>,
    #[serde(borrow, default)]
    summary: Option<Text<'a>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct ResponsesUsage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    input_tokens_details: Option<InputDetails>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct ResponsesReader {
    partial_reply: PartialReply,
    /// Output items of which something was streamed, or which were taken as a whole.
    begun: HashSet<u32>,
}

impl StreamReader for ResponsesReader {
    fn event(&mut self, data: &[u8], on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        let data = data.trim_ascii();
        if self.partial_reply.done || data.is_empty() {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.partial_reply.done = true;
            return Ok(());
        }
        let event: ResponsesEvent<'_> = serde_json::from_slice(data).map_err(|error| unreadable(&error))?;
        let whole = event.object.as_ref().is_some_and(|object| object.as_str() == "response");
        if event.kind.is_none() && whole {
            let response: Response<'_> = serde_json::from_slice(data).map_err(|error| unreadable(&error))?;
            return self.ended(&response, on_delta);
        }
        self.take(event, data, on_delta)
    }

    fn partial_reply(&self) -> &PartialReply {
        &self.partial_reply
    }

    fn end(self, ended: StreamEnd, input_estimate: u64) -> Result<FinishedReply, CallFailure> {
        let (reply, counted) = self.partial_reply.end(ended, input_estimate)?;
        Ok(FinishedReply { reply, counted, provider_state: None })
    }
}

impl ResponsesReader {
    fn take(
        &mut self,
        event: ResponsesEvent<'_>,
        data: &[u8],
        on_delta: &mut DeltaSink<'_>,
    ) -> Result<(), CallFailure> {
        let index = event.output_index.unwrap_or(0);
        match event.kind.as_ref().map_or("", Text::as_str) {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.begun.insert(index);
                self.partial_reply.text(text(event.delta)?.as_str(), on_delta)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.begun.insert(index);
                self.partial_reply.reasoning(text(event.delta)?.as_str(), on_delta)
            }
            // Each part of a summary is a separate paragraph.
            "response.reasoning_summary_part.added" if event.summary_index.is_some_and(|n| n > 0) => {
                self.partial_reply.reasoning("\n\n", on_delta)
            }
            "response.output_item.added" => match event.item {
                Some(raw) if kind_of(raw)? == Some(ItemType::Call) => {
                    self.call(index, &parsed(raw)?, false, on_delta)
                }
                _ => Ok(()),
            },
            "response.function_call_arguments.delta" => {
                self.arguments(index, text(event.delta)?.as_str(), on_delta)
            }
            "response.function_call_arguments.done" if !self.begun.contains(&index) => {
                self.arguments(index, text(event.arguments)?.as_str(), on_delta)
            }
            "response.output_item.done" => event.item.map_or(Ok(()), |raw| self.item(index, raw, on_delta)),
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                match event.response {
                    Some(response) => self.ended(&response, on_delta),
                    None => Err(stream_error(event.error.map_or("null", RawValue::get))),
                }
            }
            // The error's fields are in the event itself or, from some servers, in a nested object.
            "error" if event.error.is_none() => Err(stream_error(&String::from_utf8_lossy(data))),
            "error" | "" => event.error.map_or(Ok(()), |error| Err(stream_error(error.get()))),
            _ => Ok(()),
        }
    }

    fn arguments(&mut self, index: u32, more: &str, on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        self.begun.insert(index);
        let fragment = Fragment { index: Some(index), arguments: more, ..Fragment::default() };
        self.partial_reply.call(fragment, on_delta)
    }

    fn call(
        &mut self,
        index: u32,
        item: &ResponsesItem<'_>,
        whole: bool,
        on_delta: &mut DeltaSink<'_>,
    ) -> Result<(), CallFailure> {
        let arguments = item.arguments.as_ref().filter(|_| whole).map_or("", Text::as_str);
        let id = item.call_id.as_ref().map_or("", Text::as_str);
        let name = item.name.as_ref().map_or("", Text::as_str);
        self.partial_reply.call(Fragment { index: Some(index), id, name, arguments }, on_delta)
    }

    /// Does nothing if a part of the item was streamed.
    fn item(&mut self, index: u32, raw: &RawValue, on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        let Some(kind) = kind_of(raw)?.filter(|_| self.begun.insert(index)) else { return Ok(()) };
        let item: ResponsesItem<'_> = parsed(raw)?;
        match kind {
            ItemType::Call => self.call(index, &item, true, on_delta),
            ItemType::Message => {
                self.partial_reply.text(item.content.as_ref().map_or("", Text::as_str), on_delta)
            }
            ItemType::Reasoning => {
                self.partial_reply.reasoning(item.summary.as_ref().map_or("", Text::as_str), on_delta)
            }
        }
    }

    fn ended(&mut self, response: &Response<'_>, on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        self.partial_reply.counted = response.usage.map(counted).or(self.partial_reply.counted);
        let status = response.status.as_ref().map_or("", Text::as_str);
        if status == "failed" || status == "cancelled" || response.error.is_some() {
            return Err(stream_error(response.error.map_or("null", RawValue::get)));
        }
        for (index, item) in response.output.iter().flatten().enumerate() {
            self.item(u32::try_from(index).unwrap_or(u32::MAX), item, on_delta)?;
        }
        let reason = response.incomplete_details.as_ref().and_then(|details| details.reason.as_ref());
        self.partial_reply.finish(match (status, reason.map(Text::as_str)) {
            (_, Some("content_filter")) => FinishReason::Withheld("content_filter".to_owned()),
            ("incomplete", _) => FinishReason::Length,
            _ => FinishReason::Good,
        });
        self.partial_reply.done = true;
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemType {
    Call,
    Message,
    Reasoning,
}

fn kind_of(raw: &RawValue) -> Result<Option<ItemType>, CallFailure> {
    let ItemKind { kind } = parsed(raw)?;
    Ok(match kind.as_ref().map_or("", Text::as_str) {
        "function_call" => Some(ItemType::Call),
        "message" => Some(ItemType::Message),
        "reasoning" => Some(ItemType::Reasoning),
        _ => None,
    })
}

fn parsed<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, CallFailure> {
    serde_json::from_str(raw.get()).map_err(|error| unreadable(&error))
}

fn text(raw: Option<&RawValue>) -> Result<Text<'_>, CallFailure> {
    raw.map_or(Ok(Text(Cow::Borrowed(""))), parsed)
}

fn counted(usage: ResponsesUsage) -> TokenCounts {
    TokenCounts {
        input: usage.input_tokens.unwrap_or(0),
        output: usage.output_tokens.unwrap_or(0),
        cached: usage.input_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0),
        reasoning: usage.output_tokens_details.and_then(|details| details.reasoning_tokens).unwrap_or(0),
        cache_written: 0,
    }
}
