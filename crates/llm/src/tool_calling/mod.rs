//! How a model is asked to call tools, and how its calls are recognized.
//!
//! Some models have no tool calls of their own, or write their calls into the text. Then the tools are described in the
//! prompt (`prompt`), the reply is constrained by a JSON schema where the server supports that, and the calls are read
//! from the text (`parse`, `validate`). While such a reply streams, `stream` shows its text instead of the JSON.

mod parse;
mod prompt;
mod stream;
mod validate;

pub(crate) use parse::{WrittenReply, read_schema_reply, written_calls};
pub(crate) use prompt::{call_schema, described};
pub(crate) use stream::CallStream;

use crate::BuildError;
use serde_json::{Map, Value};

/// How a model is asked for its tool calls, from the form that needs the most support to the one that needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallForm {
    /// The provider's own tool calls.
    Native,
    /// The reply must follow a JSON schema of the possible calls.
    Schema,
    /// The model writes its calls as text.
    Text,
}

impl CallForm {
    /// The name in `tool_calling`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Schema => "schema",
            Self::Text => "text",
        }
    }

    /// The form to use if this one does not work.
    pub(crate) fn below(self) -> Option<Self> {
        match self {
            Self::Native => Some(Self::Schema),
            Self::Schema => Some(Self::Text),
            Self::Text => None,
        }
    }
}

/// The parameter `tool_calling`; None means `auto`.
pub(crate) fn from_params(params: &Map<String, Value>) -> Result<Option<CallForm>, BuildError> {
    match params.get("tool_calling").filter(|value| !value.is_null()).map(|value| value.as_str()) {
        None | Some(Some("auto")) => Ok(None),
        Some(Some("native")) => Ok(Some(CallForm::Native)),
        Some(Some("schema")) => Ok(Some(CallForm::Schema)),
        Some(Some("text")) => Ok(Some(CallForm::Text)),
        Some(_) => Err(BuildError::BadParam {
            name: "tool_calling",
            expected: "`auto`, `native`, `schema` or `text`",
        }),
    }
}

/// How a server rejects a form of tool calls: words of the message, in lower case.
const REJECTED_TOOLS: &[&str] = &["tool", "function call", "jinja"];
const REJECTED_SCHEMA: &[&str] =
    &["response_format", "json_schema", "json schema", "grammar", "schema", "guided", "format"];

/// Whether a rejection says that the server does not support a form of tool calls.
pub(crate) fn rejects(form: CallForm, status: Option<u16>, message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    match (form, status) {
        (CallForm::Native, Some(400 | 422 | 500 | 501)) => says(REJECTED_TOOLS),
        (CallForm::Schema, Some(400 | 422 | 500 | 501)) => says(REJECTED_SCHEMA),
        _ => false,
    }
}
