//! Parses the frames of a Gemini stream. Unknown parts are not in the reply that agents and users see. If the reply
//! contains tool calls, all its parts, including unknown ones, are sent back with the next request, unless they are too
//! large.

use crate::error::CallFailure;
use crate::error_response::stream_error;
use crate::limits::EVENT_BYTES;
use crate::partial_reply::{FinishReason, PartialReply, StreamEnd};
use crate::prices::TokenCounts;
use crate::text::Text;
use crate::tool_call_assembler::Fragment;
use crate::wire::{FinishedReply, StreamReader, unreadable};
use althing_protocol::DeltaSink;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The prefix of ids that Althing assigns to calls without one.
pub(crate) const OUR_ID: &str = "althing-";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiFrame<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow, default)]
    prompt_feedback: Option<Feedback<'a>>,
    #[serde(default)]
    usage_metadata: Option<GeminiUsage>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(default)]
    index: Option<u32>,
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(default)]
    thought: Option<bool>,
    #[serde(borrow, default)]
    function_call: Option<Call<'a>>,
    #[serde(borrow, default)]
    thought_signature: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback<'a> {
    #[serde(borrow, default)]
    block_reason: Option<Text<'a>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct GeminiUsage {
    #[serde(default, rename = "promptTokenCount")]
    prompt: Option<u64>,
    #[serde(default, rename = "cachedContentTokenCount")]
    cached: Option<u64>,
    #[serde(default, rename = "candidatesTokenCount")]
    candidates: Option<u64>,
    #[serde(default, rename = "thoughtsTokenCount")]
    thoughts: Option<u64>,
    /// Input tokens added by the provider's own tools.
    #[serde(default, rename = "toolUsePromptTokenCount")]
    tools: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct GeminiReader {
    partial_reply: PartialReply,
    calls: u32,
    /// The parts to send back with the next request, without unsigned thought summaries; empty if they are too large.
    parts: Vec<Value>,
    bytes: usize,
}

impl StreamReader for GeminiReader {
    fn event(&mut self, data: &[u8], on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        let data = data.trim_ascii();
        if data.is_empty() {
            return Ok(());
        }
        let frame: GeminiFrame<'_> = serde_json::from_slice(data).map_err(|error| unreadable(&error))?;
        if let Some(error) = frame.error {
            return Err(stream_error(error.get()));
        }
        if let Some(usage) = frame.usage_metadata {
            self.partial_reply.counted = Some(counted(usage));
        }
        if let Some(reason) = frame.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            self.partial_reply.finish(FinishReason::Withheld(format!("prompt blocked: {}", reason.as_str())));
        }
        for candidate in frame.candidates.unwrap_or_default() {
            if candidate.index.unwrap_or(0) != 0 {
                continue;
            }
            for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
                self.part(part, on_delta)?;
            }
            if let Some(reason) = candidate.finish_reason {
                self.partial_reply.finish(finish(reason.as_str()));
            }
        }
        Ok(())
    }

    /// `done` is never set: this format has no end marker, the stream ends with the body.
    fn partial_reply(&self) -> &PartialReply {
        &self.partial_reply
    }

    fn end(self, ended: StreamEnd, input_estimate: u64) -> Result<FinishedReply, CallFailure> {
        let keep = self.calls > 0 && self.bytes <= EVENT_BYTES;
        let (reply, counted) = self.partial_reply.end(ended, input_estimate)?;
        Ok(FinishedReply { reply, counted, provider_state: keep.then_some(Value::Array(self.parts)) })
    }
}

impl GeminiReader {
    fn part(&mut self, raw: &RawValue, on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        let part: Part<'_> = serde_json::from_str(raw.get()).map_err(|error| unreadable(&error))?;
        let thought = part.thought == Some(true);
        if let Some(text) = &part.text {
            if thought {
                self.partial_reply.reasoning(text.as_str(), on_delta)?;
            } else {
                self.partial_reply.text(text.as_str(), on_delta)?;
            }
        }
        if let Some(call) = &part.function_call {
            self.call(call, on_delta)?;
        }
        if !thought || part.thought_signature.is_some() {
            self.remember(raw, &part);
        }
        Ok(())
    }

    fn call(&mut self, call: &Call<'_>, on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        let id = match &call.id {
            Some(id) if !id.as_str().is_empty() => id.as_str().to_owned(),
            // The id is random, so that it is unique across replies: stored provider state is looked up by id.
            _ => format!("{OUR_ID}{:08x}-{}", fastrand::u32(..), self.calls),
        };
        let decoded: Text<'_>;
        let arguments = match call.args {
            None => "",
            Some(raw) if raw.get().starts_with('"') => {
                decoded = serde_json::from_str(raw.get()).map_err(|error| unreadable(&error))?;
                decoded.as_str()
            }
            Some(raw) => raw.get(),
        };
        let name = call.name.as_ref().map_or("", Text::as_str);
        let index = Some(self.calls);
        self.calls += 1;
        self.partial_reply.call(Fragment { index, id: &id, name, arguments }, on_delta)
    }

    /// Consecutive text is merged unless a piece is signed. If the parts become too large, all are dropped.
    fn remember(&mut self, raw: &RawValue, part: &Part<'_>) {
        self.bytes += raw.get().len();
        if self.bytes > EVENT_BYTES {
            self.parts.clear();
            return;
        }
        let plain = part.function_call.is_none() && part.thought_signature.is_none();
        if let (true, Some(more)) = (plain, &part.text) {
            if more.as_str().is_empty() {
                return;
            }
            let last = self.parts.last_mut().and_then(Value::as_object_mut);
            if let Some(last) = last.filter(|last| last.len() == 1)
                && let Some(Value::String(text)) = last.get_mut("text")
            {
                text.push_str(more.as_str());
                return;
            }
        }
        self.parts.extend(serde_json::from_str::<Value>(raw.get()));
    }
}

fn finish(reason: &str) -> FinishReason {
    match reason {
        "STOP" | "FINISH_REASON_UNSPECIFIED" => FinishReason::Good,
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
        | "IMAGE_SAFETY" => FinishReason::Withheld(reason.to_owned()),
        other => FinishReason::Garbled(other.to_owned()),
    }
}

fn counted(usage: GeminiUsage) -> TokenCounts {
    let thoughts = usage.thoughts.unwrap_or(0);
    TokenCounts {
        input: usage.prompt.unwrap_or(0).saturating_add(usage.tools.unwrap_or(0)),
        cached: usage.cached.unwrap_or(0),
        output: usage.candidates.unwrap_or(0).saturating_add(thoughts),
        reasoning: thoughts,
        cache_written: 0,
    }
}
