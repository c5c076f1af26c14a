//! A reply while it arrives, independent of the wire format, and the decision whether it ended successfully. A reply
//! whose stream broke off is never returned: half an answer reads like a whole one, and half a tool call may do harm.

use crate::error::CallFailure;
use crate::limits::TEXT_BYTES;
use crate::prices::TokenCounts;
use crate::tool_call_assembler::{Fragment, ToolCallAssembler};
use althing_protocol::{BackendErrorKind, Delta, DeltaSink, Reply};
use althing_text::estimate_tokens;

#[derive(Clone, Debug)]
pub(crate) enum StreamEnd {
    Whole,
    /// The body was one document: the reply is complete, also if the server names no finish reason.
    Document,
    /// The body broke off, or reading was aborted.
    Broken(CallFailure),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FinishReason {
    /// The model finished, or waits for tool results.
    Good,
    Length,
    /// The provider withheld the reply, for this reason.
    Withheld(String),
    /// The provider could not parse the model's output, or stopped for an unusual reason, given in the provider's term.
    /// An error only if the reply is empty; otherwise the reply is used.
    Garbled(String),
}

#[derive(Debug, Default)]
pub(crate) struct PartialReply {
    text: String,
    reasoning: String,
    calls: ToolCallAssembler,
    finish: Option<FinishReason>,
    pub(crate) counted: Option<TokenCounts>,
    pub(crate) done: bool,
}

impl PartialReply {
    pub(crate) fn text(&mut self, more: &str, on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        if !more.is_empty() {
            grow(&mut self.text, more)?;
            on_delta(Delta::Text(more));
        }
        Ok(())
    }

    pub(crate) fn reasoning(&mut self, more: &str, on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure> {
        if !more.is_empty() {
            grow(&mut self.reasoning, more)?;
            on_delta(Delta::Reasoning(more));
        }
        Ok(())
    }

    pub(crate) fn call(
        &mut self,
        fragment: Fragment<'_>,
        on_delta: &mut DeltaSink<'_>,
    ) -> Result<(), CallFailure> {
        if let Some(name) = self.calls.add(fragment)? {
            on_delta(Delta::ToolCall(name));
        }
        if !fragment.arguments.is_empty() {
            on_delta(Delta::Arguments(fragment.arguments));
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, finish: FinishReason) {
        self.finish = Some(finish);
    }

    /// Whether the provider has said why the model stopped, or that the stream ended. The stream may still send
    /// events such as token counts.
    pub(crate) fn is_finished(&self) -> bool {
        self.done || self.finish.is_some()
    }

    fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.calls.is_empty()
    }

    fn count(&self, input_estimate: u64) -> TokenCounts {
        let reasoning = estimate_tokens(&self.reasoning);
        let output = estimate_tokens(&self.text) + self.calls.estimated_tokens() + reasoning;
        match self.counted.map(TokenCounts::plausible) {
            // A stream that broke off reported only its input tokens.
            Some(counted) if counted.output == 0 => TokenCounts { output, ..counted },
            Some(counted) => counted,
            None if output == 0 => TokenCounts::default(),
            None => TokenCounts { input: input_estimate, output, reasoning, ..TokenCounts::default() },
        }
    }

    /// `input_estimate` is used if the provider reported no counts. The caller, which knows the price, fills in the
    /// reply's usage.
    pub(crate) fn end(
        self,
        ended: StreamEnd,
        input_estimate: u64,
    ) -> Result<(Reply, TokenCounts), CallFailure> {
        let counted = self.count(input_estimate);
        match self.judge(ended) {
            Ok(reply) => Ok((reply, counted)),
            Err(failure) => Err(CallFailure { counted, ..failure }),
        }
    }

    fn judge(self, ended: StreamEnd) -> Result<Reply, CallFailure> {
        let is_complete = self.is_finished() || matches!(ended, StreamEnd::Document);
        if !is_complete || (self.finish.is_none() && self.is_empty()) {
            return Err(match ended {
                StreamEnd::Broken(failure) => failure,
                StreamEnd::Whole | StreamEnd::Document => {
                    CallFailure::new(BackendErrorKind::Cut, "the stream ended before the reply was complete")
                }
            });
        }
        match self.finish {
            Some(FinishReason::Withheld(why)) => {
                return Err(CallFailure::new(
                    BackendErrorKind::BadRequest,
                    format!("the provider's content filter withheld the reply ({why})"),
                )
                .with_hint(
                    "the task or the conversation is refused: word it differently, or use another model",
                ));
            }
            Some(FinishReason::Length) if self.is_empty() => {
                return Err(CallFailure::new(
                    BackendErrorKind::Empty,
                    "the reply reached its token limit before it contained any text",
                )
                .with_hint("raise `max_tokens`, or lower `reasoning.effort`")
                .permanent());
            }
            Some(FinishReason::Garbled(word)) if self.is_empty() => {
                let what = format!("the provider could not parse the model's reply ({word})");
                return Err(CallFailure::new(BackendErrorKind::Empty, what));
            }
            Some(FinishReason::Good | FinishReason::Length | FinishReason::Garbled(_)) | None => {}
        }
        if self.is_empty() {
            return Err(CallFailure::new(BackendErrorKind::Empty, "the reply was empty"));
        }
        let cut = matches!(self.finish, Some(FinishReason::Length));
        let tool_calls = self.calls.finish()?;
        Ok(Reply { text: self.text, reasoning: self.reasoning, tool_calls, cut, ..Reply::default() })
    }
}

fn grow(text: &mut String, more: &str) -> Result<(), CallFailure> {
    if text.len() + more.len() > TEXT_BYTES {
        return Err(CallFailure::new(BackendErrorKind::TooLarge, "the reply is larger than 4 MiB"));
    }
    text.push_str(more);
    Ok(())
}
