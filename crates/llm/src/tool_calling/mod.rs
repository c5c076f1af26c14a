//! How a model is asked to call tools, and how its calls are recognized. For models without tool calls of their own,
//! the tools are described in the prompt, the reply is constrained by a JSON schema where possible, and the calls are
//! read from the text.

mod parse;
mod prompt;
mod quoted;
mod stream;
mod validate;

pub(crate) use parse::{WrittenReply, read_schema_reply, written_calls};
pub(crate) use prompt::{call_schema, described};
pub(crate) use stream::CallStream;

use crate::BuildError;
use serde_json::{Map, Value};

/// The forms are ordered from the one that needs the most support to the one that needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallForm {
    Native,
    /// The reply must follow a JSON schema of the possible calls.
    Schema,
    Text,
}

impl CallForm {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Schema => "schema",
            Self::Text => "text",
        }
    }

    pub(crate) fn below(self) -> Option<Self> {
        match self {
            Self::Native => Some(Self::Schema),
            Self::Schema => Some(Self::Text),
            Self::Text => None,
        }
    }
}

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

const REJECTED_TOOLS: &[&str] = &["tool", "function call", "jinja"];
const REJECTED_SCHEMA: &[&str] =
    &["response_format", "json_schema", "json schema", "grammar", "schema", "guided", "format"];

pub(crate) fn rejects(form: CallForm, status: Option<u16>, message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    match (form, status) {
        (CallForm::Native, Some(400 | 422 | 500 | 501)) => says(REJECTED_TOOLS),
        (CallForm::Schema, Some(400 | 422 | 500 | 501)) => says(REJECTED_SCHEMA),
        _ => false,
    }
}
