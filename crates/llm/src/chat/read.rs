//! Parses the frames of a chat-completions stream.

use super::frame::{Choice, Frame, Piece, UsageFrame};
use crate::calls::Fragment;
use crate::draft::{Draft, FinishReason, StreamEnd};
use crate::error::Failure;
use crate::fast_path::FastPath;
use crate::prices::TokenCounts;
use crate::refusal::stream_error;
use crate::text::Text;
use crate::wire::{FinishedReply, StreamReader, unreadable};
use althing_protocol::DeltaSink;

/// Builds a reply from the stream.
#[derive(Debug, Default)]
pub(crate) struct ChatReader {
    draft: Draft,
    fast_path: FastPath,
}

impl StreamReader for ChatReader {
    fn event(&mut self, data: &[u8], on_delta: &mut DeltaSink<'_>) -> Result<(), Failure> {
        if self.draft.done {
            return Ok(());
        }
        if let Some(more) = self.fast_path.text(data) {
            return self.draft.text(more, on_delta);
        }
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.draft.done = true;
            return Ok(());
        }
        if data.is_empty() {
            return Ok(());
        }
        let frame: Frame<'_> = serde_json::from_slice(data).map_err(|error| unreadable(&error))?;
        if let Some(text) = only_text(&frame) {
            self.fast_path.learn(data, text);
        }
        self.frame(frame, on_delta)
    }

    fn draft(&self) -> &Draft {
        &self.draft
    }

    fn end(self, ended: StreamEnd, input_estimate: u64) -> Result<FinishedReply, Failure> {
        let (reply, counted) = self.draft.end(ended, input_estimate)?;
        Ok(FinishedReply { reply, counted, provider_state: None })
    }
}

impl ChatReader {
    fn frame(&mut self, frame: Frame<'_>, on_delta: &mut DeltaSink<'_>) -> Result<(), Failure> {
        if let Some(error) = frame.error {
            return Err(stream_error(error.get()));
        }
        if let Some(usage) = frame.usage {
            self.draft.counted = Some(counted(&usage));
        }
        for choice in frame.choices.unwrap_or_default() {
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(piece) = choice.delta.or(choice.message) {
                self.piece(&piece, on_delta)?;
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.as_str().is_empty()) {
                self.draft.finish(match reason.as_str() {
                    "length" => FinishReason::Length,
                    // A reply cut off by a content filter is incomplete.
                    "content_filter" => FinishReason::Withheld("content_filter".to_owned()),
                    _ => FinishReason::Good,
                });
            }
        }
        Ok(())
    }

    fn piece(&mut self, piece: &Piece<'_>, on_delta: &mut DeltaSink<'_>) -> Result<(), Failure> {
        // A provider that sends both fields sends the same text in each.
        let reasoning = piece.reasoning_content.as_ref().or(piece.reasoning.as_ref());
        if let Some(more) = reasoning {
            self.draft.reasoning(more.as_str(), on_delta)?;
        }
        for more in [&piece.content, &piece.refusal].into_iter().flatten() {
            self.draft.text(more.as_str(), on_delta)?;
        }
        for call in piece.tool_calls.iter().flatten() {
            let function = call.function.as_ref();
            let fragment = Fragment {
                index: call.index,
                id: call.id.as_ref().map_or("", Text::as_str),
                name: function.and_then(|function| function.name.as_ref()).map_or("", Text::as_str),
                arguments: &call.arguments()?,
            };
            self.draft.call(fragment, on_delta)?;
        }
        Ok(())
    }
}

fn counted(usage: &UsageFrame) -> TokenCounts {
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

/// The text of a frame that contains nothing else. It is borrowed from the frame unless it contains escapes; only
/// borrowed text can be used to learn the envelope.
fn only_text<'a>(frame: &'a Frame<'_>) -> Option<&'a str> {
    let Frame { choices: Some(choices), usage: None, error: None } = frame else { return None };
    let [Choice { index: None | Some(0), delta: Some(piece), message: None, finish_reason: None }] =
        choices.as_slice()
    else {
        return None;
    };
    match piece {
        Piece {
            content: Some(text),
            reasoning_content: None,
            reasoning: None,
            refusal: None,
            tool_calls: None,
        } => Some(text.as_str()),
        _ => None,
    }
}
