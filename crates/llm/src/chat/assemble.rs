//! Puts one reply together from the frames of its stream, and judges whether it ended well.
//!
//! Must never give out a reply that was cut: half an answer reads like a whole one, and half a tool call may do harm.

use super::calls::Calls;
use super::frame::{Choice, Frame, Piece, Text, UsageFrame};
use super::refusal::in_stream;
use super::shortcut::Shortcut;
use crate::error::Failure;
use crate::limits::TEXT_BYTES;
use crate::tokens::estimate_tokens;
use althing_protocol::{BackendErrorKind, Delta, DeltaSink, Reply, Usage};

/// How the bytes of a reply ended.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// The body came to its end.
    Whole,
    /// It broke off, or was broken off, for this reason.
    Broken(Failure),
}

/// A reply in the making.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    text: String,
    reasoning: String,
    calls: Calls,
    finish: Option<String>,
    usage: Option<UsageFrame>,
    done: bool,
    shortcut: Shortcut,
}

impl Assembler {
    /// Takes the data of one event, and tells `on_delta` what is new.
    pub(crate) fn event(&mut self, data: &[u8], on_delta: &mut DeltaSink<'_>) -> Result<(), Failure> {
        if self.done {
            return Ok(());
        }
        if let Some(more) = self.shortcut.text(data) {
            return self.more_text(more, on_delta);
        }
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        if data.is_empty() {
            return Ok(());
        }
        let frame: Frame<'_> = serde_json::from_slice(data).map_err(|error| {
            Failure::new(
                BackendErrorKind::Protocol,
                format!("a frame of the stream is not understood: {error}"),
            )
        })?;
        if let Some(text) = only_text(&frame) {
            self.shortcut.learn(data, text);
        }
        self.frame(frame, on_delta)
    }

    fn more_text(&mut self, more: &str, on_delta: &mut DeltaSink<'_>) -> Result<(), Failure> {
        if !more.is_empty() {
            grow(&mut self.text, more)?;
            on_delta(Delta::Text(more));
        }
        Ok(())
    }

    fn frame(&mut self, frame: Frame<'_>, on_delta: &mut DeltaSink<'_>) -> Result<(), Failure> {
        if let Some(error) = frame.error {
            return Err(in_stream(error.get()));
        }
        if frame.usage.is_some() {
            self.usage = frame.usage;
        }
        for choice in frame.choices.unwrap_or_default() {
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(piece) = choice.delta.or(choice.message) {
                self.piece(&piece, on_delta)?;
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.as_str().is_empty()) {
                self.finish = Some(reason.as_str().to_owned());
            }
        }
        Ok(())
    }

    fn piece(&mut self, piece: &Piece<'_>, on_delta: &mut DeltaSink<'_>) -> Result<(), Failure> {
        // Where a provider sends both names it sends the same text twice.
        let reasoning = piece.reasoning_content.as_ref().or(piece.reasoning.as_ref());
        if let Some(more) = reasoning.map(Text::as_str).filter(|more| !more.is_empty()) {
            grow(&mut self.reasoning, more)?;
            on_delta(Delta::Reasoning(more));
        }
        for more in [&piece.content, &piece.refusal].into_iter().flatten() {
            self.more_text(more.as_str(), on_delta)?;
        }
        for call in piece.tool_calls.iter().flatten() {
            if let Some(name) = self.calls.add(call)? {
                on_delta(Delta::ToolCall(name));
            }
        }
        Ok(())
    }

    /// Whether the provider has said that the stream is over.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the reply itself is complete, whatever may still follow.
    pub(crate) fn is_finished(&self) -> bool {
        self.done || self.finish.is_some()
    }

    fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.calls.is_empty()
    }

    /// What the reply has cost so far: as the provider counted, else by estimate. `calls` is left to the caller.
    fn usage(&self, input_estimate: u64) -> Usage {
        if let Some(counted) = self.usage {
            let cached = counted
                .prompt_tokens_details
                .and_then(|details| details.cached_tokens)
                .or(counted.prompt_cache_hit_tokens)
                .or(counted.cached_tokens);
            let reasoning = counted.completion_tokens_details.and_then(|details| details.reasoning_tokens);
            return Usage {
                input_tokens: counted.prompt_tokens.unwrap_or(0),
                output_tokens: counted.completion_tokens.unwrap_or(0),
                cached_input_tokens: cached.unwrap_or(0),
                reasoning_tokens: reasoning.unwrap_or(0),
                ..Usage::default()
            };
        }
        if self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty() {
            return Usage::default();
        }
        let reasoning_tokens = estimate_tokens(&self.reasoning);
        Usage {
            input_tokens: input_estimate,
            output_tokens: estimate_tokens(&self.text) + self.calls.estimated_tokens() + reasoning_tokens,
            reasoning_tokens,
            ..Usage::default()
        }
    }

    /// The reply, if it ended well. `input_estimate` stands in where the provider counted nothing.
    pub(crate) fn end(self, ended: Ended, input_estimate: u64) -> Result<Reply, Failure> {
        let usage = self.usage(input_estimate);
        self.judge(ended, usage).map_err(|failure| Failure { usage, ..failure })
    }

    fn judge(self, ended: Ended, usage: Usage) -> Result<Reply, Failure> {
        if !self.is_finished() || (self.finish.is_none() && self.is_empty()) {
            return Err(match ended {
                Ended::Broken(failure) => failure,
                Ended::Whole => Failure::new(BackendErrorKind::Cut, "the stream ended before the reply did"),
            });
        }
        if self.is_empty() {
            return Err(match self.finish.as_deref() {
                Some("length") => Failure::new(
                    BackendErrorKind::Empty,
                    "the reply reached its token limit before it said anything",
                )
                .with_hint("raise `max_tokens`, or lower `reasoning.effort`")
                .for_good(),
                Some("content_filter") => Failure::new(
                    BackendErrorKind::BadRequest,
                    "the provider's content filter withheld the reply",
                ),
                Some(_) | None => Failure::new(BackendErrorKind::Empty, "the reply was empty"),
            });
        }
        Ok(Reply { text: self.text, reasoning: self.reasoning, tool_calls: self.calls.finish()?, usage })
    }
}

/// The text of a frame that adds a text and nothing else. Borrowed from the frame unless it has escapes; then it lies
/// elsewhere and teaches nothing.
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

fn grow(text: &mut String, more: &str) -> Result<(), Failure> {
    if text.len() + more.len() > TEXT_BYTES {
        return Err(Failure::new(BackendErrorKind::TooLarge, "the reply is larger than 4 MiB"));
    }
    text.push_str(more);
    Ok(())
}
