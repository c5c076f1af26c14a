//! A string from a stream frame, copied only if necessary.

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, de};
use std::borrow::Cow;
use std::fmt;

/// The text is borrowed unless it contains escapes. `Option<Cow<str>>` would always copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Text<'_> {
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

            /// Content may be a list of parts: only their text is used.
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
