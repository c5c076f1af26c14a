//! The JSON shape of a chat-completions frame, as providers actually send it: no field is sent by every provider.
//! Borrows from the frame's bytes, because this is the hot path.

use crate::error::CallFailure;
use crate::text::Text;
use althing_protocol::BackendErrorKind;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// One frame of a stream, or a whole reply from a server that does not stream.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatFrame<'a> {
    #[serde(borrow, default)]
    pub(crate) choices: Option<Vec<ChatChoice<'a>>>,
    #[serde(default)]
    pub(crate) usage: Option<ChatUsage>,
    /// Set if the provider failed in the middle of a stream that started with status 200.
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) prompt_progress: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ChatChoice<'a> {
    #[serde(default)]
    pub(crate) index: Option<u32>,
    #[serde(borrow, default)]
    pub(crate) delta: Option<ChatDelta<'a>>,
    /// Used instead of `delta` by a server that does not stream.
    #[serde(borrow, default)]
    pub(crate) message: Option<ChatDelta<'a>>,
    #[serde(borrow, default)]
    pub(crate) finish_reason: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ChatDelta<'a> {
    #[serde(borrow, default)]
    pub(crate) content: Option<Text<'a>>,
    /// The name of the reasoning at `DeepSeek`, Qwen, vLLM and others.
    #[serde(borrow, default)]
    pub(crate) reasoning_content: Option<Text<'a>>,
    /// The name of the reasoning at OpenRouter, Groq, Cerebras and others.
    #[serde(borrow, default)]
    pub(crate) reasoning: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_calls: Option<Vec<CallPiece<'a>>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CallPiece<'a> {
    #[serde(default)]
    pub(crate) index: Option<u32>,
    #[serde(borrow, default)]
    pub(crate) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) function: Option<FunctionPiece<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FunctionPiece<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Option<Text<'a>>,
    /// A string or, from some servers, the object itself.
    #[serde(borrow, default)]
    pub(crate) arguments: Option<&'a RawValue>,
}

impl CallPiece<'_> {
    pub(crate) fn arguments(&self) -> Result<Cow<'_, str>, CallFailure> {
        match self.function.as_ref().and_then(|function| function.arguments) {
            None => Ok(Cow::Borrowed("")),
            Some(raw) if raw.get().starts_with('"') => serde_json::from_str::<Text<'_>>(raw.get())
                .map(|text| text.0)
                .map_err(|error| CallFailure::new(BackendErrorKind::Protocol, error.to_string())),
            Some(raw) => Ok(Cow::Borrowed(raw.get())),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct ChatUsage {
    #[serde(default)]
    pub(crate) prompt_tokens: Option<u64>,
    #[serde(default)]
    pub(crate) completion_tokens: Option<u64>,
    #[serde(default)]
    pub(crate) prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    pub(crate) completion_tokens_details: Option<CompletionDetails>,
    /// `DeepSeek`'s name for cached tokens.
    #[serde(default)]
    pub(crate) prompt_cache_hit_tokens: Option<u64>,
    /// Moonshot's name for cached tokens.
    #[serde(default)]
    pub(crate) cached_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct PromptDetails {
    #[serde(default)]
    pub(crate) cached_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct CompletionDetails {
    #[serde(default)]
    pub(crate) reasoning_tokens: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_borrowed_and_escaped_text_is_right() {
        let frame: ChatFrame<'_> = serde_json::from_str(
            r#"{"id":"x","choices":[{"index":0,"delta":{"content":"plain"}},{"index":1,"delta":{"content":"a\nb"}}]}"#,
        )
        .unwrap();
        let texts: Vec<Text<'_>> =
            frame.choices.unwrap().into_iter().filter_map(|choice| choice.delta?.content).collect();
        assert!(matches!(texts[0].0, Cow::Borrowed("plain")));
        assert_eq!(texts[1].as_str(), "a\nb");
    }

    #[test]
    fn content_in_parts_and_nulls_everywhere_are_understood() {
        let frame: ChatFrame<'_> = serde_json::from_str(
            r#"{"usage":null,"error":null,"choices":[{"index":null,"finish_reason":null,"delta":{
                "content":[{"type":"text","text":"a"},{"type":"thinking"},{"type":"text","text":"b"}],
                "tool_calls":null,"reasoning":null}}]}"#,
        )
        .unwrap();
        let content = frame.choices.unwrap().pop().unwrap().delta.unwrap().content;
        assert_eq!(content, Some(Text(Cow::Borrowed("ab"))));
        assert!(frame.error.is_none());
    }
}
