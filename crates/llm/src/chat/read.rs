//! Parses the frames of a chat-completions stream.

use super::frame::{ChatChoice, ChatDelta, ChatFrame, ChatUsage};
use crate::error::CallFailure;
use crate::error_response::stream_error;
use crate::fast_path::FastPath;
use crate::partial_reply::{FinishReason, PartialReply, StreamEnd};
use crate::prices::TokenCounts;
use crate::text::Text;
use crate::tool_call_assembler::Fragment;
use crate::wire::{FinishedReply, StreamReader, unreadable};
use althing_protocol::{Delta, DeltaSink};

#[derive(Debug, Default)]
pub(crate) struct ChatReader {
    partial_reply: PartialReply,
    fast_path: FastPath,
    reads_prompt: bool,
}

impl StreamReader for ChatReader {
    fn event(&mut self, data: &[u8], on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        if self.partial_reply.done {
            return Ok(());
        }
        if let Some(more) = self.fast_path.text(data) {
            return self.partial_reply.text(more, on_delta);
        }
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.partial_reply.done = true;
            return Ok(());
        }
        if data.is_empty() {
            return Ok(());
        }
        let frame: ChatFrame<'_> = serde_json::from_slice(data).map_err(|error| unreadable(&error))?;
        if let Some(text) = only_text(&frame) {
            self.fast_path.learn(data, text);
        }
        self.frame(frame, on_delta)
    }

    fn partial_reply(&self) -> &PartialReply {
        &self.partial_reply
    }

    fn end(self, ended: StreamEnd, input_estimate: u64) -> Result<FinishedReply, CallFailure> {
        let (reply, counted) = self.partial_reply.end(ended, input_estimate)?;
        Ok(FinishedReply { reply, counted, provider_state: None })
    }
}

impl ChatReader {
    fn frame(&mut self, frame: ChatFrame<'_>, on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        if let Some(error) = frame.error {
            return Err(stream_error(error.get()));
        }
        if frame.prompt_progress.is_some() && !std::mem::replace(&mut self.reads_prompt, true) {
            on_delta(Delta::Waiting { reason: "the model reads the prompt" });
        }
        if let Some(usage) = frame.usage {
            self.partial_reply.counted = Some(counted(&usage));
        }
        for choice in frame.choices.unwrap_or_default() {
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(piece) = choice.delta.or(choice.message) {
                self.piece(&piece, on_delta)?;
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.as_str().is_empty()) {
                self.partial_reply.finish(match reason.as_str() {
                    "length" => FinishReason::Length,
                    "content_filter" => FinishReason::Withheld("content_filter".to_owned()),
                    _ => FinishReason::Good,
                });
            }
        }
        Ok(())
    }

    fn piece(&mut self, piece: &ChatDelta<'_>, on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        // A provider that sends both fields sends the same text in each.
        let reasoning = piece.reasoning_content.as_ref().or(piece.reasoning.as_ref());
        if let Some(more) = reasoning {
            self.partial_reply.reasoning(more.as_str(), on_delta)?;
        }
        for more in [&piece.content, &piece.refusal].into_iter().flatten() {
            self.partial_reply.text(more.as_str(), on_delta)?;
        }
        for call in piece.tool_calls.iter().flatten() {
            let function = call.function.as_ref();
            let fragment = Fragment {
                index: call.index,
                id: call.id.as_ref().map_or("", Text::as_str),
                name: function.and_then(|function| function.name.as_ref()).map_or("", Text::as_str),
                arguments: &call.arguments()?,
            };
            self.partial_reply.call(fragment, on_delta)?;
        }
        Ok(())
    }
}

fn counted(usage: &ChatUsage) -> TokenCounts {
    let cached = usage
        .prompt_tokens_details
        .and_then(|details| details.cached_tokens)
        .or(usage.prompt_cache_hit_tokens)
        .or(usage.cached_tokens);
    let reasoning = usage.completion_tokens_details.and_then(|details| details.reasoning_tokens);
    TokenCounts {
        input: usage.prompt_tokens.unwrap_or(0),
        output: usage.completion_tokens.unwrap_or(0),
        cached: cached.unwrap_or(0),
        reasoning: reasoning.unwrap_or(0),
        ..TokenCounts::default()
    }
}

/// Only text that is borrowed from the frame (it contains no escapes) can be used to learn the envelope.
fn only_text<'a>(frame: &'a ChatFrame<'_>) -> Option<&'a str> {
    let ChatFrame { choices: Some(choices), usage: None, error: None, prompt_progress: None } = frame else {
        return None;
    };
    let [ChatChoice { index: None | Some(0), delta: Some(piece), message: None, finish_reason: None }] =
        choices.as_slice()
    else {
        return None;
    };
    match piece {
        ChatDelta {
            content: Some(text),
            reasoning_content: None,
            reasoning: None,
            refusal: None,
            tool_calls: None,
        } => Some(text.as_str()),
        _ => None,
    }
}
