//! The shape of one frame of a chat-completions stream, as providers really send it.
//!
//! Borrows from the frame's bytes: this is the hot path, and most frames hold one short word. Everything is optional,
//! since nothing is sent by all providers. Must never decide what a frame means; that is `assemble`.

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// One frame, or one whole reply where a server does not stream.
#[derive(Debug, Deserialize)]
pub(crate) struct Frame<'a> {
    #[serde(borrow, default)]
    pub(crate) choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    pub(crate) usage: Option<UsageFrame>,
    /// Some providers fail in the middle of a stream that began with 200.
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

/// One choice; we ask for one only.
#[derive(Debug, Deserialize)]
pub(crate) struct Choice<'a> {
    #[serde(default)]
    pub(crate) index: Option<u32>,
    #[serde(borrow, default)]
    pub(crate) delta: Option<Piece<'a>>,
    /// In place of `delta` where a server does not stream.
    #[serde(borrow, default)]
    pub(crate) message: Option<Piece<'a>>,
    #[serde(borrow, default)]
    pub(crate) finish_reason: Option<Text<'a>>,
}

/// What a frame adds.
#[derive(Debug, Deserialize)]
pub(crate) struct Piece<'a> {
    #[serde(borrow, default)]
    pub(crate) content: Option<Text<'a>>,
    /// `DeepSeek`, Qwen, vLLM and others.
    #[serde(borrow, default)]
    pub(crate) reasoning_content: Option<Text<'a>>,
    /// OpenRouter, Groq, Cerebras and others.
    #[serde(borrow, default)]
    pub(crate) reasoning: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_calls: Option<Vec<CallPiece<'a>>>,
}

/// A fragment of a tool call.
#[derive(Debug, Deserialize)]
pub(crate) struct CallPiece<'a> {
    #[serde(default)]
    pub(crate) index: Option<u32>,
    #[serde(borrow, default)]
    pub(crate) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) function: Option<FunctionPiece<'a>>,
}

/// A fragment of the function that it calls.
#[derive(Debug, Deserialize)]
pub(crate) struct FunctionPiece<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Option<Text<'a>>,
    /// A string, or, from some servers, the object itself.
    #[serde(borrow, default)]
    pub(crate) arguments: Option<&'a RawValue>,
}

/// What the provider counted.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct UsageFrame {
    #[serde(default)]
    pub(crate) prompt_tokens: Option<u64>,
    #[serde(default)]
    pub(crate) completion_tokens: Option<u64>,
    #[serde(default)]
    pub(crate) prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    pub(crate) completion_tokens_details: Option<CompletionDetails>,
    /// `DeepSeek`'s word for cached tokens.
    #[serde(default)]
    pub(crate) prompt_cache_hit_tokens: Option<u64>,
    /// Moonshot's word for cached tokens.
    #[serde(default)]
    pub(crate) cached_tokens: Option<u64>,
}

/// Of the input.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct PromptDetails {
    #[serde(default)]
    pub(crate) cached_tokens: Option<u64>,
}

/// Of the output.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct CompletionDetails {
    #[serde(default)]
    pub(crate) reasoning_tokens: Option<u64>,
}

/// A string that is borrowed wherever it has no escapes. `Option<Cow<str>>` would always copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Text<'_> {
    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            /// Content in parts: only their text is of use here.
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut parts: A) -> Result<Text<'de>, A::Error> {
                #[derive(Deserialize)]
                struct Part<'a> {
                    #[serde(borrow, default)]
                    text: Option<Cow<'a, str>>,
                }
                let mut text = String::new();
                while let Some(part) = parts.next_element::<Part<'de>>()? {
                    text.push_str(part.text.as_deref().unwrap_or_default());
                }
                Ok(Text(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_borrowed_and_escaped_text_is_right() {
        let frame: Frame<'_> = serde_json::from_str(
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
        let frame: Frame<'_> = serde_json::from_str(
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
